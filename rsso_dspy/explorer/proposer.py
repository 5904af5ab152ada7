"""The proposer of better instructions: what several variants share becomes lines of the instruction, for the tasks that
share it. Without any feedback on the game it adds what holds in most such games.

A proposal is an edit. The hand-written text stays; below it, under a heading, stand the lines that proposals added:
each proposal adds some and may drop some. Which ones depends on the seed and on the whole request, so that several
proposals are a search that can go both ways.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rsso_dspy.explorer.commands import AdviceClause, extract_content_words, lines, normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, parse_region_list
from rsso_dspy.explorer.seeded_noise import SeededNoise

HEADING = "Advice from earlier attempts:"
"""Stands between the hand-written instruction and the lines that proposals added."""

RULES_OF_THUMB = (
    "Try the rooms that you have not seen yet.",
    "Pick up what the task names as soon as you see it.",
    "Open a container before you give up a room.",
    "Read what is written down, such as notes and recipes.",
    "Do not wait while something is left to be done.",
    "Only focus on a thing when the task asks for it.",
    "Keep to one plan until an observation speaks against it.",
    "Always use the names that the observations give.",
)
"""Proposed where no advice is told."""

_FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.S)
_SAMPLE = re.compile(r"^# Example \d+\s*$", re.M)
_GUESSED = "Perhaps: "
_FEEDBACK = re.compile(r"^#+ *feedback\b[^\n]*\n(.*?)(?=^#+ |\Z)", re.M | re.S | re.I)
_FACTS = re.compile(r"^\s*Facts:\s*$", re.M)
_ADVICE = re.compile(r"^\s*Advice:\s*$((?:\n\s*- .*)*)", re.M)
_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)
_LIMIT = re.compile(r"\d+")
_MOST_NEW, _MOST_LINES, _MOST_CHARACTERS = 5, 14, 1600
"""Lines one proposal adds to a whole instruction, and lines and characters of all that proposals added."""
_DROP = 0.3
"""Probability that a line of an earlier proposal is dropped."""


def rewrite_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> str:
    """Answer GEPA's own question: the current instruction in the first fence, samples with feedback in the second. The
    answer is fenced too."""
    fences = _FENCE.findall(prompt.text)
    current = fences[0].strip() if fences else ""
    samples = _SAMPLE.split("\n".join(fences[1:]) or prompt.text)
    return f"```\n{edit_instruction(current, map(extract_feedback_lines, samples), dice, prompt.text)}\n```"


def revise_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signature of DSPy's `InstructionProposer`: a list of samples, of which only the feedback is a source."""
    samples = [
        sample
        for sample in parse_region_list(prompt.get_region("examples_with_feedback"))
        if isinstance(sample, Mapping)
    ]
    told = [extract_feedback_lines(str(sample.get("Feedback", ""))) for sample in samples]
    if not any(told) and HEADING not in prompt.get_region("current_instruction"):
        told = [list(RULES_OF_THUMB)]
    return {"new_instruction": edit_instruction(prompt.get_region("current_instruction"), told, dice, prompt.text)}


def suggest_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """The signature of MIPROv2's proposer, which tells no feedback: what holds in most such games."""
    current = prompt.get_region("basic_instruction")
    return {"proposed_instruction": edit_instruction(current, [RULES_OF_THUMB], dice, prompt.text)}


def shorten_instruction(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """The signature that asks for a shorter draft: lines go, the last ones first, until it fits."""
    base, added = split_instruction(prompt.get_region("instruction"))
    limit = max(map(int, _LIMIT.findall(prompt.get_region("length_limit"))), default=len(base))
    while added and len(join_instruction(base, added)) > limit:
        added = added[:-1]
    return {"shortened_instruction": join_instruction(base, added)}


def extract_feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without duplicates; only those under "Feedback" headings, if
    any."""
    scope = "\n".join(_FEEDBACK.findall(text)) or text
    if _FACTS.search(scope):
        scope = "\n".join(_ADVICE.findall(scope))
    found = []
    for sentence in re.split(r"(?<=[.!])\s+|[\n;]", scope):
        said = sentence.strip(" \t-*•\"'`").removeprefix(_GUESSED)
        commands = [line.command for line in lines(said) if line.command is not None]
        if 8 <= len(said) <= 200 and (commands or _ADVISING.match(said)):
            found.append(said if said.endswith((".", "!")) else f"{said}.")
    return list({normalize_words(line): line for line in reversed(found)}.values())[::-1]


def edit_instruction(current: str, samples: Iterable[Sequence[str]], dice: SeededNoise, context: str) -> str:
    """The current instruction, edited with lines from the feedback of each sample: within bounds, without repeats or
    contradictions. A line found in more samples is more likely to be taken."""
    base, added = split_instruction(current)
    found = Counter(line for sample in samples for line in dict.fromkeys(sample))
    chance = {line: _sample_probability(line, f"keep {context}", dice) for line in added}
    kept = [line for line in added if line in found or chance[line] >= _DROP]
    said = normalize_words("\n".join([base, *added]))
    fresh = Counter({line: count for line, count in found.items() if normalize_words(line) not in said})
    if not fresh and kept == added:
        kept = [line for line in added if line != min(added, key=chance.__getitem__)]
    new = _sample_lines(fresh, dice, context)
    accepted = _limit_lines(_drop_contradictions([*new, *kept], base))
    ordered = [line for line in [*kept, *new] if line in accepted]
    return join_instruction(base, ordered) or "Solve the task by one action at a time."


def split_instruction(instruction: str) -> tuple[str, list[str]]:
    """The hand-written text, and the lines that proposals added to it."""
    base, _, added = instruction.partition(HEADING)
    return base.strip(), [line.strip(" -") for line in added.splitlines() if line.strip(" -")]


def join_instruction(base: str, added: Sequence[str]) -> str:
    return "\n".join([f"{base}\n\n{HEADING}".strip(), *(f"- {line}" for line in added)]) if added else base


def _sample_lines(found: Counter[str], dice: SeededNoise, context: str, most: int = _MOST_NEW) -> list[str]:
    """A seeded, non-empty sample in the order of the lines. A line's probability grows with the number of samples it
    was found in (the best of as many draws counts)."""
    size = 1 + int(_sample_probability("size", context, dice) * most)
    best = {
        line: max(_sample_probability(line, f"take {number} {context}", dice) for number in range(count))
        for line, count in found.items()
    }
    taken = sorted(found, key=lambda line: -best[line])[:size]
    return [line for line in found if line in taken]


def _sample_probability(candidate: str, context: str, dice: SeededNoise) -> float:
    """Between 0 and 1."""
    return (dice.draw_noise(candidate, context) + 1) / 2


def _drop_contradictions(found: Iterable[str], base: str) -> list[str]:
    """The lines without those that contradict the base or an earlier line."""
    stands, agreeing = _collect_claims(base), []
    for line in found:
        claims = _collect_claims(line)
        if not any((subject, not positive) in stands for subject, positive in claims):
            stands |= claims
            agreeing.append(line)
    return agreeing


def _collect_claims(text: str) -> set[tuple[Any, bool]]:
    """What a text speaks for (True) or against (False): commands, in whatever words they are put, or plain clauses."""
    return {(_get_claim_subject(line), line.positive) for line in lines(text)}


def _get_claim_subject(line: AdviceClause) -> Any:
    if line.command is None:
        return normalize_words(line.text)
    verb = "teleport" if line.command.verb == "go" else line.command.verb
    return verb, extract_content_words(line.command.thing), extract_content_words(line.command.place)


def _limit_lines(found: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for line in found:
        if len(kept) < _MOST_LINES and sum(map(len, kept)) + len(line) <= _MOST_CHARACTERS:
            kept.append(line)
    return kept
