"""What the loop keeps of this user, outside of every project: nobody can bring it along in a repository.

    owner.key       a secret, by which own entries are told from those that somebody else wrote
    shared          folders of projects whose other entries this user wants recalled too, one a line
    projects/*/     per project: the index, and what sessions ran (index.py)
    installed/      what `hooks install` found before it wrote
    hook.log        a line for every hook that failed

`REFLEXION_HOME` moves it; else it is `reflexion` where the user's programs keep their state.
"""

from __future__ import annotations

import os
import time

LONGEST_LOG = 256_000
"""Bytes of the log; the older half goes when it is full."""


def get_home() -> str:
    """The folder; it need not exist yet."""
    if chosen := os.environ.get("REFLEXION_HOME"):
        return os.path.abspath(os.path.expanduser(chosen))
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "reflexion")


def get_limit() -> float:
    """Seconds after which a hook gives up: 2, or what `REFLEXION_LIMIT` says, 0.1 to 60."""
    try:
        return min(60.0, max(0.1, float(os.environ.get("REFLEXION_LIMIT", "2"))))
    except ValueError:
        return 2.0


def get_project_folder(root: str) -> str:
    """Where the index of a project is kept."""
    from zlib import crc32

    whole = os.path.realpath(root)
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in os.path.basename(whole))
    return os.path.join(get_home(), "projects", f"{name[:40]}-{crc32(os.fsencode(whole)):08x}")


def make_private_folder(path: str) -> None:
    """Make it, for this user alone."""
    os.makedirs(path, mode=0o700, exist_ok=True)


def sign(root: str, entry_id: str) -> str:
    """What only this user can write into an entry of this id, of this project: an entry that somebody saw elsewhere,
    and put other words into, is not signed here. Empty where no secret can be kept."""
    import hmac

    home = get_home()
    secret = _secrets.get(home) or _read_secret(home)
    _secrets[home] = secret
    what = os.fsencode(f"{os.path.realpath(root)}\n{entry_id}")
    return hmac.digest(secret, what, "sha256").hex()[:20] if secret else ""


def is_own(root: str, entry_id: str, owner: str) -> bool:
    """Whether this user wrote the entry of this project."""
    return bool(owner) and sign(root, entry_id) == owner


_secrets: dict[str, bytes] = {}


def _read_secret(home: str) -> bytes:
    path = os.path.join(home, "owner.key")
    for _ in range(2):
        try:
            with open(path, "rb") as file:
                if len(secret := file.read(64)) >= 32:
                    return secret
        except FileNotFoundError:
            pass
        except OSError:
            return b""
        try:
            make_private_folder(home)
            own = f"{path}.{os.getpid()}"
            with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(os.urandom(32).hex().encode())
            try:
                os.link(own, path)  # of two that begin at once, one wins and both read it
            except FileExistsError:
                pass
            finally:
                os.unlink(own)
        except OSError:
            return b""
    return b""


def reads_others(root: str) -> bool:
    """Whether this user wants entries of others recalled in this project."""
    return os.path.realpath(root) in list_shared()


def list_shared() -> list[str]:
    """Folders of such projects."""
    try:
        with open(os.path.join(get_home(), "shared"), encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).splitlines()
    except OSError:
        return []


def set_shared(root: str, wanted: bool) -> None:
    """Say whether entries of others are recalled in this project."""
    whole = os.path.realpath(root)
    places = [place for place in list_shared() if place != whole] + ([whole] if wanted else [])
    make_private_folder(get_home())
    rewrite_file(os.path.join(get_home(), "shared"), "".join(f"{place}\n" for place in places))


def rewrite_file(path: str, text: str) -> None:
    """Write a file that is the user's own, whole or not at all: a link stays one, rights and line ends stay, and what
    they wrote is theirs, secrets too. Raises `OSError`."""
    from pathlib import Path
    from shutil import copymode

    from reflexion.files import atomic_path

    real = Path(os.path.realpath(path))
    with atomic_path(real) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")
        if real.exists():
            copymode(real, temporary)


def log_line(text: str) -> None:
    """One line into the log; nothing where none can be written."""
    path = os.path.join(get_home(), "hook.log")
    try:
        make_private_folder(get_home())
        if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG:
            with open(path, "rb") as file:
                kept = file.read()[-LONGEST_LOG // 2 :].partition(b"\n")[2]
            with open(f"{path}.{os.getpid()}", "wb") as file:
                file.write(kept)
            os.replace(f"{path}.{os.getpid()}", path)
        line = " ".join(text.split())[:500]
        with open(path, "a", encoding="utf-8", errors="replace") as log:
            log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    except OSError:
        pass
