"""The examples of rules that come with tau2: training tickets, each played by its solution with slips, and the rules
that patterns draw from the play.

    python scripts/make_tau2_examples.py            # writes rsso_dspy/environments/tau2/data/examples.json
    python scripts/make_tau2_examples.py --check    # play them anew and compare with what is shipped
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.optimize.constitution import select_examples
from rsso_dspy.sessions import session
from scripts.write_reflection_examples import play_actions

FILE = Path(rsso_dspy.__file__).parent / "environments/tau2/data/examples.json"
SETTINGS = ("benchmark=tau2", "protocol.preset=sso-adapt/3-cap60", "embedder.model=hash")
TICKETS = 2
"""Training tickets of each type."""
LOOKS = ('get_customer_by_phone(phone_number="555-123-2002")', "check_network_status()", "run_speed_test()")
SLIPS = ("get_customer()", "get_customer_by_phone()", 'get_details_by_id(id="L1")', "check_network_status()")


def make_slips(path: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Yield looks at how things are, and the actions of a solution, with a slip before each second one on average."""
    yield from LOOKS
    for action in path:
        if draw.random() < 0.5:
            yield draw.choice(SLIPS)
        yield action


def play_examples() -> tuple[str, ...]:
    """Return the examples of the tickets played."""
    benchmark = get_benchmark("tau2")
    trajectories = []
    with session(load_config(overrides=SETTINGS)) as live:
        for task in benchmark.tasks.names():
            for variant in benchmark.tasks.train_sample(task, TICKETS):
                path = make_slips(benchmark.find_gold_path(variant), random.Random(variant.key))
                trajectory, _ = play_actions(variant.key, list(path), live)
                trajectories.append(trajectory)
    return select_examples(trajectories, benchmark)


def write_file() -> str:
    made = {"made_by": "python scripts/make_tau2_examples.py", "rule_based": True, "examples": play_examples()}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the file differs")
    options = parser.parse_args()
    text = write_file()
    if not options.check:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        raise SystemExit("other examples than are shipped")


if __name__ == "__main__":
    main()
