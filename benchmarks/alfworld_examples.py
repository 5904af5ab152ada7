"""The examples that come with ALFWorld: stretches of training play, each with the rules that patterns draw from it.

    python benchmarks/alfworld_examples.py

The rule-based player does not know these games, and walkthroughs make no mistake to learn from. Hence made
training games are played by their own walkthroughs with slips: some actions are taken twice, before their turn, or
first without numbers. Writes `rsso_dspy/environments/alfworld/data/examples.json`; the other benchmarks' examples are
those of the command in their files.
"""

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import dspy

import rsso_dspy
from benchmarks.script import exit_lacking, make_parser, parse_options
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.optimize.constitution import select_examples
from rsso_dspy.optimize.teacher import GoldPlayer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import session

GAMES = 2
"""Training games of each task type."""
SLIPS = 0.3
"""Share of actions before which something goes wrong."""
SETTINGS = ("benchmark=alfworld", "protocol.preset=sso-adapt/3-cap60", "embedder.model=hash")


def make_slips(path: Sequence[str], draw: random.Random) -> Iterator[str]:
    """Yield the actions of a walkthrough, and slips before some of them. None leads elsewhere."""
    for place, action in enumerate(path):
        if draw.random() < SLIPS:
            near = [
                each for each in (*path[max(place - 1, 0) : place], *path[place + 1 : place + 2]) if "go to" not in each
            ]
            yield draw.choice([re.sub(r" \d+", "", action), *near])
        yield action


def play_examples() -> tuple[str, ...]:
    """Return the examples of the games played."""
    of = get_benchmark("alfworld")
    table, trajectories = of.tasks, []
    with session(load_config(overrides=SETTINGS)) as live:
        for variant in (each for task in table.names() for each in table.train_sample(task, GAMES)):
            path = make_slips(of.find_gold_path(variant), random.Random(variant.key))
            model = dspy.LM("walkthrough/slips", engine=GoldPlayer(list(path)), cache=False)
            with live.activate_for_run(), replace(live.runtime, lm=lambda *_, model=model: model).activate():
                trajectories += [trial.trajectory for trial in Agent("react")(variant=variant, trials=1).trials]
    return select_examples(trajectories, of)


def main() -> None:
    target = Path(rsso_dspy.__file__).parent / "environments/alfworld/data/examples.json"
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, default=target, help="the file to write; by default the package's own")
    options = parse_options(parser, out=Path(os.devnull))
    if find_spec("alfworld") is None:
        exit_lacking("the extra alfworld")
    os.environ.pop("ALFWORLD_DATA", None)  # else the user's games are played
    made = {"made_by": "python benchmarks/alfworld_examples.py", "rule_based": True, "examples": play_examples()}
    options.out.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({"examples": len(made["examples"])}))


if __name__ == "__main__":
    main()
