"""The table of the ablation of the reflection memory's improvements, with how often each of them acted.

    python benchmarks/reflection_improvements.py runs/improvements

for the folder with the runs of examples/reflection_improvements/, each called like its file.

An improvement acted in a trial whose prompt or memory it changed, by the record: structured and counterfactual where
the prompt showed a plan with their fields, loops where the reflector was told of one, hierarchical where plans were
distilled, across-tasks where the prompt showed plans of another variant of the type, retrieval where it showed plans
of other variants, adaptive where it showed more than three own plans, novelty where a plan was dropped as similar.
The last line is one JSON object.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.script import make_parser, parse_options, print_head, print_row, run_cli
from rsso_dspy.environments.scienceworld.actions import name_place
from rsso_dspy.loops import describe_loops
from rsso_dspy.memory.reflections import IMPROVEMENTS
from rsso_dspy.records import UnitRecord
from rsso_dspy.report.compare import compare_arms
from rsso_dspy.report.metrics import compute_arm_metrics
from rsso_dspy.report.statistics import apply_holm_correction
from rsso_dspy.store.run_folder import Store

ARMS = {"none": (), **{name: (name,) for name in IMPROVEMENTS}, "all": IMPROVEMENTS}
REGION = "plans_from_past_attempts"
OTHERS = re.compile(r"^(?:- )?Attempt \d+: \(at another variant, of ([\w-]+)\)", re.M)
OWN = re.compile(r"^(?:- )?Attempt \d+: (?!\(at another variant)", re.M)


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", help="where the runs lie, or will lie")
    options.add_argument(
        "--play", metavar="VARIANT", help="play each file on this variant first, two trials of 5 steps"
    )
    given = parse_options(options, play="gripper::50")
    with TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        for name in ARMS if given.play else ():
            play_file(name, given.play, folder / name)
        print_ablation(folder)


def play_file(name: str, variant: str, out: Path) -> None:
    file = Path(__file__).parents[1] / f"examples/reflection_improvements/{name}.toml"
    """Two trials of five steps."""
    settings = ("protocol.trials=2", "protocol.stream_trials=2", "protocol.steps=5", "embedder.model=lexical")
    short = [word for setting in settings for word in ("--set", setting)]
    tasks = ("--benchmark", "pddl", "--tasks", variant.partition("::")[0], "--variants", variant)
    run_cli("run", "--config", file, *tasks, *short, "--out", out)


def print_ablation(folder: Path) -> None:
    points = {found: list(Store(folder / name, read_only=True).units()) for name, found in ARMS.items()}
    plain = points[()]
    pairs = {name: compare_arms("none", plain, "with", units) for name, units in points.items() if name}
    tested = dict(zip(pairs, apply_holm_correction([pair.flips.p for pair in pairs.values()]), strict=True))
    print_head("improvements", "Mean", "solved", "trial 1", "calls a unit", "tokens in", "tokens out", "minus none",
               "95% interval", "p (Holm)", "acted in trials")  # fmt: skip
    result = {}
    for name, units in points.items():
        row, events = compute_arm_metrics("", units), count_events(units)
        used = [usage for unit in units for trial in unit.trials for usage in trial.usage.values()]
        tokens = sum(each.input for each in used), sum(each.output for each in used)
        trials = sum(len(unit.trials) for unit in units)
        acted = {each: events[each] for each in name}
        beside = ["", "", ""]
        if pair := pairs.get(name):
            around = f"{pair.interval.low:+.1f} to {pair.interval.high:+.1f}" if pair.interval else ""
            p = tested[name]
            beside = [f"{pair.difference:+.1f}", around, "" if p is None else f"{p:.3f}"]
        label = {0: "none", 1: "".join(name)}.get(len(name), "all eight")
        said = ", ".join(f"{each} {count}" if len(acted) > 1 else f"{count}" for each, count in acted.items())
        scored = f"{row.mean:.2f}", f"{row.solve}/{row.units}", f"{row.trial_1:.2f}", f"{row.calls_per_unit:.1f}"
        spent = f"{tokens[0]:,}", f"{tokens[1]:,}"
        print_row(label, *scored, *spent, *beside, f"{said} of {trials}" if said else "")
        result[label] = {"trials": trials, **acted}
    print(json.dumps(result))


def count_events(units: Sequence[UnitRecord]) -> dict[str, int]:
    """Trials of these units in which each improvement changed a prompt or the memory; of `loops` those that it would
    have told the reflector about on ScienceWorld, were it on."""
    found: Counter[str] = Counter()
    for unit, trial in [(each, trial) for each in units for trial in each.trials]:
        shown, learnt = trial.shown.get(REGION, ""), trial.learnt.get(REGION, {})
        types = OTHERS.findall(shown)
        steps = trial.trajectory.steps if trial.trajectory and learnt.get("calls") else ()
        found["structured"] += "Root cause: " in shown
        found["counterfactual"] += "Critical step: " in shown
        found["loops"] += bool(describe_loops(steps, name_place))
        found["hierarchical"] += learnt.get("distilled", 0) > 0
        found["across-tasks"] += unit.variant.task in types
        found["retrieval"] += bool(types)
        found["adaptive"] += len(OWN.findall(shown)) > 3
        found["novelty"] += learnt.get("similar", 0) > 0
    return {name: found[name] for name in IMPROVEMENTS}


if __name__ == "__main__":
    main()
