"""Drawn lessons as the lines that stand for them in a prompt."""

from rsso_dspy.environments.scienceworld.lessons import draw_lessons


def lines(task, states, steps, *categories):
    return [lesson.line for lesson in draw_lessons(task, states, steps) if lesson.category in categories]
