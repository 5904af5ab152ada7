"""The complete state of a skill memory, as stored in a snapshot."""

from dataclasses import dataclass, field

from rsso_dspy.memory.skills.score import RunningMoments, SimilarityMoments
from rsso_dspy.memory.skills.skill import Piece, Skill, SkillCandidate, SkillScores


@dataclass(slots=True)
class SkillMemoryState:
    """The state of a skill memory; empty when fresh."""

    pieces: list[Piece] = field(default_factory=list)
    built: int = 0
    """Number of leading pieces that need no matching."""
    similarities: SimilarityMoments = field(
        default_factory=lambda: SimilarityMoments(RunningMoments(), RunningMoments())
    )
    pool: list[tuple[SkillCandidate, float]] = field(default_factory=list)
    """Candidates for the next search with their scores in the last one, most used first."""
    selected: list[tuple[SkillCandidate, SkillScores]] = field(default_factory=list)
    """The skill set, best first."""
    skills: dict[str, Skill] = field(default_factory=dict)
    """Every skill ever verbalized, by id, as of its last selection."""
    library: list[str] = field(default_factory=list)
    """Ids of the skills in use, best first."""
    feedback: list[list[tuple[str, float, bool]]] = field(default_factory=list)
    """Per trial, oldest first: skill id, discounted return in points, whether a reward followed."""
    answers: dict[tuple[str, ...], bool] = field(default_factory=dict)
    """Equivalence answers by ids: the new skill, then the library."""
