"""Upgrades records of older versions: converts fields that were stored as words into data.

record = upgrade(record)        # `failure` of every trial that failed, `sources` of what did not start from nothing
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.methods import READING, get_method
from rsso_dspy.records import Failure, Source, TrainingRecord, UnitRecord

R = TypeVar("R", UnitRecord, TrainingRecord)

_FILE = re.compile(r"(.+?) \(([0-9a-f]{12})\)(?: and |$)", re.DOTALL)
_TRAINING = re.compile(r"training on (.+?)(?: after (.+))?", re.DOTALL)
_STREAM = re.compile(r"stream ((\d+)/\d+ of [0-9a-f]+)(?: after (.+))?", re.DOTALL)


def upgrade(record: R) -> R:
    """Return the record with data fields that an older version stored only as words."""
    if any(trial.error is not None and trial.failure is None for trial in record.trials):
        trials = (
            trial if trial.error is None or trial.failure else replace(trial, failure=read_failure(trial.error))
            for trial in record.trials
        )
        record = replace(record, trials=tuple(trials))
    if record.start and not record.sources:
        record = replace(record, sources=tuple(read_sources(record.start, record.method)))
    return record


def read_failure(error: str) -> Failure:
    """Parse ``Kind: message`` into a failure."""
    kind, _, message = error.partition(":")
    return Failure(kind, message.removeprefix(" ")) if kind.isidentifier() else Failure("", error)


def read_sources(start: str, method_name: str) -> Iterator[Source]:
    """Parse ``start`` of a record; the sizes of memories are unknown."""
    if found := _STREAM.fullmatch(start):
        yield from read_sources(found[3] or "", method_name)
        yield Source("constitution", "stream", found[1], place=int(found[2]))
    elif found := _TRAINING.fullmatch(start):
        yield from read_sources(found[2] or "", method_name)
        try:
            memories = get_method(method_name).memories
        except UsageError:  # an unknown method may have any
            memories = ("constitution", "reflections", "skills")
        yield from (Source(memory, "training", found[1]) for memory in memories)
    else:
        files = _FILE.findall(start)
        # A library comes before a constitution; a single file is the constitution of a method that only reads one.
        only_book = len(files) == 1 and method_name.endswith(f"+{READING}")
        for memory, (name, digest) in zip(["constitution"] if only_book else ["skills", "constitution"], files):  # noqa: B905
            yield Source(memory, "file", name, digest)
