"""Lessons of the three categories, as a writer of rules gives them."""

from rsso_dspy.records import Lesson


def fact(text: str) -> Lesson:
    return Lesson("abstract", text)


def error(mistake: str, solution: str) -> Lesson:
    return Lesson("error", mistake, solution)


def left(text: str) -> Lesson:
    return Lesson("progress", text)
