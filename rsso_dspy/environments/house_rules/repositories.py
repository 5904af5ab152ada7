"""Where rules and requests come from: four repositories that come along, drawn from families of rules, or a file of the
user's (`rules_file.py`).

    get_repository("one").rules["push-remote"].text       # "Push branches as `git push hub ...`."

``one``, ``two`` and ``three`` have the same task types and requests, and other rules: of each family they draw
different values. A quarter of their rules keep the usual value. ``dev`` has families of its own: prompts and examples
are tried there. Draws are by SHA-256, so that they are the same everywhere.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, get_args

from rsso_dspy.environments.house_rules.patterns import Pattern, fill_places, read_pattern
from rsso_dspy.environments.house_rules.rules import Repository, Request, Rule, Telling
from rsso_dspy.environments.house_rules.rules_file import read_rules_file
from rsso_dspy.environments.lessons import read_data
from rsso_dspy.records import Split

PLAYED = ("one", "two", "three")
DEVELOPMENT = "dev"
NAMES = (*PLAYED, DEVELOPMENT)
DEFAULT = PLAYED[0]

SPLITS: Mapping[Split, range] = {"train": range(6), "dev": range(6, 8), "test": range(8, 12)}
"""Places of the requests of a family."""

SHARE_USUAL = 4
"""One of so many rules keeps the usual value."""

Family = Mapping[str, Any]


def get_repository(data: str) -> Repository:
    """Return a repository that comes along, or that of a file of rules. Raises `UsageError`."""
    if data in NAMES:
        return draw_repository(data)
    return read_rules_file(data)


@cache
def draw_repository(name: str) -> Repository:
    is_development = name == DEVELOPMENT
    families = [family for family in _read_families() if family.get("for_development", False) == is_development]
    usual_families = _draw_usual_families(name, families)
    tellings = _draw_tellings(name, families)

    rules = {}
    for family in families:
        rule_name = family["name"]
        if rule_name in usual_families:
            value = _get_usual_value(family)
        else:
            value = _draw_value(name, family)
        rules[rule_name] = _make_rule(family, value, tellings[rule_name])
    return Repository(name, rules, compute_digest(rules))


def _read_families() -> Sequence[Family]:
    families: Sequence[Family] = read_data(__package__, "data/families.toml")["family"]
    return families


def order_by_draw(names: Sequence[str], *seed: str) -> list[str]:
    """Return names in an order that a seed draws."""

    def draw(name: str) -> str:
        text = "\n".join((*seed, name))
        return hashlib.sha256(text.encode()).hexdigest()

    return sorted(names, key=draw)


def _draw_usual_families(repository: str, families: Sequence[Family]) -> frozenset[str]:
    """Return the families whose rule asks for what one would do anyway: none that asks for another command before."""
    able = [family["name"] for family in families if "before" not in family]
    drawn = order_by_draw(able, "usual", repository)
    count = len(families) // SHARE_USUAL
    return frozenset(drawn[:count])


def _draw_tellings(repository: str, families: Sequence[Family]) -> dict[str, Telling]:
    """Return how much the refusals of each family tell: each kind as often as the others."""
    kinds: tuple[Telling, ...] = get_args(Telling)
    names = [family["name"] for family in families]
    drawn = order_by_draw(names, "telling", repository)
    return {name: kinds[place % len(kinds)] for place, name in enumerate(drawn)}


def _draw_value(repository: str, family: Family) -> str:
    """Return one of the values that are not usual, another one for each repository that is played."""
    values = [*family["values"]]
    unusual = values if "before" in family else values[1:]
    drawn = order_by_draw(unusual, "value", family["name"])
    place = PLAYED.index(repository) if repository in PLAYED else 0
    return drawn[place]


def _get_usual_value(family: Family) -> str:
    usual: str = next(iter(family["values"]))
    return usual


# A rule of a family.


def _make_rule(family: Family, value: str, telling: Telling) -> Rule:
    values = _list_values(family, value)

    preceding = None
    if "before" in family:
        preceding = read_pattern(fill_places(family["before"], values))
    return Rule(
        name=family["name"],
        text=fill_places(family["rule"], values),
        governs=_read_patterns(family["governs"], values),
        allows=_read_patterns(family.get("allows", ()), values),
        answer=fill_places(family[telling], values),
        telling=telling,
        requests=_make_requests(family, value),
        before=preceding,
        is_usual=preceding is None and value == _get_usual_value(family),
        values=len(family["values"]),
    )


def _list_values(family: Family, value: str) -> dict[str, str]:
    """Return what fills the places in a family's texts, where its rule asks for this value."""
    return {"value": value, **family["values"][value]}


def _read_patterns(texts: Sequence[str], values: Mapping[str, str]) -> tuple[Pattern, ...]:
    return tuple(read_pattern(fill_places(text, values)) for text in texts)


def _make_requests(family: Family, value: str) -> dict[Split, tuple[Request, ...]]:
    requests: dict[Split, tuple[Request, ...]] = {}
    for split, places in SPLITS.items():
        requests[split] = tuple(_make_request(family, value, place) for place in places)
    return requests


def _make_request(family: Family, value: str, place: int) -> Request:
    operations = family["operations"]
    text, operation = operations[place]
    _, following_operation = operations[(place + 1) % len(operations)]

    steps = _make_steps(family, value, operation)
    following = _make_steps(family, value, following_operation)
    habit = _make_habit(family, value, operation)
    return Request(
        text=text,
        steps=steps,
        accepted=_list_accepted(steps),
        rejected=_list_rejected(steps, following, habit),
    )


def _make_steps(family: Family, value: str, operation: str) -> tuple[Pattern, ...]:
    texts = [family["before"], operation] if "before" in family else [operation]
    return _read_patterns(texts, _list_values(family, value))


def _make_habit(family: Family, value: str, operation: str) -> str:
    """Return the line of somebody who does not know the rule: where it asks for the usual, of one who deviates."""
    values = [*family["values"]]
    is_usual = "before" not in family and value == values[0]
    habit = values[1] if is_usual else values[0]
    line = fill_places(operation, _list_values(family, habit))
    return read_pattern(line).example


def _list_accepted(steps: Sequence[Pattern]) -> tuple[str, ...]:
    """Return three ways to write the same: as it is, with the last of all choices and in quotes."""
    *earlier, last = steps
    lead = "".join(f"{step.example} && " for step in earlier)
    quoted = _quote_last_word(last.example)
    return (lead + last.example, lead + last.last_example, f"cd . && {lead}{quoted}")


def _quote_last_word(line: str) -> str:
    """Return the line with its last word in quotes; where something is quoted already, with a blank at each end."""
    *words, end = line.split(" ")
    if "'" in line or not end:
        return f" {line} "
    return " ".join([*words, f'"{end}"'])


def _list_rejected(steps: Sequence[Pattern], following: Sequence[Pattern], habit: str) -> dict[str, str]:
    line = " && ".join(step.example for step in steps)
    unquoted = line.rstrip("'")
    return {
        "another operation": " && ".join(step.example for step in following),
        "echo": f"echo {line}",
        "shotgun": f"{line} && {following[-1].example}",
        "another operand": f"{unquoted}2{line[len(unquoted) :]}",
        "the habit": habit,
    }


def compute_digest(rules: Mapping[str, Rule]) -> str:
    """Return what results are bound to: twelve digits of a hash over all that decides texts and points."""
    text = json.dumps([asdict(rule) for rule in rules.values()])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
