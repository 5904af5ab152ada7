"""The table of methods: a method is a row, not code. Rows differ in scaffold and memories and in nothing else."""

from dataclasses import dataclass
from typing import Literal

from rsso_dspy.errors import UnknownName

Scaffold = Literal["flat", "sso"]


@dataclass(frozen=True, slots=True)
class Method:
    """One row. ``memories`` name the memories an agent of this method keeps, in the order of their regions."""

    name: str
    scaffold: Scaffold
    memories: tuple[str, ...]
    source: str


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
    )
}


def method(name: str) -> Method:
    """The row called `name`; raises `UnknownName` with the nearest rows."""
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]
