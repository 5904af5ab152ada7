"""Recorded transcripts, and what is said here in the same places.

    for run in replay_transcripts(Path("recorded.json")):
        print(run.where, run.steps, run.differences)

A file is one JSON object: ``format`` (the benchmark's name before the first ``-``), ``text``, a table of texts, and
``episodes``. A text is recorded as its number in the table. What an episode holds is the benchmark's business, which
plays it (`Benchmark.replay`).
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile
from rsso_dspy.safe_read import read_json


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that was recorded otherwise."""

    where: str
    field: str
    recorded: Any
    played: Any


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """One run of an episode, or what its episode says before the first step."""

    where: str
    steps: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True, eq=False)
class Transcripts:
    """A file of transcripts."""

    path: Path
    benchmark: str
    """Name of the benchmark whose they are."""
    episodes: tuple[Mapping[str, Any], ...]
    text: tuple[str, ...]


def read_transcripts(path: Path) -> Transcripts:
    """Read a file. Raises ``DamagedFile`` for one of another form, and ``OSError``."""
    data = read_json(path)
    fields = data if isinstance(data, dict) else {}
    named, episodes, text = (fields.get(key) for key in ("format", "episodes", "text"))
    if not isinstance(named, str) or not named:
        raise DamagedFile(path, "it is no file of transcripts: it names no format")
    if not isinstance(episodes, list) or not all(isinstance(each, dict) for each in episodes):
        raise DamagedFile(path, "it is no file of transcripts: episodes is no list of objects")
    if not isinstance(text, list) or not all(isinstance(each, str) for each in text):
        raise DamagedFile(path, "it is no file of transcripts: text is no list of texts")
    return Transcripts(path, named.partition("-")[0], tuple(episodes), tuple(text))


def compare_fields(where: str, recorded: Mapping[str, Any], played: Mapping[str, Any]) -> Iterator[Difference]:
    """A difference for each field that is not equal; fields that were not recorded are not compared."""
    for field, there in recorded.items():
        if there != played[field]:
            yield Difference(where, field, there, played[field])


def replay_steps(
    place: str,
    steps: Sequence[Sequence[Any]],
    text: Sequence[str],
    fields: Sequence[str],
    play: Callable[[str], Sequence[Any]],
    tidy: Callable[[str, str], str] = lambda _asked, observation: observation,
) -> ReplayedRun:
    """Play the steps of a run: an action, the observation and what else was recorded, by the names in ``fields``. A
    number counts to six digits. ``tidy``: of an action and what it was answered, what has to be equal."""
    found: list[Difference] = []
    for step, (action, observation, *rest) in enumerate(steps, 1):
        asked = text[action]
        both = [
            {
                name: tidy(asked, value) if name == "observation" else _round_number(value)
                for name, value in zip(fields, values, strict=True)
            }
            for values in ((text[observation], *rest), play(asked))
        ]
        found += compare_fields(f"{place}, step {step} {asked!r}", *both)
    return ReplayedRun(place, len(steps), tuple(found))


def _round_number(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def hash_actions(actions: Sequence[str]) -> str:
    """How a list of actions is recorded: 8 hexadecimal digits."""
    return hashlib.sha1(", ".join(actions).encode(), usedforsecurity=False).hexdigest()[:8]
