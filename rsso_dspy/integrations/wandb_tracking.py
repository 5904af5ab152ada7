"""Tracking of a run with Weights & Biases: metrics per arm during the run, totals and the report at its end.

    WandbTracker("my-project", run, report, say).follow(events)

The history holds what this command played, and the summary all records of the folder. A thread of its own talks to W&B;
the run waits for it only at its end, and for `LAST_WAIT` at most. Offline, W&B writes a folder ``wandb`` beside the
records, for `wandb sync`. It is offline unless `WANDB_API_KEY` or `WANDB_MODE` is set, so that nothing asks for a key.
"""

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import NotInstalled, UsageError
from rsso_dspy.experiment.events import RunStarted
from rsso_dspy.integrations.mlflow_payload import build_metrics, build_parameters, build_tags, name_of
from rsso_dspy.integrations.tracker import ReportBuilder, Tracker
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.redaction import redact
from rsso_dspy.report.running_totals import RunningTotals, compute_finished_totals

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run

LAST_WAIT = 60.0
"""Seconds that the end of a run waits for W&B."""
MOST_TEXT = 100_000
"""Characters of a report that go into the summary."""


def check_project(project: str) -> None:
    """Raise `UsageError` for a name that W&B does not take, `NotInstalled` without its package. Sends nothing."""
    if not project.strip() or len(project) > 128 or set(project) & set("/\\#?%:"):
        raise UsageError(rf"--wandb {project!r} is not the name of a project: at most 128 characters without /\#?%:")
    if find_spec("wandb") is None:
        raise NotInstalled("--wandb needs Weights & Biases, which is not installed: pip install 'rsso-dspy[wandb]'")


class WandbTracker(Tracker):
    """Sends a run to W&B."""

    wait_at_end = LAST_WAIT

    def __init__(self, project: str, planned: "Run", report: ReportBuilder, say: Callable[[str], None]):
        super().__init__(planned, report, say)
        self._project = project
        self._left: frozenset[str] = frozenset()

    def _start(self, event: RunStarted) -> None:
        self._left = frozenset(event.left)
        super()._start(event)

    def _run_sender(self) -> None:
        try:
            self._send_run()
        except Exception as error:  # the run goes on whatever W&B does
            self._say(f"W&B is lost ({type(error).__name__}: {redact(str(error))[-120:]}): the run goes on without it")

    def _send_run(self) -> None:
        store = self._open_store()
        there: list[UnitRecord | TrainingRecord] = [*store.units(), *store.trainings()]
        for record in there:
            if f"{record.arm}/{record.key}/s{record.seed}" not in self._left:  # those left may be finished by now
                self._tallies[record.arm].add_finished(compute_finished_totals(record, self._price_of))
        run = self._open_run()
        while not isinstance(news := self._news.get(), str):
            tally = self._tallies[news.arm]
            if tally.add_finished(compute_finished_totals(news, self._price_of)):
                run.log(_name_metrics(news.arm, tally))
        for arm, tally in self._tallies.items():
            run.summary.update(_name_metrics(arm, tally))
        texts = {name: redact(text)[:MOST_TEXT] for name, text in self._build_report().items()}
        run.summary.update({"ended": news, **texts})
        run.finish(exit_code=0 if news == "ended" else 1)

    def _open_run(self) -> Any:
        """Start a run of W&B that knows nothing of code, machine, console or git."""
        import wandb

        known = os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_MODE")
        settings = {"silent": True, "console": "off", "disable_git": True, "disable_code": True, "save_code": False}
        settings |= {"x_disable_stats": True, "x_disable_meta": True, "disable_job_creation": True}
        folder = self._planned.store.folder
        run = wandb.init(
            project=self._project,
            name=folder.resolve().name,
            dir=str(folder),
            mode=None if known else "offline",
            config={**build_parameters(self._planned), **build_tags(self._planned)},
            settings=wandb.Settings(**settings),
        )
        for arm in self._planned.plan.arms:
            run.define_metric(f"{name_of(arm)}/*", step_metric=f"{name_of(arm)}/units")
        return run


def _name_metrics(arm: str, tally: RunningTotals) -> dict[str, float]:
    return {f"{name_of(arm)}/{name}": value for name, value in build_metrics(tally)}
