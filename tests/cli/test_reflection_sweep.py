"""The ablation of the eight improvements: one sweep file, of which a small part is played."""

import re
from pathlib import Path

from benchmarks.reflection_improvements import count_events
from rsso_dspy.memory.reflections import IMPROVEMENTS
from rsso_dspy.store.unit_store import Store
from rsso_dspy.workflows.sweeps import read_sweep

FILE = Path(__file__).parents[2] / "examples" / "reflection_improvements.toml"
KEY = "memory.reflections.improvements"


def test_the_ablation_has_none_each_and_all_and_is_played(rsso, tmp_path):
    points = [point.values[KEY] for point in read_sweep(FILE).points]
    assert points == [[], *([each] for each in IMPROVEMENTS), list(IMPROVEMENTS)]
    text = FILE.read_text().replace('trials" = 7', 'trials" = 2').replace('"protocol.steps" = 30\n', "")
    text = re.sub(r"^tasks = \[.*?\]", 'tasks = ["gripper"]', text, flags=re.M | re.S)
    (tmp_path / "small.toml").write_text(text)
    code, out, err = rsso("sweep", "small.toml", "--benchmark", "pddl", "--set", "embedder.model=hash", "--out", "s")
    assert code == 0, err
    assert all(name in out for name in IMPROVEMENTS)
    names = [point.name for point in read_sweep(Path("small.toml")).points]
    units = {name: list(Store(Path("s") / name).units()) for name in names}
    assert {len(played) for played in units.values()} == {2}
    streamed = {name for name, played in units.items() if all(unit.stream for unit in played)}
    assert len(streamed) == 3, "across-tasks, retrieval and all of them pass plans on"
    for name in streamed:
        second = next(unit for unit in units[name] if unit.stream.place == 2)
        shown = second.trials[0].shown.get("plans_from_past_attempts", "")
        assert "(at another variant, of gripper)" in shown
        assert second.variant.key not in {each["variant"] for each in second.memories["reflections"]["carried"]}
    acted = dict(zip(names, (count_events(units[name]) for name in names), strict=True))
    assert not any(count for each, count in acted[names[0]].items() if each != "loops")
    assert all(acted[name]["across-tasks"] == 1 for name in streamed if "=retrieval-" not in name)
    structured = next(played for name, played in units.items() if "=structured-" in name)
    plans = [each["plan"] for unit in structured for each in unit.memories["reflections"]["plans"]]
    assert plans
    assert all("Root cause: " in plan for plan in plans)
