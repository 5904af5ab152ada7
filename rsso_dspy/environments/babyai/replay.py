"""Recorded BabyAI transcripts played again. An episode brings its patterns; AgentBoard's labels are not held here."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rsso_dspy.environments.babyai.game import Game
from rsso_dspy.environments.babyai.levels import LEVELS, make_world
from rsso_dspy.environments.transcripts import ReplayedRun, compare_fields, hash_actions, replay_steps
from rsso_dspy.errors import UnknownName

FIELDS = ("observation", "progress", "done", "validity", "actions")
"""Of a step, after the action."""


def read_patterns(row: Mapping[str, Any]) -> list[list[str]] | None:
    """The patterns of an episode: one list, or several that stand for each other (``subgoals_1``, ...)."""
    several = [row[key] for key in sorted(row) if key.startswith("subgoals_") and row[key]]
    given = row.get("subgoals")
    if isinstance(given, Mapping):
        several, given = [given[key] for key in sorted(given)], None
    lists = several or ([given] if given else [])
    if lists and isinstance(lists[0][0], list):
        lists = lists[0]
    if not all(isinstance(text, str) for each in lists for text in each) or len({len(each) for each in lists}) > 1:
        raise ValueError("subgoals are one list of texts, or several of one length")
    return lists or None


def replay_episode(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Iterator[ReplayedRun]:  # noqa: ARG001
    """Play every run of an episode. Raises ``LookupError``, ``TypeError`` or ``ValueError`` where it is no such
    episode."""
    name = str(episode["env"]).removeprefix("BabyAI-").rpartition("-")[0]
    if name not in LEVELS:
        raise UnknownName("level", name, LEVELS)
    world, seed, patterns = make_world(name), int(episode["seed"]), read_patterns(episode)
    where = f"episode {episode['id']} ({name} {seed})"
    recorded = {
        "mission": episode["mission"],
        "goal": episode["goal"],
        "first observation": text[episode["init_obs"]],
        "first actions": episode["init_actions"],
        "messages": episode["init_errors"],
    }
    game = Game(world, seed, patterns)
    played = (game.mission, game.goal, game.first, list(game.offer.moves), game.offer.messages)
    yield ReplayedRun(where, 0, tuple(compare_fields(where, recorded, dict(zip(recorded, played, strict=True)))))
    for number, run in enumerate(episode["runs"], 1):
        place = f"{where}, run {number} ({run['kind']})"
        play = partial(_play_step, Game(world, seed, patterns))
        yield replay_steps(place, run["steps"], text, FIELDS, play)


def _play_step(game: Game, asked: str) -> tuple[object, ...]:
    observation = game.step(asked).observation
    valid = None if game.valid is None else int(game.valid)
    return observation, game.progress, int(game.done), valid, hash_actions(list(game.offer.moves))
