"""Answers from recordings, exactly or not at all.

    replay = Replay("units/sso/boil/22-s0", {1: exchanges})
    replay.find(1, 0, 5, "actor", request)         # the exchange; raises `NotRecorded`

A request is found by its trial, its role, every letter of it and its number among equal ones: what was asked twice is
there twice. A miss names the nearest that was recorded, with what differs.
"""

import difflib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from dspy.utils import exceptions
from dspy.utils.exceptions import LMError

from rsso_dspy.errors import NotRecorded
from rsso_dspy.recordings import EMBEDDER, Exchange, key_of, text_of

LINES, LETTERS = 6, 160
"""Lines of a difference that a message shows, and letters of each."""
CONTEXT = 40
"""Letters that are shown before the place where two lines differ."""
COMPARED = 200
"""Recorded requests that are compared to find the nearest."""


class Replay:
    """The recorded exchanges of one unit, training or rollout. Thread-safe."""

    def __init__(self, name: str, trials: Mapping[int, Sequence[Exchange]]):
        self.name = name
        self.trials = trials
        self._given: Counter[tuple[int, int, str]] = Counter()
        self._known: dict[int, dict[str, list[Exchange]]] = {}
        self._lock = threading.Lock()

    @cached_property
    def _vectors(self) -> dict[str, str]:
        """Key of a request for a vector to that vector, of all trials: a text is asked about once."""
        exchanges = (each for trial in self.trials.values() for each in trial if each.role == EMBEDDER)
        return {each.key: each.text for each in exchanges}

    @property
    def has_vectors(self) -> bool:
        """Whether the vectors of an embedder were recorded too; recordings of older versions have none."""
        return bool(self._vectors)

    def find_vector(self, request: Mapping[str, Any]) -> bytes:
        """The recorded vector of a text."""
        found = self._vectors.get(key_of(EMBEDDER, request), "")
        with suppress(ValueError):
            if found:
                return bytes.fromhex(found)
        raise NotRecorded(
            f"not recorded: the vector of a text in {self.name}, from {request['model']}: "
            f"{text_of(request['messages'][0]['content'])[:LETTERS]!r}\nPlay what was recorded, or leave --replay out."
        )

    def find(self, trial: int, attempt: int, step: int, role: str, request: Mapping[str, Any]) -> Exchange:
        """The exchange of a request; an equal one gets the next. An attempt at a trial begins anew."""
        key = key_of(role, request)
        with self._lock:
            if trial not in self._known:
                self._known[trial] = {}
                for exchange in self.trials.get(trial, ()):
                    self._known[trial].setdefault(exchange.key, []).append(exchange)
            there = self._known[trial].get(key, [])
            number = self._given[trial, attempt, key]
            self._given[trial, attempt, key] += 1
        if number < len(there):
            return there[number]
        where = f"{role or 'a model'} of {self.name}" + (f", trial {trial}, step {step}" if trial else "")
        raise NotRecorded(
            f"not recorded: {where}: {self._why(trial, role, request, len(there))}\n"
            "Nothing was played on; what is finished is kept. Play what was recorded (`rsso-dspy reproduce DIR --run "
            "--replay`), or leave --replay out to ask the model."
        )

    def _why(self, trial: int, role: str, request: Mapping[str, Any], there: int) -> str:
        """What is missing, and what is nearest to it."""
        if there:
            return f"this request was asked {there + 1} times, and {there} answers to it are recorded"
        if trial not in self.trials:
            known = ", ".join(map(str, self.trials)) or "none"
            return f"the trial is not among the recorded ones ({known})"
        nearest = self._nearest(trial, role, request)
        if nearest is None:
            return "nothing was recorded in this role"
        return f"no request like this one; the nearest was asked at step {nearest.step}:\n" + "\n".join(
            difference(nearest.request, request)
        )

    def _nearest(self, trial: int, role: str, request: Mapping[str, Any]) -> Exchange | None:
        asked = _lines(request)
        best: tuple[float, Exchange] | None = None
        for exchange in [each for each in self.trials[trial] if each.role == role][:COMPARED]:
            likeness = difflib.SequenceMatcher(None, _lines(exchange.request), asked, autojunk=False).ratio()
            if best is None or likeness > best[0]:
                best = (likeness, exchange)
        return best and best[1]


def difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> list[str]:
    """What differs between two requests, in a few short lines: - recorded, + asked now."""
    pairs = difflib.unified_diff(_lines(recorded), _lines(asked), lineterm="", n=0)
    changed = [line for line in pairs if not line.startswith(("---", "+++", "@@"))]
    removed = [line[1:] for line in changed if line.startswith("-")]
    added = [line[1:] for line in changed if line.startswith("+")]
    shown = []
    for place in range(max(len(removed), len(added))):
        pair = [lines[place] if place < len(lines) else None for lines in (removed, added)]
        from_ = _first_difference(*pair) if None not in pair else 0
        shown += [f"  {mark} {_cut(line, from_)}" for mark, line in zip("-+", pair, strict=True) if line is not None]
    return shown[:LINES] + ([f"  and {len(shown) - LINES} lines more"] if len(shown) > LINES else [])


def _lines(request: Mapping[str, Any]) -> list[str]:
    """A request as lines."""
    found = [f"model: {request['model']}"]
    found += [f"{name}: {value}" for name, value in sorted(request["parameters"].items()) if name != "seed"]
    for message in request["messages"]:
        found.append(f"[{message.get('role')}]")
        content = message.get("content")
        found += content.split("\n") if isinstance(content, str) else [str(content)]
    return found


def _first_difference(one: str | None, other: str | None) -> int:
    pairs = enumerate(zip(one or "", other or "", strict=False))
    return next((place for place, (a, b) in pairs if a != b), 0)


def _cut(line: str, place: int) -> str:
    start = max(0, place - CONTEXT) if place > LETTERS - CONTEXT else 0
    text = line[start : start + LETTERS]
    return f"{'...' if start else ''}{text}{'...' if start + LETTERS < len(line) else ''}"


def restore_error(said: Mapping[str, Any]) -> LMError:
    """The error that a model's client raised then."""
    kind = getattr(exceptions, str(said.get("kind")), LMError)
    kind = kind if isinstance(kind, type) and issubclass(kind, LMError) else LMError
    about = {name: value for name, value in said.items() if name not in ("kind", "message") and value is not None}
    error: LMError = kind(message=str(said.get("message")), **about)
    return error
