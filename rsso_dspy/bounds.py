"""The largest numbers that options and settings take. What is larger is a mistake, and is refused before anything is
planned: a plan of a billion units would fill the memory first."""

MOST_SEED = 2**31 - 1
"""The largest seed: what any generator of random numbers takes, and far from the 64 bits that tables hold."""

MOST_TRIALS = 1000
"""Trials at most of a unit, or of a variant in training: as many have rollout numbers of their own under one seed."""

MOST_PER_TASK = 1000
"""Variants of a task at most: no task has as many."""

MOST_SECONDS = 1_000_000
"""The longest time that a setting may name, eleven days: what any clock and socket of the system takes."""

MOST_RETRIES = 1000
"""Further tries of a request at most."""

MOST_TEMPERATURE = 100.0
"""The highest sampling temperature: providers take 1 or 2 at most."""

MOST_TOKENS = 1_000_000_000
"""Tokens of an answer at most."""

MOST_STATES = 1000
"""States in a window, or skills in a prompt, at most: more than any trial has steps."""

MOST_KEPT = 1_000_000
"""Entries of a memory at most, and steps or tasks between two writings."""

MOST_DOLLARS = 1_000_000_000
"""US dollars that a price or a limit may name at most."""

MOST_JOBS = 256
"""Units played at once at most."""

MOST_SHARDS = 10_000
"""Parts of a run at most: far more than there are variants."""

MOST_POINTS = 10_000
"""Points of a sweep at most, each a run of its own."""

MOST_EPISODES = 1000
"""Episodes without a task before a constitution is built, at most."""

MOST_STEPS = 1_000_000
"""Steps of a trial at most."""

MOST_DIGITS = 9
"""Digits of a count in a text at most: Python itself refuses to read thousands of them."""

SHOWN = 80
"""Characters of a wrong text that a message repeats."""


def shorten_text(text: str) -> str:
    """A text for a message that it must not fill."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
