"""What a person sees while units or rollouts are played: a bar on a terminal, plain lines elsewhere, both on stderr."""

import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rsso_dspy.protocol.plan import Training, Work
from rsso_dspy.report.terminal import visible
from rsso_dspy.trajectory import TrainingRecord, TrialResult, UnitRecord

if TYPE_CHECKING:
    from rsso_dspy.optimize.rollouts import Candidate, Rollout, Rollouts

WIDE = 80
"""Columns of a terminal that has room for more than the numbers."""


class Bar:
    """A bar with a line of text, in a `with` block."""

    def __init__(self, title: str, total: int):
        self.console = Console(file=sys.stderr)
        self.total = total
        self._lock = threading.Lock()
        wide = self.console.width >= WIDE
        columns = [
            *([TextColumn("{task.description}"), BarColumn(bar_width=None)] if wide else []),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            *([TimeElapsedColumn()] if wide else []),
            TextColumn("eta"),
            TimeRemainingColumn(),
        ]
        self._bar = Progress(*columns, console=self.console, disable=not self.console.is_terminal, expand=wide)
        self._task = self._bar.add_task(title, total=total, text="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """One line above the bar."""
        self.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def stopping(self) -> None:
        """Threads are being waited for."""
        self.say("stopping after the model calls under way; Ctrl-C again to stop now")

    def show(self, done: int, text: str) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, text=text)


class Watch(Bar):
    """Counts units, trainings and tokens as they come in; an `Observer` of the executor."""

    def __init__(self, work: Sequence[Work]):
        super().__init__("units", len(work))
        self.done = 0
        self.errors = 0
        self.tokens = 0
        self.best: dict[str, list[int]] = defaultdict(list)

    def trial(self, work: Work, result: TrialResult) -> None:
        """A trial is finished."""
        with self._lock:
            self.tokens += sum(usage.input + usage.output for usage in result.usage.values())
            self._refresh()
            if isinstance(work, Training) and result.trajectory and not self.console.is_terminal:
                played = f"{work.name} {result.trial}/{len(work.episodes)} on {result.trajectory.variant.key}"
                self.say(f"      {work.arm.name} {played}: {result.trajectory.accumulator}")

    def finished(self, work: Work, record: UnitRecord | TrainingRecord) -> None:
        """A unit or a training is finished."""
        with self._lock:
            self.done += 1
            scores = [trajectory.accumulator for trajectory in record.trajectories]
            if record.errored:
                self.errors += 1
            elif isinstance(record, UnitRecord):
                self.best[record.arm].append(max(scores))
            self._refresh()
            if not self.console.is_terminal:
                said = f"error: {record.trials[-1].error}" if record.errored else " ".join(map(str, scores))
                self.say(f"[{self.done}/{self.total}] {record.arm} {work.name}: {said}")

    def _refresh(self) -> None:
        means = "  ".join(f"{arm} {sum(scores) / len(scores):.0f}" for arm, scores in sorted(self.best.items()))
        errors = f"  {self.errors} errors" if self.errors else ""
        self.show(self.done, f"{means}  {self.tokens / 1e6:.1f}M tokens{errors}")


class CompileWatch(Bar):
    """Counts rollouts; an `Observer` of a compile."""

    def __init__(self, rollouts: int):
        super().__init__("rollouts", rollouts)
        self.done = 0

    def rollout(self, rollouts: "Rollouts", candidate: "Candidate", rollout: "Rollout") -> None:
        """A rollout is finished."""
        with self._lock:
            self.done += 1
            best = rollouts.best
            score = "" if best is None else f"best {best.mean(rollouts.choose):.3f}  "
            tokens = sum(usage.input + usage.output for usage in rollouts.usage.values())
            self.show(self.done, f"{score}{rollouts.lm_calls:,} calls  {tokens / 1e6:.1f}M tokens")
            if not self.console.is_terminal:
                number = list(rollouts.candidates).index(candidate.program)
                self.say(
                    f"[{self.done}/{self.total}] candidate {number} {rollout.variant.key}: {rollout.score:.3f}"
                    f"  {score}{rollouts.lm_calls:,} calls"
                )
