"""The parts of a compiled file: scores, candidates, and prompts as DSPy keeps them."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import ConfigDict
from typing_extensions import TypedDict


@dataclass(frozen=True, slots=True)
class ProgramScores:
    """Scores of a program on the val variants."""

    metric: float
    """Mean of the metric, 0 to 1."""
    mean: float
    """Mean of the best accumulator over the trials: the paper's Mean, 0 to 100."""


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """A candidate that was played on val variants."""

    program: str
    scores: ProgramScores
    """Over those that it was played on: all, unless it was dropped."""
    per_variant: dict[str, float] = field(default_factory=dict)
    """Key of a calibration variant to the metric there, 0 to 1; of several seeds the mean."""
    number: int | None = None
    """Number in the order of trying, the same in progress and on pages; None where nobody counted."""
    placebo: bool = False
    """Whether it is a placebo, which is never chosen."""
    dropped: bool = False
    """Whether it fell so far behind that it was not played on the rest of val."""


@dataclass(frozen=True, slots=True)
class KeptCandidate:
    """The candidate that did best on val, kept beside the program it started from because it is not confirmed."""

    program: str
    """Fingerprint of the state."""
    state: "dict[str, PredictorState]"


class FieldState(TypedDict):
    """Words of one field of a signature, as DSPy keeps them."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    prefix: str
    description: str


class SignatureState(TypedDict):
    """Words of a signature, as DSPy keeps them."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    instructions: str
    fields: list[FieldState]


class PredictorState(TypedDict):
    """One predictor, as DSPy keeps it. There is no model in it: models come from the configuration."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    traces: list[Any]
    train: list[Any]
    demos: list[dict[str, Any]]
    signature: SignatureState
    lm: None
