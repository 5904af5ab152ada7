"""Advice to the actor: which actions to take again, which to leave, and which circles to break.

Sentences are imperative and stand alone, so that a proposer can pick among them. None names the variant or the step
budget.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.records import Step, Trajectory

MOST = 4
"""Bound on each list."""
_LOOP = 3
"""From this often on, the same action is called a loop."""
_WIDEST = 4
"""Most actions of a circle; longer stretches that come back are seldom one habit."""
_LONGEST = 80
"""Longer texts that were not understood are no actions and not worth quoting."""


@dataclass(frozen=True, slots=True)
class Circle:
    """A few actions that were taken in the same order again and again, with the same answers and no gain: A B A B."""

    start: int
    """Index of the first step."""
    end: int
    """Index after the last whole round."""
    actions: tuple[str, ...]
    """Two to four, not all the same."""
    lost: int
    """Points that were lost on the way."""

    @property
    def rounds(self) -> int:
        return (self.end - self.start) // len(self.actions)


def advise_actor(trials: Sequence[Trajectory], grammar: Grammar) -> list[str]:
    """Advice from all trials of one variant, whose actions are of this grammar."""
    best = list_earning_actions(trials)
    paid = set(best)
    return [
        *_advise_repeating(best, grammar),
        *_advise_avoiding(trials, paid, grammar),
        *_advise_against_searches(trials, paid, grammar),
        *_report_loops(trials, paid),
        *_report_circles(trials),
    ]


def find_circles(trial: Trajectory) -> list[Circle]:
    """The circles of a trial, in order and apart from each other."""
    found, start = [], 0
    while start < len(trial.steps):
        circle = next((c for wide in range(2, _WIDEST + 1) if (c := _match_circle(trial.steps, start, wide))), None)
        if circle:
            found.append(circle)
        start = circle.end if circle else start + 1
    return found


def _match_circle(steps: Sequence[Step], start: int, wide: int) -> Circle | None:
    """The circle of this many actions that begins here, as far as it goes; None when it does not come round."""
    did = [(step.action, step.state.observation) for step in steps[start:]]
    first, end = did[:wide], start
    while did[end - start : end - start + wide] == first and not any(s.reward > 0 for s in steps[end : end + wide]):
        end += wide
    actions = tuple(action for action, _ in first)
    if end < start + 2 * wide or len(set(actions)) < 2 or not all(actions):
        return None
    return Circle(start, end, actions, -sum(step.reward for step in steps[start:end]))


def list_earning_actions(trials: Iterable[Trajectory]) -> Counter[str]:
    """Actions that raised the score, with the most that one of them brought."""
    best: Counter[str] = Counter()
    for step in (step for trial in trials for step in trial.steps):
        if step.reward > 0 and step.action and not step.action.isdigit():
            best[step.action] = max(best[step.action], step.reward)
    return best


def _advise_repeating(paid: Counter[str], grammar: Grammar) -> Iterator[str]:
    for action, points in paid.most_common(MOST):
        yield f"The action {action} brought {points} points."
        if action.startswith("wait"):
            yield "Keep waiting where something is under way."
        else:
            yield f"{'First' if _find_destination(action, grammar) else 'When you can'}, {action}."


def _advise_avoiding(trials: Iterable[Trajectory], paid: set[str], grammar: Grammar) -> Iterator[str]:
    """Actions that cost points, and texts that were never understood."""
    steps = [step for trial in trials for step in trial.steps if step.action and not step.action.isdigit()]
    costly = Counter({step.action: -step.reward for step in steps if step.reward < 0 and step.action not in paid})
    for action, points in costly.most_common(MOST):
        yield f"The action {action} cost {points} points."
        yield f"Unless the task names it, avoid {_form_gerund(action)}."
    if costly and grammar.caution:
        yield grammar.caution
    known = {step.action for step in steps if step.understood}
    unknown = Counter(step.action for step in steps if step.action not in known)
    for action in [action for action, _ in unknown.most_common() if len(action) <= _LONGEST][:MOST]:
        yield f"Do not {action}."


def _advise_against_searches(trials: Sequence[Trajectory], paid: set[str], grammar: Grammar) -> Iterator[str]:
    """Rooms entered and things opened where no trial earned a point by more than arriving."""
    acts = [act for trial in trials for act in _locate_steps(trial, grammar)]
    useful = {room for room, step in acts if step.reward > 0 and not _find_destination(step.action, grammar)}
    tried = Counter(step.action for room, step in acts if step.understood and room and room not in useful)
    looks = [action for action, _ in tried.most_common() if action not in paid and re.fullmatch(grammar.search, action)]
    for action in looks[:MOST]:
        yield f"Avoid {_form_gerund(action)}."


def _report_loops(trials: Sequence[Trajectory], paid: set[str]) -> Iterator[str]:
    """What was done over and over and never earned a point."""
    tried = Counter(step.action for trial in trials for step in trial.steps if step.action not in paid)
    loops = [
        (action, times) for action, times in tried.most_common() if action and times >= _LOOP and not action.isdigit()
    ]
    for action, times in loops[:MOST]:
        yield f"The action {action} was taken {times} times and earned nothing."
    if loops:
        yield "Do not repeat an action that changed nothing."


def _report_circles(trials: Sequence[Trajectory]) -> Iterator[str]:
    """What went round and round, the longest first."""
    found = sorted((each for trial in trials for each in find_circles(trial)), key=lambda each: each.start - each.end)
    for circle in found[:MOST]:
        lost = f" and cost {circle.lost} points" if circle.lost else ""
        yield (
            f"The actions {' and '.join(circle.actions)} were taken in turn, {circle.rounds} times each, earned nothing"
            f"{lost}."
        )
    if found:
        yield "Never do the same few actions in a circle."


def _locate_steps(trial: Trajectory, grammar: Grammar) -> Iterator[tuple[str, Step]]:
    """Every step with the room it was taken in, for travel the one it led to; empty before the first travel."""
    room = ""
    for step in trial.steps:
        if step.understood:
            room = _find_destination(step.action, grammar) or room
        yield room, step


def _form_gerund(action: str) -> str:
    verb, _, rest = action.partition(" ")
    return f"{verb.removesuffix('e')}ing {rest}".strip()


def _find_destination(action: str, grammar: Grammar) -> str:
    match = re.fullmatch(grammar.travel, action)
    return match.group(1) if match else ""
