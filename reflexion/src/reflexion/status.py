"""The state of a project's loop in numbers, and what is wrong with it."""

from __future__ import annotations

import os

from reflexion.entry import FADED, PROPOSED, TYPES, compute_confidence, is_known
from reflexion.hosts import load_hosts
from reflexion.install import find_installed, list_scripts
from reflexion.promote import find_rules_file, list_ready
from reflexion.session import count_silent_calls
from reflexion.store import Store, get_home, is_shared

MOST_SILENT = 5
"""Commands with an unknown end, from which on that is a fault: the last ones may be settled at the next hook."""


def collect_status(store: Store, now: float) -> list[str]:
    """Lines of the dashboard."""
    entries, _ = store.load_all()
    types = ", ".join(f"{n} {kind}" for kind in TYPES if (n := sum(e.type == kind for e in entries))) or "none yet"
    known, ready = [e for e in entries if is_known(e)], list_ready(store, now)
    faded = sum(compute_confidence(e, now) < FADED for e in known)
    proposed = sum(e.resolved_by == PROPOSED for e in known)
    worked, failed = sum(e.worked for e in entries), sum(e.failed for e in entries)
    promoted = sum(e.promoted for e in entries)
    return [
        f"project     {store.root}: {'shared' if is_shared(store.root) else 'private'}",
        f"entries     {len(entries)} ({types}), seen {sum(e.occurrences for e in entries)}x",
        f"resolution  {len(known) - proposed} confirmed, {proposed} proposed, {len(entries) - len(known)} open",
        f"verified    {worked} worked, {failed} did not, {faded} faded",
        f"rules       {promoted} promoted into {find_rules_file(store.root)}, {len(ready)} ready",
        f"review      {', '.join(e.id for e in entries if e.review and not e.promoted) or 'none'}",
        *(f"{e.occurrences:>4}x       {e.id} {e.context}: {e.trigger}"
          for e in sorted(entries, key=lambda e: (-e.occurrences, e.id))[:10]),
    ]  # fmt: skip


def list_faults(store: Store, now: float) -> list[str]:
    """What is wrong, and what to do about it."""
    faults = [f"{name} holds no entry; it is left alone: mend or delete it by hand" for name in store.load_all()[1]]
    if foreign := [each for each in store.list_ids("*") if store.is_foreign(each)]:
        faults.append(f"{len(foreign)} entries that git tracks are not recalled; `reflexion init --shared` trusts them")
    places = {agent: find_installed(agent, store.root) for agent in load_hosts()}
    if not any(places.values()):
        faults.append("no hooks are installed: reflexion install --agent claude-code")
    for agent, files in places.items():
        if len(files) > 1:
            faults.append(f"hooks of {agent} stand in {' and in '.join(files)}: each event arrives twice; "
                          f"reflexion uninstall --agent {agent}, with --user or without")  # fmt: skip
        faults += [f"hooks of {agent} call {script}, which is not there: reflexion install --agent {agent}"
                   for path in files for script in list_scripts(path) if not os.access(script, os.X_OK)]  # fmt: skip
    if (silent := count_silent_calls(store)) >= MOST_SILENT:
        faults.append(f"{silent} commands of which the host did not say how they ended, neither to hooks nor in its "
                      "transcript: failures among them are not captured")  # fmt: skip
    log = os.path.join(get_home(), "hook.log")
    if os.path.exists(log) and now - os.path.getmtime(log) < 86_400:
        faults.append(f"{log} has lines of the last day: read it")
    return faults
