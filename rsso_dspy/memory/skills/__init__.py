"""Skill Set Optimization as a memory: what several trials have in common, put into words once and shown where it fits.

    extract    cut a trial into pieces that end at a reward, and pieces into windows
    match      pair each new window with its most similar earlier one
    score      rate the pairs: coverage, reward, state similarity, action similarity
    select     beam search for the best set without conflicts
    retrieve   per step, the skills that start most like the current state
    memory     the order of all this after a trial; words and equivalence come from the callables it is given
    snapshot   the whole memory as JSON data and back
    use        where each skill came from and what became of it
    library    a memory in a file of its own
    offline    a memory without any model, on trajectories from anywhere

Sources: Nottingham et al. (2024), "Skill Set Optimization", section 3; its release; the rSSO paper, section 2.
"""

from rsso_dspy.memory.skills.library import SkillLibraryFile, load_library, read_library
from rsso_dspy.memory.skills.memory import Equivalent, Inspection, SkillMemory, Verbalize
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import Piece, Skill, SkillCandidate, SkillScores, Span, Verbalization, Window
from rsso_dspy.memory.skills.text_index import Embed

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
