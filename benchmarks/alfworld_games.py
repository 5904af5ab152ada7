"""Your ALFWorld games, each won by its own walkthrough through the whole agent.

    python benchmarks/alfworld_games.py --data DIR [--split train] [--jobs 8]

Every game of a split that the folder holds is played by react, one trial, whose model says the game's walkthrough one
action an answer: prompts, parsing and the environment are those of a run. So many games are open at once as there are
jobs. Without `--data`, the folder is that of `ALFWORLD_DATA`. The last line is one JSON object: games, won, the keys of
those that were not, steps, seconds.
"""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import dspy

from benchmarks.script import make_parser
from rsso_dspy.config import load_config
from rsso_dspy.environments.alfworld.tasks import FOLDERS, TABLE, count_games, find_data, find_walkthrough, read_games
from rsso_dspy.environments.alfworld.wording import word_action
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.optimize.gold_player import GoldPlayer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant

METHOD = "react"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", default=find_data(), help="folder of games, as alfworld-download leaves it")
    parser.add_argument("--split", choices=list(FOLDERS), default="dev", help="dev is valid_seen, test valid_unseen")
    parser.add_argument("--jobs", type=int, default=8, help="games at once")
    options = parser.parse_args()
    if not options.data:
        parser.error("name your folder of games: --data DIR or ALFWORLD_DATA")
    print(read_games(options.data).describe())
    table = TABLE.limit(count_games(options.data))
    variants = [
        table.variant(task, index, options.split)
        for task in table.tasks()
        for index in table.indices(task, options.split)[: table.count_held(task, options.split)]
    ]
    config = load_config(overrides=["benchmark=alfworld", f"environment.data={options.data}", "embedder.model=hash"])
    begun = time.perf_counter()
    with session(config, jobs=options.jobs) as live:
        played = _play_all(live, variants, options.data, options.jobs)
    lost = [variant.key for variant, (won, _) in zip(variants, played, strict=True) if not won]
    result = {
        "split": options.split,
        "games": len(variants),
        "won": len(variants) - len(lost),
        "lost": lost,
        "steps": sum(steps for _, steps in played),
        "jobs": options.jobs,
        "seconds": round(time.perf_counter() - begun, 1),
    }
    print(json.dumps(result))


def _play_all(live: Session, variants: Sequence[Variant], data: str, jobs: int) -> list[tuple[bool, int]]:
    """Whether each game was won, and the steps it took."""

    def play(variant: Variant) -> tuple[bool, int]:
        path = [word_action(each, live.protocol.rules.interface) for each in find_walkthrough(variant, data)]
        model = dspy.LM("walkthrough/path", engine=GoldPlayer(path, "flat"), cache=False)
        with live.activate_for_run(), replace(live.runtime, lm=lambda *_: model).activate():
            (trial,) = Agent(METHOD)(variant=variant, trials=1).trials
        won, steps = trial.trajectory.outcome == "solved", len(trial.trajectory.steps)
        print(f"{variant.key}: {trial.trajectory.outcome} after {steps} of {len(path)} steps", flush=True)
        return won, steps

    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(play, variants))


if __name__ == "__main__":
    main()
