"""The recordings of a compile: a file a rollout, and one of what the proposer was asked.

    FILE.recordings/rollouts/PROGRAM/TASK-VARIANT.jsonl.gz     further seeds: TASK-VARIANT-seed-N
    FILE.recordings/proposals.jsonl.gz                        one member a question

They stay when the compile has come to its end, unlike ``FILE.rollouts``. A compile that was cut short asks its proposer
anew: what he said before is given up.
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
    """Where exchanges of a compile go, and where its answers come from; neither when there is no folder and no source.
    Thread-safe."""

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
    def rollout(self, program: str, variant: Variant, repeat: int = 0) -> Iterator[Callable[[TrialResult, Any], None]]:
        """Models in the block speak for this rollout. Give what it yields every finished trial."""
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
    def proposal(self, number: int) -> Iterator[None]:
        """The proposer answers its question of this number in the block."""
        if self.source and not self._proposals:
            self._proposals = Replay(PROPOSALS, self.source.trials(PROPOSALS))
        tape = Tape(self._proposals, self.files is not None) if self.files or self._proposals else None
        with dspy.context(tape=tape):
            try:
                yield
            finally:
                if self.files and tape:
                    self.files.add_recording(PROPOSALS, number, tape.take(number))
