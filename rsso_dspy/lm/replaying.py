"""Answers from recordings, by exact match only.

    replay = Replay("units/sso/boil/22-s0", {1: exchanges})
    replay.find(1, 0, 5, "actor", request)         # the exchange; raises `NotRecorded`

A request is found by its trial, its role, its exact text and its number among equal requests: a request that was sent
twice is recorded twice. The error for a missing request shows the nearest recorded one and the difference.
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
"""Maximum lines of a difference in a message, and maximum characters of a line."""
CONTEXT = 40
"""Characters shown before the first difference of two lines."""
COMPARED = 200
"""Maximum number of recorded requests compared to find the nearest."""


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
        """Key of a vector request to the vector, over all trials, because each text is embedded once."""
        exchanges = (each for trial in self.trials.values() for each in trial if each.role == EMBEDDER)
        return {each.key: each.text for each in exchanges}

    @property
    def has_vectors(self) -> bool:
        """Whether vectors of an embedder were recorded."""
        return bool(self._vectors)

    def find_vector(self, request: Mapping[str, Any]) -> bytes:
        """Return the recorded vector of a text; raises `NotRecorded`."""
        found = self._vectors.get(key_of(EMBEDDER, request), "")
        with suppress(ValueError):
            if found:
                return bytes.fromhex(found)
        raise NotRecorded(
            f"not recorded: the vector of a text in {self.name}, from {request['model']}: "
            f"{text_of(request['messages'][0]['content'])[:LETTERS]!r}\nRepeat the recorded command, or leave --replay "
            "out."
        )

    def find(self, trial: int, attempt: int, step: int, role: str, request: Mapping[str, Any]) -> Exchange:
        """Return the exchange of a request; an equal request gets the next one. Each attempt at a trial starts again.
        Raises `NotRecorded`."""
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
            "The run stopped here; finished work is kept. Replay what was recorded (`rsso-dspy reproduce DIR --run "
            "--replay`), or leave --replay out to call the model."
        )

    def _why(self, trial: int, role: str, request: Mapping[str, Any], there: int) -> str:
        if there:
            return f"this request was sent {there + 1} times, and {there} answers to it are recorded"
        if trial not in self.trials:
            known = ", ".join(map(str, self.trials)) or "none"
            return f"this trial is not recorded (recorded trials: {known})"
        nearest = self._nearest(trial, role, request)
        if nearest is None:
            return "no request of this role was recorded"
        return f"this request was not recorded; the nearest one was sent at step {nearest.step}:\n" + "\n".join(
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
    """Describe the difference of two requests in a few short lines: - recorded, + sent now."""
    pairs = difflib.unified_diff(_lines(recorded), _lines(asked), lineterm="", n=0)
    changed = [line for line in pairs if not line.startswith(("---", "+++", "@@"))]
    removed = [line[1:] for line in changed if line.startswith("-")]
    added = [line[1:] for line in changed if line.startswith("+")]
    shown = []
    for place in range(max(len(removed), len(added))):
        pair = [lines[place] if place < len(lines) else None for lines in (removed, added)]
        letters = enumerate(zip(pair[0] or "", pair[1] or "", strict=False))
        from_ = next((place for place, (a, b) in letters if a != b), 0)
        shown += [f"  {mark} {_cut(line, from_)}" for mark, line in zip("-+", pair, strict=True) if line is not None]
    return shown[:LINES] + ([f"  and {len(shown) - LINES} more lines"] if len(shown) > LINES else [])


def _lines(request: Mapping[str, Any]) -> list[str]:
    found = [f"model: {request['model']}"]
    found += [f"{name}: {value}" for name, value in sorted(request["parameters"].items()) if name != "seed"]
    for message in request["messages"]:
        found.append(f"[{message.get('role')}]")
        content = message.get("content")
        found += content.split("\n") if isinstance(content, str) else [str(content)]
    return found


def _cut(line: str, place: int) -> str:
    start = max(0, place - CONTEXT) if place > LETTERS - CONTEXT else 0
    text = line[start : start + LETTERS]
    return f"{'...' if start else ''}{text}{'...' if start + LETTERS < len(line) else ''}"


def restore_error(said: Mapping[str, Any]) -> LMError:
    """Restore the recorded error of a model's client."""
    kind = getattr(exceptions, str(said.get("kind")), LMError)
    kind = kind if isinstance(kind, type) and issubclass(kind, LMError) else LMError
    about = {name: value for name, value in said.items() if name not in ("kind", "message") and value is not None}
    error: LMError = kind(message=str(said.get("message")), **about)
    return error
