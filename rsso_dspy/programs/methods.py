"""The table of methods: a method is a row, not code. Rows differ in scaffold and memories and in nothing else, and any
row without a constitution can have one added to it."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, cast, get_args

from rsso_dspy.errors import UnknownName, UsageError

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
    regions: tuple[tuple[str, str], ...] = ()
    """Regions of the prompt that its memories speak in and the actor's signature lacks: name and description. They
    stand before the history."""
    modules: tuple[str, ...] = ()
    """Modules that its own memories ask, beside those that the package's memories need: ``("reflector",)``."""
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

ADDITIONS = (READING, *get_args(Writing))
"""What may be added to the name of a method."""


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
