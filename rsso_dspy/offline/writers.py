"""The writers of skills, of rules and of the other memories: what excerpts have in common and what an attempt teaches,
in the fields that a memory asks for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from rsso_dspy.offline.advice import TRAVEL, Command, find_words, normalize_words, parse_command
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.reflector import Act, parse_transcript, select_actions_to_repeat
from rsso_dspy.offline.scene import is_failure

_MOST, _FEW, _LINES = 8, 3, 40
_BULLET = re.compile(r"^- \[(\w+)[^\]]*\]", re.M)
_EXCERPT = re.compile(r"^(?:Excerpt|Example) \d+[:.]?\s*$", re.M | re.I)
_ACTION = re.compile(r"^Action (\d+): (.+)$", re.M)
_OBSERVATION = re.compile(
    r"^Observation (\d+): (.+?)(?=^(?:Action \d+:|Final state\b|No longer there:)|\Z)", re.M | re.S
)
_ENTRY = re.compile(r"^\[?(\d+)\]?[.):]?\s+(.*(?:\n(?!\[?\d+\]?[.):]?\s).*)*)", re.M)
_LABELS = re.compile(r"\b(?:target|instructions)\s*:", re.I)
_ERROR = re.compile(r"Mistake: (?P<mistake>.+?);? Solution: (?P<solution>.+)", re.S)
_TOLD = ("focus", "pick up", "move", "mix")  # what progress is told of
_SHOWN = (  # what an observation says, to what that shows about the world
    ("ambiguous request", "When the world asks which of several actions is meant, answer with a number."),
    ("is now open", "What is in the {} shows once it is open."),
    ("to the inventory", "What has to be carried must be picked up first."),
    ("you teleport", "Every known room is one step away."),
    ("measures", "A thermometer measures what it is used on."),
    ("is now activated", "The {} works only while it is on."),
)


class Excerpt(NamedTuple):
    actions: tuple[str, ...]
    observations: tuple[str, ...]  # after each action; one that is left out equals that of the excerpt before


def parse_excerpts(text: str) -> list[Excerpt]:
    """The excerpts of an ``examples`` region."""
    excerpts = []
    answers: dict[str, str] = {}
    for part in filter(_ACTION.search, _EXCERPT.split(text)):
        actions = _ACTION.findall(part)
        answers |= {number: observation.strip() for number, observation in _OBSERVATION.findall(part)}
        observations = tuple(answers[number] for number, _ in actions if number in answers)
        excerpts.append(Excerpt(tuple(normalize_words(action) for _, action in actions), observations))
    return excerpts


def describe_skill(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """All fields of a new skill: its name is that of the last step that is not travel, its target what the excerpts end
    with, if that is the same everywhere."""
    excerpts = parse_excerpts(prompt.get_region("examples"))
    steps = _find_common_steps(excerpts) or [Command("wait")]
    telling = next((step for step in reversed(steps) if step.verb not in (*TRAVEL, "wait", "choose")), steps[-1])
    name = " ".join(f"{telling.verb} {telling.place or telling.thing}".split()[:5])
    ends = dict.fromkeys(
        normalize_words(excerpt.observations[-1].split("\n")[0]) for excerpt in excerpts if excerpt.observations
    )
    end = next(iter(ends), "") if len(ends) == 1 else ""
    first_step, *later_steps = parse_region_list(prompt.get_region("steps")) or [""]
    how = f", after: {first_step}" if later_steps else ""
    return {
        "summary": f"The player does: {', '.join(step.text for step in steps)}. It ends with: {' or '.join(ends)}.",
        "skill_name": name if " " in name else f"{name} a while",
        "steps": [step.text for step in steps],
        "target": f"{end[0].upper()}{end[1:]}{how}." if end else f"The state after this is reached: {steps[-1].text}.",
    }


def list_equivalent_skills(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, list[int]]:
    """``equivalent``: numbers of the library skills that equal the new one."""
    rows = [("", prompt.get_region("new_skill")), *_ENTRY.findall(prompt.get_region("library"))]
    words = [(number, normalize_words(_LABELS.sub(" ", text))) for number, text in rows]
    return {"equivalent": [int(number) for number, text in words[1:] if text == words[0][1]]}


def _find_common_steps(found: Sequence[Excerpt]) -> list[Command]:
    """The actions of the first excerpt, with a placeholder wherever another excerpt differs; an action is left out
    where another excerpt does something else. Without any common step, the first excerpt's own actions."""
    rows = [
        [parse_command(action) or Command(*action.partition(" ")[::2]) for action in excerpt.actions]
        for excerpt in found
    ]
    steps: list[Command] = []
    for position, first in enumerate(rows[0] if rows else []):
        alike = [first, *(row[position] for row in rows[1:] if position < len(row))]
        if all(command.verb == first.verb for command in alike):
            slot = "LOCATION" if first.verb in TRAVEL else "OBJ"
            thing = _merge_names([command.thing for command in alike], slot)
            step = replace(first, thing=thing, place=_merge_names([command.place for command in alike], "CONTAINER"))
            if not steps or steps[-1] != step or step.verb == "wait":
                steps.append(step)
    return steps or (rows[0] if rows else [])


def _merge_names(names: Sequence[str], slot: str) -> str:
    """The words that all names share, in the order of the first ("red paint", "blue paint" give "paint"), or the
    slot."""
    shared = [word for word in names[0].split() if all(word in name.split() for name in names)]
    return " ".join(shared) or (slot if any(names) else "")


def write_or_merge_rules(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Rules of the categories asked for: merged ones where some were gathered, else those that a stretch teaches and
    that are not known already."""
    if any(name.startswith("gathered_") for name in prompt.regions):
        gathered = map(prompt.get_region, ("gathered_abstract_rules", "gathered_error_rules"))
        rules, mistakes = ({normalize_words(rule): rule for rule in parse_region_list(region)} for region in gathered)
        errors = [match.groupdict() for match in map(_ERROR.fullmatch, mistakes.values()) if match]
        return {"abstract_rules": list(rules.values()), "error_rules": errors}
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    known_rules = prompt.get_region("known_rules")
    task = find_words(prompt.get_region("task"))
    commands = [act.command for act in acts if not is_failure(act.seen)]
    telling = [command for command in commands if command and command.verb in _TOLD]
    progress = [f"Done: {command.text}." for command in telling if find_words(command.thing) & task]
    new_errors = [error for error in _derive_errors(acts) if _drop_known([error["mistake"]], known_rules)]
    return {
        "abstract_rules": _drop_known(_derive_rules(acts), known_rules)[:_MOST],
        "error_rules": new_errors[:_MOST],
        "progress_rules": list(dict.fromkeys(progress))[:_MOST],
    }


def _derive_rules(acts: Sequence[Act]) -> list[str]:
    """What the stretch shows about how the world works, each once."""
    sights = [(act.seen.lower(), act.command) for act in acts]
    rules = [
        rule.format(command.thing) for text, command in sights for sign, rule in _SHOWN if command and sign in text
    ]
    return list(dict.fromkeys(rules))


def _derive_errors(acts: Sequence[Act]) -> list[dict[str, str]]:
    useless = {f"{act.text}, without effect": "name a thing as it is shown" for act in acts if is_failure(act.seen)}
    costly = {f"{act.meant}, which cost points": "focus only on what is asked for" for act in acts if act.gain < 0}
    twice = (act.text for previous, act in pairwise(acts) if previous.text == act.text != "wait")
    again = {f"{text}, twice in a row": "do something else" for text in twice}
    return [{"mistake": mistake, "solution": solution} for mistake, solution in (useless | costly | again).items()]


def _drop_known(lessons: Sequence[str], known: str) -> list[str]:
    have = normalize_words(known)
    return [lesson for lesson in lessons if normalize_words(lesson) not in have]


def draw_lessons(attempt: str, known: str = "") -> list[str]:
    """Lessons of an attempt with its outcome, without those that are known."""
    acts = parse_transcript(attempt, attempt)
    errors = [f"Do not {error['mistake'].partition(',')[0]}." for error in _derive_errors(acts)]
    return _drop_known([*_derive_rules(acts)[:_MOST], *errors[:_MOST]], known)


def write_entries(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """The fields of all memories of entries: lessons of the attempts that are not known yet, and the actions that
    earned points."""
    attempts = map(prompt.get_region, ("attempt", "failed_attempt", "successful_attempts"))
    attempt = "\n".join([*attempts, prompt.get_region("outcome")])
    insights = parse_region_list(prompt.get_region("known_insights"))
    sheet = prompt.get_region("cheatsheet")
    lessons = draw_lessons(attempt, "\n".join([*insights, sheet, prompt.get_region("playbook")]))
    agreed = [number for number, insight in enumerate(insights, 1) if insight in draw_lessons(attempt)]
    acts = parse_transcript(attempt, attempt)
    steps = [act.text for act in select_actions_to_repeat(acts)]
    ways = [f"The task is solved by {step}." for step in steps[-1:]]
    gains = [act.gain for act in acts]
    tag = "harmful" if min(gains, default=0) < 0 else "helpful" if any(gains) else "neutral"
    return {
        "insight_edits": [
            *({"operation": "AGREE", "number": number, "text": ""} for number in agreed),
            *({"operation": "ADD", "number": 0, "text": lesson} for lesson in lessons),
        ][:_FEW],
        "workflows": [
            {"description": way, "steps": steps} for way in _drop_known(ways, prompt.get_region("known_workflows"))
        ],
        "strategies": [
            {"title": " ".join(lesson.split()[:4]), "description": "Seen in an attempt.", "content": lesson}
            for lesson in lessons[:_FEW]
        ],
        "bullet_tags": [{"id": bullet, "tag": tag} for bullet in _BULLET.findall(prompt.get_region("playbook"))],
        "new_bullets": lessons[:_FEW],
        "new_cheatsheet": "\n".join([*sheet.splitlines(), *lessons][-_LINES:]),
    }
