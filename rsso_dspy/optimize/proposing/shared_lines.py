"""Finds lines that the unsolved variants of a task type share, and lines that several task types share.

A line is shared when at least two variants of a type support it and none refutes it. A line that one variant alone
supports is a guess, and must name nothing of that variant. Only shared lines may name a place, or a thing that was
handled on the way. A line about an action that commits to an answer (`Grammar.commits`) names only what the task names.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.optimize.acceptance import Rollout
from rsso_dspy.optimize.action_advice import find_destination, list_earning_actions, list_vain_searches, suggest_lines
from rsso_dspy.optimize.feedback.goals import advise_on_goals
from rsso_dspy.optimize.proposing.names import generalize_action, is_named_by
from rsso_dspy.optimize.proposing.procedures import Procedure, derive_procedures
from rsso_dspy.records import Trajectory

ENOUGH = 2
"""How many variants of a type, or types, must agree."""
_MOST, _MOST_GUESSES = 5, 3
"""Maximum shared lines and guesses of a type."""


@dataclass(frozen=True)
class TypeLines:
    """The lines of one task type."""

    variants: int
    """How many unsolved variants they are drawn from."""
    shared: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    procedures: tuple[Procedure, ...] = ()
    """Procedures from its solved variants."""


@dataclass(frozen=True)
class SharedLines:
    """The lines of all rollouts of a program on train variants."""

    types: Mapping[str, TypeLines] = field(default_factory=dict)
    """By task type."""
    general: tuple[str, ...] = ()
    """Lines that several task types share."""


def find_shared_lines(rollouts: Iterable[Rollout], benchmark: Benchmark) -> SharedLines:
    """Find what rollouts, one per variant, share. Solved variants only refute lines, they never support one."""
    by_type: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        by_type.setdefault(rollout.variant.task, []).append(rollout)
    types = {kind: _find_type_lines(each, benchmark) for kind, each in by_type.items()}
    agreed = Counter(line for each in types.values() for line in each.shared)
    general = tuple(line for line, count in agreed.most_common() if count >= ENOUGH)[:_MOST]
    told = {kind: each for kind, each in types.items() if each.variants or each.procedures}
    return SharedLines(told, general)


def _find_type_lines(rollouts: Sequence[Rollout], benchmark: Benchmark) -> TypeLines:
    grammar = benchmark.grammar
    unsolved = [rollout for rollout in rollouts if not _is_solved(rollout)]
    general = [set(_list_general_lines(rollout, benchmark)) for rollout in unsolved]
    ordered = list(dict.fromkeys(line for r in unsolved for line in _list_general_lines(r, benchmark)))
    concrete = Counter(line for r in unsolved for line in dict.fromkeys(_list_concrete_lines(r, grammar)))
    refuted = {line for r in rollouts for line in _list_refuted_lines(r, grammar)}
    votes = Counter(line for lines in general for line in lines)
    shared = [line for line in ordered if votes[line] >= ENOUGH]
    shared += [line for line, count in concrete.most_common() if count >= ENOUGH and line not in refuted]
    guesses = [line for line in ordered if votes[line] < ENOUGH]
    ways = [min(solved, key=lambda trial: len(trial.steps)) for r in rollouts if (solved := _list_solved(r))]
    return TypeLines(
        len(unsolved), tuple(shared[:_MOST]), tuple(guesses[:_MOST_GUESSES]), tuple(derive_procedures(ways, grammar))
    )


def _list_solved(rollout: Rollout) -> list[Trajectory]:
    return [trial for trial in _get_trials(rollout) if trial.solved]


def _list_general_lines(rollout: Rollout, benchmark: Benchmark) -> Iterator[str]:
    """Yield lines without a name: from kinds of missed goals, from faults, from actions that earned points on things
    that the task names."""
    trials = _get_trials(rollout)
    yield from advise_on_goals(rollout.progress, benchmark)
    yield from suggest_lines(trials, benchmark.grammar)
    for action in list_earning_actions(trials):
        general = generalize_action(action, trials[0].task, benchmark.grammar)
        if general:
            yield f"{general[:1].upper()}{general[1:]}."


def _list_concrete_lines(rollout: Rollout, grammar: Grammar) -> Iterator[str]:
    """Yield lines that name a place, or a thing that the task does not name and that is no answer."""
    trials = _get_trials(rollout)
    for action in list_earning_actions(trials):
        if find_destination(action, grammar):
            if not is_named_by(trials[0].task, find_destination(action, grammar)):
                yield f"First, {action}."
        elif not re.fullmatch(grammar.commits, action) and not _names_part_of(trials[0].task, action, grammar):
            yield f"When you can, {action}."
    for action in list_vain_searches(trials, grammar):
        if not _names_part_of(trials[0].task, action, grammar):
            yield f"Avoid {_form_gerund(action)}."


def _list_refuted_lines(rollout: Rollout, grammar: Grammar) -> Iterator[str]:
    """Yield the lines that this rollout refutes: it earned points where others did not, or none where others did."""
    trials = _get_trials(rollout)
    vain = set(list_vain_searches(trials, grammar))
    for action in dict.fromkeys(step.action for trial in trials for step in trial.steps if step.understood):
        if action in vain:
            yield f"First, {action}."
        else:
            yield f"Avoid {_form_gerund(action)}."


def _names_part_of(task: str, action: str, grammar: Grammar) -> bool:
    """Whether the action is about something that the task names, and so differs from variant to variant."""
    done = grammar.parse_command(action)
    return done is None or any(is_named_by(task, part) for part in (done.thing, done.place) if part)


def _get_trials(rollout: Rollout) -> list[Trajectory]:
    return [result.trajectory for result in rollout.trials if result.trajectory is not None]


def _is_solved(rollout: Rollout) -> bool:
    return any(trial.solved for trial in _get_trials(rollout))


def _form_gerund(action: str) -> str:
    verb, _, rest = action.partition(" ")
    return f"{verb.removesuffix('e')}ing {rest}".strip()
