"""The frozen records of skill memory, from a stretch of a trajectory to a verbalized skill."""

from dataclasses import dataclass, field
from typing import NamedTuple

from rsso_dspy.records import State

BILLION = 1_000_000_000
"""Similarities are whole billionths. Their sums are exact in any order, so equal windows tie exactly."""


class Span(NamedTuple):
    """States [``start``, ``end``) of the piece with that index."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored part of a trajectory, ending at a positive reward. The three sequences are aligned by state."""

    trial: int
    offset: int
    """Index in the trial of the first state."""
    states: tuple[State, ...]
    actions: tuple[str, ...]
    """The action before each state; empty for the start of a trial."""
    rewards: tuple[int, ...]
    """Points gained at each state."""
    trajectory: int = 0
    """Pieces of one trajectory share a number. Trials of other units have their own numbers."""

    def __len__(self) -> int:
        return len(self.states)


@dataclass(frozen=True, slots=True)
class Window:
    """One example of a skill: n states, the n - 1 actions between them, and the points gained on arriving at each."""

    piece: int
    start: int
    end: int
    states: tuple[State, ...]
    actions: tuple[str, ...]
    rewards: tuple[int, ...]

    @classmethod
    def from_span(cls, span: Span, piece: Piece) -> "Window":
        part = slice(span.start, span.end)
        return cls(*span, piece.states[part], piece.actions[part][1:], piece.rewards[part])

    @property
    def span(self) -> Span:
        return Span(self.piece, self.start, self.end)


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """Two matched windows, the earlier piece first; similarities in billionths."""

    spans: tuple[Span, ...]
    state: int
    action: int

    @property
    def state_similarity(self) -> float:
        """Mean cosine of the aligned state descriptions, -1 to 1."""
        return self.state / BILLION

    @property
    def action_similarity(self) -> float:
        """Mean cosine of the aligned actions, -1 to 1."""
        return self.action / BILLION


@dataclass(frozen=True, slots=True)
class SkillScores:
    """The terms of a candidate's score before weighting (2 = average), and their weighted mean."""

    coverage: float
    reward: float
    state: float
    action: float
    feedback: float
    """Sum over feedback events, negative if the skill was targeted without a reward; 0 without events."""
    total: float


@dataclass(frozen=True, slots=True)
class Verbalization:
    """A language model's description of a skill (SSO, section 3: summary, instructions, target)."""

    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    """The observation that marks the end of the skill; shown to the actor as the subgoal."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A verbalized member of the skill set."""

    id: str
    """Digest of the content of its windows: the same examples have the same id in every run."""
    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    windows: tuple[Window, ...] = field(repr=False)
    scores: SkillScores
    retrieved: int = 0
    """Number of steps at which it was shown."""
    targeted: int = 0
    """Number of steps at which the actor named its target as the subgoal."""
    beyond: int = 0
    """Number of actions by which its words go beyond its windows (`SkillSettings.past_reward`): 0 or 1."""
