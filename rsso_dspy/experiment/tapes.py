"""Tapes for what is played: what recordings say of themselves, where those of a build are, and who answers.

tape = tape_of("units/sso/boil/22-s0", source=None, keeps=True)
"""

import json
import os
from pathlib import Path
from typing import Any

from rsso_dspy.atomic import atomic_write_text
from rsso_dspy.config import Config
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.session import Session
from rsso_dspy.lm.recording import Tape, check_recordable
from rsso_dspy.lm.replaying import Replay
from rsso_dspy.recordings import ABOUT, FOLDER, KIND, SCHEMA, Recordings


def about_of(config: Config) -> dict[str, Any]:
    """What recordings say of themselves: the backend that answered, as results are bound to it."""
    settings = config.resolve_settings()["backends"][config.backend]
    return {"kind": KIND, "schema": SCHEMA, "backend": config.backend, "settings": settings}


def recordings_beside(out: Path, goes_on: bool, live: Session, record: bool) -> Path | None:
    """The folder that what is built into `out` is recorded in; None when it is not. A build that goes on is recorded on
    when it was so far. Raises `UsageError` when recordings of another one are there."""
    folder = out.with_name(f"{out.name}.{FOLDER}")
    there = (folder / ABOUT).is_file()
    if there and goes_on:
        return folder
    if not record:
        return None
    check_recordable(live.backend.users_lm)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} is there already, with recordings of another one: move it away, or name another -o")
    atomic_write_text(folder / ABOUT, json.dumps(about_of(live.config), indent=1) + "\n")
    return folder


def tape_of(name: str, source: Recordings | None, keeps: bool) -> Tape | None:
    """The tape of a unit or training; None where nothing is recorded and models answer. Raises `NotRecorded`."""
    if source is None and not keeps:
        return None
    return Tape(Replay(name, source.trials(name)) if source else None, keeps)
