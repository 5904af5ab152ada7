"""Verbal reflection: after a failed trial, one plan for the next (Reflexion, Shinn et al. 2023, section 3).

memory = ReflectionMemory(reflect)      # (trajectory, earlier plans) -> plan, or None for a malformed answer
memory.learn(failed)                    # {"written": 1, ...}
memory.preamble().text                  # "Attempt 1: ..."

settings     how many are kept, and which improvements are on
memory       what is kept, and what is shown at the start of a trial
passing      what goes from one unit of a stream to the next, and what of it a variant may see
long_term    what remains of plans that leave: never, always, a strategy per task type
"""

from rsso_dspy.memory.reflections.long_term import Distill, LongTerm
from rsso_dspy.memory.reflections.memory import Reflect, ReflectionMemory
from rsso_dspy.memory.reflections.passing import Neighbours, Reflection, pass_on_reflections
from rsso_dspy.memory.reflections.settings import IMPROVEMENTS, Improvement, ReflectionSettings

__all__ = [
    "IMPROVEMENTS",
    "Distill",
    "Improvement",
    "LongTerm",
    "Neighbours",
    "Reflect",
    "Reflection",
    "ReflectionMemory",
    "ReflectionSettings",
    "pass_on_reflections",
]
