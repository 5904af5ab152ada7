"""Constitutions as files: loaded into a run, exported from one, and built from calibration variants.

load_initial_constitution(Path("constitution.json"), plan, say)          # what units of the plan start from
load_stream_constitution(Path("runs/x"), "omnireflect-neural")             # what a self-sustaining agent ended with
build(config, variants, "neural", out, jobs)      # co-operative mode: a meta-advisor's rule book
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rsso_dspy.config import Config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.experiment.guards import check_sources
from rsso_dspy.experiment.initial_memories import InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.memory.constitution import LASTING, Constitution
from rsso_dspy.memory.constitution.file import ConstitutionFile, read_constitution
from rsso_dspy.records import UnitRecord
from rsso_dspy.store.memory_sources import describe, sources_of
from rsso_dspy.store.run_folder import Store


def load_initial_constitution(file: Path, config: Config, plan: Plan, say: Callable[[str], None]) -> InitialMemories:
    """Load the constitution that units of the plan start from.

    `say` receives a note on test variants that it was learned on. Raises `UsageError` if no method reads one, and what
    `check_sources` and `read_book` raise.
    """
    if not any("constitution" in unit.arm.method.memories for unit in plan.units):
        raise UsageError(f"no method of this run reads {file}; name one as METHOD+constitution, or drop the file")
    book = read_constitution(file)
    kept = [category for category in LASTING if category in config.memory.constitution.categories]
    if not book.constitution.select_rules(*kept):
        raise UsageError(f"{file} holds no {' or '.join(kept)} rule, so reading it would have no effect; drop it")
    check_sources(file, book.provenance, book.variants, config, plan, say)
    memories = {"constitution": {**book.constitution.dump(), "edits": []}}
    digest = hashlib.sha256(book.constitution.text.encode()).hexdigest()[:12]
    return InitialMemories(memories, sources_of(memories, "file", file.name, digest), variants=book.variants)


def check_examples(file: Path, config: Config, plan: Plan) -> None:
    """Raise what `check_sources` raises if the examples of a file must not appear in prompts of the plan."""
    book = read_constitution(file)
    check_sources(file, book.provenance, book.variants, config, plan)


def check_streams(plan: Plan, store: Store) -> None:
    """Raise `RunMismatch` if a played unit has another place in its stream, because the set of variants has changed."""
    for arm, units in plan.streams.items():
        wanted = {store.path_of(unit): unit.place for unit in units}
        order = units[0].place.rpartition(" of ")[2]
        for path in sorted((store.folder / "units" / arm.name).glob("*/*.jsonl")):
            log = store.load_log(path)
            record, here = log.make_record() if log is not None else None, wanted.get(path)
            if record is not None and (record.stream is None or record.stream.name != here):
                there = f"stream {record.stream.name}" if record.stream else "in none"
                raise RunMismatch(
                    f"{store.folder} holds a stream of {arm.name} over other variants: {record.key} is {there} "
                    f"there, and {f'stream {here}' if here else f'in no stream {order}'} now; use the same "
                    "variants or another --out"
                )


def open_constitution(source: Path, arm: str | None = None) -> ConstitutionFile:
    """Read a constitution file, or the constitution of an arm of a run.

    Raises what `read_book` and `load_stream_constitution` raise.
    """
    if source.is_dir():
        return load_stream_constitution(source, arm)
    if arm is not None:
        raise UsageError(f"{source} is a file, which has no arms; drop --arm")
    return read_constitution(source)


def load_stream_constitution(folder: Path, arm: str | None = None) -> ConstitutionFile:
    """Load the final constitution of an arm of a run with all its edits; by default of the first arm that wrote one.

    Raises `UsageError` that lists the arms that have one.
    """
    store = Store(folder, read_only=True)
    _, arms = store.read_identity()
    streams: dict[str, list[UnitRecord]] = {}
    for record in store.units():
        if record.stream and not record.has_errors and "constitution" in record.memories:
            streams.setdefault(record.arm, []).append(record)
    if arm is None:
        arm = next((name for name in arms if name in streams), None)
    if arm is None or arm not in streams:
        there = f"; those of {', '.join(streams)} do" if streams else ""
        raise UsageError(f"{folder} holds no finished unit of {arm or 'any arm'} that wrote a constitution{there}")
    return extract_constitution(sorted(streams[arm], key=get_stream_position))


def get_stream_position(record: UnitRecord) -> int:
    """Return the place of a unit in its stream, from 1."""
    return record.stream.place if record.stream else 0


def extract_constitution(records: Sequence[UnitRecord]) -> ConstitutionFile:
    """Return the constitution after the last of these units of a stream, with the edits of all."""
    books = [Constitution.load(record.memories["constitution"]) for record in records]
    last, first = records[-1], records[0]
    edits = tuple(edit for book in books for edit in book.edits)
    made_by = {
        "writer": last.arm,
        "protocol": last.protocol,
        "backend": last.backend,
        "models": {role: last.models[role] for role in ("actor", "advisor") if role in last.models},
        "rule_based": last.rule_based,
        "seed": last.seed,
        "variants": list(dict.fromkeys([*first.learnt_on, *(record.variant.key for record in records)])),
        "start": describe([source for source in first.sources if source.kind != "stream"]),
        "made_by": last.provenance,
    }
    return ConstitutionFile(replace(books[-1].drop_categories(["progress"]), edits=edits), made_by)
