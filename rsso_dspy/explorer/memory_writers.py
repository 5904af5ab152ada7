"""The writers of memories: the offline player's answers when a memory asks about an attempt."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rsso_dspy.explorer.commands import normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, PromptLayout, parse_region_list
from rsso_dspy.explorer.reflector import parse_transcript, select_actions_to_repeat
from rsso_dspy.explorer.rule_writer import write_rules
from rsso_dspy.explorer.seeded_noise import SeededNoise

_MOST_EDITS, _MOST_STRATEGIES, _MOST_BULLETS, _MOST_LINES = 4, 3, 5, 40
_BULLET = re.compile(r"^- \[(\w+)[^\]]*\]", re.M)
_NO_LAYOUT = PromptLayout("", {}, "plain")
_QUOTES = "«»“”\"' "


def draw_lessons(text: str, known: str = "") -> list[str]:
    """Lessons of an attempt with its outcome, without those in `known`."""
    asked = ParsedPrompt(_NO_LAYOUT, {"transcript": text, "outcome": text}, (), text)
    said = write_rules(asked, SeededNoise(0, 0.0))
    errors = [f"Do not {each['mistake']}: {each['solution']}." for each in said["error_rules"]]
    have = normalize_words(known)
    return [each for each in (*said["abstract_rules"], *errors) if normalize_words(each) not in have]


def vote_on_lessons(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``insight_edits``: AGREE for known insights that the attempts confirm, ADD for new ones."""
    known = [str(each).strip(_QUOTES) for each in parse_region_list(prompt.get_region("known_insights"))]
    attempts = (prompt.get_region("failed_attempt"), prompt.get_region("successful_attempts"))
    found = list(dict.fromkeys(lesson for text in attempts for lesson in draw_lessons(text)))
    numbers = {normalize_words(text): number for number, text in enumerate(known, start=1)}
    edits = [
        {"operation": "AGREE", "number": numbers[normalize_words(each)], "text": ""}
        if normalize_words(each) in numbers
        else {"operation": "ADD", "number": 0, "text": each}
        for each in found
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
    lessons = draw_lessons(f"{prompt.get_region('attempt')}\n{prompt.get_region('outcome')}")
    return {
        "strategies": [
            {"title": " ".join(each.split()[:4]).rstrip(".,:"), "description": "Seen in an attempt.", "content": each}
            for each in lessons[:_MOST_STRATEGIES]
        ]
    }


def judge_bullets(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``bullet_tags``, by the points of the attempt, and ``new_bullets``."""
    attempt, outcome = prompt.get_region("attempt"), prompt.get_region("outcome")
    gains = [act.gain for act in parse_transcript(attempt, outcome)]
    tag = "harmful" if min(gains, default=0) < 0 else "helpful" if max(gains, default=0) > 0 else "neutral"
    playbook = prompt.get_region("playbook")
    return {
        "bullet_tags": [{"id": name, "tag": tag} for name in _BULLET.findall(playbook)],
        "new_bullets": draw_lessons(f"{attempt}\n{outcome}", playbook)[:_MOST_BULLETS],
    }


def rewrite_cheatsheet(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``new_cheatsheet``: the known lines and the attempt's new lessons."""
    sheet = prompt.get_region("cheatsheet")
    new = draw_lessons(f"{prompt.get_region('attempt')}\n{prompt.get_region('outcome')}", sheet)
    return {"new_cheatsheet": "\n".join([*sheet.splitlines(), *new][-_MOST_LINES:])}


def read_experience(prompt: ParsedPrompt) -> ParsedPrompt:
    """The actor's prompt with the lessons of past attempts and strategies added to its rules. The offline
    player does not read attempts themselves."""
    attempts = "\n".join(filter(None, map(prompt.get_region, ("past_attempts", "experience"))))
    lessons = draw_lessons(attempts) if attempts else []
    told = [*lessons, prompt.get_region("past_strategies")]
    if not any(told):
        return prompt
    rules = "\n".join(filter(None, [prompt.get_region("constitution"), *told]))
    return replace(prompt, regions={**prompt.regions, "constitution": rules})
