"""Skill Set Optimization as a memory: common parts of trials, verbalized once and shown in similar states.

    cut        cut a trial into pieces that end at a reward, and pieces into windows
    match      pair each new window with its most similar earlier one
    score      rate the pairs: coverage, reward, state similarity, action similarity
    select     beam search for the best set without conflicts
    retrieve   per step, the skills whose first states are most similar to the current state
    memory     all of these in order after a trial; words and equivalence come from callables
    library    a memory as a file and a folder, one without a model, the history of each skill

Sources: Nottingham et al. (2024), "Skill Set Optimization", section 3; its release; the rSSO paper, section 2.
"""

from rsso_dspy.memory.skills.library import load_library
from rsso_dspy.memory.skills.memory import SkillMemory
from rsso_dspy.memory.skills.skill import Skill, SkillCandidate, SkillSettings, Span, Verbalization, Window

__all__ = [
    "Skill",
    "SkillCandidate",
    "SkillMemory",
    "SkillSettings",
    "Span",
    "Verbalization",
    "Window",
    "load_library",
]
