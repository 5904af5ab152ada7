"""A run as an object: short in a notebook, and from there to tables, a data frame or every record.

result = open_run("runs/first")
result                       # RunResult(runs/first: rsso 85.3, react-sso 79.9 points on average; 16 units)
result.report()              # the tables of `rsso-dspy report`
result.to_pandas()           # one row per trial
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config, load_config, make_price_lookup
from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.report.analysis import Analysis, analyze
from rsso_dspy.report.frame import COLUMNS, RowKind, build_rows
from rsso_dspy.report.headline import write_headline
from rsso_dspy.report.tables import render_analysis
from rsso_dspy.report.terminal import print_renderable
from rsso_dspy.store.manifest import load_stored_prices
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from rsso_dspy.workflows.played_runs import collect_played

REPORT_WIDTH = 100
"""Columns of a report as text."""


@dataclass(frozen=True)
class RunReport:
    """The tables of a run as text. A notebook shows them as they are."""

    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f'<pre style="white-space: pre; overflow-x: auto">{escape(self.text)}</pre>'


class RunResult:
    """The results of a run's folder, as far as it is played."""

    def __init__(self, folder: Path, config: Config, units_beside: int = 0):
        """`units_beside` of its units were asked for by earlier calls alone. Raises `UsageError` if the folder holds no
        run."""
        self.folder = folder
        self.store = Store(folder, read_only=True)
        self.pool = PooledRuns([self.store])
        self._units_beside = units_beside
        self._price_of = make_price_lookup({**load_stored_prices([folder]), **config.prices})

    @cached_property
    def analysis(self) -> Analysis:
        """The numbers behind every table: `.arms`, `.comparisons`, `.tasks`, ..."""
        return analyze(collect_played(self.pool), self._price_of)

    @property
    def scores(self) -> dict[str, float | None]:
        """Arm to its mean over units of the best accumulator, 0 to 100; None without a finished unit."""
        return {arm.arm: arm.mean for arm in self.analysis.arms}

    @property
    def headline(self) -> str:
        """What came out, in plain sentences that hold whatever the numbers are."""
        return f"{write_headline(self.analysis)} {self.analysis.rule_based_note}".rstrip()

    def report(self) -> RunReport:
        """Return what `rsso-dspy report` prints: results, paired differences with their tests, and costs."""
        written = StringIO()
        print_renderable(render_analysis(self.analysis, True, False), written, REPORT_WIDTH)
        return RunReport(written.getvalue().rstrip())

    def to_pandas(self, rows: RowKind = "trials") -> Any:
        """Return a `pandas.DataFrame` with one row per trial, or per step with its texts.

        The columns are those of `rsso-dspy export`. Raises `NotInstalled` without pandas.
        """
        require_extra("pandas", "data frames need pandas", "pandas")
        import pandas

        if rows not in COLUMNS:
            raise UsageError(f"rows={rows!r}: expected one of {', '.join(COLUMNS)}")
        records: Iterator[UnitRecord | TrainingRecord] = chain(self.pool.trainings(), self.pool.units())
        return pandas.DataFrame(list(build_rows(rows, records, self._price_of)), columns=list(COLUMNS[rows]))

    def __repr__(self) -> str:
        means = [f"{arm} {_format_mean(mean)}" for arm, mean in self.scores.items()]
        units = sum(arm.units for arm in self.analysis.arms)
        told = f"{', '.join(means) or 'nothing finished'} points on average; {units} units"
        if self._units_beside:
            told += f", {self._units_beside} of them of earlier calls"
        return f"RunResult({self.folder}: {told}{self._describe_gaps()})"

    def _repr_html_(self) -> str:
        head = "<tr><th>arm</th><th>mean points, best trial</th><th>solved</th><th>units</th></tr>"
        rows = "".join(
            f"<tr><td>{escape(arm.arm)}</td><td>{_format_mean(arm.mean)}</td><td>{arm.solve}</td>"
            f"<td>{arm.units}</td></tr>"
            for arm in self.analysis.arms
        )
        return f"<p>{escape(repr(self))}</p><table>{head}{rows}</table>"

    def _describe_gaps(self) -> str:
        found = self.analysis
        skipped = sum(each.is_skipped for each in found.errored)
        parts = [(len(found.errored) - skipped, "errored"), (found.missing, "not finished")]
        said = ", ".join(f"{count} {what}" for count, what in parts if count)
        told = f", {skipped} skipped, as the environment refuses them" if skipped else ""
        return told + (f", {said}: repeat the call to resume" if said else "")


def open_run(folder: Path | str, config: Config | None = None) -> RunResult:
    """Open the folder of a run, whoever played it. Prices come from `config`.

    Raises `UsageError` if the folder holds no run.
    """
    return RunResult(Path(folder), config or load_config())


def _format_mean(mean: float | None) -> str:
    return "-" if mean is None else f"{mean:.1f}"
