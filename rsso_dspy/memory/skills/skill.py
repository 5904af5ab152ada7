"""The records of skill memory, from a stretch of a trajectory to a skill with words. All frozen."""

from dataclasses import dataclass, field
from typing import NamedTuple

from rsso_dspy.records import State

__all__ = ["BILLION", "Piece", "Skill", "SkillCandidate", "SkillScores", "Span", "Verbalization", "Window"]

BILLION = 1_000_000_000
"""Similarities are whole billionths. Sums of them are exact in any order, so equal windows tie exactly, wherever they
stand in a matrix and however often the sum was taken."""


class Span(NamedTuple):
    """States ``start`` up to, not including, ``end`` of the piece with that index."""

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
    """The action that led to each state; empty for the start of a trial."""
    rewards: tuple[int, ...]
    """Points gained on arriving at each state."""
    trajectory: int = 0
    """Pieces with the same number were cut from one trajectory. Trials of other units have numbers of their own."""

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
    """Sum over feedback events, negative when the skill was targeted and nothing followed; 0 without any."""
    total: float


@dataclass(frozen=True, slots=True)
class Verbalization:
    """What a language model wrote about a skill's examples (SSO, section 3: summary, instructions, target)."""

    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    """The observation that tells that the skill is done; shown to the actor as the subgoal."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A verbalized member of the skill set."""

    id: str
    """Digest of what its windows say: the same examples have the same id in every run."""
    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    windows: tuple[Window, ...] = field(repr=False)
    scores: SkillScores
    retrieved: int = 0
    """Steps at which it was shown."""
    targeted: int = 0
    """Steps at which the actor named its target as the subgoal."""
    beyond: int = 0
    """Actions by which its words go beyond its windows (`SkillSettings.past_reward`): 0 or 1."""
