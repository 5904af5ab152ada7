"""The simulator's own account of how far a variant has been brought, goal by goal.

    >>> parse_goal_progress("Sequential Subgoals:\\n0\\ttrue\\t   GoalFind\\tfocus on the axe")
    (Goal(kind='GoalFind', done=True, required=True),)

It is finer than the score and says more than an agent may know. Calibration alone reads it, on variants that are not
held out; see `ScienceWorld.goal_progress`.
"""

import re

from rsso_dspy.environments.goals import Goal

__all__ = ["Goal", "parse_goal_progress"]

_ROW = re.compile(r"\d+\t(true|false)\t *(\w+)\t")
_REQUIRED = {"Sequential Subgoals:": True, "Unordered and Optional Subgoals:": False}


def parse_goal_progress(text: str) -> tuple[Goal, ...]:
    """The goals in the text of the simulator's ``getGoalProgressStr``, in its order: required ones first.

    A row also describes its goal, often by the name of the answer ("focus on result chemical (sodium acetate)"). The
    description never leaves this function: no goal, feedback or prompt made of the result can name an answer. Lines
    that are no rows are skipped.
    """
    goals = []
    required = None
    for line in text.split("\n"):
        required = _REQUIRED.get(line.strip(), required)
        row = _ROW.match(line)
        if row and required is not None:
            goals.append(Goal(row[2], row[1] == "true", required))
    return tuple(goals)
