"""Recorded transcripts played again by the benchmark whose they are, and every difference told.

    python -m tests.environments.transcripts recorded.json [--data DIR]

A file is one JSON object: ``format`` (the benchmark's name before the first ``-``), ``text``, a table of texts, and
``episodes``. A text is recorded as its number in the table. An episode of BabyAI brings its patterns; one of PDDL or
ALFWorld names its file in the user's folder.
"""

import argparse
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rsso_dspy.environments.pddl.environment import Game
from rsso_dspy.environments.pddl.tasks import list_files, load_domain, read_file
from rsso_dspy.errors import UsageError

Replay = Iterator[tuple[int, list[str]]]
"""Of each run, or of what its episode says before the first step: its steps, and what differs."""

PDDL = ("observation", "progress", "done", "validity", "actions", "won")
BABYAI = ("observation", "progress", "done", "validity", "actions")
ALFWORLD = ("observation", "won", "done", "number of actions")
"""What is recorded of a step, after the action."""

CONTINUED = "look_after_won"
"""The kind of a run of ALFWorld that goes on where the one before it ended."""

STEP_SECONDS = 60.0


def compare_fields(where: str, recorded: Mapping[str, Any], played: Mapping[str, Any]) -> list[str]:
    """What was recorded otherwise, in words; fields that were not recorded are not compared."""
    return [
        f"{where}: {field}\n  recorded {there!r}\n  played   {played[field]!r}"
        for field, there in recorded.items()
        if there != played[field]
    ]


def replay_steps(
    place: str,
    steps: Sequence[Sequence[Any]],
    text: Sequence[str],
    fields: Sequence[str],
    play: Callable[[str], Sequence[Any]],
) -> tuple[int, list[str]]:
    """Play the steps of a run: an action, the observation and what else was recorded, by the names in ``fields``. A
    number counts to six digits, and items that are listed in any order."""
    found: list[str] = []
    for step, (action, observation, *rest) in enumerate(steps, 1):
        asked = text[action]
        recorded, played = (
            dict(zip(fields, (_sort_items(asked, said), *map(_round_number, values)), strict=True))
            for said, *values in ((text[observation], *rest), play(asked))
        )
        found += compare_fields(f"{place}, step {step} {asked!r}", recorded, played)
    return len(steps), found


def _round_number(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _sort_items(asked: str, answer: str) -> str:
    """An answer whose items a recorder of PDDL may have kept in any order, in one order."""
    head, _, items = answer.partition("Valid actions are: ")
    return f"{head}: {', '.join(sorted(items.split(', ')))}" if "check" in asked.lower() and items else answer


def hash_actions(actions: Sequence[str]) -> str:
    """How a list of actions is recorded: 8 hexadecimal digits."""
    return hashlib.sha1(", ".join(actions).encode(), usedforsecurity=False).hexdigest()[:8]


def replay_pddl(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Replay:
    domain, first = str(episode["domain"]), text[episode["init_obs"]]
    if not folder:
        raise UsageError("name your folder of problems, --data DIR")
    files = list_files(domain, Path(folder))
    named = [path for path in files if path.name == episode.get("file")]
    problem = read_file(domain, named[0] if named else files[int(episode["problem_index"])])
    game = Game(load_domain(domain), problem)
    where = f"episode {episode['id']} ({domain} {episode.get('file', '')})"
    recorded = {"goal": episode["goal"], "first observation": first, "first actions": episode["init_actions"]}
    played = {"goal": game.goal, "first observation": game.first, "first actions": game.list_actions()}
    yield 0, compare_fields(where, recorded, played)
    for number, run in enumerate(episode["runs"], 1):
        place = f"{where}, run {number} ({run['kind']})"
        play = partial(_play_pddl, Game(load_domain(domain), problem))
        yield replay_steps(place, run["steps"], text, PDDL, play)


def _play_pddl(game: Game, asked: str) -> tuple[object, ...]:
    (observation, valid), won = game.step(asked), int(game.won)
    return observation, game.progress, won, int(valid), hash_actions(game.list_actions()), won


def replay_babyai(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Replay:  # noqa: ARG001
    from rsso_dspy.environments.babyai.environment import Game as BabyAiGame
    from rsso_dspy.environments.babyai.tasks import make_world

    name = str(episode["env"]).removeprefix("BabyAI-").rpartition("-")[0]
    world, seed, patterns = make_world(name), int(episode["seed"]), read_patterns(episode)
    where = f"episode {episode['id']} ({name} {seed})"
    recorded = {
        "mission": episode["mission"],
        "goal": episode["goal"],
        "first observation": text[episode["init_obs"]],
        "first actions": episode["init_actions"],
        "messages": episode["init_errors"],
    }
    game = BabyAiGame(world, seed)
    played = (game.mission, game.goal, game.first, list(game.offer.moves), game.offer.messages)
    yield 0, compare_fields(where, recorded, dict(zip(recorded, played, strict=True)))
    for number, run in enumerate(episode["runs"], 1):
        place = f"{where}, run {number} ({run['kind']})"
        play = partial(_play_babyai, BabyAiGame(world, seed), AgentBoardProgress(patterns))
        yield replay_steps(place, run["steps"], text, BABYAI, play)


class AgentBoardProgress:
    """What AgentBoard counts: lists of patterns that stand for each other, of which an observation meets one position.
    A mission that ended is done where more than half were met."""

    def __init__(self, lists: Sequence[Sequence[str]] | None):
        self._ways = list(zip(*lists or (), strict=True))
        self._met = [False] * len(self._ways)
        self.share = 0.0

    def read(self, game: Any, observation: str) -> bool:
        from rsso_dspy.environments.babyai.environment import is_met

        if self._ways:
            seen = (
                n for n, ways in enumerate(self._ways) if not self._met[n] and any(is_met(w, observation) for w in ways)
            )
            for number in [*seen][:1]:
                self._met[number] = True
            self.share = sum(self._met) / len(self._met)
        else:
            self.share = max(self.share, game.reward)
        return (game.ended and self.share > 0.5) or self.share >= 1


def read_patterns(row: Mapping[str, Any]) -> list[list[str]] | None:
    """The patterns of an episode: one list, or several that stand for each other (``subgoals_1``, ...)."""
    several = [row[key] for key in sorted(row) if key.startswith("subgoals_") and row[key]]
    given = row.get("subgoals")
    if isinstance(given, Mapping):
        several, given = [given[key] for key in sorted(given)], None
    lists = several or ([given] if given else [])
    return (lists[0] if lists and isinstance(lists[0][0], list) else lists) or None


def _play_babyai(game: Any, progress: AgentBoardProgress, asked: str) -> tuple[object, ...]:
    from rsso_dspy.environments.babyai.view import COMPLETED

    observation, moves = game.step(asked)
    done = bool(moves) and progress.read(game, observation.removesuffix(COMPLETED))
    if done and not game.ended:
        observation += COMPLETED
    valid = None if game.valid is None else int(game.valid)
    return observation, progress.share, int(done), valid, hash_actions(list(game.offer.moves))


def replay_alfworld(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Replay:
    from rsso_dspy.environments.alfworld.engine import Engine
    from rsso_dspy.environments.alfworld.tasks import read_game
    from rsso_dspy.environments.alfworld.wording import split_first

    name = str(episode["game"])
    path = _find_file(name, folder)
    engine = Engine(STEP_SECONDS)
    try:
        answer = engine.load(path)
        recorded = {
            "feedback": text[episode["feedback"]],
            "first observation": text[episode["init_obs"]],
            "task": episode["task"],
            "first actions": episode["init_commands"],
            "length of the walkthrough": episode["walkthrough_len"],
        }
        feedback = answer.feedback.strip()
        played = (feedback, *split_first(feedback), list(answer.commands), len(read_game(path)["walkthrough"]))
        yield 0, compare_fields(name, recorded, dict(zip(recorded, played, strict=True)))
        for number, run in enumerate(episode["runs"], 1):
            if run["kind"] != CONTINUED:
                engine.load(path)
            place = f"{name}, run {number} ({run['kind']})"
            yield replay_steps(place, run["steps"], text, ALFWORLD, lambda asked: _play_alfworld(engine, asked))
    finally:
        engine.close()


def _play_alfworld(engine: Any, asked: str) -> tuple[object, ...]:
    answer = engine.step(asked)
    return answer.feedback.strip(), int(answer.won), int(answer.done), len(answer.commands)


def _find_file(name: str, folder: str | None) -> Path:
    tried = [Path(folder or ".") / name, Path(folder or ".") / name.partition("/")[2]]
    if found := next((path for path in tried if path.is_file()), None):
        return found
    raise UsageError(f"the game {name} is not in {folder}: name your folder of games, --data DIR")


REPLAYS = {"pddl": replay_pddl, "babyai": replay_babyai, "alfworld": replay_alfworld}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSON file of recorded transcripts")
    parser.add_argument("--data", help="folder with what was played, where the recording does not tell all of it")
    options = parser.parse_args()
    data = json.loads(options.file.read_text(encoding="utf-8"))
    replay, steps, differences = REPLAYS[data["format"].partition("-")[0]], 0, 0
    for episode in data["episodes"]:
        for played, found in replay(episode, data["text"], options.data):
            steps, differences = steps + played, differences + len(found)
            for each in found:
                print(each)
    print(f"{len(data['episodes'])} episodes, {steps:,} steps, {differences:,} differences")
    raise SystemExit(differences > 0)


if __name__ == "__main__":
    main()
