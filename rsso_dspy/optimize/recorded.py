"""The recordings of a compile: a file per rollout, and one of the proposer's exchanges.

    FILE.recordings/rollouts/PROGRAM/TASK-VARIANT.jsonl.gz     further seeds: TASK-VARIANT-seed-N
    FILE.recordings/proposals.jsonl.gz                        one member a question

They stay when the compile has finished, unlike ``FILE.rollouts``. A compile that was cut short asks its proposer anew
and discards the earlier answers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dspy

from rsso_dspy.experiment.tapes import tape_of
from rsso_dspy.lm.recording import Tape
from rsso_dspy.lm.replaying import Replay
from rsso_dspy.optimize.rollout_cache import name_rollout
from rsso_dspy.recordings import Recordings
from rsso_dspy.records import TrialResult, Variant
from rsso_dspy.store.guarded_folder import GuardedFolder
from rsso_dspy.store.taping import Taping

PROPOSALS = "proposals"


class RecordedCompile:
    """Where a compile records its exchanges (`folder`) and where its answers are replayed from (`source`); either may
    be None. Thread-safe."""

    def __init__(
        self, folder: Path | None = None, place: GuardedFolder | None = None, source: Recordings | None = None
    ):
        self.files: Taping | None = None
        self.source = source
        self._proposals: Replay | None = None
        if folder is not None:
            self.files = Taping(folder.parent)
            self.files.recordings = folder
            self.files.place = place or self.files.place
            self.files.cut_recording(PROPOSALS, 0)

    @contextmanager
    def record_rollout(
        self, program: str, variant: Variant, repeat: int = 0
    ) -> Iterator[Callable[[TrialResult, Any], None]]:
        """Record or replay the model calls inside the block as those of this rollout. Yields a function to call after
        every finished trial."""
        name = f"rollouts/{program}/{name_rollout(variant, repeat)}"
        if self.files:
            self.files.cut_recording(name, 0)
        tape = tape_of(name, self.source, self.files is not None)

        def finished(result: TrialResult, _memories: Any) -> None:
            if self.files and tape:
                self.files.add_recording(name, result.trial, tape.take(result.trial))

        with dspy.context(tape=tape):
            yield finished

    @contextmanager
    def record_proposal(self, number: int) -> Iterator[None]:
        """Record or replay the proposer's answer to question `number` inside the block."""
        if self.source and not self._proposals:
            self._proposals = Replay(PROPOSALS, self.source.trials(PROPOSALS))
        tape = Tape(self._proposals, self.files is not None) if self.files or self._proposals else None
        with dspy.context(tape=tape):
            try:
                yield
            finally:
                if self.files and tape:
                    self.files.add_recording(PROPOSALS, number, tape.take(number))
