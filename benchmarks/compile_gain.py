"""Does compiling help? Every optimizer against zero-shot, on held-out variants.

    python benchmarks/compile_gain.py [--seeds 3] [--jobs 2] [--tasks A,B] [--per-task 4] [--out runs/compile-gain]

Compiles rsso with every optimizer on nine tasks, one of each topic among the 18, `--calib 1-per-task`, default budget,
so many seeds each: gepa, mipro and bootstrap. Whatever did better on val is then played on held-out
variants of each task, three trials, in one run with zero-shot, confirmed or not, under `adapt/3-cap60`. Repeat the
command, and it goes on where it was cut short. The ratio is the mean of the programs' Means over that of zero-shot,
both measured in this run; a compile that is not confirmed counts as zero-shot.
"""

import json
from pathlib import Path
from statistics import fmean

import rsso_dspy
from benchmarks.script import make_parser, print_head, print_row, run_cli
from rsso_dspy.optimize.program_file import Compiled, load
from rsso_dspy.records import RULE_BASED_NOTE, ZERO_SHOT, UnitRecord
from rsso_dspy.report.compare import compare_arms
from rsso_dspy.report.metrics import compute_arm_metrics
from rsso_dspy.store.run_folder import Store

METHOD = "rsso"
TASKS = (
    "boil",
    "use-thermometer",
    "find-living-thing",
    "grow-plant",
    "chemistry-mix",
    "lifespan-longest-lived",
    "identify-life-stages-1",
    "inclined-plane-determine-angle",
    "mendelian-genetics-known-plant",
)
SEARCHES = ("gepa", "mipro", "bootstrap")


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("runs/compile-gain"))
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--tasks", default=",".join(TASKS))
    options.add_argument("--per-task", type=int, default=4, help="held-out variants of each task")
    options.add_argument("--variants", help="held-out variants instead: boil::22,boil::24,...")
    options.add_argument("--trials", type=int, default=3, help="of a held-out variant; a compile scores two")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    common = ["--protocol", "adapt/3-cap60", "--tasks", given.tasks, "--jobs", str(given.jobs)]
    files: dict[str, Path] = {}
    for seed in range(given.seeds):
        for name in SEARCHES:
            file = files[f"{name}-{seed}"] = given.out / f"{name}-{seed}.json"
            run_cli("compile", "--method", METHOD, "--optimizer", name, "--set", f"seed={seed}", *common, "-o", file)
    compiled = {name: load(file) for name, file in files.items()}
    better = [str(files[name]) for name, program in compiled.items() if program.improved or program.candidate]
    held_out = given.out / "held-out"
    rsso_dspy.run(
        METHOD,
        programs=[ZERO_SHOT, *better],
        unconfirmed=True,
        tasks=given.tasks,
        variants=given.variants or (),
        per_task=None if given.variants else given.per_task,
        trials=given.trials,
        protocol="adapt/3-cap60",
        out=held_out,
        jobs=given.jobs,
    )
    records = list(Store(held_out).units())
    base = [record for record in records if record.program == ZERO_SHOT]
    played = {name: [record for record in records if record.program == name] for name in compiled}
    print(RULE_BASED_NOTE)
    print_compiles(compiled)
    print_held_out(base, {name: units for name, units in played.items() if units})
    zero = compute_arm_metrics(ZERO_SHOT, base).mean or 1.0
    means = {n: compute_arm_metrics(n, played[n] if compiled[n].improved else base).mean or 0.0 for n in compiled}
    print(json.dumps({"ratio": round(fmean(means.values()) / zero, 3), "zero_shot": round(zero, 2),
                      "means": {name: round(mean, 2) for name, mean in means.items()}}))  # fmt: skip


def print_compiles(compiled: dict[str, Compiled]) -> None:
    print()
    print_head("compile", "verdict", "on confirm", "p", "metric on val", "programs compared", "rollouts", "calls",
               "tokens in", "changed")  # fmt: skip
    for name, each in compiled.items():
        assert each.before is not None
        assert each.after is not None
        metric, found = f"{each.before.metric:.3f}", each.confirmation
        assert found is not None
        if found.difference is not None:
            metric = f"{metric} -> {each.after.metric:.3f}"
        gain, p = ("", "") if found.difference is None else (f"{100 * found.difference:+.1f}", f"{found.p:.3f}")
        tokens = sum(usage.input for usage in each.usage.values()) / 1e6
        changed = ", ".join(each.changes) or "nothing"
        print_row(name, found.verdict, gain, p, metric, len(each.tried), each.rollouts, f"{each.lm_calls:,}",
                  f"{tokens:.1f}M", changed)  # fmt: skip


def print_held_out(base: list[UnitRecord], played: dict[str, list[UnitRecord]]) -> None:
    print()
    print_head("program", "Mean", "environment score", "Solve", "trial-1", "minus zero-shot", "95% interval",
               "higher/lower", "tokens in")  # fmt: skip
    for name, units in {ZERO_SHOT: base, **played}.items():
        row = compute_arm_metrics(name, units)
        pair = compare_arms(ZERO_SHOT, base, name, units)
        low, high = (pair.interval.low, pair.interval.high) if pair.interval else (0.0, 0.0)
        against = f"{pair.difference:+.2f} | {low:+.1f} to {high:+.1f} | {pair.higher}/{pair.lower}"
        tokens = sum(usage.input for usage in row.tokens.values()) / 1e6
        print_row(name, f"{row.mean:.2f}", f"{row.environment_score:.2f}", f"{row.solve}/{row.units}",
                  f"{row.trial_1:.2f}", against if units is not base else " |  | ", f"{tokens:.2f}M")  # fmt: skip


if __name__ == "__main__":
    main()
