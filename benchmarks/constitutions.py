"""What constitutions achieve on the embedded backend, and what they cost.

    python benchmarks/constitutions.py [--jobs 2] [--out runs/constitutions]

Builds a constitution on one training variant of each of the 18 tasks (co-operative mode), then plays two held-out
variants of each task under `sso-adapt/1-cap60`: rsso and react with and without it, three trials, and the three
self-sustaining agents, one trial, each in one stream of 36 variants. Then sweeps r_freq x s_freq over six tasks
(OmniReflect, Table 2, shrunk to 2 x 2). The same command again goes on where it was cut short. The ratio is the Mean of
rsso with the constitution over that of rsso.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from rsso_dspy.memory.constitution.file import read_constitution
from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.comparison import compare_arms
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.unit_store import Store
from rsso_dspy.workflows.sweeps import read_sweep

PROTOCOL = ["--protocol", "sso-adapt/1-cap60"]
WRITERS = ("omnireflect-neural", "omnireflect-symbolic", "omnireflect-neuro-symbolic")
METHODS = ("rsso", "rsso+constitution", "react", "react+constitution", *WRITERS)
PAIRS = (("rsso", "rsso+constitution"), ("react", "react+constitution"))
FIRST_TRIALS = (*(("react", writer) for writer in WRITERS), ("rsso", "omnireflect-symbolic"))

SWEEP = """
methods = ["omnireflect-neural"]
tasks = ["boil", "find-plant", "grow-plant", "identify-life-stages-1", "lifespan-longest-lived", "use-thermometer"]
per_task = 2
[set]
"protocol.preset" = "sso-adapt/1-cap60"
[grid]
"memory.constitution.r_freq" = [5, 10]
"memory.constitution.s_freq" = [3, 6]
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("runs/constitutions"))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    book, run, sweep = given.out / "constitution.json", given.out / "held-out", given.out / "sweep.toml"
    if not book.exists():
        run_cli("constitution", "build", *PROTOCOL, "-o", book)
    run_cli(
        "run",
        "--methods",
        ",".join(METHODS),
        "--constitution",
        book,
        "--per-task",
        "2",
        "--trials",
        "3",
        *PROTOCOL,
        "--jobs",
        given.jobs,
        "--out",
        run,
    )
    sweep.write_text(SWEEP, encoding="utf-8")
    run_cli("sweep", sweep, "--out", given.out / "sweep", "--jobs", given.jobs)
    arms = group_by_arm(Store(run).units())
    print(RULE_BASED_NOTE)
    print_constitution(book)
    print_methods(arms)
    print_differences(arms)
    print_sweep(sweep, given.out / "sweep")
    means = {arm: compute_arm_metrics(arm, records).mean or 0.0 for arm, records in arms.items()}
    ratio = means["rsso+constitution"] / means["rsso"]
    print(json.dumps({"ratio": round(ratio, 3), "means": {arm: round(mean, 2) for arm, mean in means.items()}}))


def run_cli(*words: object) -> None:
    """A command of the CLI; what it prints goes to stderr."""
    command = [sys.executable, "-c", "from rsso_dspy.cli import main; main()", *map(str, words)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def print_constitution(file: Path) -> None:
    book = read_constitution(file)
    rules = book.constitution
    calls = ", ".join(f"{role} {spent['calls']:,}" for role, spent in book.provenance["usage"].items())
    abstract, errors = len(rules.select_rules("abstract")), len(rules.select_rules("error"))
    print(f"\nThe constitution: {abstract} abstract and {errors} error rules, "
          f"{len(rules.text):,} characters, from {len(book.variants)} variants; calls: {calls}")  # fmt: skip


def print_methods(arms: dict[str, list[UnitRecord]]) -> None:
    print("\n| method | trials | Mean | trial-1 | Solve | steps per unit | calls per unit | of these advisor | "
          "actor tokens in per call |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for arm, records in arms.items():
        row = compute_arm_metrics(arm, records)
        trials = max(len(record.trials) for record in records)
        actor, advisor = row.tokens["actor"], row.tokens.get("advisor")
        print(f"| {arm} | {trials} | {row.mean:.2f} | {row.trial_1:.2f} | {row.solve}/{row.units} | "
              f"{row.steps / row.units:.1f} | {row.calls_per_unit:.1f} | "
              f"{(advisor.calls if advisor else 0) / row.units:.1f} | {actor.input / actor.calls:,.0f} |")  # fmt: skip


def print_differences(arms: dict[str, list[UnitRecord]]) -> None:
    print("\n| second - first | points | 95% interval | units higher/lower |\n|---|---|---|---|")
    for first, second in PAIRS:
        _print_difference(f"{second} - {first}", first, arms[first], second, arms[second])
    for first, second in FIRST_TRIALS:
        ours = [_keep_first_trial(record) for record in arms[first]]
        _print_difference(f"{second} - {first}, first trials", first, ours, second, arms[second])


def _keep_first_trial(record: UnitRecord) -> UnitRecord:
    from dataclasses import replace

    return replace(record, trials=record.trials[:1])


def _print_difference(name: str, first: str, ours: list[UnitRecord], second: str, theirs: list[UnitRecord]) -> None:
    pair = compare_arms(first, ours, second, theirs)
    low, high = (pair.interval.low, pair.interval.high) if pair.interval else (0.0, 0.0)
    print(f"| {name} | {pair.difference:+.2f} | {low:+.2f} to {high:+.2f} | {pair.higher}/{pair.lower} |")


def print_sweep(file: Path, out: Path) -> None:
    print("\n| r_freq | s_freq | Mean | Solve | calls per unit | of these advisor |\n|---|---|---|---|---|---|")
    for point in read_sweep(file).points:
        row = compute_arm_metrics("", list(Store(out / point.name).units()))
        r_freq, s_freq = point.values.values()
        print(f"| {r_freq} | {s_freq} | {row.mean:.2f} | {row.solve}/{row.units} | {row.calls_per_unit:.1f} | "
              f"{row.tokens['advisor'].calls / row.units:.1f} |")  # fmt: skip


if __name__ == "__main__":
    main()
