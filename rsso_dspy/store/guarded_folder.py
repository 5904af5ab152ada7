"""A folder that is written to for hours and may be moved, deleted or unmounted meanwhile.

    place = GuardedFolder(Path("runs/x"), "--out")
    place.hold()                        # creates it if missing; from now on it must be this very folder
    place.write(path, text)             # raises `FolderGone` if it is not
    place.release()

Every write checks first and creates subfolders only below an existing folder: a folder that has gone is never created
again, and another folder in its place is left alone.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rsso_dspy.errors import FolderGone, UsageError, find_shortage
from rsso_dspy.files import atomic_path, atomic_write_text
from rsso_dspy.redact import redact_json

Identity = tuple[int, int]
"""Device and inode."""


class GuardedFolder:
    """A folder to write to. `option` is its command-line option; empty for a read-only folder.

    The checks apply only while it is held.
    """

    def __init__(self, folder: Path, option: str = "--out"):
        self.folder = folder
        self.option = option
        self.identity: Identity | None = None
        self._signs: set[str] = set()
        self._open: int | None = None

    def hold(self, identity: Identity | None = None) -> None:
        """Remember the identity of the folder, creating it if missing. With `identity`, it must be that folder.

        Raises `UsageError` for a place where no folder can be made.
        """
        if identity is None:
            self._create_folder()
        self.release()
        with suppress(OSError):  # while open, its inode is not reused, even after deletion
            self._open = os.open(self.folder, os.O_RDONLY)
        self.identity = identity or get_folder_identity(self.folder)
        self.check_exists()

    def watch_file(self, name: str) -> None:
        """Watch a file of the folder, because deleting the folder begins with its files."""
        if self.identity:
            self._signs.add(name)

    def release(self) -> None:
        self.identity, self._signs = None, set()
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def check_exists(self) -> None:
        """Raise `FolderGone` if the folder is held and gone."""
        if self.identity and get_folder_identity(self.folder) != self.identity:
            raise FolderGone(self._explain_absence())
        if gone := [str(self.folder / name) for name in sorted(self._signs) if not (self.folder / name).exists()]:
            raise FolderGone(
                self._format_absence(f"{gone[0]} is gone: the folder was being deleted")
                + (" Remove what is left of it; repeating the command starts from scratch." if self.option else "")
            )

    def write(self, path: Path, text: str) -> None:
        with self._guard_write(path):
            atomic_write_text(path, text, folders=self.identity is None)

    def append(self, path: Path, line: str) -> None:
        """Append a redacted line of JSON to a file below the folder, after any line that a kill cut off."""
        line = redact_json(line)
        if not self.identity:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._guard_write(path), path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else f"\n{line}"
            file.write(f"{line}\n".encode())

    def append_bytes(self, path: Path, data: bytes) -> None:
        """Append to a file below the folder; a kill may leave a partial write."""
        if not self.identity:
            path.parent.mkdir(parents=True, exist_ok=True)
        with self._guard_write(path), path.open("ab") as file:
            file.write(data)

    def replace(self, path: Path, data: bytes) -> None:
        """Write bytes from another folder of this kind to a file below the folder, atomically."""
        with self._guard_write(path), atomic_path(path, folders=self.identity is None) as temporary:
            temporary.write_bytes(data)

    def remove(self, path: Path) -> None:
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
            self.check_exists()  # it disappeared just now
            raise

    def _create_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if find_shortage(error):  # nothing is wrong with the place
                raise
            raise UsageError(
                f"{self.folder} cannot be created ({error.strerror}); name another {self.option or 'folder'}"
            ) from None

    def _make_folder(self, folder: Path) -> None:
        if folder != self.folder and not folder.exists():
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)

    def _explain_absence(self) -> str:
        now = self._locate_folder()
        if now is not None and get_folder_identity(now) == self.identity:
            what = f"moved to {now}"
            then = f"Repeat the command with {self.option} at its new place to resume."
        elif now is not None and now.name.endswith(DELETED):
            what, then = "deleted", "Its content is lost; repeating the command starts from scratch."
        else:
            what = "moved, deleted or unmounted"
            then = f"Put it back, or repeat the command with {self.option} at its new place, to resume."
        said = self._format_absence(f"the folder {self.folder} is gone: it was {what}")
        if os.path.lexists(self.folder):
            then += " Another folder is there now and was left alone."
        return f"{said} {then}" if self.option else said

    def _format_absence(self, what: str) -> str:
        return f"{what} while it was {'written to, and nothing was written there since' if self.option else 'watched'}."

    def _locate_folder(self) -> Path | None:
        """Return the folder's path according to the system, or None if unknown."""
        try:
            return Path(os.readlink(f"/proc/self/fd/{self._open}"))
        except OSError:
            return None


DELETED = " (deleted)"
"""Suffix that Linux gives the name of a deleted open file."""


def get_folder_identity(path: Path) -> Identity | None:
    """Return the identity of the folder or file at a path, or None."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
