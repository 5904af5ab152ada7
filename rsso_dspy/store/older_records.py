"""Records of older versions as those of this one: what they said in words alone is here made data, and nowhere else.

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
    """The record with what an older version wrote in words as data too."""
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
    """The failure that ``Kind: message`` tells of."""
    kind, _, message = error.partition(":")
    return Failure(kind, message.removeprefix(" ")) if kind.isidentifier() else Failure("", error)


def read_sources(start: str, method_name: str) -> Iterator[Source]:
    """What ``start`` of a record says. How much a memory held is not known."""
    if found := _STREAM.fullmatch(start):
        yield from read_sources(found[3] or "", method_name)
        yield Source("constitution", "stream", found[1], place=int(found[2]))
    elif found := _TRAINING.fullmatch(start):
        yield from read_sources(found[2] or "", method_name)
        yield from (Source(memory, "training", found[1]) for memory in _memories_of(method_name))
    else:
        files = _FILE.findall(start)
        # A library stands before a constitution; one file is the constitution of a method that only reads one.
        only_book = len(files) == 1 and method_name.endswith(f"+{READING}")
        for memory, (name, digest) in zip(["constitution"] if only_book else ["skills", "constitution"], files):  # noqa: B905
            yield Source(memory, "file", name, digest)


def _memories_of(method_name: str) -> tuple[str, ...]:
    """Those of the method; all there are of one that is not known here."""
    try:
        return get_method(method_name).memories
    except UsageError:
        return ("constitution", "reflections", "skills")
