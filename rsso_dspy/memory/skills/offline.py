"""A skill memory without any language model, on trajectories from anywhere: extraction as an experiment of its own.

    memory = offline(embed, SkillSettings.release())
    for trajectory in trajectories(data["trajectories"]):
        memory.learn(trajectory)
        print(inspected(memory.inspect()))

A trajectory is a list of states, ``{"description": text, "action": text, "reward": share of 1}``: the whole state as
one text, the action that led to it and what arriving there gained, in hundredths. The first state has no action and
no reward. These, and the names `inspected` uses, are those of ``sso_golden.json``, which holds what the published SSO
code computes, so that the two can be compared field by field.
"""

from collections.abc import Sequence
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.skills.memory import Inspection, SkillMemory
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import Candidate, Verbalization, Window
from rsso_dspy.memory.skills.texts import Embed
from rsso_dspy.trajectory import SOLVED_SCORE, State, Step, Trajectory, Variant

__all__ = ["inspected", "offline", "plainly", "trajectories"]

GIVEN = Variant("given", 0)
"""Stands for the unknown origin of trajectories that no run recorded."""


def offline(embed: Embed, settings: SkillSettings) -> SkillMemory:
    """A fresh memory that words its skills by `plainly`; only equal words make two skills equivalent."""
    return SkillMemory(embed, plainly, lambda _new, _library: False, settings)


def plainly(examples: Sequence[Window]) -> Verbalization:
    """Words made of the examples and nothing else: their actions side by side, from where they begin to where they
    end. The same examples give the same words."""
    steps = [_either(actions) or "(nothing)" for actions in zip(*(window.actions for window in examples), strict=True)]
    start = _either([_seen(window.states[0]) for window in examples])
    end = _either([_seen(window.states[-1]) for window in examples]) or "(nothing to be seen)"
    return Verbalization(f"from {start!r} to {end!r}", steps[-1], tuple(steps), end)


def _seen(state: State) -> str:
    return " ".join((state.observation.strip() or state.description).split())


def _either(texts: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(text for text in texts if text))


def inspected(found: Inspection) -> dict[str, Any]:
    """What the last update did, as JSON data: lengths of the pieces, candidates matched, pool and skill set. A window
    is [piece, start, end)."""
    return {
        "pieces": [len(piece) for piece in found.pieces],
        "candidates": [
            {
                "windows": _windows(item),
                "state_similarity": item.state_similarity,
                "action_similarity": item.action_similarity,
            }
            for item in found.candidates
        ],
        "pool": [{"windows": _windows(item), "score": score} for item, score in found.pool],
        "selected": [{"windows": _windows(item), "score": scores.total} for item, scores in found.selected],
    }


def _windows(candidate: Candidate) -> list[list[int]]:
    return [list(span) for span in candidate.spans]


def trajectories(data: Any) -> list[Trajectory]:
    """Lists of states as trajectories, trials counted from 1. Raises `UsageError` that names the first fault."""
    if not isinstance(data, list) or not data:
        raise UsageError("no trajectories: expected a list of them, each a list of states")
    return [_trajectory(states, trial) for trial, states in enumerate(data, start=1)]


def _trajectory(states: Any, trial: int) -> Trajectory:
    if not isinstance(states, list) or not states:
        raise UsageError(f"trajectory {trial} is no list of states")
    read = [_state(state, f"trajectory {trial}, state {index}", index == 0) for index, state in enumerate(states)]
    score, steps = 0, []
    for description, action, points in read[1:]:
        score += points
        steps.append(Step(action, action, State(description, "", ""), points, score, understood=True))
    start = State(read[0][0], "", "")
    return Trajectory(GIVEN, trial, "", start, 0, tuple(steps), "solved" if score >= SOLVED_SCORE else "budget")


def _state(state: Any, where: str, first: bool) -> tuple[str, str, int]:
    """Description, action and points."""
    if not isinstance(state, dict) or not isinstance(state.get("description"), str):
        raise UsageError(f"{where}: expected an object with the text `description`, `action` and `reward`")
    action, reward = state.get("action"), state.get("reward", 0.0)
    if first:
        if action or reward:
            raise UsageError(f"{where} is where the trial starts: no action led to it and no reward; make both null")
        return state["description"], "", 0
    if not isinstance(action, str):
        raise UsageError(f"{where}: `action` is {action!r}; expected the text that led to this state")
    return state["description"], action, _points(reward, where)


def _points(reward: Any, where: str) -> int:
    """Points of 100. A reward between two hundredths would be lost, one above 1 is not a share."""
    number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not number or not -1 <= reward <= 1 or abs(round(100 * reward) - 100 * reward) > 1e-6:
        raise UsageError(f"{where}: `reward` is {reward!r}; expected a share of 1 in whole hundredths, e.g. 0.08")
    points: int = round(100 * reward)
    return points
