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

_MOST = 8  # most rules of a kind
_FEW = 3  # most entries of a kind
_LINES = 40  # most lines of a cheatsheet
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
    for part in _EXCERPT.split(text):
        actions = _ACTION.findall(part)
        if not actions:
            continue
        for number, observation in _OBSERVATION.findall(part):
            answers[number] = observation.strip()
        excerpt = Excerpt(
            actions=tuple(normalize_words(action) for _, action in actions),
            observations=tuple(answers[number] for number, _ in actions if number in answers),
        )
        excerpts.append(excerpt)
    return excerpts


def describe_skill(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """All fields of a new skill: its name is that of the last step that is not travel, its target what the excerpts end
    with, if that is the same everywhere."""
    excerpts = parse_excerpts(prompt.get_region("examples"))
    commands = _find_common_steps(excerpts) or [Command("wait")]
    steps = [command.text for command in commands]
    endings = _list_endings(excerpts)

    target = f"The state after this is reached: {steps[-1]}."
    if len(endings) == 1 and endings[0]:
        ending = endings[0]
        first_step, *later_steps = parse_region_list(prompt.get_region("steps")) or [""]
        how = f", after: {first_step}" if later_steps else ""
        target = f"{ending[0].upper()}{ending[1:]}{how}."
    return {
        "summary": f"The player does: {', '.join(steps)}. It ends with: {' or '.join(endings)}.",
        "skill_name": _name_skill(commands),
        "steps": steps,
        "target": target,
    }


def _list_endings(excerpts: Sequence[Excerpt]) -> list[str]:
    """What the excerpts end with, each once."""
    endings = []
    for excerpt in excerpts:
        if excerpt.observations:
            first_line = excerpt.observations[-1].split("\n")[0]
            endings.append(normalize_words(first_line))
    return list(dict.fromkeys(endings))


def _name_skill(commands: Sequence[Command]) -> str:
    """A name of two to five words, after the last command that is more than a way or a wait."""
    telling = commands[-1]
    for command in reversed(commands):
        if command.verb not in (*TRAVEL, "wait", "choose"):
            telling = command
            break
    words = f"{telling.verb} {telling.place or telling.thing}".split()
    name = " ".join(words[:5])
    return name if " " in name else f"{name} a while"


def list_equivalent_skills(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, list[int]]:
    """``equivalent``: numbers of the library skills that equal the new one."""
    new_skill = _normalize_skill(prompt.get_region("new_skill"))
    equivalent = []
    for number, text in _ENTRY.findall(prompt.get_region("library")):
        if _normalize_skill(text) == new_skill:
            equivalent.append(int(number))
    return {"equivalent": equivalent}


def _normalize_skill(text: str) -> str:
    return normalize_words(_LABELS.sub(" ", text))


def _find_common_steps(excerpts: Sequence[Excerpt]) -> list[Command]:
    """The actions of the first excerpt, with a placeholder wherever another excerpt differs; an action is left out
    where another excerpt does something else. Without any common step, the first excerpt's own actions."""
    if not excerpts:
        return []
    first_row, *other_rows = map(_list_commands, excerpts)
    steps: list[Command] = []
    for position, first in enumerate(first_row):
        others = [row[position] for row in other_rows if position < len(row)]
        alike = [first, *others]
        if any(command.verb != first.verb for command in alike):
            continue
        step = _merge_commands(alike)
        if not steps or steps[-1] != step or step.verb == "wait":
            steps.append(step)
    return steps or first_row


def _list_commands(excerpt: Excerpt) -> list[Command]:
    """The actions of an excerpt; of one that is no command the first word counts as its verb."""
    commands = []
    for action in excerpt.actions:
        verb, _, thing = action.partition(" ")
        commands.append(parse_command(action) or Command(verb, thing))
    return commands


def _merge_commands(commands: Sequence[Command]) -> Command:
    """Commands of one verb as the first of them, with what they share or a placeholder."""
    first = commands[0]
    slot = "LOCATION" if first.verb in TRAVEL else "OBJ"
    thing = _merge_names([command.thing for command in commands], slot)
    place = _merge_names([command.place for command in commands], "CONTAINER")
    return replace(first, thing=thing, place=place)


def _merge_names(names: Sequence[str], slot: str) -> str:
    """The words that all names share, in the order of the first ("red paint", "blue paint" give "paint"), or the
    slot."""
    shared = names[0].split()
    for name in names:
        words = name.split()
        shared = [word for word in shared if word in words]
    if shared:
        return " ".join(shared)
    return slot if any(names) else ""


def write_or_merge_rules(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Rules of the categories asked for: merged ones where some were gathered, else those that a stretch teaches and
    that are not known already."""
    if any(name.startswith("gathered_") for name in prompt.regions):
        return _merge_gathered_rules(prompt)
    return _write_new_rules(prompt)


def _merge_gathered_rules(prompt: ParsedPrompt) -> Mapping[str, Any]:
    """The gathered rules, of those with the same words the last."""
    rules = _drop_repeated(parse_region_list(prompt.get_region("gathered_abstract_rules")))
    mistakes = _drop_repeated(parse_region_list(prompt.get_region("gathered_error_rules")))
    matches = [_ERROR.fullmatch(mistake) for mistake in mistakes]
    return {
        "abstract_rules": rules,
        "error_rules": [match.groupdict() for match in matches if match],
    }


def _drop_repeated(rules: Sequence[str]) -> list[str]:
    by_words = {normalize_words(rule): rule for rule in rules}
    return list(by_words.values())


def _write_new_rules(prompt: ParsedPrompt) -> Mapping[str, Any]:
    """The rules that a stretch of play teaches beyond the known ones."""
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    known_rules = prompt.get_region("known_rules")
    task = find_words(prompt.get_region("task"))
    commands = [act.command for act in acts if not is_failure(act.seen)]
    telling = [command for command in commands if command and command.verb in _TOLD]
    progress = [f"Done: {command.text}." for command in telling if find_words(command.thing) & task]
    new_rules = _drop_known(_derive_rules(acts), known_rules)
    new_errors = [error for error in _derive_errors(acts) if _drop_known([error["mistake"]], known_rules)]
    return {
        "abstract_rules": new_rules[:_MOST],
        "error_rules": new_errors[:_MOST],
        "progress_rules": list(dict.fromkeys(progress))[:_MOST],
    }


def _derive_rules(acts: Sequence[Act]) -> list[str]:
    """What the stretch shows about how the world works, each once."""
    rules = []
    for act in acts:
        command = act.command
        if command is None:
            continue
        observation = act.seen.lower()
        for sign, rule in _SHOWN:
            if sign in observation:
                rules.append(rule.format(command.thing))
    return list(dict.fromkeys(rules))


def _derive_errors(acts: Sequence[Act]) -> list[dict[str, str]]:
    """What had no effect, what cost points and what was done twice, each once, with what to do instead."""
    solutions = {}
    for act in acts:
        if is_failure(act.seen):
            solutions[f"{act.text}, without effect"] = "name a thing as it is shown"
    for act in acts:
        if act.gain < 0:
            solutions[f"{act.meant}, which cost points"] = "focus only on what is asked for"
    for previous, act in pairwise(acts):
        if previous.text == act.text != "wait":
            solutions[f"{act.text}, twice in a row"] = "do something else"
    return [{"mistake": mistake, "solution": solution} for mistake, solution in solutions.items()]


def _drop_known(lessons: Sequence[str], known: str) -> list[str]:
    known_words = normalize_words(known)
    return [lesson for lesson in lessons if normalize_words(lesson) not in known_words]


def draw_lessons(attempt: str, known: str = "") -> list[str]:
    """Lessons of an attempt with its outcome, without those that are known."""
    acts = parse_transcript(attempt, attempt)
    rules = _derive_rules(acts)
    errors = [f"Do not {error['mistake'].partition(',')[0]}." for error in _derive_errors(acts)]
    return _drop_known([*rules[:_MOST], *errors[:_MOST]], known)


def write_entries(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """The fields of all memories of entries: lessons of the attempts that are not known yet, and the actions that
    earned points."""
    attempts = [prompt.get_region(name) for name in ("attempt", "failed_attempt", "successful_attempts", "outcome")]
    attempt = "\n".join(attempts)
    insights = parse_region_list(prompt.get_region("known_insights"))
    sheet = prompt.get_region("cheatsheet")
    playbook = prompt.get_region("playbook")
    known_workflows = prompt.get_region("known_workflows")

    lessons = draw_lessons(attempt, "\n".join([*insights, sheet, playbook]))
    acts = parse_transcript(attempt, attempt)
    tag = _rate_attempt(acts)
    sheet_lines = [*sheet.splitlines(), *lessons]
    return {
        "insight_edits": _edit_insights(insights, attempt, lessons)[:_FEW],
        "workflows": _write_workflows(acts, known_workflows),
        "strategies": [_make_strategy(lesson) for lesson in lessons[:_FEW]],
        "bullet_tags": [{"id": bullet, "tag": tag} for bullet in _BULLET.findall(playbook)],
        "new_bullets": lessons[:_FEW],
        "new_cheatsheet": "\n".join(sheet_lines[-_LINES:]),
    }


def _edit_insights(insights: Sequence[str], attempt: str, lessons: Sequence[str]) -> list[dict[str, Any]]:
    """Agree with the insights that an attempt teaches too, and add its new lessons."""
    edits: list[dict[str, Any]] = []
    taught = draw_lessons(attempt)
    for number, insight in enumerate(insights, start=1):
        if insight in taught:
            edits.append({"operation": "AGREE", "number": number, "text": ""})
    for lesson in lessons:
        edits.append({"operation": "ADD", "number": 0, "text": lesson})
    return edits


def _write_workflows(acts: Sequence[Act], known: str) -> list[dict[str, Any]]:
    """The actions that earned points, under the last of them; none if that is known."""
    steps = [act.text for act in select_actions_to_repeat(acts)]
    descriptions = [f"The task is solved by {step}." for step in steps[-1:]]
    return [{"description": description, "steps": steps} for description in _drop_known(descriptions, known)]


def _make_strategy(lesson: str) -> dict[str, str]:
    first_words = lesson.split()[:4]
    return {"title": " ".join(first_words), "description": "Seen in an attempt.", "content": lesson}


def _rate_attempt(acts: Sequence[Act]) -> str:
    """The tag of what was shown in an attempt, by what it gained and lost."""
    gains = [act.gain for act in acts]
    if min(gains, default=0) < 0:
        return "harmful"
    return "helpful" if any(gains) else "neutral"
