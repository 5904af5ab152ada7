"""A run as it is asked for, before anything is planned or read.

RunSpec(methods=("sso", "rsso"), tasks=("boil",), out=Path("runs/x"))
"""

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
        """The shard that ``i/n`` names. Raises `UsageError` for anything else."""
        number, slash, of = text.partition("/")
        read = [int(part) if part.isdecimal() and len(part) <= MOST_DIGITS else 0 for part in (number, of)]
        if not (slash and 1 <= read[0] <= read[1] <= MOST_SHARDS):
            raise UsageError(
                f"--shard {shorten_text(text)}: expected i/n with i from 1 to n, and n {MOST_SHARDS:,} at most, e.g. "
                "2/8"
            )
        return cls(*read)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What a command, or a program in Python, asks for."""

    methods: tuple[str, ...]
    out: Path
    """Folder of the run."""
    programs: tuple[str, ...] = (ZERO_SHOT,)
    compiled: tuple[Path, ...] = ()
    """Files of the compiled ones among the programs, which are called after them."""
    tasks: tuple[str, ...] | None = None
    """Task types; all when None."""
    variants: tuple[str, ...] = ()
    """One selection, or keys of variants; the usual selection of the benchmark when there are none."""
    per_task: int | None = None
    skills: Path | None = None
    """Library that every unit starts from."""
    constitution: Path | None = None
    """Rules that every unit of a method with a constitution starts from."""
    unbuilt: bool = False
    """Whether these rules are still to be built: such a run can be planned, and not played."""
    fork: Path | None = None
    """Run whose records are taken over where they are valid here."""
    shard: Shard | None = None
    """The part of the run that is played here; all of it when None."""
    retry_stalled: bool = False
    """Play units again in which a trial stalled."""
    record: bool = False
    """Keep every exchange with a model."""
