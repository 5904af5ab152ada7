"""The sentences of an instruction that the offline player's reflector and verbalizer heed.

    reflector    name every action that cost points; do not advise against rooms; only forbid mistakes; at most N
                 sentences
    steps        only the steps that the points depended on; at most N steps
    target       what the player wants to reach, without the way there

An instruction without such a sentence changes nothing. The two other calls of the verbalizer (summary and name, the
judgement of equivalence) and the writer of rules heed nothing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.explorer.commands import TRAVEL, command, extract_content_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.reflector import RecordedAction, parse_transcript, write_reflection
from rsso_dspy.explorer.scene_parser import is_failure
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.verbalizer import write_steps, write_target

_NAME_ALL = re.compile(
    r"(?:name|list|forbid) every (?:action|mistake)|(?:name|forbid) all (?:actions|mistakes)"
    r"|forbid a mistake in the plan"
)
_NO_ROOMS = re.compile(
    r"(?:do not|don't|never) (?:advise|warn|speak|say anything) against (?:rooms|places|search\w+|going|opening)"
    r"|(?:do not|don't|never) forbid (?:rooms|places|search\w+|going|opening)"
    r"|only forbid (?:mistakes|what cost|actions that cost|what did nothing)"
)
_AT_MOST = re.compile(r"(?:at most|no more than|not more than) (\w+) (?:short |imperative )*(sentence|step)s?")
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_DEPENDED = re.compile(
    r"only (?:keep |give |write )?(?:the )?steps that (?:the )?points depend|only (?:the )?needed steps"
)
_REACHED = re.compile(
    r"by what the player wants to reach|(?:name|say) (?:only )?the result|without (?:the way|how it was reached)"
)
_SENTENCES = re.compile(r"(?<=\.) +")


def write_heeded_reflection(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """`write_reflection`, then apply what the instruction asks for."""
    written = dict(write_reflection(prompt, dice))
    said = _read_instruction(prompt)
    sentences = _SENTENCES.split(written["plan"])
    if _NO_ROOMS.search(said):
        sentences = [each for each in sentences if not each.startswith("Avoid ")]
    if _NAME_ALL.search(said):
        acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
        missing = [text for text in _list_mistakes(acts) if not any(text in each for each in sentences)]
        sentences += [f"Do not {text}." for text in missing]
    if (most := _read_bound(said, "sentence")) is not None:
        sentences = sentences[:most]
    return {**written, "plan": " ".join(sentences) or written["plan"]}


def write_heeded_steps(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """`write_steps`, then apply what the instruction asks for."""
    steps = list(write_steps(prompt, dice)["steps"])
    said = _read_instruction(prompt)
    if _DEPENDED.search(said):
        steps = _select_needed_steps(steps)
    if most := _read_bound(said, "step"):
        steps = steps[-most:]
    return {"steps": steps}


def write_heeded_target(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """`write_target`, without the way there when the instruction asks for what is reached."""
    target = write_target(prompt, dice)["target"]
    if _REACHED.search(_read_instruction(prompt)):
        target = re.sub(r", after [^,]*\.$", ".", target)
    return {"target": target}


def _read_instruction(prompt: ParsedPrompt) -> str:
    return " ".join(prompt.instruction.lower().split())


def _read_bound(said: str, of: str) -> int | None:
    """The number in "at most five sentences"."""
    for number, unit in _AT_MOST.findall(said):
        if unit == of and (number.isdigit() or number in _NUMBERS):
            return int(number) if number.isdigit() else _NUMBERS.index(number)
    return None


def _list_mistakes(acts: Sequence[RecordedAction]) -> list[str]:
    """What cost points or was not understood, each once."""
    wrong = [act for act in acts if (act.gain < 0 or is_failure(act.seen)) and not act.text.isdigit()]
    return list(dict.fromkeys(act.text for act in wrong if act.text))


def _select_needed_steps(steps: Sequence[str]) -> list[str]:
    """The last step, which earned the points, and earlier steps that handle its things; of travel, only what leads to a
    kept step."""
    kept: list[str] = []
    needed: frozenset[str] = frozenset()
    for number, step in enumerate(reversed(steps)):
        done = command(step)
        about = extract_content_words(f"{done.thing} {done.place}") if done else frozenset()
        travel = done is not None and done.verb in TRAVEL
        following = command(kept[-1]) if kept else None
        if number == 0 or (travel and following and following.verb not in TRAVEL) or about & needed:
            kept.append(step)
            needed |= frozenset() if travel else about
    return kept[::-1]
