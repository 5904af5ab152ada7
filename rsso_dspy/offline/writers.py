"""The writers of skills, of rules and of the other memories: what excerpts have in common and what an attempt teaches,
in the fields that a memory asks for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rsso_dspy.offline.advice import TRAVEL, command
from rsso_dspy.offline.commands import Command, normalize_words
from rsso_dspy.offline.grammar import extract_content_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.reflector import RecordedAction, parse_transcript, select_actions_to_repeat
from rsso_dspy.offline.scene import is_failure

_MOST, _MOST_EDITS, _MOST_STRATEGIES, _MOST_BULLETS, _MOST_LINES = 8, 4, 3, 5, 40
_BULLET = re.compile(r"^- \[(\w+)[^\]]*\]", re.M)
_QUOTES = "«»“”\"' "
_EXCERPT = re.compile(r"^(?:Excerpt|Example) \d+[:.]?\s*$", re.M | re.I)
_ACTION = re.compile(r"^Action (\d+): (.+)$", re.M)
_OBSERVATION = re.compile(
    r"^Observation (\d+): (.+?)(?=^(?:Action \d+:|Final state\b|No longer there:)|\Z)", re.M | re.S
)
_ENTRY = re.compile(r"^\[?(\d+)\]?[.):]?\s+(.*(?:\n(?!\[?\d+\]?[.):]?\s).*)*)", re.M)
_LABELS = re.compile(r"\b(?:target|instructions)\s*:")
_ERROR = re.compile(r"Mistake: (.+?);? Solution: (.+)", re.S)
_EQUAL = 0.9
"""Share of common content words from which on two texts count as equal."""
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
    """``summary`` and ``skill_name``, of two to five words from the last step that is not travel."""
    found = parse_excerpts(prompt.get_region("examples"))
    steps = _find_common_steps(found)
    doing = ", then ".join(map(_format_gerund, steps)) or "looking around"
    ends = _list_final_observations(found) or ["a new state"]
    telling = [step for step in steps if step.verb not in (*TRAVEL, "wait", "choose")] or steps
    name = "look around"
    if telling:
        words = [*telling[-1].verb.split(), *(telling[-1].place or telling[-1].thing).split()][:5]
        name = " ".join(words) if len(words) > 1 else f"{words[0]} a while"
    return {"summary": f"The player gets on by {doing}. It ends with: {ends[0]}", "skill_name": name}


def write_steps(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``steps``: one action each, placeholders where the excerpts differ."""
    steps = _find_common_steps(parse_excerpts(prompt.get_region("examples")))
    return {"steps": [step.text for step in steps] or ["wait"]}


def write_target(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, str]:
    """``target``: what every final state has in common, else what the last step brings about."""
    found = parse_excerpts(prompt.get_region("examples"))
    steps = [step for text in parse_region_list(prompt.get_region("steps")) if (step := command(str(text)))]
    endings = list(dict.fromkeys(_list_final_observations(found)))
    if len(endings) == 1 and endings[0]:
        end = endings[0].rstrip(".")
        whole = f"{end[0].upper()}{end[1:]}, after {_format_gerund(steps[0])}." if len(steps) > 1 else f"{end}."
        return {"target": whole}
    last = _format_gerund(steps[-1]) if steps else "the last step"
    return {"target": f"The state after {last} is reached."}


def list_equivalent_skills(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, list[int]]:
    """``equivalent``: numbers of the library skills that equal the new one."""
    new = _LABELS.sub(" ", prompt.get_region("new_skill").lower())
    entries = _ENTRY.findall(prompt.get_region("library"))
    return {"equivalent": [int(n) for n, text in entries if is_near_duplicate(new, _LABELS.sub(" ", text.lower()))]}


def is_near_duplicate(one: str, other: str) -> bool:
    """Whether two texts have nearly all content words in common."""
    left, right = extract_content_words(one), extract_content_words(other)
    return bool(left | right) and len(left & right) / len(left | right) >= _EQUAL


def _find_common_steps(found: Sequence[SkillExcerpt]) -> list[Command]:
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
        thing = _merge_names([each.thing for each in (first, *reached)], _SLOT.get(first.verb, "OBJ"))
        place = first.place and _merge_names([each.place for each in (first, *reached)], "CONTAINER")
        step = replace(first, thing=thing, place=place)
        if not steps or steps[-1] != step or step.verb == "wait":
            steps.append(step)
    return steps or rows[0]


def _read_action(action: str) -> Command:
    """The command; of one that the player's grammar does not know, the first word is the verb."""
    verb, _, rest = action.partition(" ")
    return command(action) or Command(verb, rest)


def _merge_names(names: Sequence[str], slot: str) -> str:
    """What all name alike; else the words that all names share, in the order of the first ("red paint", "blue paint"
    give "paint"), or the slot."""
    if len(set(names)) == 1:
        return names[0]
    shared = set(names[0].split()).intersection(*map(str.split, names))
    return " ".join(word for word in names[0].split() if word in shared) or slot


def _list_final_observations(found: Sequence[SkillExcerpt]) -> list[str]:
    return [normalize_words(each.observations[-1].split("\n", 1)[0]) for each in found if each.observations]


def _format_gerund(step: Command) -> str:
    head = _GERUND.get(step.verb, step.verb)
    tail = f" {'on' if step.verb == 'use' else 'to'} {step.place}" if step.place else ""
    return f"{head} {step.thing}{tail}".strip()


def write_or_merge_rules(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Rules of the categories asked for: merged ones where some were gathered, else those that a stretch teaches and
    that are not known already."""
    if any(name.startswith("gathered_") for name in prompt.regions):
        rules, errors = map(
            parse_region_list, map(prompt.get_region, ("gathered_abstract_rules", "gathered_error_rules"))
        )
        return {"abstract_rules": _merge_abstract_rules(rules), "error_rules": _merge_errors(errors)}
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    known = normalize_words(prompt.get_region("known_rules"))
    progress = _derive_progress_rules(acts, extract_content_words(prompt.get_region("task")))
    return {
        "abstract_rules": [each for each in _derive_abstract_rules(acts) if normalize_words(each) not in known][:_MOST],
        "error_rules": [
            {"mistake": mistake, "solution": solution}
            for mistake, solution in _derive_error_rules(acts).items()
            if normalize_words(mistake) not in known
        ][:_MOST],
        "progress_rules": progress[:_MOST],
    }


def draw_lessons(text: str, known: str = "") -> list[str]:
    """Lessons of an attempt with its outcome, without those in `known`."""
    acts = parse_transcript(text, text)
    errors = [f"Do not {mistake}: {solution}." for mistake, solution in _derive_error_rules(acts).items()]
    have = normalize_words(known)
    lessons = [*_derive_abstract_rules(acts)[:_MOST], *errors[:_MOST]]
    return [each for each in lessons if normalize_words(each) not in have]


def vote_on_lessons(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``insight_edits``: AGREE for known insights that the attempts confirm, ADD for new ones."""
    known = [str(each).strip(_QUOTES) for each in parse_region_list(prompt.get_region("known_insights"))]
    numbers = {normalize_words(text): number for number, text in enumerate(known, start=1)}
    attempts = map(prompt.get_region, ("failed_attempt", "successful_attempts"))
    edits = [
        {"operation": "AGREE", "number": number, "text": ""}
        if (number := numbers.get(normalize_words(lesson), 0))
        else {"operation": "ADD", "number": 0, "text": lesson}
        for lesson in dict.fromkeys(lesson for text in attempts for lesson in draw_lessons(text))
    ]
    return {"insight_edits": edits[:_MOST_EDITS]}


def induce_workflows(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``workflows``: the actions that earned points and the actions they depend on."""
    acts = select_actions_to_repeat(parse_transcript(prompt.get_region("attempt"), prompt.get_region("outcome")))
    steps = [act.command.text for act in acts if act.command]
    known = normalize_words(prompt.get_region("known_workflows"))
    description = f"The task is solved by {steps[-1]}." if steps else ""
    new = bool(steps) and normalize_words(description) not in known
    return {"workflows": [{"description": description, "steps": steps}] if new else []}


def extract_strategies(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``strategies``: the first lessons of the attempt."""
    return {
        "strategies": [
            {"title": " ".join(each.split()[:4]).rstrip(".,:"), "description": "Seen in an attempt.", "content": each}
            for each in _draw_new_lessons(prompt)[:_MOST_STRATEGIES]
        ]
    }


def judge_bullets(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``bullet_tags``, by the points of the attempt, and ``new_bullets``."""
    gains = [act.gain for act in parse_transcript(prompt.get_region("attempt"), prompt.get_region("outcome"))]
    tag = "harmful" if min(gains, default=0) < 0 else "helpful" if max(gains, default=0) > 0 else "neutral"
    playbook = prompt.get_region("playbook")
    return {
        "bullet_tags": [{"id": name, "tag": tag} for name in _BULLET.findall(playbook)],
        "new_bullets": _draw_new_lessons(prompt, playbook)[:_MOST_BULLETS],
    }


def rewrite_cheatsheet(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``new_cheatsheet``: the known lines and the attempt's new lessons."""
    sheet = prompt.get_region("cheatsheet")
    return {"new_cheatsheet": "\n".join([*sheet.splitlines(), *_draw_new_lessons(prompt, sheet)][-_MOST_LINES:])}


def _draw_new_lessons(prompt: ParsedPrompt, known: str = "") -> list[str]:
    return draw_lessons(f"{prompt.get_region('attempt')}\n{prompt.get_region('outcome')}", known)


def _derive_abstract_rules(acts: Sequence[RecordedAction]) -> list[str]:
    """What the stretch shows about how the world works, each once."""
    found = []
    for act in acts:
        done, seen = act.command, act.seen.lower()
        if done is None:
            continue
        if act.is_ambiguous:
            found.append("When the world asks which of several actions is meant, answer with a number.")
        elif "is now open" in seen:
            found.append(f"What is in the {done.thing} shows once it is open.")
        elif "to the inventory" in seen:
            found.append("What has to be carried must be picked up first.")
        elif done.verb == "teleport" and "you teleport" in seen:
            found.append("Every known room is one step away.")
        elif done.verb == "use" and "measures" in seen:
            found.append("A thermometer measures what it is used on.")
        elif done.verb == "activate" and "is now activated" in seen:
            found.append(f"The {done.thing} works only while it is on.")
    return list(dict.fromkeys(found))


def _derive_error_rules(acts: Sequence[RecordedAction]) -> dict[str, str]:
    """Mistake to solution."""
    found: dict[str, str] = {}
    previous = ""
    for act in acts:
        if is_failure(act.seen):
            found[f"{act.text}, without effect"] = "name a thing that is visible here as the observation names it"
        elif act.text == previous and act.text != "wait":
            found[f"{act.text}, twice in a row"] = "do something else when an action changes nothing"
        elif act.gain < 0:
            found[f"{act.text}, which cost the task"] = "focus only on what the task asks for"
        previous = act.text
    return found


def _derive_progress_rules(acts: Sequence[RecordedAction], named: frozenset[str]) -> list[str]:
    """What was done with the things that the task names, and what was measured, each once."""
    found = []
    for act in acts:
        done = act.command
        if done is None or not act.is_effective:
            continue
        if done.verb in ("focus", "pick up", "move", "mix") and extract_content_words(done.thing) & named:
            found.append(f"Done: {done.text}.")
        elif done.verb == "use" and "measures" in act.seen:
            found.append(f"Known: {act.seen.splitlines()[0]}.")
    return list(dict.fromkeys(found))


def _merge_abstract_rules(rules: Sequence[str]) -> list[str]:
    """The rules without what another already says; the longer of two alike stays."""
    kept: list[str] = []
    for rule in rules:
        twin = next((index for index, other in enumerate(kept) if is_near_duplicate(rule, other)), None)
        if twin is None:
            kept.append(rule)
        elif len(rule) > len(kept[twin]):
            kept[twin] = rule
    return kept


def _merge_errors(entries: Sequence[Any]) -> list[dict[str, str]]:
    """The well-formed entries without what another already says."""
    kept: dict[str, dict[str, str]] = {}
    for entry in filter(None, map(_ERROR.fullmatch, entries)):
        rule = {"mistake": entry[1].strip(), "solution": entry[2].strip()}
        text = " ".join(rule.values())
        if not any(is_near_duplicate(text, other) for other in kept):
            kept[text] = rule
    return list(kept.values())
