"""What an actor did over its trials: facts about one variant, and sentences that may hold for others.

    report_actions(trials, grammar)       # facts: where the score rose and fell, what earned nothing, circles
    suggest_lines(trials, grammar)        # sentences without any object of the variant

Facts name actions but credit no single one: points may be due to an earlier step.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.records import Step, Trajectory

MOST = 4
"""Maximum entries of each list."""
LOOP = 3
"""How often the same action is taken before it counts as a loop."""
_WIDEST = 4
"""Maximum actions of a circle; longer stretches that recur are seldom one habit."""
_LONGEST = 80
"""Maximum characters of a quoted text that was not understood; longer ones are no actions."""

ON_TEMPLATES = "Always use a template, with names as the observations give them."
ON_REPEATING = "Do not repeat an action that changed nothing."
ON_CIRCLES = "Never do the same few actions in a circle."
ON_WAITING = "Keep waiting where something is under way."


@dataclass(frozen=True, slots=True)
class Circle:
    """A few actions that were taken in the same order again and again, with the same answers and no gain: A B A B."""

    start: int
    """Index of the first step."""
    end: int
    """Index after the last whole round."""
    actions: tuple[str, ...]
    """The actions of one round: two to four, not all the same."""
    lost: int
    """Points that were lost in the circle."""

    @property
    def rounds(self) -> int:
        return (self.end - self.start) // len(self.actions)


def report_actions(trials: Sequence[Trajectory], grammar: Grammar) -> Iterator[str]:
    """Yield facts about the trials of one variant, whose actions are of this grammar."""
    paid = set(list_earning_actions(trials))
    yield from _report_score_changes(trials)
    unknown = list_unknown_texts(trials)
    if unknown:
        yield f"Never understood: {', '.join(unknown[:MOST])}."
    vain = list_vain_searches(trials, grammar)
    if vain:
        yield f"Nothing was earned by: {', '.join(vain[:MOST])}."
    for action, times in list_loops(trials, paid)[:MOST]:
        yield f"The action {action} was taken {times} times and earned nothing."
    for circle in sorted((c for trial in trials for c in find_circles(trial)), key=lambda c: c.start - c.end)[:MOST]:
        lost = f" and cost {circle.lost} points" if circle.lost else ""
        yield (
            f"The actions {' and '.join(circle.actions)} were taken in turn, {circle.rounds} times each, earned nothing"
            f"{lost}."
        )


def suggest_lines(trials: Sequence[Trajectory], grammar: Grammar) -> Iterator[str]:
    """Yield sentences that the faults on one variant suggest for others. None names a thing or a place."""
    paid = list_earning_actions(trials)
    if any(action.startswith("wait") for action in paid):
        yield ON_WAITING
    if grammar.caution and any(step.reward < 0 for trial in trials for step in trial.steps):
        yield grammar.caution
    if list_unknown_texts(trials):
        yield ON_TEMPLATES
    if list_loops(trials, set(paid)):
        yield ON_REPEATING
    if any(find_circles(trial) for trial in trials):
        yield ON_CIRCLES


def find_circles(trial: Trajectory) -> list[Circle]:
    """The circles of a trial, in order, without overlap."""
    found, start = [], 0
    while start < len(trial.steps):
        circle = next((c for wide in range(2, _WIDEST + 1) if (c := _match_circle(trial.steps, start, wide))), None)
        if circle:
            found.append(circle)
        start = circle.end if circle else start + 1
    return found


def _match_circle(steps: Sequence[Step], start: int, wide: int) -> Circle | None:
    """The circle of `wide` actions that begins at step `start`, with all its rounds; None without a second round."""
    did = [(step.action, step.state.observation) for step in steps[start:]]
    first, end = did[:wide], start
    while did[end - start : end - start + wide] == first and not any(s.reward > 0 for s in steps[end : end + wide]):
        end += wide
    actions = tuple(action for action, _ in first)
    if end < start + 2 * wide or len(set(actions)) < 2 or not all(actions):
        return None
    return Circle(start, end, actions, -sum(step.reward for step in steps[start:end]))


def list_earning_actions(trials: Iterable[Trajectory]) -> Counter[str]:
    """Actions at which the score rose, with the most that it rose by."""
    best: Counter[str] = Counter()
    for step in (step for trial in trials for step in trial.steps):
        if step.reward > 0 and step.action and not step.action.isdigit():
            best[step.action] = max(best[step.action], step.reward)
    return best


def list_unknown_texts(trials: Iterable[Trajectory]) -> list[str]:
    """Texts that were never understood, the most frequent first."""
    steps = [step for trial in trials for step in trial.steps if step.action and not step.action.isdigit()]
    known = {step.action for step in steps if step.understood}
    unknown = Counter(step.action for step in steps if step.action not in known)
    return [action for action, _ in unknown.most_common() if len(action) <= _LONGEST]


def list_loops(trials: Iterable[Trajectory], paid: set[str]) -> list[tuple[str, int]]:
    """Actions that were repeated and never earned a point, with how often."""
    tried = Counter(step.action for trial in trials for step in trial.steps if step.action not in paid)
    return [(action, n) for action, n in tried.most_common() if action and n >= LOOP and not action.isdigit()]


def list_vain_searches(trials: Iterable[Trajectory], grammar: Grammar) -> list[str]:
    """Rooms entered and things opened where no trial earned a point except by arriving."""
    acts = [act for trial in trials for act in locate_steps(trial, grammar)]
    paid = {step.action for _, step in acts if step.reward > 0}
    useful = {room for room, step in acts if step.reward > 0 and not find_destination(step.action, grammar)}
    tried = Counter(step.action for room, step in acts if step.understood and room and room not in useful)
    return [action for action, _ in tried.most_common() if action not in paid and re.fullmatch(grammar.search, action)]


def locate_steps(trial: Trajectory, grammar: Grammar) -> Iterator[tuple[str, Step]]:
    """Yield every step with its room: for travel the room it led to, empty before the first travel."""
    room = ""
    for step in trial.steps:
        if step.understood:
            room = find_destination(step.action, grammar) or room
        yield room, step


def find_destination(action: str, grammar: Grammar) -> str:
    """The place that a travel action leads to; empty for any other action."""
    match = re.fullmatch(grammar.travel, action)
    return match.group(1) if match else ""


def _report_score_changes(trials: Sequence[Trajectory]) -> Iterator[str]:
    """Yield where the score rose and fell, in the order of the trials."""
    changes = [(trial, step) for trial in trials for step in trial.steps if step.reward and step.action]
    rose = dict.fromkeys(f"{step.action} (+{step.reward})" for _, step in changes if step.reward > 0)
    fell = dict.fromkeys(f"{step.action} ({step.reward})" for _, step in changes if step.reward < 0)
    if rose:
        yield f"The score rose at: {', '.join(list(rose)[: 2 * MOST])}. What came before may have brought it."
    if fell:
        yield f"The score fell at: {', '.join(list(fell)[:MOST])}."
