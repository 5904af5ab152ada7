"""The specification of a run, before planning.

RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x"))
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rsso_dspy.bounds import MOST_DIGITS, MOST_SHARDS, shorten_text
from rsso_dspy.errors import UsageError
from rsso_dspy.records import ZERO_SHOT


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number`, from 1, of `of` parts."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse ``i/n``. Raises `UsageError` for anything else."""
        number, slash, of = text.partition("/")
        read = [int(part) if part.isdecimal() and len(part) <= MOST_DIGITS else 0 for part in (number, of)]
        if not (slash and 1 <= read[0] <= read[1] <= MOST_SHARDS):
            raise UsageError(
                f"--shard {shorten_text(text)}: expected i/n with i from 1 to n, and n at most {MOST_SHARDS:,}, e.g. "
                "2/8"
            )
        return cls(*read)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def list_missing_shards(played: Iterable[str]) -> list[str]:
    """Return the shards that complete these, each as ``i/n``; empty if none is missing. Raises `UsageError`."""
    parts = {Shard.parse(text) for text in played}
    totals = sorted({part.of for part in parts})
    return [str(each) for of in totals for number in range(1, of + 1) if (each := Shard(number, of)) not in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The arguments of a run, from the command line or from Python."""

    methods: tuple[str, ...]
    out: Path
    """Folder of the run."""
    programs: tuple[str, ...] = (ZERO_SHOT,)
    compiled: tuple[Path, ...] = ()
    """Files of the compiled programs, which are named after them."""
    unconfirmed: bool = False
    """Whether to play the candidates of compiled programs that are not confirmed, instead of their initial programs."""
    tasks: tuple[str, ...] | None = None
    """Task types; None means all."""
    variants: tuple[str, ...] = ()
    """A named selection or keys of variants; empty means the benchmark's default selection."""
    per_task: int | None = None
    skills: Path | None = None
    """Skill library that every unit starts from."""
    constitution: Path | None = None
    """Constitution that every unit of a method with a constitution starts from."""
    shard: Shard | None = None
    """The shard to play; None means the whole run."""
    retry_stalled: bool = False
    """Play units with a stalled trial again."""
