"""Selection of the comparisons between arms. Fewer comparisons need a smaller correction.

select_contrasts(arms)                     # those that the methods are designed for
select_contrasts(arms, against="react")    # all arms against one
select_contrasts(arms, every=True)         # all pairs
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rsso_dspy.errors import UnknownName
from rsso_dspy.programs.methods import find_retry_control
from rsso_dspy.records import ZERO_SHOT, UnitRecord
from rsso_dspy.report.comparison import FACTORIAL_METHODS, Comparison

BESIDE_SKILLS = "reflections beside skills"
OVER_RETRIES = "memory over equal retries"
OVER_NONE = "memory over none"
ELSEWHERE = "the same arm of another folder"


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two arms to compare by ``second - first``; `asks` names the question."""

    first: str
    second: str
    asks: str


def select_contrasts(
    arms: Mapping[str, Sequence[UnitRecord]], against: str | None = None, every: bool = False
) -> list[Contrast]:
    """Select the comparisons of a run, each pair once.

    By default: compiling, memories over equal retries, constitutions, reflections beside skills, and scaffolds, as far
    as the arms exist; any other arm is compared with the first one. If several folders have the same arms, each is
    compared only with that of the first folder. Raises `UnknownName` for an unknown arm.
    """
    if against is not None:
        if against not in arms:
            raise UnknownName("arm", against, arms)
        return [Contrast(against, name, "") for name in arms if name != against]
    if every:
        return [Contrast(first, second, "") for first, second in combinations(arms, 2)]
    if several := [names for names in _group_arms_by_program(arms).values() if len(names) > 1]:
        return [Contrast(first, name, ELSEWHERE) for first, *others in several for name in others]
    named = {(units[0].method, units[0].program): name for name, units in arms.items() if units}
    asked: dict[frozenset[str], Contrast] = {}
    for (method, program), name in named.items():
        for asks, other in _list_baselines(method, program):
            if other in named and named[other] != name:
                asked.setdefault(frozenset((name, named[other])), Contrast(named[other], name, asks))
    first, *rest = arms or ("",)
    told = {name for question in asked.values() for name in (question.first, question.second)}
    return [*asked.values(), *(Contrast(first, name, "") for name in rest if name not in told)]


def relabel_single_trial_contrast(question: Contrast, comparison: Comparison) -> Contrast:
    """Rename a comparison over retries when only one trial was played, since one trial has no retries."""
    return replace(question, asks=OVER_NONE) if question.asks == OVER_RETRIES and comparison.trials == 1 else question


def find_factorials(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, dict[str, Sequence[UnitRecord]]]:
    """Return the units by program and method of every complete 2x2; empty if several folders have the same arms."""
    if any(len(names) > 1 for names in _group_arms_by_program(arms).values()):
        return {}
    programs: dict[str, dict[str, Sequence[UnitRecord]]] = {}
    for units in arms.values():
        if units:
            programs.setdefault(units[0].program, {})[units[0].method] = units
    return {
        program: {method: found[method] for method in FACTORIAL_METHODS}
        for program, found in programs.items()
        if all(method in found for method in FACTORIAL_METHODS)
    }


def _group_arms_by_program(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[tuple[str, str], list[str]]:
    """Return the arms by method and program."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, units in arms.items():
        if units:
            found.setdefault((units[0].method, units[0].program), []).append(name)
    return found


def _list_baselines(method: str, program: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield possible comparisons of an arm with their questions, the narrowest first."""
    base, plus, added = method.partition("+")
    if program != ZERO_SHOT:
        yield "compiling", (method, ZERO_SHOT)
        return
    if plus:
        yield "constitution", (base, program)
    with_it = f"{plus}{added}"
    if base == "rsso":
        yield BESIDE_SKILLS, (f"sso{with_it}", program)
    if control := find_retry_control(base):
        yield OVER_RETRIES, (f"{control}{with_it}", program)
    if base == "react-sso":
        yield "scaffold", (f"react{with_it}", program)
