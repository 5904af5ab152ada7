"""What a rule of feedback may say: a fact of these trials, advice that holds wherever it stands, or a guess.

A fact names what it likes: it is evidence. Advice and guesses can stand in an instruction that serves other variants,
so they name no object of the variant they come from.
"""

from collections.abc import Iterable, Sequence

FACTS, ADVICE = "Facts:", "Advice:"
PERHAPS = "Perhaps: "
"""Begins a guess: a sentence that one variant alone speaks for."""


class Advice(str):
    """A sentence that holds for every variant."""

    __slots__ = ()


class Guess(Advice):
    """A sentence that one variant alone speaks for."""

    __slots__ = ()


def render_remarks(remarks: Iterable[str], solved: bool) -> str:
    """Facts, then advice, each once and under its heading. A solved variant has facts alone: it has nothing to do
    better."""
    said: Sequence[str] = list(dict.fromkeys(remarks))
    facts = [each for each in said if not isinstance(each, Advice)]
    advice = [_format_advice(each) for each in said if isinstance(each, Advice)] if not solved else []
    return "\n".join([*([FACTS, *facts] if facts else []), *([ADVICE, *advice] if advice else [])])


def _format_advice(sentence: Advice) -> str:
    return f"- {PERHAPS if isinstance(sentence, Guess) else ''}{sentence}"
