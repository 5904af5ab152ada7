"""AgentBoard's labels, from the user's own copy of its data: this project holds none.

``environment.data`` names ``test.jsonl`` or a folder with it, as it is or in ``babyai/``. Its lines are the 112 test
worlds in AgentBoard's order, each with the patterns that its progress goes by.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rsso_dspy.environments.babyai.game import rewrite_mission
from rsso_dspy.environments.babyai.levels import LEVELS
from rsso_dspy.environments.babyai.tasks import TEST_SEEDS
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import parse_json, read_text
from rsso_dspy.records import Variant

_PLACES = ("", "test.jsonl", "babyai/test.jsonl")


def digest_labels(folder: str) -> str:
    """16 hexadecimal digits over the labels. Raises ``UsageError`` when there are none, ``DamagedFile`` when they
    cannot be read."""
    path = _find_file(folder)
    text = read_text(path)
    _read_rows(str(path), text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def get_patterns(folder: str, variant: Variant, mission: str) -> list[list[str]] | None:
    """The patterns of a test variant; None where the labels have none for it. Raises as `digest_labels`, and for labels
    that are of another mission."""
    path = _find_file(folder)
    place = LEVELS.index(variant.task) * len(TEST_SEEDS) + variant.index - TEST_SEEDS[0]
    row = _read_rows(str(path), read_text(path))[place]
    said = row.get("goal")
    if said not in (None, mission, rewrite_mission(mission)):
        raise DamagedFile(path, f"line {place + 1}: it is of {said!r}, and {variant.key} of {mission!r}")
    about = row.get("additional_info")
    try:
        return read_patterns({**(about if isinstance(about, dict) else {}), **row})
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedFile(path, f"line {place + 1}: {error}") from None


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


def _find_file(folder: str) -> Path:
    tried = [Path(folder, place) for place in _PLACES]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        raise UsageError(f"no labels: looked for {tried[1]} and {tried[2]}")
    return found


@lru_cache(maxsize=4)
def _read_rows(path: str, text: str) -> tuple[Mapping[str, Any], ...]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = parse_json(line, Path(path))
        except DamagedFile as error:
            raise DamagedFile(path, f"line {number}: {error.why}") from None
        if not isinstance(row, dict):
            raise DamagedFile(path, f"line {number}: it is no object")
        rows.append(row)
    expected = len(LEVELS) * len(TEST_SEEDS)
    if len(rows) != expected:
        raise DamagedFile(path, f"it has {len(rows)} lines, and there are {expected} test worlds")
    return tuple(rows)
