"""Tapes of units and trainings: recording, and replay in place of the models.

tape = tape_of("units/sso/boil/22-s0", source=None, keeps=True)
"""

import json
import os
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.session import Session
from rsso_dspy.files import atomic_write_text
from rsso_dspy.lm.recording import Tape, check_recordable
from rsso_dspy.lm.replaying import Replay
from rsso_dspy.recordings import ABOUT, FOLDER, KIND, SCHEMA, Recordings


def about_of(config: Config) -> dict[str, Any]:
    """Describe the recorded backend with the settings that results depend on."""
    settings = config.resolve_settings()["backends"][config.backend]
    return {"kind": KIND, "schema": SCHEMA, "backend": config.backend, "settings": settings}


def recordings_beside(out: Path, goes_on: bool, live: Session, record: bool) -> Path | None:
    """Return the folder for the recordings of a build into `out`, or None.

    A resumed build goes on recording. Raises `UsageError` if the folder holds recordings of another build.
    """
    folder = out.with_name(f"{out.name}.{FOLDER}")
    there = (folder / ABOUT).is_file()
    if there and goes_on:
        return folder
    if not record:
        return None
    check_recordable(live.backend.users_lm)
    if os.path.lexists(folder):
        raise UsageError(f"{folder} already holds recordings of another build: move it away, or name another -o")
    atomic_write_text(folder / ABOUT, json.dumps(about_of(live.config), indent=1) + "\n")
    return folder


def tape_of(name: str, source: Recordings | None, keeps: bool) -> Tape | None:
    """Return the tape of a unit or training; None if models answer without recording. Raises `NotRecorded`."""
    if source is None and not keeps:
        return None
    return Tape(Replay(name, source.trials(name)) if source else None, keeps)
