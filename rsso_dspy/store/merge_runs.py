"""Merges shards of a run that were played on separate machines.

rsso-dspy run ... --shard 2/8 --out runs/part-2
rsso-dspy merge runs/part-* --out runs/whole
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rsso_dspy.errors import RunMismatch
from rsso_dspy.files import atomic_path, parse_entry, read_bytes
from rsso_dspy.store.manifest import load_invocations, merge_manifests
from rsso_dspy.store.pooled_runs import ArmChecker
from rsso_dspy.store.run_file import describe_difference
from rsso_dspy.store.run_folder import Store, get_job_key
from rsso_dspy.store.run_spec import Shard, list_missing_shards
from rsso_dspy.store.unit_log import JobRecord, UnitLog


def merge_shards(sources: Sequence[Path], target: Store, say: Callable[[str], None] = lambda _: None) -> int:
    """Merge the logs of several folders of one run into `target`, which may hold some already; return the number of
    finished units and trainings.

    Of two logs of one unit the one that got further is kept, with the cost of what only the other has. `say` receives
    notes on missing shards and units, which the target remembers, and on unreadable files. Raises `RunMismatch` if the
    folders are not of one run, if shards are of different selections of variants, if units of an arm cannot be pooled,
    or if a unit has different records. All folders are checked before anything is written.
    """
    stores = [Store(folder, read_only=True) for folder in sources]
    identity, arms = stores[0].read_identity()
    kinds = ArmChecker("drop that folder")
    for store in stores:
        known, there = store.read_identity()
        if known != identity:
            raise RunMismatch(
                f"{store.folder} and {stores[0].folder} are of different runs:\n{describe_difference(identity, known)}"
            )
        kinds.check_arms(store)
        arms = {**arms, **there}
    target.check_identity(identity, arms)
    looked_at = [*stores, *([target] if target.exists else [])]
    _check_same_selection(looked_at)
    shards = _find_shards(looked_at)
    if missing := list_missing_shards(shards):
        say(f"shards are missing: {', '.join(missing)}")
    parts: dict[Path, list[UnitLog]] = {}
    for store in looked_at:
        for _, log in store.load_logs():
            if log.is_finished and (record := log.make_record()):
                kinds.check_record(store, record)
            parts.setdefault(target.folder / log.path.relative_to(store.folder), []).append(log)
    merged = {path: _merge_logs(logs) for path, logs in parts.items()}
    planned = [key for store in stores for key in store.read_file().get("planned", ())]
    with target.lock():
        target.open(identity, arms, planned=planned, **merge_manifests(stores, target))
        target.write_file({**target.read_file(), "shards": shards if missing else []})
        for path, content in merged.items():
            with atomic_path(path) as temporary:
                temporary.write_bytes(content)
    for store in stores:
        if store.is_playing():
            say(f"{store.folder} is being played: merge it again later to include its current trials")
    records: list[JobRecord] = [*target.units(), *target.trainings()]
    if left := target.list_planned_units() - {get_job_key(record) for record in records}:
        say(f"{len(left)} planned unit{'s have' if len(left) > 1 else ' has'} no record yet")
    for store in (*stores, target):
        for file in store.set_aside:
            say(f"{store.describe_quarantined(file)}: its unit is missing")
    return len(records)


def _merge_logs(logs: Sequence[UnitLog]) -> bytes:
    """Return the content of the log that got furthest, with what only the others cost."""
    ranked = sorted(logs, key=_rank_log, reverse=True)
    best = ranked[0]
    content = read_bytes(best.path)[: best.complete]
    paid, lost = _count_paid_calls(content), list[str]()
    for other in ranked[1:]:
        if other.is_finished and not other.has_error and not _is_same_record(best, other):
            raise RunMismatch(
                f"{other.path} is another record than {best.path}: they are not shards of one run; merge only one of "
                "them"
            )
        there = _count_paid_calls(read_bytes(other.path)[: other.complete])
        lost += (there - paid).elements()
        paid |= there
    if not lost:
        return content
    void = {"void": len(best.results) + 1, "why": "another part of the run played it too"}
    lines: list[dict[str, object]] = [
        {"call": number, "trial": void["void"], "parameters": {}, "messages": [], **json.loads(each)}
        for number, each in enumerate(lost, start=len(content))
    ]
    return content + "".join(f"{json.dumps(line)}\n" for line in (*lines, void)).encode()


def _rank_log(log: UnitLog) -> tuple[bool, bool, int]:
    """Return the precedence of logs of one unit: finished, then errored, then the longer one."""
    return log.is_finished and not log.has_error, log.is_finished, len(log.results)


def _count_paid_calls(content: bytes) -> Counter[str]:
    """Count what lines of calls say that was paid for, whatever the trial and the number of the call."""
    heads: dict[int, dict[str, object]] = {}
    counts: Counter[str] = Counter()
    for line in content.split(b"\n"):
        entry = parse_entry(line) if line.startswith(b'{"call"') else None
        if isinstance(entry, dict) and isinstance(entry["call"], int):
            head = heads.setdefault(entry["call"], entry)
            about = {name: head.get(name, "") for name in ("attempt", "step", "role", "model")}
            told = {name: entry[name] for name in ("answer", "failed", "served", "cut", "seconds") if name in entry}
            if "usage" in entry:
                counts[json.dumps({**about, **told, "usage": entry["usage"]})] += 1
    return counts


def _is_same_record(one: UnitLog, other: UnitLog) -> bool:
    """Return whether two logs hold the same trials."""
    records = [log.make_record() for log in (one, other)]
    return len({repr(record and replace(record, provenance={})) for record in records}) == 1


def _find_shards(stores: Sequence[Store]) -> list[str]:
    """Return the shards that these folders hold together; none if one of them holds the whole run."""
    held = [store.read_shards() for store in stores]
    return sorted({shard for shards in held for shard in shards}) if all(held) else []


def _check_same_selection(stores: Sequence[Store]) -> None:
    """Raise `RunMismatch` if shards were cut from different selections, or into different numbers of parts: together
    they are no run at all."""
    splits = {Shard.parse(shard).of: store.folder for store in stores for shard in store.read_shards()}
    if len(splits) > 1:
        said = ", ".join(f"{folder} is one of {of}" for of, folder in sorted(splits.items()))
        raise RunMismatch(f"these shards are of different splits: {said}; play one of them again as the other")
    known: dict[frozenset[str], Path] = {}
    for store in stores:
        if store.read_shards() and (asked := load_invocations(store)):
            known.setdefault(frozenset(each.describe_selection() for each in asked), store.folder)
    if len(known) > 1:
        said = "\n".join(f"  {folder}: {', then '.join(sorted(chosen))}" for chosen, folder in known.items())
        raise RunMismatch(f"these shards are of different variants:\n{said}\nPlay one of them again as the other")
