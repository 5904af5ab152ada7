"""Recorded transcripts played again by the benchmark whose they are."""

from collections.abc import Callable, Iterator

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.transcripts import ReplayedRun, Transcripts
from rsso_dspy.errors import DamagedFile, UsageError


def replay_transcripts(
    transcripts: Transcripts, folder: str | None = None, begin: Callable[[int], None] = lambda _: None
) -> Iterator[ReplayedRun]:
    """Every run, played. ``folder``: the user's data, which a benchmark may need. ``begin`` is called with the number
    of each episode, from 1, before it is played. Raises ``UnknownName`` for a
    benchmark that is not there, ``UsageError`` for one that replays nothing, ``DamagedFile`` for an episode that is
    none of its own."""
    replay = get_benchmark(transcripts.benchmark).replay
    if replay is None:
        raise UsageError(f"{transcripts.benchmark} plays no recorded transcripts")
    for number, episode in enumerate(transcripts.episodes):
        begin(number + 1)
        try:
            yield from replay(episode, transcripts.text, folder)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            why = f"episode {number} (from 0) is none of {transcripts.benchmark}: {type(error).__name__}: {error}"
            raise DamagedFile(transcripts.path, why) from error
