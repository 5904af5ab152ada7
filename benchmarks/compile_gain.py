"""Does compiling help? Every optimizer against zero-shot, on held-out variants.

    python benchmarks/compile_gain.py [--jobs 2] [--out runs/compile-gain]

Compiles rsso with every optimizer on nine tasks, one of each topic among the 18, a training variant of each to train
from and another to val by, 60 rollouts each: gepa with three seeds, the others with one, copro on the actor alone.
Whatever found something better is then played on four held-out variants of each task, three trials, in one run with
zero-shot, under `sso-adapt/1-cap60`. The same command again goes on where it was cut short. The ratio is the mean of
the compiled programs' Means over that of zero-shot, both measured in this run; a compile that found nothing better
counts as zero-shot.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import fmean

from rsso_dspy.optimize.compiled import Compiled, load
from rsso_dspy.records import RULE_BASED_NOTE, ZERO_SHOT, UnitRecord
from rsso_dspy.report.comparison import compare_arms
from rsso_dspy.report.metrics import compute_arm_metrics
from rsso_dspy.store.unit_store import Store

METHOD = "rsso"
ROLLOUTS = 60
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
COMMON = ["--protocol", "sso-adapt/1-cap60", "--tasks", ",".join(TASKS)]
COMPILES = {
    **{f"gepa-{seed}": ["--optimizer", "gepa", "--seed", str(seed)] for seed in range(3)},
    "mipro-0": ["--optimizer", "mipro"],
    "simba-0": ["--optimizer", "simba"],
    "bootstrap-0": ["--optimizer", "bootstrap"],
    "bootstrap-random-0": ["--optimizer", "bootstrap-random"],
    "copro-0": ["--optimizer", "copro", "--roles", "actor"],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("runs/compile-gain"))
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    common = [*COMMON, "--jobs", str(given.jobs)]
    files = {name: given.out / f"{name}.json" for name in COMPILES}
    for name, file in files.items():
        run_cli("compile", "--method", METHOD, "--max-rollouts", str(ROLLOUTS), *COMPILES[name], *common, "-o", file)
    compiled = {name: load(file) for name, file in files.items()}
    better = [str(files[name]) for name, program in compiled.items() if program.improved or program.candidate]
    held_out = given.out / "held-out"
    programs = ",".join([ZERO_SHOT, *better])
    run_cli("run", "--methods", METHOD, "--programs", programs, "--per-task", "4", "--trials", "3", *common,
              "--out", held_out)  # fmt: skip
    records = list(Store(held_out).units())
    base = [record for record in records if record.program == ZERO_SHOT]
    played = {name: [record for record in records if record.program == name] for name in compiled}
    print(RULE_BASED_NOTE)
    print_compiles(compiled)
    print_held_out(base, {name: units for name, units in played.items() if compiled[name].improved})
    zero = compute_arm_metrics(ZERO_SHOT, base).mean or 1.0
    means = {n: compute_arm_metrics(n, played[n] if compiled[n].improved else base).mean or 0.0 for n in compiled}
    print(json.dumps({"ratio": round(fmean(means.values()) / zero, 3), "zero_shot": round(zero, 2),
                      "means": {name: round(mean, 2) for name, mean in means.items()}}))  # fmt: skip


def run_cli(*words: object) -> None:
    """A command of the CLI; what it prints goes to stderr."""
    command = [sys.executable, "-c", "from rsso_dspy.cli import main; main()", *map(str, words)]
    subprocess.run(command, check=True, stdout=sys.stderr)


def print_compiles(compiled: dict[str, Compiled]) -> None:
    print("\n| compile | metric on the val variants | Mean there | programs compared | rollouts | calls | "
          "tokens in | changed |\n|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name, each in compiled.items():
        assert each.before is not None
        assert each.after is not None
        metric, mean = f"{each.before.metric:.3f}", f"{each.before.mean:.2f}"
        if each.improved:
            metric, mean = f"{metric} -> {each.after.metric:.3f}", f"{mean} -> {each.after.mean:.2f}"
        tokens = sum(usage.input for usage in each.usage.values()) / 1e6
        changed = ", ".join(each.changes) if each.improved else "nothing better"
        print(f"| {name} | {metric} | {mean} | {len(each.tried)} | {each.rollouts} | {each.lm_calls:,} | "
              f"{tokens:.1f}M | {changed} |")  # fmt: skip


def print_held_out(base: list[UnitRecord], played: dict[str, list[UnitRecord]]) -> None:
    print("\n| program | Mean | environment score | Solve | trial-1 | minus zero-shot | 95% interval | higher/lower | "
          "tokens in |\n|---|---|---|---|---|---|---|---|---|")  # fmt: skip
    for name, units in {ZERO_SHOT: base, **played}.items():
        row = compute_arm_metrics(name, units)
        pair = compare_arms(ZERO_SHOT, base, name, units)
        low, high = (pair.interval.low, pair.interval.high) if pair.interval else (0.0, 0.0)
        against = f"{pair.difference:+.2f} | {low:+.1f} to {high:+.1f} | {pair.higher}/{pair.lower}"
        tokens = sum(usage.input for usage in row.tokens.values()) / 1e6
        print(f"| {name} | {row.mean:.2f} | {row.environment_score:.2f} | {row.solve}/{row.units} | "
              f"{row.trial_1:.2f} | {against if units is not base else ' |  | '} | {tokens:.2f}M |")  # fmt: skip


if __name__ == "__main__":
    main()
