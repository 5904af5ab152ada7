"""What every format of `rsso-dspy export` is made from, and how its files are written.

    INSPECT.write(Path("logs"), run)

A format builds files from an `ExportedRun`; checks of what may be overwritten and the writing are the same for all.
Parquet alone streams its rows and writes itself (`parquet_export.py`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.files import FileKind, atomic_path, check_output_path
from rsso_dspy.pricing import PriceOf
from rsso_dspy.records import TrialResult, UnitRecord, Usage
from rsso_dspy.redact import make_redactor
from rsso_dspy.report.analysis import Analysis, RunRecords
from rsso_dspy.report.metrics import get_best_accumulator, group_by_arm, select_scored_units
from rsso_dspy.report.parquet_export import clean_value


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """A run as it leaves the house."""

    name: str
    benchmark: str
    played: RunRecords
    analysis: Analysis
    price_of: PriceOf
    created: str
    """Day of the first play, ``2026-11-01T00:00:00+00:00``."""
    settings: Mapping[str, Any]
    """The configuration that its results are bound to."""

    @property
    def arms(self) -> dict[str, list[UnitRecord]]:
        """Arm to its units."""
        return group_by_arm(self.played.records)


FileBuilder = Callable[[ExportedRun], Iterator[tuple[str, bytes]]]
"""Yields path and content of each file. The path is relative to the target's folder; empty for the target itself."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One format."""

    name: str
    build: FileBuilder
    kind: FileKind
    """How files of this format are told from others, which are not overwritten."""
    ending: str = ""
    """Ending of its only file; empty if it fills a folder."""

    def check_target(self, target: Path) -> None:
        """Raise `UsageError`, before any work, if `target` cannot be written."""
        if self.ending and target.is_dir():
            raise UsageError(f"{target} is a folder; name a file, e.g. -o {target / ('run' + self.ending)}")
        check_output_path(target, "-o", self.kind if self.ending else None)

    def write(self, target: Path, run: ExportedRun) -> int:
        """Write all files and return their number. Raises `UsageError` before writing if one of them is foreign, or if
        there is nothing to write."""
        if not run.played.records:
            raise UsageError("there is nothing to write: no unit is finished yet")
        self.check_target(target)
        files = {target / name if name else target: content for name, content in self.build(run)}
        for path in files:
            check_output_path(path, "-o", self.kind)
        for path, content in files.items():
            with atomic_path(path) as temporary:
                temporary.write_bytes(content)
        return len(files)


def dump_json(data: Any, indent: int | None = None) -> str:
    """Return data as JSON text without secrets, unpaired surrogates and infinite numbers."""
    return json.dumps(clean_value(data, make_redactor()), indent=indent, ensure_ascii=False, allow_nan=False)


POINTS, SOLVED = "best_accumulator", "solved"
"""Names of the two scores of a unit."""


def score_unit(record: UnitRecord) -> dict[str, float]:
    """Return the scores of a unit without errors: points of 100, and 1 or 0 for solved."""
    return {POINTS: get_best_accumulator(record), SOLVED: float(any(trial.solved for trial in record.trajectories))}


def list_scores(records: Sequence[UnitRecord], score: str) -> list[tuple[str, float]]:
    """Return task type and score of every unit without errors."""
    return [(record.variant.task, score_unit(record)[score]) for record in select_scored_units(records)]


def sum_unit_usage(record: UnitRecord) -> dict[str, Usage]:
    """Return model to usage of a unit."""
    found: dict[str, Usage] = {}
    for trial in record.trials:
        for role, usage in trial.usage.items():
            model = record.models.get(role, record.model)
            found[model] = found.get(model, Usage()) + usage
    return found


def list_turns(trial: TrialResult) -> Iterator[tuple[str, str, str]]:
    """Yield role, text and reasoning of a trial: what the agent saw (user), and the action that it took (assistant).

    These are observations and actions, not the prompts.
    """
    played = trial.trajectory
    if played is None:
        return
    yield "user", f"{played.task}\n\n{played.start.description}", ""
    for step in played.steps:
        yield "assistant", step.proposed or step.unread, step.reasoning
        yield "user", step.state.observation, ""
