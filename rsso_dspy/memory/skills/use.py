"""Where skills came from and what became of them: examples, steps that saw them, steps that pursued them, points."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.memory.skills.contents import Contents
from rsso_dspy.memory.skills.skill import Piece, Skill, Window
from rsso_dspy.memory.skills.texts import normalise
from rsso_dspy.trajectory import Step, Trajectory

__all__ = ["Account", "Example", "Pursuit", "account", "just_reached", "pursued"]


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


LATELY = 10
"""Steps for which a skill that was reached is not offered again."""


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Ids of the skills that were pursued to their end in the last steps: points were gained on the way, which is
    where a skill's examples end, or as many steps pursued it as it has instructions, the last of them as the last one
    says."""
    lately = steps[-LATELY:]
    reached = set()
    for place, step in enumerate(lately):
        name = pursued(step, skills)
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        instructions = skills[name].instructions
        so_far = sum(pursued(earlier, skills) == name for earlier in lately[: place + 1])
        if step.reward > 0 or (so_far >= len(instructions) and _follows(step.action, instructions[-1])):
            reached.add(name)
    return frozenset(reached)


def _follows(action: str, instruction: str) -> bool:
    """Whether an action has all words of an instruction but the slots, which are in capitals."""
    slots = {word for word in instruction.split() if word.strip(".,").isupper()}
    wanted = " ".join(word for word in instruction.split() if word not in slots)
    return set(normalise(wanted).split()) <= set(normalise(action).split())


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
