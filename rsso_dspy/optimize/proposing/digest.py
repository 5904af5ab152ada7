"""Digests a whole trial in a few lines: what was done, how the score changed, what was seen for the first time, what
failed.

    1. go to garden +8 | new: fern, moss
    2-13. wait x12
    14. take rock -33 | new: rock | "The rock falls on you." | it thought: "Rocks live long."
    In sight and never acted on: fern, moss

Repeats and circles take one line. The player's reasoning is shown only at decisive steps, without its notes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.grammar import extract_content_words, normalize_words
from rsso_dspy.environments.naming import Naming
from rsso_dspy.optimize.acceptance import Rollout
from rsso_dspy.optimize.action_advice import find_circles
from rsso_dspy.optimize.feedback.goals import describe_goal_kinds
from rsso_dspy.optimize.feedback.predictor_call import report_results
from rsso_dspy.optimize.proposing.names import is_named_by, list_names
from rsso_dspy.records import Step, Trajectory

LINES = 10
"""Maximum lines of steps of a trial; later trials of the rollout get half."""
_NAMES, _UNTOUCHED, _QUOTE, _THOUGHT, _START = 5, 8, 80, 110, 8
"""Maximum new names at a step, untouched names of a trial, characters of an observation and of a thought, and names at
the start."""
_IN_SIGHT = "In sight"
_NOTES = re.compile(r"\bNotes?:.*", re.S)


@dataclass(frozen=True)
class _Entry:
    """Steps that share one line."""

    first: int
    last: int
    """Indices of its steps."""
    text: str
    weight: int
    """How much the line matters: decisive 3, scoring or failed 2, new things 1, else 0."""


def digest_rollout(rollout: Rollout, benchmark: Benchmark) -> str:
    """All trials of a rollout, for a reader who has not seen them. The task comes first."""
    trials = [result.trajectory for result in rollout.trials if result.trajectory is not None]
    if not trials:
        return ""
    lines = [f"Task: {' '.join(trials[0].task.split())}", f"Metric: {rollout.score:.2f} of 1."]
    lines += describe_goal_kinds(rollout.progress, benchmark)
    told: set[str] = set()
    for number, trial in enumerate(trials):
        here = digest_trial(trial, benchmark.grammar.naming, LINES if number == 0 else LINES // 2)
        lines += [line for line in here if not (line in told and line.startswith(_IN_SIGHT))]
        told.update(here)
    return "\n".join(lines)


def digest_trial(trial: Trajectory, naming: Naming, most: int = LINES) -> list[str]:
    """One trial in `most` lines of steps, two before them and one after."""
    (ending,) = report_results([trial])
    start = list_names(trial.start, naming)
    lines = [
        f"{ending} {len(trial.steps)} steps.",
        f"{_IN_SIGHT} at the start: {', '.join(start[:_START]) or 'nothing'}.",
    ]
    entries = list(_list_entries(trial, naming))
    kept = sorted(sorted(entries, key=lambda entry: (-entry.weight, entry.first))[:most], key=lambda entry: entry.first)
    after = 0
    for entry in kept:
        if entry.first > after:
            lines.append(f"... left out: {_count(after, entry.first - 1)}")
        lines.append(entry.text)
        after = entry.last + 1
    if after < len(trial.steps):
        lines.append(f"... left out: {_count(after, len(trial.steps) - 1)}")
    if untouched := list_untouched(trial, naming):
        lines.append(f"{_IN_SIGHT} and never acted on: {', '.join(untouched[:_UNTOUCHED])}.")
    return lines


def list_untouched(trial: Trajectory, naming: Naming) -> list[str]:
    """Things that were seen but that no action names: first those that the task names, then those that came in sight
    with a gain, last those in sight at the start."""
    done = f" {' . '.join(normalize_words(step.action) for step in trial.steps)} "
    start = list_names(trial.start, naming)
    gained = {name for step in trial.steps if step.reward > 0 for name in list_names(step.state, naming)}
    seen = dict.fromkeys(name for state in trial.states for name in list_names(state, naming))
    left = [name for name in seen if f" {name} " not in done]
    return sorted(left, key=lambda name: (not is_named_by(trial.task, name), name in start, name not in gained))


def find_decisive_steps(trial: Trajectory, naming: Naming) -> dict[int, str]:
    """Index of a decisive step to why it decides: the first missed chance, the last gain, the first loss or the end."""
    steps = trial.steps
    decisive: dict[int, str] = {}
    if steps:
        decisive[len(steps) - 1] = "the last action"
    if gains := [index for index, step in enumerate(steps) if step.reward > 0]:
        decisive[gains[-1]] = "the last gain"
    if losses := [index for index, step in enumerate(steps) if step.reward < 0]:
        decisive[losses[0]] = "the loss"
    missed = _find_missed_chance(trial, naming)
    if missed is not None:
        decisive.setdefault(missed[0], f"first missed chance: {missed[1]}")
    return decisive


def _find_missed_chance(trial: Trajectory, naming: Naming) -> tuple[int, str] | None:
    """The first step that brought a thing that the task names into sight, but that the player never acted on."""
    untouched = {name for name in list_untouched(trial, naming) if is_named_by(trial.task, name)}
    seen = set(list_names(trial.start, naming))
    for index, step in enumerate(trial.steps):
        new = [name for name in list_names(step.state, naming) if name not in seen]
        if missed := next((name for name in new if name in untouched), None):
            return index, missed
        seen.update(new)
    return None


def _list_entries(trial: Trajectory, naming: Naming) -> Iterator[_Entry]:
    decisive = find_decisive_steps(trial, naming) if not trial.solved else {}
    seen, quoted = set(list_names(trial.start, naming)), set[str]()
    circles = {circle.start: circle for circle in find_circles(trial)}
    index = 0
    while index < len(trial.steps):
        step = trial.steps[index]
        new = [name for name in list_names(step.state, naming) if name not in seen]
        seen.update(new)
        circle = circles.get(index)
        if circle and not any(at in decisive and trial.steps[at].reward for at in range(circle.start, circle.end)):
            text = f"{_count(index, circle.end - 1)} {', '.join(circle.actions)} in turn, x{circle.rounds}"
            yield _Entry(index, circle.end - 1, text, 1)
            index = circle.end
            continue
        end = _find_run_end(trial.steps, index, decisive)
        times = f" x{end - index}" if end - index > 1 else ""
        points = f" {step.reward:+d}" if step.reward else ""
        parts = [f"{_count(index, end - 1)} {step.action or '(no action)'}{times}{points}"]
        if new:
            parts.append(f"new: {', '.join(new[:_NAMES])}{' and more' if len(new) > _NAMES else ''}")
        failed = not step.understood or step.no_effect or step.reward < 0
        said = " ".join(step.state.observation.split())[:_QUOTE]
        if failed and said and said not in quoted:
            quoted.add(said)
            parts.append(f'"{said}"')
        why = next((decisive[at] for at in range(index, end) if at in decisive), "")
        if why:
            parts.append(f"({why})")
            parts += _quote_thought(trial.steps[end - 1])
        weight = 3 if why else 2 if step.reward or failed else 1 if new else 0
        yield _Entry(index, end - 1, " | ".join(parts), weight)
        index = end


def _find_run_end(steps: Sequence[Step], start: int, decisive: dict[int, str]) -> int:
    """The index after the last step of a run of one action that neither gains nor loses nor decides."""
    end, first = start + 1, steps[start]
    while end < len(steps) and not first.reward and start not in decisive:
        step = steps[end]
        if step.action != first.action or step.reward or end in decisive:
            break
        end += 1
    return end


def _quote_thought(step: Step) -> list[str]:
    said = " ".join(_NOTES.sub("", step.reasoning).split())
    return [f'it thought: "{said[:_THOUGHT]}"'] if extract_content_words(said) else []


def _count(first: int, last: int) -> str:
    return f"{first + 1}." if first == last else f"{first + 1}-{last + 1}."
