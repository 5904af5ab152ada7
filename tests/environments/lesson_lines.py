"""Drawn lessons as the lines that stand for them in a prompt."""

from rsso_dspy.environments.scienceworld.lessons import drawn


def lines(task, states, steps, *categories):
    return [lesson.line for lesson in drawn(task, states, steps) if lesson.category in categories]
