"""What tells an experiment tracker of a run: MLflow (`mlflow_tracking.py`), W&B (`wandb_tracking.py`)."""

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rsso_dspy.config import make_price_lookup
from rsso_dspy.experiment.events import Ending, EventStream, RunEnded, RunStarted, UnitFinished
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.report.running_totals import RunningTotals
from rsso_dspy.store.compile_trials import load_compile_trials
from rsso_dspy.store.unit_store import Store

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run

ReportBuilder = Callable[..., Mapping[str, str]]
"""The report as files, name to content; `report.report_files.build_report_files` is one."""


class Tracker(ABC):
    """Sends metrics per arm during a run, and the report at its end, in a thread of its own. Nothing that fails in it
    reaches the run.

    `report` returns the files to store at the end; `say` is called if the tracker is lost.
    """

    wait_at_end: float | None = None
    """Maximum seconds that the end of a run waits for the thread; None waits until it has ended."""

    def __init__(self, planned: "Run", report: ReportBuilder, say: Callable[[str], None]):
        self._planned = planned
        self._report = report
        self._say = say
        self._price_of = make_price_lookup(planned.config.prices)
        self._news: SimpleQueue[UnitRecord | TrainingRecord | Ending] = SimpleQueue()
        self._tallies: dict[str, RunningTotals] = defaultdict(RunningTotals)
        self._thread = threading.Thread(target=self._run_sender, name=type(self).__name__, daemon=True)

    def follow(self, events: EventStream) -> None:
        """Subscribe to the events of a run and send them."""
        events.subscribe(RunStarted, self._start)
        events.subscribe(UnitFinished, lambda event: self._news.put(event.record))
        events.subscribe(RunEnded, self._end_with)

    def _start(self, _event: RunStarted) -> None:
        self._thread.start()

    def _end_with(self, event: RunEnded) -> None:
        self._news.put(event.how)
        self._thread.join(self.wait_at_end)

    @abstractmethod
    def _run_sender(self) -> None:
        """Send what is in the folder, then everything in `_news` up to the run's ending. Raises nothing."""

    def _open_store(self) -> Store:
        return Store(self._planned.store.folder, read_only=True)

    def _build_report(self) -> Mapping[str, str]:
        """Return the files of the report of everything in the folder."""
        store = self._open_store()
        records = list(store.units()), list(store.trainings())
        spent = store.read_abandoned(), store.load_begun()
        return self._report(*records, self._price_of, *spent, load_compile_trials(store))
