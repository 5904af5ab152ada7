"""Rounds, between which results may be looked at and a run may stop, announced before the first unit is played.

    announce_rounds(units, 4, "adapt/4", margin=10)     # Announcement(variants=(("boil::22", "melt::19"), ...), ...)

A round is one variant of every task type, played by every arm. What is decided is each arm with a memory against equal
retries; `rsso_dspy.report.sequential` has the tests.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.methods import FLAT_OF, find_retry_control, plays_conversation
from rsso_dspy.records import SOLVED_SCORE, Announcement, Variant
from rsso_dspy.store.run_folder import Arm, Unit

_ANNOUNCEMENT = TypeAdapter(Announcement)

FEWEST_COMPARED = 2  # task types below which nothing can be decided: one does not show how much others differ


def dump_announcement(announced: Announcement) -> dict[str, Any]:
    data: dict[str, Any] = _ANNOUNCEMENT.dump_python(announced, mode="json")
    return data


def parse_announcement(data: Any, where: str) -> Announcement:
    """Parse the rounds of a run's file. Raises `UsageError` if they are damaged."""
    try:
        announced = _ANNOUNCEMENT.validate_python(data)
    except ValidationError:
        announced = None
    if announced is None or not _is_whole(announced):
        raise UsageError(f"{where} is damaged: its rounds cannot be read; restore it")
    return announced


def _is_whole(announced: Announcement) -> bool:
    """Whether every round has a variant of as many task types, each once, and something is to be decided."""
    sizes = {len(keys) for keys in announced.variants}
    is_each_once = len(announced.round_of) == sum(map(len, announced.variants))
    is_even = len(sizes) == 1 and 0 not in sizes
    return is_even and is_each_once and bool(announced.pairs) and is_margin(announced.margin)


def is_margin(points: float) -> bool:
    """Whether a difference of so many points can be asked about."""
    return 0 < points <= SOLVED_SCORE


def announce_rounds(units: Sequence[Unit], rounds: int, protocol: str, margin: float) -> Announcement:
    """Return the announcement of a plan's units. Raises `UsageError` if they cannot be played, or judged, in rounds."""
    if not is_margin(margin):
        raise UsageError(f"--margin {margin:g}: name points above 0, and {SOLVED_SCORE} at most")
    arms = list(dict.fromkeys(unit.arm for unit in units))
    pairs = _pair_with_retries(arms, protocol)
    if not pairs:
        raise UsageError(
            "rounds decide whether a memory beats equal retries: name both in --methods, such as react,reflexion"
        )
    streamed = [arm.name for arm in arms if arm.method.is_in_stream]
    if streamed:
        raise UsageError(
            f"{', '.join(streamed)} hands its memory on from unit to unit, so a later round is not like an earlier "
            "one: leave the method or --rounds out"
        )
    return Announcement(_draw_rounds(units, rounds), pairs, margin)


def _draw_rounds(units: Sequence[Unit], rounds: int) -> tuple[tuple[str, ...], ...]:
    """Return the n-th variant of every task type for each round n."""
    by_task: dict[str, dict[Variant, None]] = {}
    for unit in units:
        by_task.setdefault(unit.variant.task, {})[unit.variant] = None

    fewest = min(by_task, key=lambda task: len(by_task[task]))
    available = len(by_task[fewest])
    if available < rounds:
        noun = "variant" if available == 1 else "variants"
        raise UsageError(
            f"--rounds {rounds}: {fewest} has {available} held-out {noun} to play, and a round takes one of every "
            f"task type: ask for {available} at most, or leave the task type out"
        )

    drawn = [list(variants)[:rounds] for variants in by_task.values()]
    keys_by_round = []
    for same_place in zip(*drawn, strict=True):
        keys_by_round.append(tuple(variant.key for variant in same_place))
    return tuple(keys_by_round)


def _pair_with_retries(arms: Sequence[Arm], protocol: str) -> tuple[tuple[str, str], ...]:
    """Return each arm with a memory behind the arm of the same program that differs in it alone."""
    names = {(arm.method.name, arm.program, arm.constitution): arm.name for arm in arms}
    pairs = []
    for (method, program, constitution), name in names.items():
        for control_method in _list_controls(method, protocol):
            control = names.get((control_method, program, constitution))
            if not control:
                control = names.get((control_method, program, ""))
            if control and control != name:
                pairs.append((control, name))
                break
    return tuple(pairs)


def _list_controls(method: str, protocol: str) -> list[str]:
    """Return the methods of equal retries for one with a memory, the nearest first."""
    base, plus, added = method.partition("+")
    control = find_retry_control(base) or (base if plus else "")
    nearest = [control]
    if plus:
        nearest.insert(0, f"{control}{plus}{added}")
    if not plays_conversation(protocol):
        return nearest

    flat = [FLAT_OF.get(name.partition("+")[0], "") for name in nearest]
    if plus:
        nearest.append(f"{flat[0]}{plus}{added}")
    return [*nearest, *flat]


def describe_rounds(announced: Announcement, needed: int) -> str:
    """Say what can be decided. `needed` is the number of task types from which on a memory can be called better."""
    arms = ", ".join(f"{memory} against {control}" for control, memory in announced.pairs)
    size = f"{_count(announced.rounds, 'round')} of {_count(announced.task_types, 'task type')}"
    decided = f"{size}, to decide {arms}"
    if announced.task_types < FEWEST_COMPARED:
        return f"{decided}: nothing can be decided, since it takes {FEWEST_COMPARED} task types or more: add tasks"
    no_gain = f"no gain of {announced.margin:g} points or more, whenever you look between rounds"
    if announced.task_types < needed:
        return f"{decided}: {no_gain}; never better, which takes {needed} task types or more: add tasks"
    return f"{decided}: better, or {no_gain}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
