"""Skill Set Optimization as a memory: common parts of trials, verbalized once and shown in similar states.

    skill      settings and records, from a piece of a trial to a skill; its text; which skill a step pursued
    match      cut a trial into pieces and windows; pair each new window with its most similar earlier one
    library    score the pairs, select a set, have it put into words, retrieve it

Sources: Nottingham et al. (2024), "Skill Set Optimization", section 3; its release; the rSSO paper, section 2.
"""

from rsso_dspy.memory.skills.library import SkillMemory
from rsso_dspy.memory.skills.skill import Skill, SkillCandidate, SkillSettings, Span, Verbalization, Window

__all__ = ["Skill", "SkillCandidate", "SkillMemory", "SkillSettings", "Span", "Verbalization", "Window"]
