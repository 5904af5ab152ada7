"""ScienceWorld's shipped gold lengths, which determine step budgets, recomputed and compared exactly.

    python scripts/check_golds.py [--sample 10] [--seed 0]

Each length is computed in a fresh simulator; all 569 take about 20 minutes. Exits with 1 where one differs. PDDL's
plans are compared by `scripts/make_pddl.py --check`.
"""

import argparse
import random

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.records import Variant


def shipped_lengths() -> dict[Variant, int]:
    """Load the shipped table for the installed version of ScienceWorld; empty if there is none."""
    return {
        tasks.variant(task, int(index), simplification=simplification): length
        for simplification, by_task in tasks._read_shipped_table().get(tasks.VERSION, {}).items()
        for task, lengths in by_task.items()
        for index, length in lengths.items()
    }


def find_wrong_lengths(sample: int, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Recompute as many shipped lengths; return those that differ: key to shipped and computed length."""
    shipped, wrong = shipped_lengths(), {}
    for variant in random.Random(seed).sample(list(shipped), min(sample, len(shipped))):
        (path,) = tasks.compute_gold_paths([variant])
        if len(path) != shipped[variant]:
            wrong[variant.key] = shipped[variant], len(path)
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=10, help="number of variants to recompute")
    parser.add_argument("--seed", type=int, default=0, help="which sample")
    options = parser.parse_args()
    wrong = find_wrong_lengths(options.sample, options.seed)
    for key, (shipped, computed) in wrong.items():
        print(f"{key}: {shipped} in the table, {computed} now")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
