"""Rollouts that were paid for, on disk beside the compiled program until the compile has come to its end: killed at any
moment and run again, it plays none of them twice.

    FILE.rollouts/request.json                  what the rollouts depend on; another compile is refused
    FILE.rollouts/PROGRAM/TASK-VARIANT.json     one rollout, under the fingerprint of its program
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from pydantic import TypeAdapter, ValidationError

from rsso_dspy.environments.scienceworld.progress import Goal
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.optimize.candidates import Rollout
from rsso_dspy.protocol.store import difference
from rsso_dspy.trajectory import TrialResult, Variant
from rsso_dspy.whole import write_whole

SCHEMA = 1


@dataclass(frozen=True)
class _Stored:
    """A rollout as JSON data. ``calls`` are predictor, inputs, outputs."""

    schema: int
    variant: Variant
    score: float
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]]
    requests: int


_FORM = TypeAdapter(_Stored)


class Shelf:
    """The rollouts of one compile. Thread-safe: each file is written whole, under a name of its own."""

    def __init__(self, folder: Path):
        self.folder = folder

    @classmethod
    def beside(cls, out: Path) -> "Shelf":
        """The shelf of the compile that writes to `out`."""
        return cls(out.with_name(f"{out.name}.rollouts"))

    def check(self, request: dict[str, Any]) -> int:
        """How many rollouts are there. Raises `RunMismatch` when they were played for another request."""
        if not self._request.exists():
            return 0
        try:
            known = json.loads(self._request.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{self._request} is damaged ({error}); move {self.folder} away") from None
        wanted = json.loads(json.dumps(request))
        if known != wanted:
            raise RunMismatch(
                f"{self.folder} holds rollouts of another compile that was cut short:\n{difference(known, wanted)}\n"
                "Use another -o, or the same settings, or remove that folder."
            )
        return len(list(self.folder.glob("*/*.json")))

    def open(self, request: dict[str, Any]) -> None:
        """Keep rollouts of this request from now on; raises what `check` raises."""
        self.check(request)
        write_whole(self._request, json.dumps(request, indent=1) + "\n")

    def find(self, program: str, variant: Variant) -> Rollout | None:
        """The rollout of a program on a variant; None when it was never played, or its file is damaged."""
        try:
            stored = _FORM.validate_json(self._file(program, variant).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError, UnicodeDecodeError):
            return None
        if stored.schema != SCHEMA or stored.variant != variant:
            return None
        calls = tuple((name, given, dspy.Prediction(**said)) for name, given, said in stored.calls)
        return Rollout(variant, stored.score, stored.trials, stored.progress, calls, stored.requests)

    def keep(self, program: str, rollout: Rollout) -> None:
        """Write a rollout down."""
        calls = [(name, dict(given), said.toDict()) for name, given, said in rollout.calls]
        stored = _Stored(
            SCHEMA, rollout.variant, rollout.score, rollout.trials, rollout.progress, calls, rollout.requests
        )
        write_whole(self._file(program, rollout.variant), _FORM.dump_json(stored).decode() + "\n")

    def remove(self) -> None:
        """The compile has come to its end: its file tells all that is needed."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _request(self) -> Path:
        return self.folder / "request.json"

    def _file(self, program: str, variant: Variant) -> Path:
        return self.folder / program / f"{variant.task}-{variant.index}.json"
