"""The simulator's own report of goal progress.

    >>> parse_goal_progress("Sequential Subgoals:\\n0\\ttrue\\t   GoalFind\\tfocus on the axe")
    (Goal(kind='GoalFind', done=True, required=True),)

It is finer than the score and reveals more than an agent may know. Only calibration reads it, on variants that are not
held out; see `ScienceWorld.goal_progress`.
"""

import re

from rsso_dspy.environments import Goal

_ROW = re.compile(r"\d+\t(true|false)\t *(\w+)\t")
_REQUIRED = {"Sequential Subgoals:": True, "Unordered and Optional Subgoals:": False}


def parse_goal_progress(text: str) -> tuple[Goal, ...]:
    """Parse the simulator's ``getGoalProgressStr`` into goals, in its order: required ones first.

    A row also describes its goal, often by the name of the answer ("focus on result chemical (sodium acetate)"). The
    description never leaves this function, so no goal, feedback or prompt derived from the result can name an answer.
    Other lines are skipped.
    """
    goals = []
    required = None
    for line in text.split("\n"):
        required = _REQUIRED.get(line.strip(), required)
        row = _ROW.match(line)
        if row and required is not None:
            goals.append(Goal(row[2], row[1] == "true", required))
    return tuple(goals)
