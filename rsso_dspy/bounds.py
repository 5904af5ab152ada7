"""Upper bounds of options, settings and scores. Larger numbers are mistakes and refused before planning: a plan of a
billion units would exhaust memory."""

from math import inf, nan
from typing import Any

from rsso_dspy.errors import UsageError

MOST_SEED = 2**31 - 1  # accepted by any random number generator
MOST_TRIALS = 1000  # of a unit, or of a variant in training: so many have distinct rollout numbers under one seed
MOST_PER_TASK = 1000  # no task has as many variants
MOST_SECONDS = 1_000_000  # eleven days: accepted by any clock and socket of the system
MOST_COUNT = 1_000_000  # of other counts: steps, entries of a memory, tokens of an answer
MOST_TOKENS = 1_000_000_000  # of one answer
MOST_DOLLARS = 1_000_000_000  # as a price or spend limit
MOST_JOBS = 256
MOST_SHARDS = 10_000  # far more than there are variants
MOST_EPISODES = 1000  # of exploration before building a constitution
MOST_BYTES = 2**29  # of a file when unpacked: a small one may unpack to more than memory holds
MOST_DIGITS = 9  # of a count in a text: Python refuses to read thousands of them
MOST_SCORE = 1_000_000  # in size: metrics give 0 to 1 or 0 to 100; statistics of such scores cannot overflow
MOST_DIFFERENCE = 10 * MOST_SCORE  # of two scores, or of two such differences
SHOWN = 80  # maximum characters of a wrong text repeated in a message


def shorten_text(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def check_score(score: Any, *name: object, most: int = MOST_SCORE) -> float:
    """Return the score, or difference of scores, as a number. Raises `UsageError` that begins with its name."""
    try:
        number = float(score)
        text = str(number)
    except OverflowError:
        number = inf
        text = "inf"
    except (TypeError, ValueError):
        number = nan
        text = shorten_text(repr(score))
    if -most <= number <= most:
        return number
    raise UsageError(f"{' '.join(map(str, name))} is {text}: only numbers from -{most:,} to {most:,} can be compared")
