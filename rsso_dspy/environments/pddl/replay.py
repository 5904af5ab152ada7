"""Recorded PDDL transcripts played again.

An episode names its domain and its problem file; where the user gives no folder of files, the problem is read off the
recorded first observation and goal, which tell all of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rsso_dspy.environments.pddl.game import Game, load_domain
from rsso_dspy.environments.pddl.phrases import PHRASES
from rsso_dspy.environments.pddl.rebuilding import rebuild_setup
from rsso_dspy.environments.pddl.strips import Problem
from rsso_dspy.environments.pddl.tasks import list_files, read_file
from rsso_dspy.environments.transcripts import ReplayedRun, compare_fields, hash_actions, replay_steps
from rsso_dspy.errors import UnknownName

FIELDS = ("observation", "progress", "done", "validity", "actions", "won")
"""Of a step, after the action."""


def replay_episode(episode: Mapping[str, Any], text: Sequence[str], folder: str | None) -> Iterator[ReplayedRun]:
    """Play every run of an episode. Raises ``LookupError``, ``TypeError`` or ``ValueError`` where it is no such
    episode."""
    domain, first = str(episode["domain"]), text[episode["init_obs"]]
    if domain not in PHRASES:
        raise UnknownName("domain", domain, PHRASES)
    problem = _find_setup(episode, folder) or rebuild_setup(load_domain(domain), first, episode["goal"])
    game = Game(load_domain(domain), problem)
    where = f"episode {episode['id']} ({domain} {episode.get('file', '')})"
    recorded = {"goal": episode["goal"], "first observation": first, "first actions": episode["init_actions"]}
    played = {"goal": game.goal, "first observation": game.first, "first actions": game.list_actions()}
    yield ReplayedRun(where, 0, tuple(compare_fields(where, recorded, played)))
    for number, run in enumerate(episode["runs"], 1):
        place = f"{where}, run {number} ({run['kind']})"
        play = partial(_play_step, Game(load_domain(domain), problem))
        yield replay_steps(place, run["steps"], text, FIELDS, play, _sort_items)


def _play_step(game: Game, asked: str) -> tuple[object, ...]:
    answer, won = game.step(asked), int(game.won)
    return answer.observation, game.progress, won, int(answer.valid), hash_actions(game.list_actions()), won


def _find_setup(episode: Mapping[str, Any], folder: str | None) -> Problem | None:
    """The problem in the user's file of the recorded name, or at the recorded place."""
    if not folder:
        return None
    domain = str(episode["domain"])
    files = list_files(domain, Path(folder))
    named = [path for path in files if path.name == episode.get("file")]
    return read_file(domain, named[0] if named else files[int(episode["problem_index"])])


def _sort_items(asked: str, answer: str) -> str:
    """An answer whose items a recorder may have kept in any order, in one order."""
    if "check" in asked.lower() and ": " in answer:
        head, _, items = answer.partition(": ")
        return f"{head}: {', '.join(sorted(items.split(', ')))}"
    return answer
