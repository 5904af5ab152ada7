"""Recorded ALFWorld transcripts played again. An episode names its game; the user's folder holds it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rsso_dspy.environments.alfworld.engine import Engine
from rsso_dspy.environments.alfworld.tasks import VARIABLE, find_data, read_game
from rsso_dspy.environments.alfworld.wording import split_first
from rsso_dspy.environments.transcripts import ReplayedRun, compare_fields, replay_steps
from rsso_dspy.errors import UsageError

FIELDS = ("observation", "won", "done", "number of actions")
"""Of a step, after the action."""

CONTINUED = "look_after_won"
"""The kind of a run that goes on where the one before it ended."""

STEP_SECONDS = 60.0


def replay_episode(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Iterator[ReplayedRun]:
    """Play every run of an episode. Raises ``LookupError``, ``TypeError`` or ``ValueError`` where it is no such
    episode, and ``UsageError`` where its game is not there."""
    name = str(episode["game"])
    path = _find_file(name, folder)
    engine = Engine(STEP_SECONDS, 1 << 40)
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
        yield ReplayedRun(name, 0, tuple(compare_fields(name, recorded, dict(zip(recorded, played, strict=True)))))
        for number, run in enumerate(episode["runs"], 1):
            if run["kind"] != CONTINUED:
                engine.load(path)
            place = f"{name}, run {number} ({run['kind']})"
            yield replay_steps(place, run["steps"], text, FIELDS, lambda asked: _play_step(engine, asked))
    finally:
        engine.close()


def _play_step(engine: Engine, asked: str) -> tuple[object, ...]:
    answer = engine.step(asked)
    return answer.feedback.strip(), int(answer.won), int(answer.done), len(answer.commands)


def _find_file(name: str, folder: str | None) -> Path:
    root = folder or find_data()
    if root is None:
        raise UsageError(f"{name} is a game of ALFWorld: name your folder of games, --data DIR or {VARIABLE}")
    short = name.partition("/")[2] if name.startswith("json_") else name
    places = [Path(root) / name, Path(root) / short]
    for path in places:
        if path.is_file() and path.resolve().is_relative_to(Path(root).resolve()):
            return path
    raise UsageError(f"the game {name} is not there: looked for {' and '.join(map(str, places))}")
