"""Retrieval of skills whose examples began in a similar state (paper, Algorithm 1; release, skillset.py:140-161)."""

from collections.abc import Sequence

from rsso_dspy.memory import NOTHING, Recall
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import Skill
from rsso_dspy.memory.skills.text_index import TextIndex, get_embedding_text
from rsso_dspy.records import State


def rank_by_similarity(
    library: Sequence[Skill], state: State, texts: TextIndex, settings: SkillSettings
) -> list[tuple[Skill, int]]:
    """Rank all skills by similarity to ``state``, best first, equals in library order.

    The similarity is the mean cosine between the state and the first state of each window, in billionths.
    """
    if not library:
        return []
    here = texts.index_texts([get_embedding_text(state, settings)])
    starts = texts.index_texts(
        get_embedding_text(window.states[0], settings) for skill in library for window in skill.windows
    )
    cosines = iter(texts.compute_similarities(starts, here)[:, 0].tolist())
    means = [sum(next(cosines) for _ in skill.windows) // len(skill.windows) for skill in library]
    return sorted(zip(library, means, strict=True), key=lambda pair: -pair[1])


def render_skills(skills: Sequence[Skill]) -> Recall:
    """Render the region: each target as a numbered subgoal with its numbered instructions."""
    if not skills:
        return NOTHING
    lines = []
    for number, skill in enumerate(skills, start=1):
        lines.append(f"Subgoal {number}: {skill.target}")
        lines.extend(f"  {step}. {instruction}" for step, instruction in enumerate(skill.instructions, start=1))
    return Recall("\n".join(lines), tuple(skill.id for skill in skills), tuple(skill.target for skill in skills))


def render_fully(skills: Sequence[Skill]) -> Recall:
    """Like `render_skills`, with each skill's name and the common beginning of its examples."""
    if not skills:
        return NOTHING
    lines = []
    for number, skill in enumerate(skills, start=1):
        lines.append(f"Subgoal {number}: {skill.target}")
        known = {"Name": skill.name.strip(), "Began": _beginning(skill)}
        lines.extend(f"  {label}: {text}" for label, text in known.items() if text)
        lines.extend(f"  {step}. {instruction}" for step, instruction in enumerate(skill.instructions, start=1))
    return Recall("\n".join(lines), tuple(skill.id for skill in skills), tuple(skill.target for skill in skills))


def _beginning(skill: Skill) -> str:
    """Return the first sentence of the surroundings if all examples began alike, else an empty string."""
    starts = {window.states[0].look.split("\n", 1)[0].split(". ", 1)[0].strip() for window in skill.windows}
    return starts.pop() if len(starts) == 1 else ""
