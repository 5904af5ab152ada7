"""The log of a compile, beside the compiled program: every rollout and every question to the proposer, as it comes. A
compile that is killed at any moment and run again plays no rollout twice, and asks no model again what it had answered.

    FILE.rollouts/run.json                      what the rollouts depend on; another compile is refused
    FILE.rollouts/PROGRAM/TASK-VARIANT.jsonl    a rollout, under the fingerprint of its program, see `unit_log.py`; its
                                                last line says what it came to. Those with further seeds are called
                                                TASK-VARIANT-seed-N.jsonl
    FILE.rollouts/proposals.jsonl               the proposer's calls, whose trial is the number of the question
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.calls import RecordedCalls, find_log_folder
from rsso_dspy.errors import DamagedFile, NotRecorded
from rsso_dspy.files import read_bytes
from rsso_dspy.forecast import TEACHING
from rsso_dspy.optimize.acceptance import Rollout
from rsso_dspy.playing import playing
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.records import Usage, Variant
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import UnitLog

PROPOSALS = "proposals"


_FORM = TypeAdapter(Rollout)


class RolloutLogs:
    """The logs of one compile. Thread-safe: each file has one writer. Without `folder` nothing is kept; `source` is the
    folder of another compile's logs, which answer instead of models."""

    def __init__(self, folder: Path | None = None, source: Path | None = None):
        self.store = Store(folder, option="-o") if folder else None
        self.source = find_log_folder(source) if source else None
        self._stop = threading.Event()
        self._proposals: UnitLog | None = None

    @classmethod
    def for_output(cls, out: Path, source: Path | None = None) -> "RolloutLogs":
        """The logs of the compile that writes to `out`."""
        return cls(out.with_name(f"{out.name}.rollouts"), source)

    def check_request(self, request: Mapping[str, Any]) -> int:
        """Return how many rollouts are kept. Raises `RunMismatch` when they were played for another request, and
        `UsageError` for a folder of something else."""
        assert self.store is not None
        self.store.check_identity(_make_identity(request))
        return sum(log.rollout is not None for log in self._load_logs())

    @contextmanager
    def open_for_request(self, request: Mapping[str, Any]) -> Iterator[None]:
        """Keep the rollouts of this request inside the block. Raises what `check_request` and `Store.lock` raise."""
        if self.store is None:
            yield
            return
        self.check_request(request)
        with self.store.lock():
            self.store.open(_make_identity(request))
            yield

    def find_rollout(self, program: str, variant: Variant, repeat: int = 0) -> Rollout | None:
        """The rollout of a program on a variant; None when it was not played to its end, or its log is damaged."""
        if self.store is None:
            return None
        log = self.store.load_log(self.store.folder / f"{_name_rollout(program, variant, repeat)}.jsonl")
        rollout = _read_rollout(log) if log is not None else None
        return rollout if rollout and (rollout.variant, rollout.repeat) == (variant, repeat) else None

    @contextmanager
    def log_rollout(self, program: str, variant: Variant, repeat: int, teaches: bool) -> Iterator[UnitLog]:
        """Log the calls of models inside the block as those of this rollout, or answer them from its log."""
        with self._log_calls(_name_rollout(program, variant, repeat)) as log:
            if teaches:
                log.write_entry({"unit": {"teacher": True}}, unless=log.head)
            yield log

    def save_rollout(self, program: str, rollout: Rollout) -> None:
        """Write what a rollout came to."""
        if self.store is not None:
            name = _name_rollout(program, rollout.variant, rollout.repeat)
            log = self.store.open_file(self.store.folder / f"{name}.jsonl")
            log.write_entry({"rollout": _FORM.dump_python(rollout, mode="json")})

    @contextmanager
    def log_proposals(self) -> Iterator[None]:
        """Log the proposer's calls inside the block, or answer them from their log."""
        with self._log_calls(PROPOSALS, self._proposals) as self._proposals:
            yield

    def void_proposal(self, number: int, why: str) -> None:
        """Write that this question to the proposer has failed and is to be asked again."""
        if self._proposals is not None:
            self._proposals.void(number, why)

    @contextmanager
    def _log_calls(self, name: str, log: UnitLog | None = None) -> Iterator[UnitLog]:
        if log is None:
            log = self.store.open_file(self.store.folder / f"{name}.jsonl") if self.store else UnitLog(whole=True)
            log.answer_from_own(0)
            log.source = self._open_source(name)
        with log.stop_on_error(self._stop), playing(calls=log):
            yield log

    def _open_source(self, name: str) -> RecordedCalls | None:
        if self.source is None:
            return None
        path = self.source / f"{name}.jsonl"
        try:
            return UnitLog(read_bytes(path), path=path, whole=True).make_answers(name)
        except FileNotFoundError:
            known = sum(1 for _ in self.source.rglob("*.jsonl"))
            raise NotRecorded(
                f"{name} is not among the {known} logs in {self.source}: compile what was compiled, or drop --replay "
                "to ask the model"
            ) from None

    def sum_usage(self) -> dict[str, Usage]:
        """Usage of everything that was ever answered here, by role."""
        total: dict[str, Usage] = {}
        for log in self._load_logs():
            ahead = TEACHING if log.head.get("teacher") else ""
            for role, usage in log.sum_usage().items():
                total[f"{ahead}{role}"] = total.get(f"{ahead}{role}", Usage()) + usage
        return total

    def _load_logs(self) -> Iterator[UnitLog]:
        if self.store is not None:
            for path in sorted(self.store.folder.rglob("*.jsonl")):
                if (log := self.store.load_log(path)) is not None:
                    yield log


def _make_identity(request: Mapping[str, Any]) -> dict[str, Any]:
    asked = {name: value for name, value in request.items() if name != "identity"}
    return {"request": asked, **request["identity"]}


def _name_rollout(program: str, variant: Variant, repeat: int = 0) -> str:
    return f"{program}/{variant.task}-{variant.index}" + (f"-seed-{repeat}" if repeat else "")


def _read_rollout(log: UnitLog) -> Rollout | None:
    """The rollout of a log; None when it did not come to its end, or does not earn its score."""
    try:
        logged = _FORM.validate_python(log.rollout) if log.rollout else None
    except (ValidationError, DamagedFile):
        return None
    return logged if logged and logged.trials and abs(score_trials(logged.trials) - logged.score) < 1e-9 else None
