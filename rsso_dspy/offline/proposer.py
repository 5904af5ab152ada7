"""The proposer of better instructions: lines of advice from the feedback, below the hand-written text.

A proposal adds a few lines under a heading, which ones depends on the seed and on the whole request. Where nothing new
is told it leaves out a line that was added before, or adds what holds in most such games.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.offline.advice import read_clauses
from rsso_dspy.offline.commands import normalize_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise

HEADING = "Advice from earlier attempts:"
"""Stands between the hand-written instruction and the lines that proposals added."""

RULES_OF_THUMB = (
    "Try the rooms that you have not seen yet.",
    "Pick up what the task names as soon as you see it.",
    "Open a container before you give up a room.",
    "Do not wait while something is left to be done.",
    "Only focus on a thing when the task asks for it.",
    "Always use the names that the observations give.",
)
"""Proposed where no line is told."""

_FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.S)
_GUESSED = "Perhaps: "
_FEEDBACK = re.compile(r"^#+ *feedback\b[^\n]*\n(.*?)(?=^#+ |\Z)", re.M | re.S | re.I)
_SAMPLE_FEEDBACK = re.compile(r"\bFeedback: (.*?)(?=\n- |\Z)", re.S)
_FACTS = re.compile(r"^\s*Facts:\s*$", re.M)
_ADVICE = re.compile(r"^\s*Advice:\s*$((?:\n\s*- .*)*)", re.M)
_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)
_MOST_NEW, _MOST_LINES = 3, 12
"""Lines that one proposal adds, and all that proposals added."""


def rewrite_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> str:
    """Answer GEPA's own question: the current instruction in the first fence, samples with feedback in the second. The
    answer is fenced too."""
    fences = _FENCE.findall(prompt.text)
    current = fences[0].strip() if fences else ""
    told = extract_feedback_lines("\n".join(fences[1:]) or prompt.text)
    return f"```\n{_add_lines(current, told, dice, prompt.text)}\n```"


def revise_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signature of DSPy's `InstructionProposer`: a list of samples, of which only the feedback is a source."""
    told = extract_feedback_lines("\n".join(_SAMPLE_FEEDBACK.findall(prompt.get_region("examples_with_feedback"))))
    return {"new_instruction": _add_lines(prompt.get_region("current_instruction"), told, dice, prompt.text)}


def restate_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signature of MIPROv2's proposer, which tells no feedback."""
    return {"proposed_instruction": _add_lines(prompt.get_region("basic_instruction"), (), dice, prompt.text)}


def extract_feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without duplicates; only those under "Feedback" headings, if
    any."""
    scope = "\n".join(_FEEDBACK.findall(text)) or text
    if _FACTS.search(scope):
        scope = "\n".join(_ADVICE.findall(scope))
    found = []
    for sentence in re.split(r"(?<=[.!])\s+|[\n;]", scope):
        line = sentence.strip(" \t-*•\"'`").removeprefix(_GUESSED)
        commands = [clause.command for clause in read_clauses(line) if clause.command is not None]
        if 8 <= len(line) <= 200 and (commands or _ADVISING.match(line)):
            found.append(line if line.endswith((".", "!")) else f"{line}.")
    return list({normalize_words(line): line for line in reversed(found)}.values())[::-1]


def _add_lines(current: str, told: Sequence[str], dice: SeededNoise, context: str) -> str:
    """The current instruction with new lines; the oldest added lines go where there are too many."""
    base, added = _split_instruction(current)
    new = _choose_new_lines(told, current, bool(added), dice, context)
    kept = added[1:] if not new else added
    return _join_instruction(base, [*kept, *new][-_MOST_LINES:]) or "Solve the task by one action at a time."


def _choose_new_lines(told: Sequence[str], known: str, begun: bool, dice: SeededNoise, context: str) -> list[str]:
    """A seeded, non-empty sample of the lines that are not known yet. Where no line is told and none was added before,
    of the rules of thumb."""
    known = normalize_words(known)
    fresh = [line for line in dict.fromkeys(told) if normalize_words(line) not in known]
    if not fresh and not begun:
        fresh = [line for line in RULES_OF_THUMB if normalize_words(line) not in known]
    size = 1 + int((dice.draw_noise("size", context) + 1) / 2 * _MOST_NEW)
    taken = sorted(fresh, key=lambda line: -dice.draw_noise(line, context))[:size]
    return [line for line in fresh if line in taken]


def _split_instruction(instruction: str) -> tuple[str, list[str]]:
    """The hand-written text, and the lines that proposals added to it."""
    base, _, added = instruction.partition(HEADING)
    return base.strip(), [line.strip(" -") for line in added.splitlines() if line.strip(" -")]


def _join_instruction(base: str, added: Sequence[str]) -> str:
    return "\n".join([f"{base}\n\n{HEADING}".strip(), *(f"- {line}" for line in added)]) if added else base
