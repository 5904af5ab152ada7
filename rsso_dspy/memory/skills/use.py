"""Where skills came from and what became of them: examples, steps that saw them, steps that pursued them, points."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.memory.skills.contents import Contents
from rsso_dspy.memory.skills.skill import Piece, Skill, Window
from rsso_dspy.memory.skills.texts import normalise
from rsso_dspy.trajectory import Step, Trajectory

__all__ = ["Account", "Example", "Pursuit", "account", "pursued"]


@dataclass(frozen=True, slots=True)
class Example:
    """A window by the steps of its trial. Steps count from 1; the two last fields are aligned with them."""

    trial: int
    first: int
    last: int
    actions: tuple[str, ...]
    points: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pursuit:
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
class Account:
    """All that is known of one skill."""

    skill: Skill
    in_use: bool
    """In the library; otherwise it was once, and a better set took its place."""
    examples: tuple[Example, ...]
    retrieved: int
    """Steps that had it in the prompt, over all trials given."""
    targeted: int
    """Steps that pursued it, over all trials given."""
    pursuits: tuple[Pursuit, ...]

    def data(self) -> dict[str, Any]:
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


def pursued(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Id of the skill in the prompt of this step whose target the actor named as its subgoal."""
    wanted = normalise(step.subgoal or "", keep_fill_words=True)
    shown = (name for name in step.recalled if name in skills)
    return next((name for name in shown if wanted and normalise(skills[name].target, True) == wanted), None)


def account(held: Contents, trajectories: Sequence[Trajectory]) -> list[Account]:
    """One account per skill ever put into words: the library first, best first, then the others, oldest first.

    Use is counted in ``trajectories``. A skill's own counters are not asked: they lack the trials that the memory did
    not learn from, as a unit's last one.
    """
    order = [*held.library, *(name for name in held.skills if name not in held.library)]
    return [_account(held.skills[name], held, trajectories) for name in order]


def _account(skill: Skill, held: Contents, trajectories: Sequence[Trajectory]) -> Account:
    pursuits = [_pursuit(skill.id, held.skills, trajectory) for trajectory in trajectories]
    found = tuple(pursuit for pursuit in pursuits if pursuit)
    return Account(
        skill,
        skill.id in held.library,
        tuple(_example(window, held.pieces[window.piece]) for window in skill.windows),
        sum(skill.id in step.recalled for trajectory in trajectories for step in trajectory.steps),
        sum(pursuit.steps for pursuit in found),
        found,
    )


def _example(window: Window, piece: Piece) -> Example:
    """State i of a trial is the one that step i led to, so that the first action of a window is the step after."""
    before = piece.offset + window.start
    return Example(piece.trial, before + 1, before + len(window.actions), window.actions, window.rewards[1:])


def _pursuit(name: str, skills: Mapping[str, Skill], trajectory: Trajectory) -> Pursuit | None:
    at = [index for index, step in enumerate(trajectory.steps) if pursued(step, skills) == name]
    if not at:
        return None
    gained = sum(step.reward for step in trajectory.steps[at[0] :] if step.reward > 0)
    return Pursuit(trajectory.trial, at[0] + 1, len(at), gained, trajectory.outcome)
