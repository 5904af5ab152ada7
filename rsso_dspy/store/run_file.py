"""``run.json``: identity and arms of a run, and the difference of two identities."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.records import SCHEMA_VERSION

RUN_FILE = "run.json"


def read_run_file(file: Path) -> dict[str, Any]:
    """Read ``run.json``. Raises `UsageError` if it is damaged or of a newer version."""
    try:
        data: dict[str, Any] = read_json(file)
        _check_run_data(data)
    except (DamagedFile, ValueError) as error:
        why = error.why if isinstance(error, DamagedFile) else error
        raise UsageError(f"{file} is damaged ({why}); restore it, or move the folder away") from None
    if not is_readable(schema := data["schema"]):
        raise UsageError(
            f"{file} has schema version {schema}, but this program reads up to {SCHEMA_VERSION}; update rsso-dspy"
        )
    return data


def is_readable(version: Any) -> bool:
    return type(version) is int and version <= SCHEMA_VERSION


def _check_run_data(data: Any) -> None:
    """Raise `ValueError` if the data does not have the form of ``run.json``."""
    known = data if isinstance(data, dict) and "schema" in data else {}
    identity, arms = known.get("identity"), known.get("arms")
    if not isinstance(identity, dict) or not isinstance(arms, dict):
        raise ValueError("it is no object with schema, identity and arms")
    if not all(isinstance(program, str) for program in arms.values()):
        raise ValueError("its arms have no programs")
    if wrong := [key for key in ("config", "carried") if not isinstance(identity.get(key, {}), dict)]:
        raise ValueError(f"the {wrong[0]} of its identity is no object")
    for key in ("shards", "planned"):
        if not isinstance(listed := known.get(key, []), list) or not all(isinstance(each, str) for each in listed):
            raise ValueError(f"its {key} are no list of texts")


def describe_difference(known: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Describe the difference, one line per dotted key."""
    ours, theirs = flatten_keys(known), flatten_keys(wanted)
    lines = [
        f"  {key}: there {ours.get(key, '(absent)')!r}, now {theirs.get(key, '(absent)')!r}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    ]
    return "\n".join(lines)


def flatten_keys(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        found.update(flatten_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found
