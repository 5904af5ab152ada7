"""Skill Set Optimization as a memory: common parts of trials, verbalized once and shown in similar states.

    extract    cut a trial into pieces that end at a reward, and pieces into windows
    match      pair each new window with its most similar earlier one
    score      rate the pairs: coverage, reward, state similarity, action similarity
    select     beam search for the best set without conflicts
    retrieve   per step, the skills whose first states are most similar to the current state
    memory     all of these in order after a trial; words and equivalence come from callables
    snapshot   the whole memory as JSON data and back
    skill_usage  the source, use and results of each skill
    library    a memory as a file
    offline    a memory without a model, on any trajectories

Sources: Nottingham et al. (2024), "Skill Set Optimization", section 3; its release; the rSSO paper, section 2.
"""

from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.skills.library import SkillLibraryFile, load_library, read_library
from rsso_dspy.memory.skills.memory import Equivalent, Inspection, SkillMemory, Verbalize
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import Piece, Skill, SkillCandidate, SkillScores, Span, Verbalization, Window

__all__ = [
    "Embed",
    "Equivalent",
    "Inspection",
    "Piece",
    "Skill",
    "SkillCandidate",
    "SkillLibraryFile",
    "SkillMemory",
    "SkillScores",
    "SkillSettings",
    "Span",
    "Verbalization",
    "Verbalize",
    "Window",
    "load_library",
    "read_library",
]
