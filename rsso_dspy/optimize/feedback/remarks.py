"""The remarks of feedback: facts about these trials, advice for every variant, and guesses.

A fact is evidence and may name anything. Advice and guesses may end up in an instruction for other variants, so they
name no object of their variant.
"""

from collections.abc import Iterable, Sequence

FACTS, ADVICE = "Facts:", "Advice:"
PERHAPS = "Perhaps: "
"""Begins a guess."""


class Advice(str):
    """A sentence that holds for every variant."""

    __slots__ = ()


class Guess(Advice):
    """A sentence that only one variant supports."""

    __slots__ = ()


def render_remarks(remarks: Iterable[str], solved: bool) -> str:
    """Facts, then advice, each once and under its heading. A solved variant gets only facts."""
    said: Sequence[str] = list(dict.fromkeys(remarks))
    facts = [each for each in said if not isinstance(each, Advice)]
    advice = [_format_advice(each) for each in said if isinstance(each, Advice)] if not solved else []
    return "\n".join([*([FACTS, *facts] if facts else []), *([ADVICE, *advice] if advice else [])])


def _format_advice(sentence: Advice) -> str:
    return f"- {PERHAPS if isinstance(sentence, Guess) else ''}{sentence}"
