"""A problem read off what a game says first: its whole state, and its goal.

Nothing is held when a game begins, so that the one sentence which hides an object, that of barman's full hand, does not
occur. Types follow from the predicates that objects stand in.
"""

import re

from rsso_dspy.environments.pddl.phrases import GOAL, PHRASES, Phrases
from rsso_dspy.environments.pddl.strips import OBJECT, Domain, Fact, Literal, Problem


def rebuild_setup(domain: Domain, first: str, goal: str) -> Problem:
    """The problem. Raises ``ValueError`` for a sentence that the domain does not have."""
    phrases = PHRASES[domain.name]
    start = frozenset(_read_sentences(domain, phrases, first, " "))
    wanted = tuple(Literal(fact) for fact in _read_sentences(domain, phrases, goal.removeprefix(GOAL), ", "))
    objects = dict(domain.constants)
    for fact in (*sorted(start), *(literal.fact for literal in wanted)):
        for name, kind in zip(fact[1:], domain.argument_types[fact[0]], strict=True):
            known = objects.get(name, OBJECT)
            objects[name] = kind if domain.is_of_type(kind, known) else known
    objects = {name: _refine_type(domain, kind) for name, kind in objects.items()}
    return Problem("recorded", objects, start, wanted)


def _refine_type(domain: Domain, kind: str) -> str:
    """Of a type that has others below it, the one that no predicate speaks of: whatever is of another has been told by
    its facts. A glass is what is no shaker."""
    told = {each for types in domain.argument_types.values() for each in types}
    below = [name for name, above in domain.types.items() if above == kind and name not in told]
    return below[0] if kind != OBJECT and len(below) == 1 else kind


def _read_sentences(domain: Domain, phrases: Phrases, text: str, between: str) -> list[Fact]:
    patterns = []
    for predicate, types in domain.argument_types.items():
        words = phrases.say_fact((predicate, *("\0" for _ in types)))
        pattern = re.escape(words).replace("\0", r"([^\s.,]+)").replace(re.escape("\0"), r"([^\s.,]+)")
        patterns.append((predicate, re.compile(pattern, re.I)))
    found: list[Fact] = []
    at = 0
    while at < len(text):
        fits = [(match.end(), name, match) for name, pattern in patterns if (match := pattern.match(text, at))]
        if not fits:
            raise ValueError(f"no sentence of {domain.name}: {text[at : at + 60]!r}")
        end, name, match = max(fits, key=lambda fit: fit[0])
        found.append((name, *(part.lower() for part in match.groups())))
        at = end + len(between) if text.startswith(between, end) else end
    return found
