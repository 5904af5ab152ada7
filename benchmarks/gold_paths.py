"""What the held-out variants allow: every gold path replayed through the driver.

    python benchmarks/gold_paths.py [--per-task 10] [--interface complete] [--tasks boil,freeze]

Prints, per task, the gold lengths, the points held at reset, the accumulator and the environment score that the gold
path ends at, and how many gold paths need more than 100 simulator ticks. The ratio is the share of gold paths that
reach 100. These are the numbers that docs/FIDELITY.md quotes. About 10 minutes for all 164 variants.
"""

import json
from statistics import fmean

from benchmarks.script import make_parser, parse_options, print_head, print_row
from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.environments.splits import SAMPLE_SIZE
from rsso_dspy.records import Variant

TICK_LIMIT = 100
"""The simulator's default limit, which the released SSO code leaves on."""


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--per-task", type=int, default=SAMPLE_SIZE)
    options.add_argument("--interface", choices=("sso", "complete"), default="sso")
    options.add_argument("--tasks", default=",".join(tasks.tasks()), help="task types, comma-separated")
    asked = parse_options(options, per_task=1, tasks="find-plant,lifespan-longest-lived")
    limit = asked.per_task
    print_head("task", "n", "gold length", "steps allowed", "held at reset", "accumulator", "environment score",
               "> 100 ticks")  # fmt: skip
    rows = []
    with ScienceWorld(step_limit=120) as environment:
        environment.choose_interface(asked.interface)
        for task in asked.tasks.split(","):
            played = [_replay_gold_path(environment, variant) for variant in tasks.held_out(task, "sso", limit)]
            rows += played
            _print_row(task, played)
    _print_row("all", rows)
    solved = sum(row["score"] >= 100 for row in rows)
    totals = {
        "variants": len(rows),
        "gold_steps": sum(row["gold"] for row in rows),
        "budget_steps": sum(row["budget"] for row in rows),
        "budget_over_100": sum(row["budget"] > TICK_LIMIT for row in rows),
        "held_at_reset": sum(row["reset"] > 0 for row in rows),
        "mean_ceiling": round(fmean(100 - row["reset"] for row in rows), 2),
        "over_100_ticks": sum(row["ticks"] > TICK_LIMIT for row in rows),
    }
    print(json.dumps({"ratio": round(solved / len(rows), 3), **totals}))


def _replay_gold_path(environment: ScienceWorld, variant: Variant) -> dict[str, int]:
    (path,) = tasks.compute_gold_paths([variant])
    environment.reset(variant)
    accumulator = score = ticks = 0
    for action in path:
        move = environment.step(action)
        accumulator, score, ticks = accumulator + max(0, move.reward), move.score, move.ticks
        if move.done:
            break
    return {
        "gold": len(path),
        "budget": int(1.5 * len(path)),
        "reset": environment.points_at_reset,
        "accumulator": accumulator,
        "score": score,
        "ticks": ticks,
    }


def _print_row(task: str, rows: list[dict[str, int]]) -> None:
    def format_spread(name: str) -> str:
        values = [row[name] for row in rows]
        return f"{fmean(values):.1f} ({min(values)}-{max(values)})"

    held = sum(row["reset"] > 0 for row in rows)
    late = sum(row["ticks"] > TICK_LIMIT for row in rows)
    spreads = map(format_spread, ("gold", "budget", "accumulator", "score"))
    print_row(task, len(rows), next(spreads), next(spreads), held, next(spreads), next(spreads), late)


if __name__ == "__main__":
    main()
