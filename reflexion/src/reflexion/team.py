"""Entries of a team: in git, merged by git through this program, and recalled because this user said so."""

from __future__ import annotations

import shlex
import subprocess

from reflexion.install import list_script_words
from reflexion.user_files import set_shared


def share_project(root: str) -> bool:
    """Have entries of others recalled in this clone, and have git merge entries; whether it can. What says so is kept
    outside of the project and in the clone's own settings: nobody who pushes decides it for this user."""
    set_shared(root, True)
    driver = f"{shlex.join(list_script_words())} merge %O %A %B"
    named = _set_git(root, "merge.reflexion.name", "one entry of two people")
    return named and _set_git(root, "merge.reflexion.driver", driver)


def _set_git(root: str, key: str, value: str) -> bool:
    try:
        done = subprocess.run(["git", "config", "--local", key, value], cwd=root, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
