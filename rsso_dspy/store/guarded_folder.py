"""Where something is written to for hours: a folder that may be moved, deleted or unmounted meanwhile.

    place = GuardedFolder(Path("runs/x"), "--out")
    place.hold()                        # made if it is not there; from now on it has to be this very folder
    place.write(path, text)             # raises `FolderGone` when it is not
    place.release()

Every write looks first, and makes no folder but below one that is there: what has gone is never made again, and another
folder in its place is left alone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rsso_dspy.atomic import atomic_path, atomic_write_text
from rsso_dspy.errors import FolderGone
from rsso_dspy.redaction import redact_json

Identity = tuple[int, int]
"""Device and inode."""


class GuardedFolder:
    """A folder to write to. `option` is how a command names it; empty for one that is only looked at. While it is not
    held, it is like any other."""

    def __init__(self, folder: Path, option: str = "--out"):
        self.folder = folder
        self.option = option
        self.identity: Identity | None = None
        self._signs: set[str] = set()
        self._open: int | None = None

    def hold(self, identity: Identity | None = None) -> None:
        """Remember which folder this is; it is made when it is not there. With `identity`, it has to be that one."""
        if identity is None:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.release()
        with suppress(OSError):  # open, its inode is nobody else's, even after it was deleted
            self._open = os.open(self.folder, os.O_RDONLY)
        self.identity = identity or get_folder_identity(self.folder)
        self.check_exists()

    def watch_file(self, name: str) -> None:
        """Take a file of the folder for a sign that nobody is deleting it, which begins with what is in it."""
        if self.identity:
            self._signs.add(name)

    def release(self) -> None:
        """Hold it no longer."""
        self.identity, self._signs = None, set()
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def check_exists(self) -> None:
        """Raise `FolderGone` when it is held and no longer there."""
        if self.identity and get_folder_identity(self.folder) != self.identity:
            raise FolderGone(self._explain_absence())
        if gone := [str(self.folder / name) for name in sorted(self._signs) if not (self.folder / name).exists()]:
            raise FolderGone(
                self._format_absence(f"{gone[0]} is gone: the folder was being deleted")
                + (" What is left of it may be removed; the same command begins anew." if self.option else "")
            )

    def write(self, path: Path, text: str) -> None:
        """Write a file below the folder, whole or not at all."""
        with self._guard_write(path):
            atomic_write_text(path, text, folders=self.identity is None)

    def append(self, path: Path, line: str) -> None:
        """Append a line of JSON to a file below the folder, without the secrets in it. One that a kill cut off does not
        swallow it."""
        line = redact_json(line)
        if not self.identity:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._guard_write(path), path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else f"\n{line}"
            file.write(f"{line}\n".encode())

    def append_bytes(self, path: Path, data: bytes) -> None:
        """Append to a file below the folder; a kill may leave a part of it."""
        if not self.identity:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._guard_write(path), path.open("ab") as file:
            file.write(data)

    def replace(self, path: Path, data: bytes) -> None:
        """Write a file below the folder as it is, whole or not at all: what was read from another of its kind."""
        with self._guard_write(path), atomic_path(path, folders=self.identity is None) as temporary:
            temporary.write_bytes(data)

    def remove(self, path: Path) -> None:
        """Remove a file below the folder, if it is there."""
        self.check_exists()
        path.unlink(missing_ok=True)

    @contextmanager
    def _guard_write(self, path: Path) -> Iterator[None]:
        self.check_exists()
        try:
            if self.identity:
                self._make_folder(path.parent)
            yield
        except OSError:
            self.check_exists()  # it went in this moment
            raise

    def _make_folder(self, folder: Path) -> None:
        """Make a folder below the one that is held."""
        if folder != self.folder and not folder.exists():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)

    def _explain_absence(self) -> str:
        now = self._locate_folder()
        if now is not None and get_folder_identity(now) == self.identity:
            what = f"moved to {now}"
            then = f"Run the same command with {self.option} at its new place to go on."
        elif now is not None and now.name.endswith(DELETED):
            what, then = "deleted", "What it held is lost; the same command begins anew."
        else:
            what = "moved, deleted or unmounted"
            then = f"Put it back, or run the same command with {self.option} at its new place, to go on."
        said = self._format_absence(f"the folder {self.folder} is gone: it was {what}")
        if os.path.lexists(self.folder):
            then += " Something else stands there now, and was left alone."
        return f"{said} {then}" if self.option else said

    def _format_absence(self, what: str) -> str:
        return f"{what} while it was {'written to, and nothing was written there since' if self.option else 'watched'}."

    def _locate_folder(self) -> Path | None:
        """Where the system says that the folder is; None where it does not."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{self._open}"))
        except OSError:
            return None


DELETED = " (deleted)"
"""How Linux ends the name of what is open and deleted."""


def get_folder_identity(path: Path) -> Identity | None:
    """Which folder or file is there now; None when there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
