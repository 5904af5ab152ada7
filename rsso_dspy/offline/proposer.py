"""The proposer of better instructions: lines of advice from the feedback, below the hand-written text. Which ones
depends on the seed and on the whole request."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.offline.advice import normalize_words, read_advice
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise

HEADING = "Advice from earlier attempts:"  # between the hand-written instruction and the lines that proposals added
RULES_OF_THUMB = (  # proposed where no new line is told
    "Try the rooms that you have not seen yet.",
    "Pick up what the task names as soon as you see it.",
    "Open a container before you give up a room.",
    "Do not wait while something is left to be done.",
)

_FEEDBACK = re.compile(r"\bFeedback: (.*?)(?=\n- |\Z)", re.S)
_FACTS = re.compile(r"^\s*Facts:\s*$", re.M)
_ADVICE = re.compile(r"^\s*Advice:\s*$((?:\n\s*- .*)*)", re.M)
_SENTENCE_ENDS = re.compile(r"(?<=[.!])\s+|[\n;]")
_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)
_MOST_NEW = 3


def propose_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signatures of DSPy's `InstructionProposer`, of whose samples only the feedback is a source, and of MIPROv2's
    proposer, which tells no feedback."""
    examples = prompt.get_region("examples_with_feedback")
    feedback = "\n".join(_FEEDBACK.findall(examples))
    current = prompt.get_region("current_instruction") or prompt.get_region("basic_instruction")
    instruction = _add_lines(current, extract_feedback_lines(feedback), dice, prompt.text)
    return {"new_instruction": instruction, "proposed_instruction": instruction}


def extract_feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without duplicates. Beside facts, only the advice counts."""
    scope = text
    if _FACTS.search(text):
        scope = "\n".join(_ADVICE.findall(text))

    lines = {}
    for sentence in _SENTENCE_ENDS.split(scope):
        line = sentence.strip(" \t-*•\"'`").removeprefix("Perhaps: ")
        if 8 <= len(line) <= 200 and _is_imperative(line):
            lines[normalize_words(line)] = f"{line.rstrip('.')}."
    return list(lines.values())


def _is_imperative(line: str) -> bool:
    if _ADVISING.match(line):
        return True
    last_clause = line.rpartition(", ")[2]
    return bool(read_advice(f"{line}\n{last_clause}"))


def _add_lines(current: str, proposed: Sequence[str], dice: SeededNoise, context: str) -> str:
    """The current instruction with a seeded sample of the lines that it does not hold yet."""
    present = normalize_words(current)
    new = _list_absent(proposed, present) or _list_absent(RULES_OF_THUMB, present)

    share = (dice.draw_noise("size", context) + 1) / 2
    size = 1 + int(share * _MOST_NEW)
    ranked = sorted(new, key=lambda line: -dice.draw_noise(line, context))
    drawn = ranked[:size]

    base, _, added = current.strip().partition(HEADING)
    head = f"{base.strip()}\n\n{HEADING}".strip()
    lines = [line for line in added.strip().splitlines() if line]
    lines += [f"- {line}" for line in new if line in drawn]
    return "\n".join([head, *lines])


def _list_absent(lines: Sequence[str], present: str) -> list[str]:
    return [line for line in lines if normalize_words(line) not in present]
