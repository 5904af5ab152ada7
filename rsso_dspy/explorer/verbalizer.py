"""The verbalizer: what two excerpts have in common, as a name, steps and a target; and whether two skills are one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.explorer.commands import Command, command, extract_content_words, make, normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, parse_region_list
from rsso_dspy.explorer.seeded_noise import SeededNoise

_EXCERPT = re.compile(r"^(?:Excerpt|Example) \d+[:.]?\s*$", re.M | re.I)
_ACTION = re.compile(r"^Action (\d+): (.+)$", re.M)
_OBSERVATION = re.compile(
    r"^Observation (\d+): (.+?)(?=^(?:Action \d+:|Final state\b|No longer there:)|\Z)", re.M | re.S
)
_ENTRY = re.compile(r"^\[?(\d+)\]?[.):]?\s+(.*(?:\n(?!\[?\d+\]?[.):]?\s).*)*)", re.M)
_EQUAL = 0.9
"""Share of content words two skills must have in common to count as one."""

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
    """What each action was answered; what is not said again is as in the excerpt before."""


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
    found = parse_excerpts(prompt.get_region("examples"))
    return {"steps": [step.text for step in find_common_steps(found)] or ["wait"]}


def write_target(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, str]:
    """``target``: what every final state has in common, else what the last step brings about."""
    found = parse_excerpts(prompt.get_region("examples"))
    steps = [step for text in parse_region_list(prompt.get_region("steps")) if (step := command(str(text)))]
    endings = list(dict.fromkeys(_list_final_observations(found)))
    if len(endings) == 1 and endings[0]:
        said = endings[0].rstrip(".")
        return {
            "target": f"{said[0].upper()}{said[1:]}, after {_format_gerund(steps[0])}."
            if len(steps) > 1
            else f"{said}."
        }
    last = _format_gerund(steps[-1]) if steps else "the last step"
    return {"target": f"The state after {last} is reached."}


def list_equivalent_skills(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, list[int]]:
    """``equivalent``: numbers of the library skills that say the same as the new one."""
    new = _extract_skill_words(prompt.get_region("new_skill"))
    return {
        "equivalent": [
            int(number)
            for number, text in _ENTRY.findall(prompt.get_region("library"))
            if is_near_duplicate(new, _extract_skill_words(text))
        ]
    }


def find_common_steps(found: Sequence[SkillExcerpt]) -> list[Command]:
    """The actions of the first excerpt, with a placeholder wherever another excerpt differs; what another excerpt does
    altogether differently is left out. Without any common step, the first excerpt's own actions."""
    if not found:
        return []
    rows = [[command(action) for action in each.actions] for each in found]
    steps: list[Command] = []
    for position, first in enumerate(rows[0]):
        others = [row[position] for row in rows[1:] if position < len(row)]
        if first is None or any(other is None or other.verb != first.verb for other in others):
            continue
        same_thing = all(other is not None and other.thing == first.thing for other in others)
        same_place = all(other is not None and other.place == first.place for other in others)
        thing = (
            first.thing
            if same_thing
            else _find_common_words(first.thing, others, "thing") or _SLOT.get(first.verb, "OBJ")
        )
        place = (
            first.place
            if same_place or not first.place
            else _find_common_words(first.place, others, "place") or "CONTAINER"
        )
        step = make(first.verb, thing, place)
        if not steps or steps[-1] != step or step.verb == "wait":
            steps.append(step)
    return steps or [step for step in rows[0] if step is not None]


def _find_common_words(name: str, others: Sequence[Command | None], part: str) -> str:
    """Words that all names share, in the order of the first ("red paint", "blue paint" give "paint")."""
    shared = set(name.split())
    for other in others:
        shared &= set(getattr(other, part).split())
    return " ".join(word for word in name.split() if word in shared)


def _list_final_observations(found: Sequence[SkillExcerpt]) -> list[str]:
    return [normalize_words(each.observations[-1].split("\n", 1)[0]) for each in found if each.observations]


def _format_gerund(step: Command) -> str:
    head = _GERUND.get(step.verb, step.verb)
    tail = f" {'on' if step.verb == 'use' else 'to'} {step.place}" if step.place else ""
    return f"{head} {step.thing}{tail}".strip()


def _write_skill_name(steps: Sequence[Command]) -> str:
    """Two to five words: the last step that is more than travelling."""
    telling = [step for step in steps if step.verb not in ("teleport", "go", "wait", "choose")] or list(steps)
    if not telling:
        return "look around"
    said = [*telling[-1].verb.split(), *(telling[-1].place or telling[-1].thing).split()][:5]
    return " ".join(said) if len(said) > 1 else f"{said[0]} a while"


def _extract_skill_words(text: str) -> frozenset[str]:
    return extract_content_words(re.sub(r"\b(?:target|instructions)\s*:", " ", text.lower()))


def is_near_duplicate(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one | other) and len(one & other) / len(one | other) >= _EQUAL
