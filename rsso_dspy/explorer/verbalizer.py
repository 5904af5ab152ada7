"""The verbalizer: describes what two excerpts have in common by name, steps and target; judges whether two skills are
equal."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rsso_dspy.explorer.commands import Command, command, extract_content_words, normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, parse_region_list
from rsso_dspy.explorer.seeded_noise import SeededNoise

_EXCERPT = re.compile(r"^(?:Excerpt|Example) \d+[:.]?\s*$", re.M | re.I)
_ACTION = re.compile(r"^Action (\d+): (.+)$", re.M)
_OBSERVATION = re.compile(
    r"^Observation (\d+): (.+?)(?=^(?:Action \d+:|Final state\b|No longer there:)|\Z)", re.M | re.S
)
_ENTRY = re.compile(r"^\[?(\d+)\]?[.):]?\s+(.*(?:\n(?!\[?\d+\]?[.):]?\s).*)*)", re.M)
_EQUAL = 0.9
"""Share of common content words from which on two skills count as equal."""

_SLOT = {"teleport": "LOCATION", "go": "LOCATION", "mix": "CONTAINER", "place": "CONTAINER"}
_GERUND = {
    "teleport": "teleporting to", "go": "going to", "open": "opening", "close": "closing", "pick up": "picking up",
    "focus": "focusing on", "move": "moving", "pour": "pouring", "mix": "mixing", "read": "reading", "use": "using",
    "activate": "activating", "deactivate": "deactivating", "look in": "looking in", "wait": "waiting",
    "choose": "choosing option",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SkillExcerpt:
    actions: tuple[str, ...]
    observations: tuple[str, ...]
    """Observation after each action; one that is left out equals that of the excerpt before."""


def parse_excerpts(text: str) -> list[SkillExcerpt]:
    """The excerpts of an ``examples`` region."""
    found = []
    answers: dict[str, str] = {}
    for part in filter(_ACTION.search, _EXCERPT.split(text)):
        actions = _ACTION.findall(part)
        answers |= {number: seen.strip() for number, seen in _OBSERVATION.findall(part)}
        seen = tuple(answers[number] for number, _ in actions if number in answers)
        found.append(SkillExcerpt(tuple(normalize_words(action) for _, action in actions), seen))
    return found


def summarize_skill(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, str]:
    """``summary`` and ``skill_name``."""
    found = parse_excerpts(prompt.get_region("examples"))
    steps = find_common_steps(found)
    doing = ", then ".join(_format_gerund(step) for step in steps) or "looking around"
    ends = _list_final_observations(found)
    summary = f"The player gets on by {doing}. It ends with: {ends[0] if ends else 'a new state'}"
    return {"summary": summary, "skill_name": _write_skill_name(steps)}


def write_steps(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``steps``: one action each, placeholders where the excerpts differ."""
    steps = find_common_steps(parse_excerpts(prompt.get_region("examples")))
    return {"steps": [step.text for step in steps] or ["wait"]}


def write_target(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, str]:
    """``target``: what every final state has in common, else what the last step brings about."""
    found = parse_excerpts(prompt.get_region("examples"))
    steps = [step for text in parse_region_list(prompt.get_region("steps")) if (step := command(str(text)))]
    endings = list(dict.fromkeys(_list_final_observations(found)))
    if len(endings) == 1 and endings[0]:
        said = endings[0].rstrip(".")
        whole = f"{said[0].upper()}{said[1:]}, after {_format_gerund(steps[0])}." if len(steps) > 1 else f"{said}."
        return {"target": whole}
    last = _format_gerund(steps[-1]) if steps else "the last step"
    return {"target": f"The state after {last} is reached."}


def list_equivalent_skills(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, list[int]]:
    """``equivalent``: numbers of the library skills that equal the new one."""
    new = _extract_skill_words(prompt.get_region("new_skill"))
    return {
        "equivalent": [
            int(number)
            for number, text in _ENTRY.findall(prompt.get_region("library"))
            if is_near_duplicate(new, _extract_skill_words(text))
        ]
    }


def find_common_steps(found: Sequence[SkillExcerpt]) -> list[Command]:
    """The actions of the first excerpt, with a placeholder wherever another excerpt differs; an action is left out
    where another excerpt does something else. Without any common step, the first excerpt's own actions."""
    if not found:
        return []
    rows = [[_read_action(action) for action in each.actions] for each in found]
    steps: list[Command] = []
    for position, first in enumerate(rows[0]):
        reached = [row[position] for row in rows[1:] if position < len(row)]
        if any(other.verb != first.verb for other in reached):
            continue
        thing = _merge_part(first, reached, "thing", _SLOT.get(first.verb, "OBJ"))
        place = first.place and _merge_part(first, reached, "place", "CONTAINER")
        step = replace(first, thing=thing, place=place)
        if not steps or steps[-1] != step or step.verb == "wait":
            steps.append(step)
    return steps or rows[0]


def _read_action(action: str) -> Command:
    """The command; of one that the player's grammar does not know, the first word is the verb."""
    verb, _, rest = action.partition(" ")
    return command(action) or Command(verb, rest)


def _merge_part(first: Command, others: Sequence[Command], part: str, slot: str) -> str:
    """What all name alike; else the words that all names share, in the order of the first ("red paint", "blue paint"
    give "paint"), or the slot."""
    name, *names = (getattr(each, part) for each in (first, *others))
    if all(other == name for other in names):
        return str(name)
    shared = set(name.split()).intersection(*map(str.split, names))
    return " ".join(word for word in name.split() if word in shared) or slot


def _list_final_observations(found: Sequence[SkillExcerpt]) -> list[str]:
    return [normalize_words(each.observations[-1].split("\n", 1)[0]) for each in found if each.observations]


def _format_gerund(step: Command) -> str:
    head = _GERUND.get(step.verb, step.verb)
    tail = f" {'on' if step.verb == 'use' else 'to'} {step.place}" if step.place else ""
    return f"{head} {step.thing}{tail}".strip()


def _write_skill_name(steps: Sequence[Command]) -> str:
    """A name of two to five words, from the last step that is not travel."""
    telling = [step for step in steps if step.verb not in ("teleport", "go", "wait", "choose")] or list(steps)
    if not telling:
        return "look around"
    said = [*telling[-1].verb.split(), *(telling[-1].place or telling[-1].thing).split()][:5]
    return " ".join(said) if len(said) > 1 else f"{said[0]} a while"


def _extract_skill_words(text: str) -> frozenset[str]:
    return extract_content_words(re.sub(r"\b(?:target|instructions)\s*:", " ", text.lower()))


def is_near_duplicate(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether two sets of words have nearly all in common."""
    return bool(one | other) and len(one & other) / len(one | other) >= _EQUAL
