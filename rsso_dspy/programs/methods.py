"""The table of methods: a method is a row, not code. Rows differ in scaffold and memories and in nothing else, and any
row without a constitution can have one added to it."""

from dataclasses import dataclass, replace
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


METHODS: dict[str, Method] = {
    row.name: row
    for row in (
        Method(
            "react", "flat", (), "Yao et al. 2023, as run by Shinn et al. 2023; the retry control of the flat scaffold"
        ),
        Method("reflexion", "flat", ("reflections",), "Shinn et al. 2023"),
        Method("sso", "sso", ("skills",), "Nottingham et al. 2024"),
        Method("rsso", "sso", ("reflections", "skills"), "Lubell-Doughtie 2026, section 3"),
        Method("react-sso", "sso", (), "the retry control of the SSO scaffold"),
        Method("reflexion-sso", "sso", ("reflections",), "reflections alone in the SSO scaffold"),
        *(
            Method(f"omnireflect-{writing}", "flat", ("constitution",), "OmniReflect, self-sustaining mode", writing)
            for writing in get_args(Writing)
        ),
    )
}

READING = "constitution"
"""``METHOD+constitution`` reads a constitution and writes none (OmniReflect, co-operative mode); ``METHOD+neural`` and
the like write one while they play."""

ADDITIONS = (READING, *get_args(Writing))
"""What may be added to the name of a method."""


def get_method(name: str) -> Method:
    """The row called `name`, or a row with a constitution added to it: ``rsso+constitution``, ``rsso+symbolic``. Raises
    `UnknownName` with the nearest rows."""
    base, plus, added = name.partition("+")
    if base not in METHODS:
        raise UnknownName("method", base, METHODS)
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
