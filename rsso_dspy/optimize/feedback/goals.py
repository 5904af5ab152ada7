"""Feedback from the simulator's own account of progress, by kinds of goals only.

A goal's description names the answer and never gets here. Its class does not leave this file either: prompts contain a
phrase that stands for every goal of that class.
"""

from collections.abc import Iterator, Sequence

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.optimize.feedback.remarks import Guess


def report_goal_progress(goals: Sequence[Sequence[Goal]], benchmark: Benchmark) -> Iterator[str]:
    """Yield how many required goals were reached, and of which kinds; then guesses for the kinds that were missed.
    ``goals`` are those of one variant after each of its trials; nothing is yielded when they are unknown."""
    yield from describe_goal_kinds(goals, benchmark)
    yield from map(Guess, advise_on_goals(goals, benchmark))


def describe_goal_kinds(goals: Sequence[Sequence[Goal]], benchmark: Benchmark) -> Iterator[str]:
    """How many required goals were reached over all trials, and which kinds were reached and missed."""
    named = benchmark.goal_phrases
    known = [list(each) for each in zip(*goals, strict=False)]
    required = [each for each in known if each[0].required]
    done = [each for each in required if any(goal.done for goal in each)]
    if required:
        yield f"The trials reached {len(done)} of {len(required)} goals that the task requires."
    for what, some in (("reached", done), ("missed", [each for each in required if each not in done])):
        phrases = dict.fromkeys(named[each[0].kind] for each in some if each[0].kind in named)
        if phrases:
            yield f"These kinds of goals were {what}: {', '.join(phrases)}."


def advise_on_goals(goals: Sequence[Sequence[Goal]], benchmark: Benchmark) -> Iterator[str]:
    """Advice for the kinds of goals that no trial reached, or that the task requires more of; required ones first."""
    known = [list(each) for each in zip(*goals, strict=False)]
    reached = {each[0].kind for each in known if any(goal.done for goal in each)}
    undone = [each[0] for each in known if not any(goal.done for goal in each)]
    for goal in sorted(undone, key=lambda each: not each.required):
        if goal.required or goal.kind not in reached:
            yield from benchmark.goal_advice.get(goal.kind, ())
