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
_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)
_MOST_NEW = 3


def propose_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signatures of DSPy's `InstructionProposer`, of whose samples only the feedback is a source, and of MIPROv2's
    proposer, which tells no feedback."""
    feedback_lines = extract_feedback_lines("\n".join(_FEEDBACK.findall(prompt.get_region("examples_with_feedback"))))
    current = prompt.get_region("current_instruction") or prompt.get_region("basic_instruction")
    instruction = _add_lines(current, feedback_lines, dice, prompt.text)
    return dict.fromkeys(("new_instruction", "proposed_instruction"), instruction)


def extract_feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without duplicates. Beside facts, only the advice counts."""
    scope = "\n".join(_ADVICE.findall(text)) if _FACTS.search(text) else text
    lines = [
        sentence.strip(" \t-*•\"'`").removeprefix("Perhaps: ") for sentence in re.split(r"(?<=[.!])\s+|[\n;]", scope)
    ]
    bounded = [line for line in lines if 8 <= len(line) <= 200]
    imperatives = [
        line for line in bounded if _ADVISING.match(line) or read_advice(f"{line}\n{line.rpartition(', ')[2]}")
    ]
    return list({normalize_words(line): f"{line.rstrip('.')}." for line in imperatives}.values())


def _add_lines(current: str, told: Sequence[str], dice: SeededNoise, context: str) -> str:
    """The current instruction with a seeded sample of the lines that it does not hold yet."""
    base, _, added = current.strip().partition(HEADING)
    present = normalize_words(current)
    new = [line for line in told if normalize_words(line) not in present]
    thumb = [line for line in RULES_OF_THUMB if normalize_words(line) not in present]
    fresh = new or thumb
    size = 1 + int((dice.draw_noise("size", context) + 1) / 2 * _MOST_NEW)
    drawn = sorted(fresh, key=lambda line: -dice.draw_noise(line, context))[:size]
    lines = [*filter(None, added.strip().splitlines()), *(f"- {line}" for line in fresh if line in drawn)]
    return "\n".join([f"{base.strip()}\n\n{HEADING}".strip(), *lines])
