"""A unit or training as a JSON file, and its validation."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import explain_unreadable, read_json
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.record_checks import find_record_fault
from rsso_dspy.store.run_file import is_readable

UNIT = TypeAdapter(UnitRecord)
TRAINING = TypeAdapter(TrainingRecord)

_RECORD_FILE = re.compile(r"(\d+-)?s\d+\.json")

R = TypeVar("R", UnitRecord, TrainingRecord)
RejectReason = Literal["damaged", "newer", "misplaced", "foreign", "impossible"]

WHY: Mapping[RejectReason, str] = {
    "damaged": "cannot be read",
    "newer": "was written by a newer rsso-dspy",
    "misplaced": "holds another unit than its name says",
    "foreign": "belongs to another run",
    "impossible": "has impossible content",
}
"""Reason of quarantine by the suffix of the file's new name."""

UNTOLD = (
    ',"unread":{}', ',"sent":{},"answered":{}', ',"failure":null', ',"sources":[]',
    ',"unread":""', ',"rejected":""', ',"asked_back":false', ',"no_effect":false', ',"own_success":null',
)  # fmt: skip
"""Empty fields that records leave out, in this order. A bare quote cannot occur within a JSON text."""


class RecordRejected(Exception):
    """A file that is not a valid record: its kind and the reason."""

    def __init__(self, kind: RejectReason, why: str = ""):
        super().__init__(f"{WHY[kind]} ({why})" if why else WHY[kind])
        self.kind = kind


def record_text(record: UnitRecord | TrainingRecord) -> str:
    data = UNIT.dump_json(record) if isinstance(record, UnitRecord) else TRAINING.dump_json(record)
    text = data.decode()
    for nothing in UNTOLD:
        text = text.replace(nothing, "")
    return text + "\n"


def read_record(path: Path, form: TypeAdapter[R]) -> R:
    """Read a record. Raises `RecordRejected` if it is invalid."""
    try:
        data = read_json(path)
        if not isinstance(data, dict):
            raise RecordRejected("damaged")
        if not is_readable(data.get("schema", 0)):
            raise RecordRejected("newer" if type(data["schema"]) is int else "damaged")
        record = form.validate_python(data)
    except DamagedFile as error:
        raise RecordRejected("damaged", explain_unreadable(path)) from error
    except (ValidationError, RecursionError) as error:
        raise RecordRejected("damaged") from error
    if not record.trials:
        raise RecordRejected("damaged", "it holds no trial")
    return record


def find_unit(file: Path) -> UnitRecord | None:
    """Read the unit in a file of any name, or None if it is invalid."""
    try:
        record = read_record(file, UNIT)
    except (FileNotFoundError, RecordRejected):
        return None
    return None if find_record_fault(record, finished=False) and find_record_fault(record, finished=True) else record


def find_record_files(folder: Path) -> list[Path]:
    """Return the files named like a unit or training below a folder of arms."""
    return [path for path in folder.glob("*/*/*.json") if _RECORD_FILE.fullmatch(path.name)]


def position_of(path: Path, arms: Sequence[str]) -> tuple[int, str, str, int, int]:
    """Return the sort key of a record: arms in order of the run, tasks, variants, seeds."""
    arm, task = path.parts[-3:-1]
    index, _, seed = path.stem.rpartition("s")
    return arms.index(arm) if arm in arms else len(arms), arm, task, int(index.rstrip("-") or 0), int(seed)
