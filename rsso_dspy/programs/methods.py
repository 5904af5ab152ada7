"""The table of methods: a method is a row, not code. Rows differ in scaffold and memories and in nothing else, and any
row without a constitution can have one added to it. Memories, the modules that they ask and the signatures of the actor
are named with the place of their code, which is loaded when it is needed.

    add_method(Method("mine", "flat", ("diary",), "a paper"), diary=Diary)      # every verb and `Agent` knows it now
"""

import re
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.regions import HISTORY, REGIONS

if TYPE_CHECKING:
    import dspy

    from rsso_dspy.memory import Memory

Scaffold = Literal["flat", "sso"]
Writing = Literal["neural", "symbolic", "neuro-symbolic"]  # who writes a constitution: a model, patterns, or both


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    scaffold: Scaffold
    memories: tuple[str, ...]  # those that an agent of this method keeps, in the order of their regions
    source: str
    writing: Writing | None = None  # who writes its constitution; None when it has none, or only reads one
    modules: tuple[str, ...] = ()  # those that it has beside what its memories ask always
    passed_on: tuple[str, ...] = ()  # memories that a unit hands to the next, beside a constitution that it writes

    @property
    def streamed(self) -> tuple[str, ...]:
        """The memories that go from variant to variant of a stream, a constitution that it writes among them."""
        return (*(("constitution",) if self.writing else ()), *self.passed_on)

    @property
    def is_in_stream(self) -> bool:
        """Whether its units form a stream, each starting from what the one before it left."""
        return bool(self.streamed)

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(name for name in self.memories if name != READING or self.writing)

    def list_modules(self) -> tuple[str, ...]:
        """The modules that it needs beside its actor."""
        needed = {*self.modules, *(module for name in self.memories for module in load_memory(name).asks)}
        if READING in self.memories and self.writing in ("neural", "neuro-symbolic"):
            needed.add("constitution_writer")
        return tuple(name for name in MODULES if name in needed)


READING = "constitution"
ADDITIONS = (READING, *get_args(Writing))
"""What may be added to a method's name: ``METHOD+constitution`` reads a constitution and writes none (OmniReflect,
co-operative mode); ``METHOD+neural`` and the like write one while they play."""

SHINN, WRITES = "Shinn et al. 2023", "OmniReflect, self-sustaining mode"
_ROWS = (
    Method("react", "flat", (), f"Yao et al. 2023, as run by {SHINN}; the retry control of the flat scaffold"),
    Method("reflexion", "flat", ("reflections",), SHINN),
    Method(
        "reflexion-hierarchical", "flat", ("reflections",), f"{SHINN}, with a long-term memory whose writer is its own",
        modules=("reflection_distiller",),
    ),
    Method("sso", "sso", ("skills",), "Nottingham et al. 2024"),
    Method("rsso", "sso", ("reflections", "skills"), "Lubell-Doughtie 2026, section 3"),
    Method("react-sso", "sso", (), "the retry control of the SSO scaffold"),
    Method("reflexion-sso", "sso", ("reflections",), "reflections alone in the SSO scaffold"),
    *(Method(f"omnireflect-{who}", "flat", ("constitution",), WRITES, who) for who in get_args(Writing)),
    Method("last-trajectory", "flat", ("last-trajectory",), f"{SHINN}, the baseline with the last trajectory"),
    Method("long-context", "flat", ("long-context",), "all past trials in the prompt, as in EvoMemBench 2026"),
    # Memories that live in a stream of variants:
    Method("exprag", "flat", ("exprag",), "ExpRAG of Evo-Memory, Wei et al. 2025", passed_on=("exprag",)),
    Method("expel", "flat", ("expel",), "ExpeL, Zhao et al. 2024", passed_on=("expel",)),
    Method("awm", "sso", ("awm",), "Agent Workflow Memory, Wang et al. 2024, online", passed_on=("awm",)),
    Method("reasoningbank", "flat", ("reasoningbank",), "Ouyang et al. 2025", passed_on=("reasoningbank",)),
    Method("ace", "flat", ("ace",), "Agentic Context Engineering, Zhang et al. 2025", passed_on=("ace",)),
    Method("cheatsheet", "flat", ("cheatsheet",), "Suzgun et al. 2025, cumulative", passed_on=("cheatsheet",)),
)  # fmt: skip
METHODS: dict[str, Method] = {row.name: row for row in _ROWS}

MEMORIES: dict[str, "str | type[Memory]"] = {  # name to its class, or to the class's place in `rsso_dspy.memory`
    "reflections": "reflections:ReflectionMemory",
    "skills": "skills:SkillMemory",
    "constitution": "constitution:ConstitutionMemory",
    "last-trajectory": "contenders:LastTrajectory",
    "long-context": "contenders:LongContext",
    "exprag": "contenders:ExpRag",
    "expel": "contenders:Expel",
    "awm": "contenders:AgentWorkflowMemory",
    "reasoningbank": "contenders:ReasoningBank",
    "ace": "contenders:Playbook",
    "cheatsheet": "contenders:Cheatsheet",
}


def load_memory(name: str) -> "type[Memory]":
    if name not in MEMORIES:
        raise UnknownName("memory", name, MEMORIES, "Hand its class to add_method.")
    entry = MEMORIES[name]
    memory: type[Memory] = _load(f"memory.{entry}") if isinstance(entry, str) else entry
    return memory


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"rsso_dspy.{module}"), name)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    place: str  # where its class or the signature of its one predictor is
    role: str  # which model answers it, and under which name its tokens are counted
    parts: tuple[str, ...] = ("",)  # names of its predictors, where it has several

    def make(self) -> "dspy.Module":
        import dspy

        kind = _load(self.place)
        return dspy.Predict(kind) if issubclass(kind, dspy.Signature) else cast(dspy.Module, kind())


_VERBALIZER, _WRITER = "programs.skill_verbalizer:SkillVerbalizer", "programs.constitution_writer:ConstitutionWriter"
MODULES: dict[str, ModuleRow] = {
    "reflector": ModuleRow("signatures.memory_writers:Reflect", "reflector"),
    "reflection_distiller": ModuleRow("signatures.memory_writers:DistillReflections", "reflector"),
    "skill_verbalizer": ModuleRow(_VERBALIZER, "verbalizer", ("summary", "instructions", "target")),
    "skill_equivalence": ModuleRow("signatures.memory_writers:JudgeEquivalence", "verbalizer"),
    "constitution_writer": ModuleRow(_WRITER, "advisor", ("write", "summarize")),
    "insight_writer": ModuleRow("signatures.memory_writers:ReviseInsights", "advisor"),
    "workflow_writer": ModuleRow("signatures.memory_writers:InduceWorkflows", "verbalizer"),
    "strategy_writer": ModuleRow("signatures.memory_writers:ExtractStrategies", "verbalizer"),
    "playbook_reviewer": ModuleRow("signatures.memory_writers:ReviewPlaybook", "reflector"),
    "cheatsheet_writer": ModuleRow("signatures.memory_writers:RewriteCheatsheet", "advisor"),
}

ROLE_OF = {  # every predictor that an agent of some method has, by DSPy's name for it
    "actor": "actor",
    **{f"{name}.{part}".rstrip("."): row.role for name, row in MODULES.items() for part in row.parts},
}

SCAFFOLDS: dict[Scaffold, str] = {"flat": "signatures.actor:FlatActor", "sso": "signatures.actor:SkillActor"}


def actor_signature(row: Method) -> "type[dspy.Signature]":
    """The signature of the method's actor: its scaffold's, with the regions of its memories in the order of the table,
    then those that memories of other packages describe. Raises `UsageError` where two memories fill one region."""
    memories = tuple(load_memory(name) for name in row.memories)
    for region, count in Counter(memory.region for memory in memories).items():
        if count > 1:
            raise UsageError(f"{row.name}: {count} of its memories fill the region {region}; drop all but one")
    return _add_regions(_load(SCAFFOLDS[row.scaffold]), memories)


@lru_cache(maxsize=64)
def _add_regions(signature: "type[dspy.Signature]", memories: "tuple[type[Memory], ...]") -> "type[dspy.Signature]":
    import dspy

    new = [memory for memory in memories if memory.region not in signature.input_fields]
    for memory in sorted(new, key=lambda kind: [*REGIONS, kind.region].index(kind.region)):
        description = REGIONS[memory.region].description if memory.region in REGIONS else memory.about
        place = list(signature.input_fields).index("notice" if changes_each_step(memory) else "task")
        signature = signature.insert(place, memory.region, dspy.InputField(desc=description, default=""), str)
    return signature


def changes_each_step(memory: "type[Memory]") -> bool:
    """Whether what a memory puts into a prompt belongs to one step, and stands in the step's own message: that of
    `recall`, unless the table of regions has it stand at the beginning."""
    from rsso_dspy.memory import Memory

    if memory.region in REGIONS:
        order = list(REGIONS)
        return order.index(memory.region) > order.index(HISTORY)
    return memory.recall is not Memory.recall


FLAT_OF = {"react-sso": "react", "reflexion-sso": "reflexion"}  # the same memories in the flat scaffold
PAPER_LAYOUT = ("sso-adapt", "release")  # presets in which the scaffolds differ also where there is no skill


def plays_conversation(protocol: str) -> bool:
    """Whether the prompts of a protocol, given by its full name, are a conversation: both scaffolds send the same."""
    preset, *departures = protocol.split()
    layouts = [departure for departure in departures if departure.startswith("layout=")]
    return layouts == ["layout=conversation"] or (not layouts and not preset.startswith(PAPER_LAYOUT))


def find_retry_control(name: str) -> str | None:
    """Return the method of the same scaffold without a memory, which has equal retries; None for such a method itself,
    and for a name that no row has."""
    row = METHODS.get(name.partition("+")[0])
    return {"flat": "react", "sso": "react-sso"}[row.scaffold] if row and row.memories else None


def get_method(name: str) -> Method:
    """The row called `name`, or a row with a constitution added to it: ``rsso+constitution``, ``rsso+symbolic``. Raises
    `UnknownName` with the nearest rows."""
    base, plus, added = name.partition("+")
    if base not in METHODS:
        raise UnknownName("method", base, METHODS, "A script adds its own with add_method.")
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


def add_method(row: Method, **memories: "type[Memory]") -> None:
    """Make a method known to every verb and `Agent` of this process, with the classes of its own memories by name.
    Raises `UsageError` for a name that is taken or cannot name a folder, and for a method without an actor."""
    # Beside fields.
    reserved = {"self", "recalled", "signature", "lm", "demos", "config", "new_signature", "completions"}
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.name):
        raise UsageError(f"method {row.name!r}: its name takes small letters, digits, - and _, for it names folders")
    if clashes := [*({row.name} & {*METHODS, ZERO_SHOT, *ADDITIONS}), *(memories.keys() & MEMORIES.keys())]:
        raise UsageError(f"{', '.join(clashes)} is taken; give it another name")
    MEMORIES.update(memories)
    METHODS[row.name] = row
    try:
        for memory in map(load_memory, row.memories):
            new = memory.region not in REGIONS
            if memory.region in reserved or not memory.region.isidentifier() or (new and not memory.about):
                raise UsageError(f"a new region cannot be called {memory.region!r}, or lacks `about`, what it holds")
            if unknown := {*row.modules, *memory.asks} - MODULES.keys():
                raise UnknownName("module", sorted(unknown)[0], MODULES)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            actor_signature(row)
    except Exception as error:  # also of DSPy and pydantic, by the name of a region
        del METHODS[row.name]
        for name in memories:
            del MEMORIES[name]
        raise UsageError(f"the method {row.name} cannot be played: {error}") from error
