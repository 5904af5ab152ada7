"""The ablation of the eight improvements, of which a small part is played; and reflections that a later run reads."""

from pathlib import Path

from benchmarks.reflection_improvements import count_events
from rsso_dspy.memory.improvements import IMPROVEMENTS
from rsso_dspy.store.run_folder import Store

FOLDER = Path(__file__).parents[2] / "examples" / "reflection_improvements"


def test_the_ablation_has_none_each_and_all_and_is_played(rsso):
    names = ["none", *IMPROVEMENTS, "all"]
    small = ("--benchmark", "pddl", "--tasks", "gripper", "--trials", "2", "--set", "protocol.stream_trials=2")
    for name in names:
        Path("rsso.toml").write_text((FOLDER / f"{name}.toml").read_text().replace("steps = 30\n", ""))
        code, _, err = rsso("run", *small, "--set", "embedder.model=hash", "--out", name)
        assert code == 0, err
    code, out, err = rsso("report", *names)
    assert code == 0, err
    assert all(f"reflexion improvements={name}" in out for name in ("structured", "loops"))
    units = {name: list(Store(Path(name)).units()) for name in names}
    assert {len(played) for played in units.values()} == {2}
    streamed = {name for name, played in units.items() if all(unit.stream for unit in played)}
    assert len(streamed) == 3, "across-tasks, retrieval and all of them pass plans on"
    later = {}
    for name in streamed:
        second = next(unit for unit in units[name] if unit.stream.place == 2)
        later[name] = len(second.trials)
        shown = second.trials[0].shown.get("plans_from_past_attempts", "")
        assert "(at another variant, of gripper)" in shown
        assert second.variant.key not in {each["variant"] for each in second.memories["reflections"]["carried"]}
    acted = dict(zip(names, (count_events(units[name]) for name in names), strict=True))
    assert not any(count for each, count in acted[names[0]].items() if each != "loops")
    assert all(acted[name]["across-tasks"] == later[name] for name in streamed if name != "retrieval")
    plans = [each["plan"] for unit in units["structured"] for each in unit.memories["reflections"]["plans"]]
    assert plans
    assert all("Root cause: " in plan for plan in plans)
