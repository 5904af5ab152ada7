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
    families = [family for family in _read_families() if family.get("for_development", False) == (name == DEVELOPMENT)]
    usual = _draw_usual_families(name, families)
    tellings = _draw_tellings(name, families)

    rules = {}
    for family in families:
        value = next(iter(family["values"])) if family["name"] in usual else _draw_value(name, family)
        rules[family["name"]] = _make_rule(family, value, tellings[family["name"]])
    return Repository(name, rules, compute_digest(rules))


def _read_families() -> Sequence[Family]:
    families: Sequence[Family] = read_data(__package__, "data/families.toml")["family"]
    return families


def order_by_draw(names: Sequence[str], *seed: str) -> list[str]:
    """Return names in an order that a seed draws."""
    return sorted(names, key=lambda name: hashlib.sha256("\n".join((*seed, name)).encode()).hexdigest())


def _draw_usual_families(repository: str, families: Sequence[Family]) -> frozenset[str]:
    """Return the families whose rule asks for what one would do anyway: none that asks for another command before."""
    able = [family["name"] for family in families if "before" not in family]
    return frozenset(order_by_draw(able, "usual", repository)[: len(families) // SHARE_USUAL])


def _draw_tellings(repository: str, families: Sequence[Family]) -> dict[str, Telling]:
    """Return how much the refusals of each family tell: each kind as often as the others."""
    kinds: tuple[Telling, ...] = get_args(Telling)
    names = order_by_draw([family["name"] for family in families], "telling", repository)
    return {name: kinds[place % len(kinds)] for place, name in enumerate(names)}


def _draw_value(repository: str, family: Family) -> str:
    """Return one of the values that are not usual, another one for each repository that is played."""
    names = [*family["values"]]
    unusual = names if "before" in family else names[1:]
    drawn = order_by_draw(unusual, "value", family["name"])
    return drawn[PLAYED.index(repository) if repository in PLAYED else 0]


# A rule of a family.


def _make_rule(family: Family, value: str, telling: Telling) -> Rule:
    values = {"value": value, **family["values"][value]}
    usual = next(iter(family["values"]))
    return Rule(
        name=family["name"],
        text=fill_places(family["rule"], values),
        governs=_read_patterns(family["governs"], values),
        allows=_read_patterns(family.get("allows", ()), values),
        answer=fill_places(family[telling], values),
        telling=telling,
        requests=_make_requests(family, value),
        before=read_pattern(fill_places(family["before"], values)) if "before" in family else None,
        is_usual="before" not in family and value == usual,
        values=len(family["values"]),
    )


def _read_patterns(texts: Sequence[str], values: Mapping[str, str]) -> tuple[Pattern, ...]:
    return tuple(read_pattern(fill_places(text, values)) for text in texts)


def _make_requests(family: Family, value: str) -> dict[Split, tuple[Request, ...]]:
    return {split: tuple(_make_request(family, value, place) for place in places) for split, places in SPLITS.items()}


def _make_request(family: Family, value: str, place: int) -> Request:
    operations = family["operations"]
    steps = _make_steps(family, value, operations[place][1])
    following = _make_steps(family, value, operations[(place + 1) % len(operations)][1])
    return Request(
        text=operations[place][0],
        steps=steps,
        accepted=_list_accepted(steps),
        rejected=_list_rejected(steps, following, _make_habit(family, value, operations[place][1])),
    )


def _make_steps(family: Family, value: str, operation: str) -> tuple[Pattern, ...]:
    values = {"value": value, **family["values"][value]}
    texts = [family["before"], operation] if "before" in family else [operation]
    return _read_patterns(texts, values)


def _make_habit(family: Family, value: str, operation: str) -> str:
    """Return the line of somebody who does not know the rule: where it asks for the usual, of one who deviates."""
    names = [*family["values"]]
    if "before" in family or value != names[0]:
        usual = names[0]
    else:
        usual = names[1]
    return read_pattern(fill_places(operation, {"value": usual, **family["values"][usual]})).example


def _list_accepted(steps: Sequence[Pattern]) -> tuple[str, ...]:
    """Return three ways to write the same: as it is, with the last of all choices and in quotes."""
    *earlier, last = steps
    lead = "".join(f"{step.example} && " for step in earlier)
    *words, end = last.example.split(" ") if "'" not in last.example else [last.example, ""]
    quoted = " ".join([*words, f'"{end}"']) if end else f" {last.example} "
    return (lead + last.example, lead + last.last_example, f"cd . && {lead}{quoted}")


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
    return hashlib.sha256(json.dumps([asdict(rule) for rule in rules.values()]).encode()).hexdigest()[:12]
