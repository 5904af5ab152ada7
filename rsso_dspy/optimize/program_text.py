"""What a compiled program says in each role, beside the zero-shot program.

compare_states(Agent("rsso").dump_state(), load("compiled.json").chosen_state)
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from rsso_dspy.optimize.program_file import Compiled, PredictorState

Op = Literal["same", "removed", "added"]

_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)|(?<=:)\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class RoleDifference:
    """How one predictor differs from the same one of another program."""

    name: str
    changed: bool
    rows: tuple[tuple[Op, str], ...]
    """Sentences and list lines of both instructions, in order."""
    fields: tuple[str, ...]
    """Fields whose words differ."""
    added: tuple[dict[str, str], ...]
    """Demonstrations, field to text."""
    removed: tuple[dict[str, str], ...]


def compare_states(
    before: Mapping[str, PredictorState], after: Mapping[str, PredictorState]
) -> tuple[RoleDifference, ...]:
    """What changes between the states of two programs of one method, role by role."""
    return tuple(_compare_role(name, before[name], after[name]) for name in before)


def _compare_role(name: str, before: PredictorState, after: PredictorState) -> RoleDifference:
    old, new = _list_demonstrations(before), _list_demonstrations(after)
    fields = zip_longest(before["signature"]["fields"], after["signature"]["fields"])
    return RoleDifference(
        name,
        changed=before["signature"] != after["signature"] or old != new,
        rows=tuple(align_sentences(before["signature"]["instructions"], after["signature"]["instructions"])),
        fields=tuple((one or other or {}).get("prefix", "").rstrip(":") for one, other in fields if one != other),
        added=tuple(demo for demo in new if demo not in old),
        removed=tuple(demo for demo in old if demo not in new),
    )


def align_sentences(before: str, after: str) -> Iterator[tuple[Op, str]]:
    """The sentences and list lines of two instructions, however their sources were wrapped: those that both have, that
    only the first has, and that only the second has."""
    old, new = (list(_split_sentences(text)) for text in (before, after))
    for op, a0, a1, b0, b1 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if op == "equal":
            yield from (("same", sentence) for sentence in old[a0:a1])
        else:
            yield from (("removed", sentence) for sentence in old[a0:a1])
            yield from (("added", sentence) for sentence in new[b0:b1])


def _split_sentences(text: str) -> Iterator[str]:
    for paragraph in _BREAK.split(text):
        yield from filter(None, _SENTENCE.split(" ".join(paragraph.split())))


def _list_demonstrations(state: PredictorState) -> Sequence[dict[str, str]]:
    """The demonstrations of a predictor, without DSPy's own mark of where they came from."""
    return [
        {
            key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for key, value in demo.items()
            if key != "augmented"
        }
        for demo in state["demos"]
    ]


def describe_noise(compiled: Compiled) -> Iterator[str]:
    """What placebos gained, in lines; no line where none was played."""
    noise = compiled.noise
    if noise is None or not noise.gains:
        return
    gains = ", ".join(f"{100 * gain:+.1f}" for gain in noise.gains)
    told = "the rule-based player heeds none, so this shows no luck" if compiled.rule_based else "so much is luck"
    yield f"noise: a rewording that means nothing gained {gains} points on val; {told}"
    if noise.won:
        yield (
            "WARNING: that placebo did better on val than every candidate: what val tells here is noise. It is not "
            "chosen and cannot be confirmed."
        )
