"""The proposer that optimizers ask for better instructions: feedback lines become lines of the instruction. Who is told
nothing of how the game went adds what holds in most such games.

A proposal is an edit. The hand-written text stays; below it, under a heading, stand the lines that proposals added:
each proposal adds some and may drop some. Which ones depends on the seed and on the whole request, so that several
proposals are a search that can go both ways.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from textwrap import dedent
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
"""Proposed where no line is told."""

_FENCE = re.compile(r"```[^\n`]*\n?(.*?)```", re.S)
_SAMPLE = re.compile(r"^# Example \d+\s*$", re.M)
_FEEDBACK = re.compile(r"^#+ *feedback\b[^\n]*\n(.*?)(?=^#+ |\Z)", re.M | re.S | re.I)
_ADVISING = re.compile(r"(?:do not|don't|never|always|avoid|instead|first|before|only|keep|try|prefer|search)\b", re.I)
_LIMIT = re.compile(r"\d+")
_ENTRY = re.compile(r"^\[\d+\] (?:«««\n(.*?)\n»»»|«(.*?)»)$", re.M | re.S)
_TRIED = re.compile(r"Instruction #\d+: ")
_MOST_NEW, _MOST_LINES, _MOST_CHARACTERS = 5, 14, 1600
"""Lines one proposal adds, and lines and characters of all that proposals added."""
_DROP = 0.3
"""Chance of a line that an earlier proposal added to be dropped."""


def rewrite_instruction(prompt: ParsedPrompt, dice: SeededNoise) -> str:
    """GEPA's question in its own format: the current instruction in the first fence, samples with feedback in the
    second. The answer is fenced too."""
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
    return {"new_instruction": edit_instruction(prompt.get_region("current_instruction"), told, dice, prompt.text)}


def shorten_instruction(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """The signature that asks for a shorter draft: lines go, the last ones first, until it fits."""
    base, added = split_instruction(prompt.get_region("instruction"))
    limit = max(map(int, _LIMIT.findall(prompt.get_region("length_limit"))), default=len(base))
    while added and len(join_instruction(base, added)) > limit:
        added = added[:-1]
    return {"shortened_instruction": join_instruction(base, added)}


def propose_instruction_edit(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """COPRO's, MIPROv2's and similar signatures: every region but the current instruction is a source of lines. Of
    several instructions that were tried, the last and best is the current one, and what was added to the others is the
    source."""
    names = ("basic_instruction", "current_instruction", "current_instruction_doc", "instruction")
    tried = parse_attempted_instructions(prompt.get_region("attempted_instructions"))
    current = next((prompt.get_region(name) for name in names if prompt.get_region(name)), tried[-1] if tried else "")
    left_out = {*names, "attempted_instructions", "program_code", "tip"}
    told = extract_feedback_lines("\n".join(text for name, text in prompt.regions.items() if name not in left_out))
    samples = [told, *(split_instruction(attempt)[1] for attempt in tried[:-1])]
    said = normalize_words(current)
    if not any(normalize_words(line) not in said for lines in samples for line in lines):
        samples.append(list(RULES_OF_THUMB))
    text = edit_instruction(current, samples, dice, prompt.text)
    return {"proposed_instruction": text, "improved_instruction": text, "proposed_prefix_for_output_field": ""}


def parse_attempted_instructions(text: str) -> list[str]:
    """The instructions in COPRO's list of attempts, worst first."""
    entries = [dedent(block) or line for block, line in _ENTRY.findall(text)] or [
        str(entry) for entry in parse_region_list(text)
    ]
    return [_TRIED.sub("", entry, count=1).strip() for entry in entries if _TRIED.match(entry)]


def advise_modules(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """SIMBA's signature: what is said of the better run and not of the worse one, as advice to the modules it is said
    to; else what is said of the worse one."""
    better, worse = (_parse_module_feedback(prompt.get_region(f"{which}_reward_info")) for which in ("better", "worse"))
    advice: dict[str, str] = {}
    for module in map(str, parse_region_list(prompt.get_region("module_names"))):
        against = worse.get(module, [])
        told = [line for line in better.get(module, []) if line not in against] or against
        text = "\n".join(_sample_lines(Counter(told), dice, f"{module} {prompt.text}"))
        advice |= {module: text} if text else {}
    return {"discussion": "The better run did what the worse one left out.", "module_advice": advice}


def _parse_module_feedback(text: str) -> dict[str, list[str]]:
    """The lines said to each module, from an object with a text for each."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    return {name: extract_feedback_lines(str(said)) for name, said in told.items()} if isinstance(told, dict) else {}


def extract_feedback_lines(text: str) -> list[str]:
    """Imperative sentences about the game, in order and without doubles; those under "Feedback" headings if any."""
    scope = "\n".join(_FEEDBACK.findall(text)) or text
    found = []
    for sentence in re.split(r"(?<=[.!])\s+|[\n;]", scope):
        said = sentence.strip(" \t-*•\"'`")
        commands = [line.command for line in lines(said) if line.command is not None]
        if 8 <= len(said) <= 200 and (commands or _ADVISING.match(said)):
            found.append(said if said.endswith((".", "!")) else f"{said}.")
    return list({normalize_words(line): line for line in reversed(found)}.values())[::-1]


def edit_instruction(current: str, samples: Iterable[Sequence[str]], dice: SeededNoise, context: str) -> str:
    """An edit of the current instruction by the lines found in the feedback of each sample; within bounds, nothing
    said twice, and never a line together with its contrary. A line found in many samples is likelier to be taken."""
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


def _sample_lines(found: Counter[str], dice: SeededNoise, context: str) -> list[str]:
    """A seeded, non-empty sample in the order of the lines: a line's chance grows with the number of samples that it
    was found in (the best of as many throws counts)."""
    size = 1 + int(_sample_probability("size", context, dice) * _MOST_NEW)
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
    """The lines less those that contradict the base or a line before them."""
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
