"""A unit or training as a file: one JSON object, which is believed or not, and why not."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.errors import DamagedFile
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.safe_read import explain_unreadable, read_json
from rsso_dspy.store.older_records import upgrade
from rsso_dspy.store.record_checks import find_record_fault
from rsso_dspy.store.run_file import is_readable

UNIT = TypeAdapter(UnitRecord)
TRAINING = TypeAdapter(TrainingRecord)

_RECORD_FILE = re.compile(r"(\d+-)?s\d+\.json")

R = TypeVar("R", UnitRecord, TrainingRecord)
RejectReason = Literal["damaged", "newer", "misplaced", "foreign", "impossible"]

WHY: Mapping[RejectReason, str] = {
    "damaged": "cannot be read",
    "newer": "is of a newer rsso-dspy",
    "misplaced": "holds another unit than its name says",
    "foreign": "is of another run",
    "impossible": "tells what cannot have been",
}
"""What is wrong with a file that is set aside, by the ending of its new name."""

UNTOLD = (
    ',"unread":{}',
    ',"sent":{},"answered":{}',
    ',"failure":null',
    ',"sources":[]',
    ',"unread":""',
    ',"rejected":""',
    ',"asked_back":false',
    ',"no_effect":false',
)
"""What records leave out, in this order, where there is nothing to say: within JSON texts no quote stands bare."""


class RecordRejected(Exception):
    """A file that is not taken for a record: what it is instead, and why."""

    def __init__(self, kind: RejectReason, why: str = ""):
        super().__init__(f"{WHY[kind]} ({why})" if why else WHY[kind])
        self.kind = kind


def record_text(record: UnitRecord | TrainingRecord) -> str:
    """The file's text."""
    data = UNIT.dump_json(record) if isinstance(record, UnitRecord) else TRAINING.dump_json(record)
    text = data.decode()
    for nothing in UNTOLD:
        text = text.replace(nothing, "")
    return text + "\n"


def read_record(path: Path, form: TypeAdapter[R]) -> R:
    """A record. Raises `RecordRejected` when it is none."""
    try:
        data = read_json(path)
        if not isinstance(data, dict):
            raise RecordRejected("damaged")
        if not is_readable(data.get("schema", 0)):
            raise RecordRejected("newer" if type(data["schema"]) is int else "damaged")
        record = upgrade(form.validate_python(data))
    except DamagedFile as error:
        raise RecordRejected("damaged", explain_unreadable(path)) from error
    except (ValidationError, RecursionError) as error:
        raise RecordRejected("damaged") from error
    if not record.trials:
        raise RecordRejected("damaged", "it holds no trial")
    return record


def find_unit(file: Path) -> UnitRecord | None:
    """The unit in a file of any name; None when there is none to be believed."""
    try:
        record = read_record(file, UNIT)
    except (FileNotFoundError, RecordRejected):
        return None
    return None if find_record_fault(record, finished=False) and find_record_fault(record, finished=True) else record


def find_record_files(folder: Path) -> list[Path]:
    """What is called like a unit or training, below a folder of arms."""
    return [path for path in folder.glob("*/*/*.json") if _RECORD_FILE.fullmatch(path.name)]


def position_of(path: Path, arms: Sequence[str]) -> tuple[int, str, str, int, int]:
    """Where the record stands among those of a run: arms as they were asked for, tasks, variants, seeds."""
    arm, task = path.parts[-3:-1]
    index, _, seed = path.stem.rpartition("s")
    return arms.index(arm) if arm in arms else len(arms), arm, task, int(index.rstrip("-") or 0), int(seed)
