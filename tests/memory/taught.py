"""Skill memories that were taught: trials that hold a known number of skills, each learnt twice."""

from rsso_dspy.memory.skills import SkillSettings
from tests.memory.memory_cases import Writer, skill_memory, walk

PLATEAU = "a b c+10 d e f g+10 h i"
"""Played twice the same way, it holds two skills: a-b-c and e-f-g."""
FOUR = "a b c+5 d e f g+5 h i j k+5 l m n o+5"
"""Played twice the same way, it holds four."""


def taught(text: str, writer: Writer | None = None, settings: SkillSettings | None = None, **other):
    memory = skill_memory(settings, writer, **other)
    for trial in (1, 2):
        memory.learn(walk(text, trial))
    return memory
