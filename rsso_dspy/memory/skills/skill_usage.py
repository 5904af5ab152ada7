"""The history of skills: examples, steps that showed or pursued them, points."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.memory.skills.memory_state import SkillMemoryState
from rsso_dspy.memory.skills.skill import Piece, Skill, Window
from rsso_dspy.memory.skills.text_index import normalize_text
from rsso_dspy.records import Step, Trajectory


@dataclass(frozen=True, slots=True)
class SkillExample:
    """A window in steps of its trial, counted from 1; the last two fields are aligned with the steps."""

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
    """The first pursuing step, counted from 1."""
    steps: int
    """Number of pursuing steps."""
    gained: int
    """Sum of the trial's positive rewards from that step on, whatever caused them."""
    outcome: str


@dataclass(frozen=True, slots=True)
class SkillUsage:
    """The history of one skill."""

    skill: Skill
    in_use: bool
    """Whether it is in the library; otherwise a better set has replaced it."""
    examples: tuple[SkillExample, ...]
    retrieved: int
    """Number of steps with it in the prompt, over all given trials."""
    targeted: int
    """Number of steps that pursued it, over all given trials."""
    pursuits: tuple[SkillPursuit, ...]

    def to_json_data(self) -> dict[str, Any]:
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
    """Return the id of the shown skill whose target the actor named as its subgoal."""
    wanted = normalize_text(step.subgoal or "", keep_fill_words=True)
    shown = (name for name in step.recalled if name in skills)
    return next((name for name in shown if wanted and normalize_text(skills[name].target, True) == wanted), None)


LATELY = 10
"""Number of steps for which a completed skill is not offered again."""


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Return the ids of skills completed in the last steps.

    A skill is complete if points were gained while pursuing it (unless its words go beyond its examples), or if as many
    steps pursued it as it has instructions and the last step follows the last instruction.
    """
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
    """Return whether an action contains all words of an instruction except placeholders in capitals."""
    slots = {word for word in instruction.split() if word.strip(".,").isupper()}
    wanted = " ".join(word for word in instruction.split() if word not in slots)
    return set(normalize_text(wanted).split()) <= set(normalize_text(action).split())


def summarize_skill_usage(held: SkillMemoryState, trajectories: Sequence[Trajectory]) -> list[SkillUsage]:
    """Return the history of every skill ever verbalized: the library first, best first, then the others, oldest first.

    Use is counted in ``trajectories``, because a skill's own counters lack trials that the memory did not learn from,
    such as a unit's last one.
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
    """Convert a window to steps. Step i leads to state i, so a window's first action is the step after its start."""
    before = piece.offset + window.start
    return SkillExample(piece.trial, before + 1, before + len(window.actions), window.actions, window.rewards[1:])


def _find_pursuit(name: str, skills: Mapping[str, Skill], trajectory: Trajectory) -> SkillPursuit | None:
    at = [index for index, step in enumerate(trajectory.steps) if find_pursued_skill(step, skills) == name]
    if not at:
        return None
    gained = sum(step.reward for step in trajectory.steps[at[0] :] if step.reward > 0)
    return SkillPursuit(trajectory.trial, at[0] + 1, len(at), gained, trajectory.outcome)
