"""The state of a project's loop in numbers, and what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Any

from reflexion.confidence import FADED, compute_confidence
from reflexion.entry import PROPOSED, TYPES
from reflexion.entry_files import get_folder, load_all
from reflexion.folder import check_folder, has_folder, is_private, read_settings
from reflexion.index import EVERY, open_index
from reflexion.promote import find_rules_file, list_ready
from reflexion.user_files import get_home, is_own, reads_others, sign

MOST_SILENT = 5
"""Commands with an unknown end, from which on `doctor` finds fault: the last ones may be settled at the next hook."""


def collect_status(root: str, now: float) -> dict[str, Any]:
    """What the dashboard shows. Raises `OSError` and `sqlite3.Error`."""
    entries, damaged = load_all(root)
    with open_index(root, checks=EVERY) as index:
        tallies = index.get_tallies()
    return {
        "project": root,
        "private": is_private(root),
        "reads_others": reads_others(root),
        "entries": len(entries),
        "types": {kind: sum(entry.type == kind for entry in entries) for kind in TYPES},
        "occurrences": sum(entry.occurrences for entry in entries),
        "proposed": sum(entry.resolved_by == PROPOSED for entry in entries),
        "confirmed": sum(bool(entry.resolution) and entry.resolved_by != PROPOSED for entry in entries),
        "open": sum(not entry.resolution and not entry.promoted for entry in entries),
        "promoted": sum(entry.promoted for entry in entries),
        "ready": [entry.id for entry in list_ready(root, now)],
        "review": [entry.id for entry in entries if entry.review and not entry.promoted],
        "faded": sum(bool(e.resolution) and not e.promoted and compute_confidence(e, now) < FADED for e in entries),
        "others": sum(not is_own(root, entry.id, entry.owner) for entry in entries),
        "worked": sum(entry.worked for entry in entries),
        "did_not_work": sum(entry.failed for entry in entries),
        "recalled": {name.split()[1]: times for name, times in sorted(tallies.items()) if name.startswith("recalled ")},
        "most_seen": [
            {name: getattr(e, name) for name in ("id", "occurrences", "context", "trigger", "resolution")}
            for e in sorted(entries, key=lambda entry: (-entry.occurrences, entry.id))[:5]
        ],
        "damaged": damaged,
        "rules_file": find_rules_file(root),
    }


def examine(root: str, now: float) -> list[tuple[bool, str, str]]:
    """Whether each thing is well, what it is, and what to do about it."""
    from reflexion.hosts import NAMES
    from reflexion.install import find_installed, find_script

    found: list[tuple[bool, str, str]] = []
    script = find_script()
    mend = "" if script else "hooks are called through Python, which is slower: install reflexion again"
    found.append((bool(script), f"the script: {script or 'not installed'}", mend))
    secret = bool(sign(root, "RFX-00000000-000"))
    mend = "" if secret else "make the folder writable, or set REFLEXION_HOME"
    found.append((secret, f"this user's key in {get_home()}", mend))
    began = has_folder(root)
    try:
        check_folder(root)
    except OSError as error:
        mend = "nothing is read or written there: put a folder in its place"
        found.append((False, f"{error.filename} is a link", mend))
        began = False
    else:
        found.append((began, f"entries in {get_folder(root)}", "" if began else "reflexion init"))
    if began:
        entries, damaged = load_all(root)
        found += [(False, f"{name} holds no entry; it is left alone", "mend or delete it by hand") for name in damaged]
        others = sum(not is_own(root, entry.id, entry.owner) for entry in entries)
        if others and not reads_others(root):
            mend = (
                "reflexion migrate takes over unsigned ones, with --adopt all (your own, of a folder that was "
                "moved); init --shared has all recalled"
            )
            found.append((False, f"{others} entries that you did not write; they are not recalled", mend))
        writable = os.access(get_folder(root), os.W_OK)
        found.append((writable, "the folder can be written to", "" if writable else "nothing is captured until it can"))
        found.append(_examine_index(root))
    places = [(agent, scope, path) for agent in NAMES for scope, path in find_installed(agent, root)]
    said = ", ".join(f"{agent} ({scope})" for agent, scope, _ in places) or "none"
    found.append((bool(places), f"hooks: {said}", "" if places else "reflexion install --agent claude-code"))
    for agent in dict.fromkeys(agent for agent, _, _ in places):
        if len(twice := [path for name, _, path in places if name == agent]) > 1:
            mend = f"take one out: reflexion uninstall --agent {agent} --user (or without --user: this project's)"
            found.append((False, f"hooks of {agent} stand in {' and in '.join(twice)}: each event arrives twice", mend))
    found += _examine_commands(places)
    if began:
        found += _examine_silent_calls(root)
    log = os.path.join(get_home(), "hook.log")
    recent = os.path.exists(log) and now - os.path.getmtime(log) < 86_400
    mend = "it has lines of the last day: read it" if recent else ""
    found.append((not recent, f"the log of failed hooks, {log}", mend))
    return found


def _examine_index(root: str) -> tuple[bool, str, str]:
    start = time.perf_counter()
    try:
        with open_index(root, checks=EVERY) as index:
            count = index.count_entries()
    except (OSError, sqlite3.Error) as error:
        return False, f"the index: {error}", "reflexion rebuild-index"
    most = read_settings(root)["most_entries"]
    return (
        count < most,
        f"the index: {count:,} of {most:,} entries, opened in {(time.perf_counter() - start) * 1000:.0f} ms",
        "",
    )


def _examine_silent_calls(root: str) -> list[tuple[bool, str, str]]:
    """Hosts that did not say how commands ended."""
    try:
        with open_index(root) as index:
            tallies = index.get_tallies()
    except (OSError, sqlite3.Error):
        return []  # the line about the index says it
    silent = {name.split()[1]: times for name, times in tallies.items() if name.startswith("silent ") and times > 0}
    mend = (
        "failures among them are not captured, because this version of the host gives no exit code to hooks or in its "
        "transcript: capture by hand (`reflexion capture`), or use another version"
    )
    return [
        (times < MOST_SILENT, f"{agent}: {times:,} commands of which it is not known how they ended", mend)
        for agent, times in silent.items()
    ]


def _examine_commands(places: list[tuple[str, str, str]]) -> list[tuple[bool, str, str]]:
    """Hooks whose script is gone."""
    from reflexion.install import read_scripts

    return [
        (
            False,
            f"hooks of {agent} call {script}, which is not there",
            f"reflexion install --agent {agent} --{scope}",
        )
        for agent, scope, path in places
        for script in read_scripts(agent, path)
        if not os.access(script, os.X_OK)
    ]
