"""`rsso-dspy show`: print the trajectory of one unit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.cli.calls import CallPrinter, indent_text, load_calls
from rsso_dspy.cli.option_groups import complete_units
from rsso_dspy.cli.run_folders import print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rsso_dspy.calls import Call
    from rsso_dspy.records import TrainingRecord, TrialResult, UnitRecord


def show_unit(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the run.")],
    unit: Annotated[
        str,
        typer.Argument(
            metavar="TASK::VARIANT",
            help="Variant, e.g. find-plant::228, or TASK for a training.",
            autocompletion=complete_units,
        ),
    ],
    arm: Annotated[str | None, typer.Option(help="Arm (default: the first).")] = None,
    trial: Annotated[int | None, typer.Option(min=1, max=MOST_TRIALS, help="Show only this trial.")] = None,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts",
            help="Also show every request and answer.",
        ),
    ] = False,
) -> None:
    """Print a unit step by step: actions, observations, rewards, and what each trial taught the memories."""
    from rsso_dspy.store.run_folder import Store

    store = Store(folder, read_only=True)
    played: list[UnitRecord | TrainingRecord] = [*store.records()]
    print_left_out_files(store)
    records = [r for r in played if r.key == unit]
    if not records:
        raise UnknownName("unit", unit, {r.key for r in played} or {"(none finished)"})
    if arm is not None and arm not in {r.arm for r in records}:
        raise UnknownName("arm", arm, {r.arm for r in records})
    record = next(r for r in records if arm in (None, r.arm))
    _print_unit_heading(record)
    chosen = [result for result in record.trials if trial in (None, result.trial)]
    if not chosen:
        raise UsageError(f"{unit} has trials 1 to {len(record.trials)}, not {trial}")
    calls = load_calls(store, record) if prompts else {}
    for result in chosen:
        _print_trial(record, result, calls.get(result.trial, ()))


def _print_unit_heading(record: "UnitRecord | TrainingRecord") -> None:
    from rsso_dspy.records import RULE_BASED_NOTE

    echo(f"{record.key}  {record.arm}  seed {record.seed}  {record.protocol}", bold=True)
    if record.rule_based:
        echo(RULE_BASED_NOTE, dim=True)
    if record.trajectories:
        echo(record.trajectories[0].task.strip())


def _print_trial(record: "UnitRecord | TrainingRecord", result: "TrialResult", calls: "Sequence[Call]") -> None:
    """Print one trial, with these calls of models."""
    from rsso_dspy.records import UnitRecord

    echo()
    if result.trajectory is None:
        echo(f"Trial {result.trial}: error, no score: {result.error or ''}", fg="red")
        return
    trajectory = result.trajectory
    if isinstance(record, UnitRecord):
        where, budget = "", record.budget
    else:
        where, budget = f" ({trajectory.variant.key})", record.budgets[result.trial - 1]
    ending = "out of steps" if trajectory.outcome == "budget" else trajectory.outcome
    echo(
        f"Trial {result.trial}{where}: {ending} after {len(trajectory.steps)} of {budget} steps, "
        f"accumulator {trajectory.accumulator}, environment score {trajectory.environment_score}, "
        f"{trajectory.points_at_reset} points held at reset, {trajectory.invalid_actions} actions not understood"
        + (f", {trajectory.asked_back} asked back" if trajectory.asked_back else "")
        + (f", {trajectory.no_effect} without effect" if trajectory.no_effect else ""),
        bold=True,
    )
    for role, names in result.answered.items():
        sent = ", ".join(f"{name} {value:g}" for name, value in result.sent.get(role, {}).items() if name != "seed")
        seeds = f", seeds from {result.sent[role]['seed']:.0f} on" if "seed" in result.sent.get(role, {}) else ""
        echo(f"{role}: answered by {', '.join(names)}; sent {sent}{seeds}", dim=True)
    printer = CallPrinter(calls)
    echo(indent_text(trajectory.start.look))
    for number, step in enumerate(trajectory.steps, start=1):
        printer.print_step(number, actor=True)
        reward = f"  {step.reward:+d}" if step.reward else ""
        echo(f"{number:3d} > {step.action or '(malformed answer)'}{reward}", fg="green" if step.reward > 0 else None)
        if step.subgoal:
            echo(f"      subgoal: {step.subgoal}")
        if step.rejected:
            echo(indent_text(f"subgoal not offered: {step.rejected}"), dim=True)
        if step.unread:
            echo(indent_text(f"[unreadable] {step.unread}"), dim=True)
        echo(indent_text(step.state.observation))
        printer.print_step(number, actor=False)
    for role, texts in result.unread.items():
        for text in texts:
            echo(f"{role}, unreadable answer:", dim=True)
            echo(indent_text(text), dim=True)
    for memory, counts in result.learnt.items():
        echo(f"learned, {memory}: " + ", ".join(f"{key} {value}" for key, value in counts.items()))
