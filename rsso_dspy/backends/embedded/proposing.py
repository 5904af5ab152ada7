"""The proposer that optimizers ask for better instructions: feedback lines become lines of the instruction.

Which of the lines found are used depends on the seed, so that several proposals are a search.
"""

import re
from collections.abc import Mapping
from typing import Any

from rsso_dspy.backends.embedded.commands import lines, plain
from rsso_dspy.backends.embedded.dice import Dice
from rsso_dspy.backends.embedded.reading import Prompt, listed

_FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.S)
_FEEDBACK = re.compile(r"^#+ *feedback\b[^\n]*\n(.*?)(?=^#+ |\Z)", re.M | re.S | re.I)
_MOST_LINES = 6
_MOST_CHARACTERS = 2400
_SHARE = 0.6
"""Chance of each line to be taken."""


def rewrite(prompt: Prompt, dice: Dice) -> str:
    """GEPA's question: the current instruction in the first fence, samples with feedback in the second. The answer
    is fenced too."""
    fences = _FENCE.findall(prompt.text)
    current = fences[0].strip() if fences else ""
    samples = "\n".join(fences[1:]) or prompt.text
    return f"```\n{extended(current, feedback_lines(samples), dice)}\n```"


def propose(prompt: Prompt, dice: Dice) -> Mapping[str, Any]:
    """COPRO's, MIPROv2's and similar signatures: every region but the current instruction is a source of lines."""
    names = ("basic_instruction", "current_instruction", "current_instruction_doc", "instruction")
    attempted = listed(prompt.region("attempted_instructions"))
    current = next((prompt.region(name) for name in names if prompt.region(name)), "")
    if not current and attempted:
        current = _instruction_of(str(attempted[-1]))
    sources = "\n".join(text for name, text in prompt.regions.items() if name not in (*names, "program_code"))
    text = extended(current, feedback_lines(sources), dice)
    return {"proposed_instruction": text, "improved_instruction": text, "proposed_prefix_for_output_field": ""}


def advise(prompt: Prompt, dice: Dice) -> Mapping[str, Any]:
    """SIMBA's signature: what the better trajectory did and the worse did not, as advice to every module."""
    better = feedback_lines(prompt.region("better_program_trajectory"))
    worse = set(feedback_lines(prompt.region("worse_program_trajectory")))
    told = [line for line in better if line not in worse] or feedback_lines(prompt.region("worse_reward_info"))
    text = "\n".join(_some(told, dice)) or "Do not repeat an action that had no effect."
    modules = [str(name) for name in listed(prompt.region("module_names"))]
    return {
        "discussion": "The better run did what the worse one left out.",
        "module_advice": dict.fromkeys(modules, text),
    }


def feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without doubles; those under "Feedback" headings if any."""
    scope = "\n".join(_FEEDBACK.findall(text)) or text
    found = []
    for sentence in re.split(r"(?<=[.!])\s+|[\n;]", scope):
        said = sentence.strip(" \t-*•\"'`")
        commands = [line.command for line in lines(said) if line.command is not None]
        if 8 <= len(said) <= 200 and (commands or _ADVISING.match(said)):
            found.append(said if said.endswith((".", "!")) else f"{said}.")
    return list({plain(line): line for line in reversed(found)}.values())[::-1]


_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)


def extended(current: str, found: list[str], dice: Dice) -> str:
    """The current instruction with some of the lines appended; within bounds, nothing said twice."""
    fresh = [line for line in found if plain(line) not in plain(current)]
    text = current.rstrip()
    for line in _some(fresh, dice):
        if len(text) + len(line) < _MOST_CHARACTERS:
            text = f"{text}\n{line}"
    return text.strip() or "Solve the task by one action at a time."


def _some(found: list[str], dice: Dice) -> list[str]:
    """A seeded, non-empty subset in the given order."""
    chance = {line: (dice.throw(line, "proposal") + 1) / 2 for line in found}
    taken = [line for line in found if chance[line] < _SHARE] or sorted(found, key=chance.__getitem__)[:1]
    return taken[:_MOST_LINES]


def _instruction_of(attempt: str) -> str:
    return re.sub(r"^(?:Instruction|Resulting Score|Prefix) #?\d*:? *", "", attempt).strip()
