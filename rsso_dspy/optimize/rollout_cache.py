"""Keeps rollouts that were paid for on disk, beside the compiled program, until the compile has finished. A compile
that is killed at any moment and run again plays none of them twice.

    FILE.rollouts/request.json                  what the rollouts depend on; another compile is refused
    FILE.rollouts/PROGRAM/TASK-VARIANT.json     one rollout, under the fingerprint of its program; those with further
                                                seeds are called TASK-VARIANT-seed-N.json
    FILE.rollouts/spent.jsonl                   what every answer cost, as it came: no kill loses it
"""

import json
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy
from pydantic import TypeAdapter, ValidationError

from rsso_dspy.environments.goals import Goal
from rsso_dspy.errors import DamagedFile, RunMismatch, UsageError
from rsso_dspy.files import read_json, read_lines
from rsso_dspy.optimize.candidates import Rollout
from rsso_dspy.optimize.metric import score_trials
from rsso_dspy.records import TrialResult, Usage, Variant, sum_usage
from rsso_dspy.store.guarded_folder import GuardedFolder
from rsso_dspy.store.journals import format_usage_line, parse_usage_lines
from rsso_dspy.store.record_checks import find_trials_fault
from rsso_dspy.store.run_file import describe_difference

SCHEMA = 1


@dataclass(frozen=True)
class _StoredRollout:
    """A rollout as JSON data. ``calls`` are predictor, inputs, outputs."""

    schema: int
    variant: Variant
    score: float
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]]
    requests: int
    repeat: int = 0


_FORM = TypeAdapter(_StoredRollout)


def _is_plausible_rollout(stored: _StoredRollout) -> bool:
    """Whether the trials are possible and earn that score."""
    return (
        bool(stored.trials)
        and not find_trials_fault(stored.trials, stored.variant)
        and abs(score_trials(stored.trials) - stored.score) < 1e-9
        and stored.requests >= 0
    )


class RolloutCache:
    """The rollouts of one compile. Thread-safe: each file is written whole, under a name of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.place = GuardedFolder(folder, "-o")
        self._appending = threading.Lock()

    @classmethod
    def for_output(cls, out: Path) -> "RolloutCache":
        """The cache of the compile that writes to `out`."""
        return cls(out.with_name(f"{out.name}.rollouts"))

    @property
    def begun(self) -> bool:
        """Whether a compile was begun and can be continued."""
        return self._request_file.exists()

    def check_request(self, request: dict[str, Any]) -> int:
        """Return how many rollouts are cached. Raises `RunMismatch` when they were played for another request, and
        `UsageError` for a folder of something else."""
        if not self._request_file.exists():
            if self.folder.exists() and any(not entry.name.startswith(".") for entry in self.folder.iterdir()):
                raise UsageError(
                    f"{self.folder} holds no rollouts, which are kept there while a program is compiled, and is "
                    "removed when it is; name another -o, or move it away"
                )
            return 0
        try:
            known = read_json(self._request_file)
            if not isinstance(known, dict):
                raise DamagedFile(self._request_file, "it is no object")
        except DamagedFile as error:
            raise UsageError(f"{self._request_file} is damaged ({error.why}); move {self.folder} away") from None
        wanted = json.loads(json.dumps(request))
        if known != wanted:
            raise RunMismatch(
                f"{self.folder} holds rollouts of another compile that was cut "
                f"short:\n{describe_difference(known, wanted)}\n"
                "Use another -o, or the same settings, or remove that folder."
            )
        return len(list(self.folder.glob("*/*.json")))

    def open_for_request(self, request: dict[str, Any]) -> None:
        """Start keeping rollouts of this request. Raises what `check_request` raises. The folder must not move
        afterwards."""
        self.check_request(request)
        self.place.hold()
        self.place.write(self._request_file, json.dumps(request, indent=1) + "\n")
        self.place.watch_file(self._request_file.name)

    def find_rollout(self, program: str, variant: Variant, repeat: int = 0) -> Rollout | None:
        """The rollout of a program on a variant; None when it was never played or its file is damaged or impossible."""
        stored = _read_rollout(self._rollout_file(program, variant, repeat))
        if stored is None or (stored.variant, stored.repeat) != (variant, repeat):
            return None
        calls = tuple((name, given, dspy.Prediction(**said)) for name, given, said in stored.calls)
        return Rollout(variant, stored.score, stored.trials, stored.progress, calls, stored.requests, repeat)

    def save_rollout(self, program: str, rollout: Rollout) -> None:
        """Write a rollout down."""
        calls = [(name, dict(given), said.toDict()) for name, given, said in rollout.calls]
        stored = _StoredRollout(
            SCHEMA,
            rollout.variant,
            rollout.score,
            rollout.trials,
            rollout.progress,
            calls,
            rollout.requests,
            rollout.repeat,
        )
        file = self._rollout_file(program, rollout.variant, rollout.repeat)
        self.place.write(file, _FORM.dump_json(stored).decode() + "\n")

    def append_usage(self, role: str, usage: Usage) -> None:
        """Append what an answer cost."""
        with self._appending:
            self.place.append(self._usage_file, format_usage_line(role, usage))

    def sum_abandoned_usage(self) -> dict[str, Usage]:
        """Usage that is in no cached rollout, by role."""
        noted: dict[str, Usage] = {}
        for role, usage, _ in parse_usage_lines(read_lines(self._usage_file)):
            noted[role] = noted.get(role, Usage()) + usage
        stored = [found for file in self.folder.glob("*/*.json") if (found := _read_rollout(file))]
        kept = sum_usage(trial for each in stored for trial in each.trials)
        left = {role: usage.subtract(kept.get(role, Usage())) for role, usage in noted.items()}
        return {role: usage for role, usage in sorted(left.items()) if usage != Usage()}

    def remove_folder(self) -> None:
        """Remove the folder after the compile has finished and written its file."""
        self.place.check_exists()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _usage_file(self) -> Path:
        return self.folder / "spent.jsonl"

    @property
    def _request_file(self) -> Path:
        return self.folder / "request.json"

    def _rollout_file(self, program: str, variant: Variant, repeat: int) -> Path:
        return self.folder / program / f"{name_rollout(variant, repeat)}.json"


def name_rollout(variant: Variant, repeat: int = 0) -> str:
    """File name of a rollout: its variant and, for a further seed, the seed's number."""
    return f"{variant.task}-{variant.index}" + (f"-seed-{repeat}" if repeat else "")


def _read_rollout(file: Path) -> _StoredRollout | None:
    """The rollout in a file; None when there is none, or it is damaged or impossible."""
    try:
        stored = _FORM.validate_python(read_json(file))
    except (FileNotFoundError, ValidationError, DamagedFile):
        return None
    return stored if stored.schema == SCHEMA and _is_plausible_rollout(stored) else None
