"""The examples of rules that come with TextWorldExpress: stretches of training play, each with the rules that the
patterns of `data/texts.toml` draw from it.

    python scripts/write_rule_examples.py            # writes environments/textworld_express/data/examples.json
    python scripts/write_rule_examples.py --check    # play them anew and compare with what is shipped

Training games are played by their solutions with slips, since a solution makes no mistake to learn from: a thing is
named with an article, the same is asked twice, and a door is walked against before it is opened.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.optimize.constitution import select_examples
from rsso_dspy.sessions import session
from scripts.write_reflection_examples import SETTINGS, play_actions

NAME = "textworld-express"
FILE = Path(rsso_dspy.__file__).parent / "environments/textworld_express/data/examples.json"
GAMES = 3
"""Training games of each task type."""


def make_slips(path: Sequence[str]) -> Iterator[str]:
    """Yield the actions of a solution with slips before some of them. None leads elsewhere, or loses a game."""
    for place, action in enumerate(path):
        if action.startswith("open door to "):
            yield action.replace("open door to", "move", 1)
        elif action.startswith("take ") and place % 2:
            yield action.replace("take ", "take the ", 1)
        elif place % 5 == 4:
            yield from ("look around", "look around")
        yield action


def write_file() -> str:
    """Play the games and return the text of the file."""
    benchmark = get_benchmark(NAME)
    table = benchmark.tasks
    games = [game for game in table.names() if game != "simonsays"]  # there a slip loses the game
    variants = [variant for game in games for variant in table.train_sample(game, GAMES)]
    with session(load_config(overrides=(f"benchmark={NAME}", *SETTINGS))) as live:
        trajectories = [
            play_actions(variant.key, list(make_slips(benchmark.find_gold_path(variant))), live)[0]
            for variant in variants
        ]
    content = {
        "made_by": "scripts/write_rule_examples.py",
        "rule_based": True,
        "examples": select_examples(trajectories, benchmark),
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the file differs")
    text = write_file()
    if not parser.parse_args().check:
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        raise SystemExit("other examples than are shipped")


if __name__ == "__main__":
    main()
