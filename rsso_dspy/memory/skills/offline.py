"""A skill memory without a language model, on any trajectories, to study extraction alone.

    memory = create_offline_memory(embed, SkillSettings.release())
    for trajectory in parse_trajectories(data["trajectories"]):
        memory.learn(trajectory)
        print(serialize_inspection(memory.inspect()))

A trajectory is a list of states, ``{"description": text, "action": text, "reward": share of 1}``: the whole state as
one text, the action before it and its reward in hundredths. The first state has no action and no reward. The format,
and the names in `serialize_inspection`, equal those of ``sso_golden.json``, which holds results of the published SSO
code, so that both can be compared field by field.
"""

from collections.abc import Sequence
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.skills.memory import Inspection, SkillMemory
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import SkillCandidate, Verbalization, Window
from rsso_dspy.records import SOLVED_SCORE, State, Step, Trajectory, Variant

GIVEN = Variant("given", 0)
"""Unknown origin of trajectories that no run recorded."""


def create_offline_memory(embed: Embed, settings: SkillSettings) -> SkillMemory:
    """Create a memory that verbalizes by `verbalize_by_actions`; only skills with equal words are equivalent."""
    return SkillMemory(embed, verbalize_by_actions, lambda _new, _library: False, settings)


def verbalize_by_actions(examples: Sequence[Window]) -> Verbalization:
    """Describe a skill by the aligned actions of its examples. The same examples give the same words."""
    steps = [
        _join_alternatives(actions) or "(nothing)"
        for actions in zip(*(window.actions for window in examples), strict=True)
    ]
    start = _join_alternatives([_get_visible_text(window.states[0]) for window in examples])
    end = _join_alternatives([_get_visible_text(window.states[-1]) for window in examples]) or "(nothing to be seen)"
    return Verbalization(f"from {start!r} to {end!r}", steps[-1], tuple(steps), end)


def _get_visible_text(state: State) -> str:
    return " ".join((state.observation.strip() or state.description).split())


def _join_alternatives(texts: Sequence[str]) -> str:
    return " or ".join(dict.fromkeys(text for text in texts if text))


def serialize_inspection(found: Inspection) -> dict[str, Any]:
    """Return the last update as JSON data: lengths of pieces, candidates, pool and skill set.

    A window is [piece, start, end).
    """
    return {
        "pieces": [len(piece) for piece in found.pieces],
        "candidates": [
            {
                "windows": _list_candidate_windows(item),
                "state_similarity": item.state_similarity,
                "action_similarity": item.action_similarity,
            }
            for item in found.candidates
        ],
        "pool": [{"windows": _list_candidate_windows(item), "score": score} for item, score in found.pool],
        "selected": [
            {"windows": _list_candidate_windows(item), "score": scores.total} for item, scores in found.selected
        ],
    }


def _list_candidate_windows(candidate: SkillCandidate) -> list[list[int]]:
    return [list(span) for span in candidate.spans]


def parse_trajectories(data: Any) -> list[Trajectory]:
    """Parse lists of states into trajectories, trials counted from 1. Raises `UsageError` naming the first fault."""
    if not isinstance(data, list) or not data:
        raise UsageError("no trajectories: expected a list of them, each a list of states")
    return [_parse_trajectory(states, trial) for trial, states in enumerate(data, start=1)]


def _parse_trajectory(states: Any, trial: int) -> Trajectory:
    if not isinstance(states, list) or not states:
        raise UsageError(f"trajectory {trial} is not a list of states")
    read = [_parse_state(state, f"trajectory {trial}, state {index}", index == 0) for index, state in enumerate(states)]
    score, steps = 0, []
    for description, action, points in read[1:]:
        score += points
        steps.append(Step(action, action, State(description, "", ""), points, score, understood=True))
    start = State(read[0][0], "", "")
    return Trajectory(GIVEN, trial, "", start, 0, tuple(steps), "solved" if score >= SOLVED_SCORE else "budget")


def _parse_state(state: Any, where: str, first: bool) -> tuple[str, str, int]:
    if not isinstance(state, dict) or not isinstance(state.get("description"), str):
        raise UsageError(f"{where}: expected an object with the text `description`, `action` and `reward`")
    action, reward = state.get("action"), state.get("reward", 0.0)
    if first:
        if action or reward:
            raise UsageError(f"{where} is the start of the trial, without action and reward; make both null")
        return state["description"], "", 0
    if not isinstance(action, str):
        raise UsageError(f"{where}: `action` is {action!r}; expected the action before this state")
    return state["description"], action, _parse_points(reward, where)


def _parse_points(reward: Any, where: str) -> int:
    """Convert a reward to points of 100; it must be a whole number of hundredths, at most 1."""
    number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not number or not -1 <= reward <= 1 or abs(round(100 * reward) - 100 * reward) > 1e-6:
        raise UsageError(f"{where}: `reward` is {reward!r}; expected a share of 1 in whole hundredths, e.g. 0.08")
    points: int = round(100 * reward)
    return points
