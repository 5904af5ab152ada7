"""Progress of units or rollouts on stderr: a bar on a terminal, plain lines elsewhere."""

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from tqdm import tqdm

from rsso_dspy.executor import EventStream, StopRequested, TrialFinished, UnitFinished
from rsso_dspy.optimize.rollouts import RolloutFinished
from rsso_dspy.records import SOLVED_SCORE, UnitRecord
from rsso_dspy.report.terminal import replace_controls
from rsso_dspy.store.run_folder import Job


class ProgressBar:
    def __init__(self, title: str, total: int):
        self.total, self.done, self._lock = total, 0, threading.Lock()
        hidden = not sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=title, file=sys.stderr, disable=hidden, dynamic_ncols=True)
        self.close = self._bar.close

    def follow(self, events: EventStream) -> None:
        events.subscribe(StopRequested, self.on_interrupt)

    def on_interrupt(self, _event: StopRequested) -> None:
        self.print_line("stopping after the current model calls; press Ctrl-C again to stop now")

    def print_line(self, text: str) -> None:
        self._bar.write(replace_controls(text), file=sys.stderr)

    def update_bar(self, text: str, finished: str = "") -> None:
        self._bar.n = self.done
        self._bar.set_postfix_str(replace_controls(text))
        if finished and self._bar.disable:
            self.print_line(f"[{self.done}/{self.total}] {finished}")


class RunProgress(ProgressBar):
    def __init__(self, work: Sequence[Job]):
        super().__init__("units", len(work))
        self.counts, self.tokens = Counter(errors=0, stalled=0), 0
        self.best: dict[str, list[int]] = defaultdict(list)

    def follow(self, events: EventStream) -> None:
        super().follow(events)
        events.subscribe(TrialFinished, self.on_trial_finished)
        events.subscribe(UnitFinished, self.on_job_finished)

    def on_trial_finished(self, event: TrialFinished) -> None:
        with self._lock:
            self.tokens += sum(usage.input + usage.output for usage in event.result.usage.values())
            self.update_bar(self._describe())

    def on_job_finished(self, event: UnitFinished) -> None:
        record = event.record
        with self._lock:
            self.done += 1
            scores = [trajectory.accumulator for trajectory in record.trajectories]
            self.counts.update(errors=record.has_errors, stalled=record.stalled_trials)
            if isinstance(record, UnitRecord) and not record.has_errors:
                self.best[record.arm].append(max(scores))
            text = f"error: {record.trials[-1].error}" if record.has_errors else " ".join(map(str, scores))
            if record.trajectories and record.trajectories[-1].solved and scores[-1] < SOLVED_SCORE:
                text += " solved"  # with the points that the variant held at reset
            text += "".join(f", trial {trial.trial} stalled" for trial in record.trials if trial.stalled)
            self.update_bar(self._describe(), f"{record.arm} {event.work.name}: {text}")

    def _describe(self) -> str:
        means = "  ".join(f"{arm} {sum(scores) / len(scores):.0f}" for arm, scores in sorted(self.best.items()))
        counts = "".join(f"  {count} {what}" for what, count in self.counts.items() if count)
        return f"{means}  {self.tokens / 1e6:.1f}M tokens{counts}"


class CompileProgress(ProgressBar):
    def __init__(self, rollouts: int):
        super().__init__("rollouts", rollouts)

    def follow(self, events: EventStream) -> None:
        super().follow(events)
        events.subscribe(RolloutFinished, self.on_rollout)

    def on_rollout(self, event: RolloutFinished) -> None:
        rollouts, rollout = event.rollouts, event.rollout
        with self._lock:
            self.done += not rollouts.is_free(rollout.variant)
            best = rollouts.best_candidate
            mean = None if best is None else best.mean_over(rollouts.val, seeds=rollouts.seeds)
            score = "" if mean is None else f"best {100 * mean:.1f}  "
            tokens = sum(usage.input + usage.output for usage in rollouts.usage.values())
            calls = f"{score}{rollouts.lm_calls:,} calls"
            player = "teacher" if rollout.variant in rollouts.taught else f"candidate {event.candidate.number}"
            points = f"{player} {rollout.variant.key}: {100 * rollout.score:.1f}"
            self.update_bar(f"{calls}  {tokens / 1e6:.1f}M tokens", f"{points}  {calls}")
