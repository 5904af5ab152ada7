"""The table of methods: a method is a row, not code. Rows differ in scaffold and memories and in nothing else, and any
row without a constitution can have one added to it.

    add_method(Method("mine", "flat", ("diary",), "a paper"), diary=Diary)      # every verb and `Agent` knows it now

Memories, the modules that they ask and the signatures of the actor are named here with the place of their code, which
is loaded when it is needed.
"""

import re
import warnings
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.regions import HISTORY, REGIONS

if TYPE_CHECKING:
    import dspy

    from rsso_dspy.memory import Memory

Scaffold = Literal["flat", "sso"]

Writing = Literal["neural", "symbolic", "neuro-symbolic"]
"""Who writes the rules of a constitution (OmniReflect, section 2.1): a model; patterns over observations; a model that
is shown rules which patterns wrote."""


@dataclass(frozen=True, slots=True)
class Method:
    """One row. ``memories`` name the memories an agent of this method keeps, in the order of their regions."""

    name: str
    scaffold: Scaffold
    memories: tuple[str, ...]
    source: str
    writing: Writing | None = None
    """Who writes its constitution while it plays; None when it has none, or only reads one."""
    modules: tuple[str, ...] = ()
    """Modules that it has beside those that its memories ask always: ``("reflection_distiller",)``."""
    passed_on: tuple[str, ...] = ()
    """Memories that a unit hands to the next, beside a constitution that it writes: its units form a stream."""

    @property
    def is_in_stream(self) -> bool:
        """Whether its units form a stream, each starting from what the one before it left."""
        return self.writing is not None or bool(self.passed_on)

    @property
    def streamed(self) -> tuple[str, ...]:
        """The memories that go from variant to variant of a stream, a constitution that it writes among them."""
        return (*(("constitution",) if self.writing else ()), *self.passed_on)

    @property
    def written(self) -> tuple[str, ...]:
        """The memories that change while it plays."""
        return tuple(name for name in self.memories if name != READING or self.writing)

    def list_modules(self) -> tuple[str, ...]:
        """The modules that it needs beside its actor: those of its memories, and those the row names."""
        needed = {*self.modules, *(module for name in self.memories for module in load_memory(name).asks)}
        if READING in self.memories and self.writing in ("neural", "neuro-symbolic"):
            needed.add("constitution_writer")
        return tuple(name for name in MODULES if name in needed)


READING = "constitution"
"""``METHOD+constitution`` reads a constitution and writes none (OmniReflect, co-operative mode); ``METHOD+neural`` and
the like write one while they play."""


def _stream(name: str, source: str, scaffold: Scaffold = "flat") -> Method:
    """The row of a memory of this name that lives in a stream of variants."""
    return Method(name, scaffold, (name,), source, passed_on=(name,))


METHODS: dict[str, Method] = {
    row.name: row
    for row in (
        Method(
            "react", "flat", (), "Yao et al. 2023, as run by Shinn et al. 2023; the retry control of the flat scaffold"
        ),
        Method("reflexion", "flat", ("reflections",), "Shinn et al. 2023"),
        Method(
            "reflexion-hierarchical",
            "flat",
            ("reflections",),
            "Shinn et al. 2023, with a long-term memory whose writer can be compiled",
            modules=("reflection_distiller",),
        ),
        Method("sso", "sso", ("skills",), "Nottingham et al. 2024"),
        Method("rsso", "sso", ("reflections", "skills"), "Lubell-Doughtie 2026, section 3"),
        Method("react-sso", "sso", (), "the retry control of the SSO scaffold"),
        Method("reflexion-sso", "sso", ("reflections",), "reflections alone in the SSO scaffold"),
        *(
            Method(f"omnireflect-{writing}", "flat", ("constitution",), "OmniReflect, self-sustaining mode", writing)
            for writing in get_args(Writing)
        ),
        Method(
            "last-trajectory", "flat", ("last-trajectory",), "Shinn et al. 2023, the baseline with the last trajectory"
        ),
        Method("long-context", "flat", ("long-context",), "all past trials in the prompt, as in EvoMemBench 2026"),
        _stream("exprag", "ExpRAG of Evo-Memory, Wei et al. 2025"),
        _stream("expel", "ExpeL, Zhao et al. 2024"),
        _stream("awm", "Agent Workflow Memory, Wang et al. 2024, online", "sso"),
        _stream("reasoningbank", "ReasoningBank, Ouyang et al. 2025"),
        _stream("ace", "Agentic Context Engineering, Zhang et al. 2025"),
        _stream("cheatsheet", "Dynamic Cheatsheet, Suzgun et al. 2025, cumulative"),
    )
}

CONTENDERS = "rsso_dspy.memory.contenders"

MEMORIES: dict[str, "str | type[Memory]"] = {
    "reflections": "rsso_dspy.memory.reflections:ReflectionMemory",
    "skills": "rsso_dspy.memory.skills:SkillMemory",
    "constitution": "rsso_dspy.memory.constitution:ConstitutionMemory",
    "last-trajectory": f"{CONTENDERS}:LastTrajectory",
    "long-context": f"{CONTENDERS}:LongContext",
    "exprag": f"{CONTENDERS}:ExpRag",
    "expel": f"{CONTENDERS}:Expel",
    "awm": f"{CONTENDERS}:AgentWorkflowMemory",
    "reasoningbank": f"{CONTENDERS}:ReasoningBank",
    "ace": f"{CONTENDERS}:Playbook",
    "cheatsheet": f"{CONTENDERS}:Cheatsheet",
}
"""Name of a memory to its class, or to the place of its class."""


def load_memory(name: str) -> "type[Memory]":
    """The class of the memory of this name. Raises `UnknownName`."""
    if name not in MEMORIES:
        raise UnknownName("memory", name, MEMORIES, "Hand its class to add_method.")
    found = MEMORIES[name]
    memory: type[Memory] = _load(found) if isinstance(found, str) else found
    return memory


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One module that an agent may have beside its actor."""

    place: str
    """Where its class or the signature of its one predictor is."""
    role: str
    """Which model answers it, and under which name its tokens are counted."""
    parts: tuple[str, ...] = ()
    """Names of its predictors, where it has several."""

    def make(self) -> "dspy.Module":
        import dspy

        found = _load(self.place)
        return dspy.Predict(found) if issubclass(found, dspy.Signature) else cast(dspy.Module, found())


WRITERS = "rsso_dspy.signatures.memory_writers"

MODULES: dict[str, ModuleRow] = {
    "reflector": ModuleRow("rsso_dspy.signatures.reflection:Reflect", "reflector"),
    "reflection_distiller": ModuleRow("rsso_dspy.signatures.reflection:DistillReflections", "reflector"),
    "skill_verbalizer": ModuleRow(
        "rsso_dspy.programs.skill_verbalizer:SkillVerbalizer", "verbalizer", ("summary", "instructions", "target")
    ),
    "skill_equivalence": ModuleRow("rsso_dspy.signatures.skills:JudgeEquivalence", "verbalizer"),
    "constitution_writer": ModuleRow(
        "rsso_dspy.programs.constitution_writer:ConstitutionWriter", "advisor", ("write", "summarize")
    ),
    "insight_writer": ModuleRow(f"{WRITERS}:ReviseInsights", "advisor"),
    "workflow_writer": ModuleRow(f"{WRITERS}:InduceWorkflows", "verbalizer"),
    "strategy_writer": ModuleRow(f"{WRITERS}:ExtractStrategies", "verbalizer"),
    "playbook_reviewer": ModuleRow(f"{WRITERS}:ReviewPlaybook", "reflector"),
    "cheatsheet_writer": ModuleRow(f"{WRITERS}:RewriteCheatsheet", "advisor"),
}

ROLE_OF = {
    "actor": "actor",
    **{f"{name}.{part}" if part else name: row.role for name, row in MODULES.items() for part in row.parts or ("",)},
}
"""Every predictor that an agent of some method has, by DSPy's name for it, to its role."""

ADDITIONS = (READING, *get_args(Writing))
"""What may be added to the name of a method."""

SCAFFOLDS: dict[Scaffold, str] = {
    "flat": "rsso_dspy.signatures.actor:FlatActor",
    "sso": "rsso_dspy.signatures.actor:SkillActor",
}
"""Scaffold to the place of its actor's signature."""


def actor_signature(row: Method) -> "type[dspy.Signature]":
    """The signature of the method's actor: its scaffold's, with the regions of its memories before the history."""
    return add_regions(_load(SCAFFOLDS[row.scaffold]), list_regions(row))


def list_regions(row: Method) -> tuple[tuple[str, str, str], ...]:
    """Regions that an actor of the method has beside those of its scaffold, with description and the field that each
    stands before: those of its memories in the order of the table of regions, then those that memories of other
    packages describe. Raises `UsageError` where two memories fill one region."""
    filled: dict[str, str] = {}
    memories = {name: load_memory(name) for name in row.memories}
    for name, memory in memories.items():
        if other := filled.get(memory.region):
            raise UsageError(f"{row.name}: {other} and {name} both fill the region {memory.region}; drop one of them")
        filled[memory.region] = name
    scaffold = _load(SCAFFOLDS[row.scaffold]).input_fields
    new = [memory for memory in memories.values() if memory.region not in scaffold]
    new.sort(key=lambda memory: [*REGIONS, memory.region].index(memory.region))
    told = {memory: REGIONS[memory.region].description if memory.region in REGIONS else memory.about for memory in new}
    return tuple((each.region, told[each], "notice" if changes_each_step(each) else "task") for each in new)


def changes_each_step(memory: "type[Memory]") -> bool:
    """Whether what a memory puts into a prompt belongs to one step, and stands in the step's own message: that of
    `recall`, unless the table of regions has it stand at the beginning."""
    from rsso_dspy.memory import Memory

    if memory.region in REGIONS:
        order = list(REGIONS)
        return order.index(memory.region) > order.index(HISTORY)
    return memory.recall is not Memory.recall


@lru_cache(maxsize=64)
def add_regions(signature: "type[dspy.Signature]", regions: tuple[tuple[str, str, str], ...]) -> "type[dspy.Signature]":
    """Add regions, given by name, description and the field that follows, to an actor's signature."""
    import dspy

    for name, description, following in regions:
        place = list(signature.input_fields).index(following)
        signature = signature.insert(place, name, dspy.InputField(desc=description, default=""), str)
    return signature


GROUP = "rsso_dspy.memories"
"""Entry points of packages that add memories and methods: each names a function without arguments, or a module, that
calls `add_method`."""


@cache
def load_added_methods() -> None:
    """Let installed packages add their methods, once in a process. Raises `UsageError` that names the package."""
    from importlib.metadata import entry_points

    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        package = point.dist.name if point.dist else "an unknown package"
        try:
            found = point.load()
            if callable(found):
                found()
        except Exception as error:
            raise UsageError(
                f"the memories {point.name} of {package} ({point.value}) cannot be added: {type(error).__name__}: "
                f"{error}. Fix that package or uninstall it"
            ) from error


def find_retry_control(name: str) -> str | None:
    """Return the method of the same scaffold without a memory, which has equal retries.

    None for such a method itself, and for a name that no row has.
    """
    try:
        row = get_method(name.partition("+")[0])
    except UnknownName:
        return None
    return {"flat": "react", "sso": "react-sso"}[row.scaffold] if row.memories else None


def get_method(name: str) -> Method:
    """The row called `name`, or a row with a constitution added to it: ``rsso+constitution``, ``rsso+symbolic``. Raises
    `UnknownName` with the nearest rows."""
    base, plus, added = name.partition("+")
    if base not in METHODS:
        load_added_methods()
    if base not in METHODS:
        hint = f"Packages can add more through the entry point group {GROUP}."
        raise UnknownName("method", base, METHODS, hint)
    row = METHODS[base]
    if not plus:
        return row
    if added not in ADDITIONS:
        raise UnknownName("addition to a method", added, ADDITIONS)
    if "constitution" in row.memories:
        raise UsageError(f"{base} has a constitution already; name it without +{added}")
    source = f"{row.source}; with a constitution (OmniReflect)"
    writing = None if added == READING else cast(Writing, added)
    return replace(row, name=name, memories=("constitution", *row.memories), source=source, writing=writing)


_RESERVED = (ZERO_SHOT, *ADDITIONS)
"""Names of a program, and of what may be added to a method."""

_TOLD = {"self", "recalled", "signature", "lm", "demos", "config", "new_signature", "completions"}
"""What a call of the actor is told besides fields, so that no region can be called that."""


def add_method(row: Method, **memories: "type[Memory]") -> None:
    """Make a method known under its name, with the classes of its own memories by name. Every verb and `Agent` knows it
    from then on, in this process.

    Raises `UsageError` for a name that is taken or cannot name a folder, and for a method whose actor cannot be made.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.name):
        raise UsageError(f"method {row.name!r}: its name takes small letters, digits, - and _, for it names folders")
    if taken := [*({row.name} & {*METHODS, *_RESERVED}), *(memories.keys() & MEMORIES.keys())]:
        raise UsageError(f"{', '.join(taken)} is taken; give it another name")
    MEMORIES.update(memories)
    METHODS[row.name] = row
    try:
        _check_method(row)
    except Exception as error:  # also of DSPy and pydantic, by the name of a region
        del METHODS[row.name]
        for name in memories:
            del MEMORIES[name]
        raise UsageError(f"the method {row.name} cannot be played: {error}") from error


def _check_method(row: Method) -> None:
    """Raise an error if an agent of the method cannot be made."""
    for memory in map(load_memory, row.memories):
        new = memory.region not in REGIONS
        if memory.region in _TOLD or not memory.region.isidentifier() or (new and not memory.about):
            raise UsageError(f"a new region cannot be called {memory.region!r}, or lacks `about`, what it holds")
        if unknown := {*row.modules, *memory.asks} - MODULES.keys():
            raise UnknownName("module", sorted(unknown)[0], MODULES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        actor_signature(row)
