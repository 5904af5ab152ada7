"""Skill libraries and constitutions as files: what a run starts from, and what it hands out."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.constitutions import name_kind
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experience import (
    CONSTITUTION,
    SKILLS,
    Experience,
    check_for_run,
    describe_constitution,
    describe_library,
    list_learned_variants,
)
from rsso_dspy.files import make_marked_kind
from rsso_dspy.memory.constitution import LASTING, Constitution
from rsso_dspy.memory.formats import (
    CONSTITUTION_KIND,
    LIBRARY_KIND,
    ConstitutionFile,
    SkillLibraryFile,
    read_constitution,
    read_library,
)
from rsso_dspy.memory.skills import parse_skill_snapshot
from rsso_dspy.plan import Plan
from rsso_dspy.programs.methods import MEMORIES, METHODS, load_memory
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import Source, SourceKind, UnitRecord
from rsso_dspy.store.run_folder import Arm, Store
from rsso_dspy.store.unit_log import JobRecord

LIBRARY_FILE = make_marked_kind("skill library", f'"kind": "{LIBRARY_KIND}"'.encode())
CONSTITUTION_FILE = make_marked_kind("constitution", f'"kind": "{CONSTITUTION_KIND}"'.encode())


def sources_of(memories: Mapping[str, Any], kind: SourceKind, name: str, digest: str = "") -> tuple[Source, ...]:
    sources = []
    for memory in memories:
        size = count_entries(memories, memory)
        sources.append(Source(memory, kind, name, digest, size=size))
    return tuple(sources)


def count_entries(memories: Mapping[str, Any], memory: str) -> int | None:
    """Count the entries of a memory's snapshot, 0 without one; None for a custom memory."""
    if memory not in memories:
        return 0
    if memory not in MEMORIES:
        return None
    entries = load_memory(memory).entries(memories[memory])
    return None if entries is None else len(entries)


def describe_sources(sources: Sequence[Source]) -> str:
    files = [source for source in sources if source.kind == "file"]
    text = " and ".join(f"{source.name} ({source.digest})" for source in files)
    for kind, words in (("training", "training on"), ("stream", "stream")):
        names = [source.name for source in sources if source.kind == kind]
        if names:
            after = f" after {text}" if text else ""
            text = f"{words} {names[0]}{after}"
    return text


@dataclass(frozen=True, slots=True)
class InitialMemories:
    """Memories learned elsewhere, with their sources."""

    memories: Mapping[str, Any] = field(default_factory=dict)  # snapshot per memory
    sources: tuple[Source, ...] = ()
    states: int = 0  # number of states in its skill memory
    variants: tuple[str, ...] = ()  # keys of the variants it was learned on
    parts: tuple["InitialMemories", ...] = ()  # one for each file, where there are several
    experience: tuple[Experience, ...] = ()  # what settings name beside the memories, for models to read
    constitution: str = ""  # name of its constitution, where the run has several

    @property
    def digest(self) -> str:
        return " ".join(source.digest for source in self.sources if source.kind == "file")

    @property
    def what(self) -> str:
        """What its file is called among those that a run is bound to."""
        if "constitution" in self.memories:
            return name_kind(self.constitution)
        return next(iter(self.memories), "")

    def select_for(self, arm: Arm) -> "InitialMemories":
        """What a unit of an arm starts from, and all variants that its models read of."""
        all_parts = self.parts or (self,)
        parts = [part for part in all_parts if part._is_of(arm)]
        merged = merge_memories(parts)

        of_files: list[Experience] = []
        for part in self.parts:
            of_files += part.experience
        experience = []
        for item in self.experience:
            is_of_other_file = item in of_files and item not in merged.experience
            if item.serves(arm.method) and not is_of_other_file:
                experience.append(item)

        variants = dict.fromkeys([*merged.variants, *list_learned_variants(experience)])
        return replace(merged, variants=tuple(variants), experience=tuple(experience))

    def _is_of(self, arm: Arm) -> bool:
        if "constitution" in self.memories and self.constitution != arm.constitution:
            return False
        return bool(self.memories.keys() & set(arm.method.memories))


def merge_memories(loads: Sequence[InitialMemories]) -> InitialMemories:
    memories: dict[str, Any] = {}
    sources: list[Source] = []
    variants: list[str] = []
    experience: list[Experience] = []
    for load in loads:
        memories.update(load.memories)
        sources += load.sources
        variants += load.variants
        experience += load.experience

    return InitialMemories(
        memories,
        tuple(sources),
        states=sum(load.states for load in loads),
        variants=tuple(dict.fromkeys(variants)),
        parts=tuple(loads),
        experience=tuple(experience),
    )


NOTHING_CARRIED = InitialMemories()


def load_initial_constitution(
    file: Path, config: Config, plan: Plan, say: Callable[[str], None], name: str = ""
) -> InitialMemories:
    """Load the constitution that units start from, of the arms of its name where it has one; `say` receives a note on
    test variants behind it. Raises `UsageError` if no arm reads it, and for a document that a method would write on."""
    methods = dict.fromkeys(unit.arm.method for unit in plan.units)
    reading = [method for method in methods if "constitution" in method.memories]
    if not reading:
        raise UsageError(f"no method of this run reads {file}; name one as METHOD+constitution, or drop the file")

    book = read_constitution(file)
    document = book.constitution.document
    categories = [category for category in LASTING if category in config.memory.constitution.categories]
    if not document and not book.constitution.select_rules(*categories):
        raise UsageError(f"{file} holds no {' or '.join(categories)} rule, so reading it would have no effect; drop it")
    limit = config.memory.constitution.relevant
    if document and limit is not None:
        say(
            f"{file} is read whole, so memory.constitution.relevant={limit} changes nothing of it: "
            f"`rsso-dspy constitution split {file} -o FILE` makes rules to choose from"
        )
    writers = [method.name for method in reading if method.writing]
    if document and writers:
        raise UsageError(
            f"{file} is read as a whole, and {', '.join(writers)} would go on writing rules: name methods that only "
            "read, as METHOD+constitution, or a file of rules"
        )

    experience = describe_constitution(file, book, CONSTITUTION)
    check_for_run(experience, config, plan.variants, say=say)
    kept_file = _take_from_file(experience, "constitution", book.constitution.dump(), book.constitution.text)
    return replace(kept_file, constitution=name)


def load_initial_skills(file: Path, config: Config, plan: Plan, say: Callable[[str], None]) -> InitialMemories:
    """Load the library that units start from; `say` receives a note on test variants behind it."""
    if not any("skills" in unit.arm.method.memories for unit in plan.units):
        raise UsageError(f"no method of this run uses skills, so {file} would go unused; drop --skills")
    library = read_library(file)
    experience = describe_library(file, library, SKILLS)
    check_for_run(experience, config, plan.variants, say=say)
    library.check(str(file), resolve_protocol(config).skills, config.embedder.model)

    initial = _take_from_file(experience, "skills", library.snapshot, library.to_json())
    states = sum(len(piece["states"]) for piece in library.snapshot["pieces"])
    return replace(initial, states=states)


def _take_from_file(experience: Experience, memory: str, snapshot: Any, content: str) -> InitialMemories:
    memories = {memory: snapshot}
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    sources = sources_of(memories, "file", Path(experience.name).name, digest)
    return InitialMemories(memories, sources, variants=experience.variants, experience=(experience,))


def open_constitution(source: Path, arm: str | None = None) -> ConstitutionFile:
    """Read a file, or the final constitution of an arm of a run, by default of the first that wrote one."""
    if not source.is_dir():
        if arm is not None:
            raise UsageError(f"{source} is a file, which has no arms; drop --arm")
        return read_constitution(source)

    streams: dict[str, list[UnitRecord]] = {}
    for record in Store(source, read_only=True).units():
        if record.stream and not record.has_errors and "constitution" in record.memories:
            streams.setdefault(record.arm, []).append(record)
    chosen_arm = next(iter(streams), "") if arm is None else arm
    records = streams.get(chosen_arm)
    if records is None:
        hint = f"; those of {', '.join(streams)} do" if streams else ""
        raise UsageError(f"{source} holds no finished unit of {arm or 'any arm'} that wrote a constitution{hint}")
    return extract_constitution(sorted(records, key=get_stream_position))


def get_stream_position(record: UnitRecord) -> int:
    return record.stream.place if record.stream else 0


def extract_constitution(records: Sequence[UnitRecord]) -> ConstitutionFile:
    last = records[-1]
    first = records[0]
    book = Constitution.load(last.memories["constitution"])
    variants = dict.fromkeys([*first.learnt_on, *(record.variant.key for record in records)])
    start = [source for source in first.sources if source.kind != "stream"]
    made_by = {
        "writer": last.arm,
        "protocol": last.protocol,
        "backend": last.backend,
        "models": {role: last.models[role] for role in ("actor", "advisor") if role in last.models},
        "rule_based": last.rule_based,
        "seed": last.seed,
        "variants": list(variants),
        "start": describe_sources(start),
        "made_by": last.provenance,
    }
    return ConstitutionFile(book.keep_categories(LASTING), made_by)


# Libraries of a run


def export_library(
    folder: Path, key: str, arm: str | None = None, left_out: Callable[[Store], None] = lambda _: None
) -> tuple[SkillLibraryFile, JobRecord]:
    """Return the library of the unit ``task::index`` or the training of a ``task``, by default of the first arm with
    skills, and its record. `left_out` receives the unreadable files."""
    store = Store(folder, read_only=True)
    records: list[JobRecord]
    if "::" in key:
        records = [*store.units()]
    else:
        records = [*store.trainings()]
    left_out(store)
    record = _choose_library(folder, records, key, arm)
    if record.has_errors:
        failed = record.trials[-1]
        reason = f"trial {failed.trial} is an error ({failed.error}); repeat the run's command to play it again"
        raise UsageError(f"{key} of {record.arm} is not finished: {reason}")
    parse_skill_snapshot(record.memories["skills"], f"{key} of {record.arm} in {folder}")

    learnt_from = [result.trial for result in record.trials if "skills" in result.learnt]
    variants = list(record.learnt_on)
    if learnt_from:
        variants += [trajectory.variant.key for trajectory in record.trajectories]
    attributes = ("protocol", "arm", "method", "program", "backend", "model", "rule_based", "seed", "start")
    provenance: dict[str, Any] = {
        **{name: getattr(record, name) for name in attributes},
        "embedder": store.read_identity()[0].get("config", {}).get("embedder", {}).get("model"),
        "variants": list(dict.fromkeys(variants)),
        "simplification": record.trajectories[0].variant.simplification,
        "trials": len(record.trials),
        "learnt_from": learnt_from,
        "made_by": record.provenance,
    }
    return SkillLibraryFile(provenance, record.memories["skills"]), record


def _choose_library(folder: Path, records: Sequence[JobRecord], key: str, arm: str | None) -> JobRecord:
    """Return the record of an arm, by default of the first with skills. Raises `UsageError` where there is none."""
    remedy = "repeat the run's command to play the rest"
    if not records:
        raise UsageError(f"{folder} holds no finished {'unit' if '::' in key else 'training'} yet; {remedy}")
    records_by_arm = {record.arm: record for record in records if record.key == key}
    if not records_by_arm:
        raise UnknownName("unit", key, {record.key for record in records}, f"Not finished yet? Then {remedy}.")
    if arm is not None and arm not in records_by_arm:
        raise UnknownName("arm", arm, records_by_arm, f"Not finished yet? Then {remedy}.")

    arms_with_skills = [name for name, record in records_by_arm.items() if "skills" in record.memories]
    name = arm or next(iter(arms_with_skills), "")
    if name in arms_with_skills:
        return records_by_arm[name]
    if arms_with_skills:
        fix = f"--arm {' or '.join(arms_with_skills)}"
    else:
        methods = ",".join(name for name, row in METHODS.items() if "skills" in row.memories)
        fix = f"name its training, or play it with --methods {methods}"
    raise UsageError(f"{key} of {arm or ', '.join(records_by_arm)} keeps no skills; {fix}")
