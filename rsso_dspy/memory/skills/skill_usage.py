"""Where skills came from and what became of them: examples, steps that saw them, steps that pursued them, points."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.memory.skills.memory_state import SkillMemoryState
from rsso_dspy.memory.skills.skill import Piece, Skill, Window
from rsso_dspy.memory.skills.text_index import normalize_text
from rsso_dspy.records import Step, Trajectory

__all__ = ["SkillExample", "SkillPursuit", "SkillUsage", "find_pursued_skill", "just_reached", "summarize_skill_usage"]


@dataclass(frozen=True, slots=True)
class SkillExample:
    """A window by the steps of its trial. Steps count from 1; the two last fields are aligned with them."""

    trial: int
    first: int
    last: int
    actions: tuple[str, ...]
    points: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SkillPursuit:
    """A trial in which the actor named the skill's target as its subgoal."""

    trial: int
    first: int
    """The first step that did, counted from 1."""
    steps: int
    """How many steps did."""
    gained: int
    """Sum of the trial's positive rewards from that first step on; what else helped is not told apart."""
    outcome: str


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """All that is known of one skill."""

    skill: Skill
    in_use: bool
    """In the library; otherwise it was once, and a better set took its place."""
    examples: tuple[SkillExample, ...]
    retrieved: int
    """Steps that had it in the prompt, over all trials given."""
    targeted: int
    """Steps that pursued it, over all trials given."""
    pursuits: tuple[SkillPursuit, ...]

    def to_json_data(self) -> dict[str, Any]:
        """JSON data."""
        skill = self.skill
        return {
            "id": skill.id,
            "name": skill.name,
            "summary": skill.summary,
            "target": skill.target,
            "instructions": list(skill.instructions),
            "in_use": self.in_use,
            "scores": asdict(skill.scores),
            "examples": [asdict(example) for example in self.examples],
            "retrieved": self.retrieved,
            "targeted": self.targeted,
            "pursuits": [asdict(pursuit) for pursuit in self.pursuits],
        }


def find_pursued_skill(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Id of the skill in the prompt of this step whose target the actor named as its subgoal."""
    wanted = normalize_text(step.subgoal or "", keep_fill_words=True)
    shown = (name for name in step.recalled if name in skills)
    return next((name for name in shown if wanted and normalize_text(skills[name].target, True) == wanted), None)


LATELY = 10
"""Steps for which a skill that was reached is not offered again."""


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Ids of the skills that were pursued to their end in the last steps: points were gained on the way, which is
    where a skill's examples end unless its words go beyond them, or as many steps pursued it as it has instructions,
    the last of them as the last one says."""
    lately = steps[-LATELY:]
    reached = set()
    for place, step in enumerate(lately):
        name = find_pursued_skill(step, skills)
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        instructions = skills[name].instructions
        so_far = sum(find_pursued_skill(earlier, skills) == name for earlier in lately[: place + 1])
        if (step.reward > 0 and not skills[name].beyond) or (
            so_far >= len(instructions) and _follows(step.action, instructions[-1])
        ):
            reached.add(name)
    return frozenset(reached)


def _follows(action: str, instruction: str) -> bool:
    """Whether an action has all words of an instruction but the slots, which are in capitals."""
    slots = {word for word in instruction.split() if word.strip(".,").isupper()}
    wanted = " ".join(word for word in instruction.split() if word not in slots)
    return set(normalize_text(wanted).split()) <= set(normalize_text(action).split())


def summarize_skill_usage(held: SkillMemoryState, trajectories: Sequence[Trajectory]) -> list[SkillUsage]:
    """One account per skill ever put into words: the library first, best first, then the others, oldest first.

    Use is counted in ``trajectories``. A skill's own counters are not asked: they lack the trials that the memory did
    not learn from, as a unit's last one.
    """
    order = [*held.library, *(name for name in held.skills if name not in held.library)]
    return [_summarize_skill(held.skills[name], held, trajectories) for name in order]


def _summarize_skill(skill: Skill, held: SkillMemoryState, trajectories: Sequence[Trajectory]) -> SkillUsage:
    pursuits = [_find_pursuit(skill.id, held.skills, trajectory) for trajectory in trajectories]
    found = tuple(pursuit for pursuit in pursuits if pursuit)
    return SkillUsage(
        skill,
        skill.id in held.library,
        tuple(_build_skill_example(window, held.pieces[window.piece]) for window in skill.windows),
        sum(skill.id in step.recalled for trajectory in trajectories for step in trajectory.steps),
        sum(pursuit.steps for pursuit in found),
        found,
    )


def _build_skill_example(window: Window, piece: Piece) -> SkillExample:
    """State i of a trial is the one that step i led to, so that the first action of a window is the step after."""
    before = piece.offset + window.start
    return SkillExample(piece.trial, before + 1, before + len(window.actions), window.actions, window.rewards[1:])


def _find_pursuit(name: str, skills: Mapping[str, Skill], trajectory: Trajectory) -> SkillPursuit | None:
    at = [index for index, step in enumerate(trajectory.steps) if find_pursued_skill(step, skills) == name]
    if not at:
        return None
    gained = sum(step.reward for step in trajectory.steps[at[0] :] if step.reward > 0)
    return SkillPursuit(trajectory.trial, at[0] + 1, len(at), gained, trajectory.outcome)
