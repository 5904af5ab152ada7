"""`rsso-dspy show`: a unit of a run step by step, with what each trial taught; or a compiled program."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.cli.options import Json, print_status
from rsso_dspy.cli.show_program import show_program
from rsso_dspy.cli.terminal_text import echo, indent_text, print_json, print_paragraph
from rsso_dspy.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rsso_dspy.calls import Call
    from rsso_dspy.records import Step, TrainingRecord, TrialResult, UnitRecord
    from rsso_dspy.report.page_records import LearntItem
    from rsso_dspy.store.run_folder import Store


def show_source(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="Folder of a run, or the file of a compiled program.")
    ],
    unit: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK::VARIANT]",
            help="Variant, e.g. find-plant::228, or TASK for a training; without one, the units are listed.",
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(help="Arm (default: the first).")] = None,
    trial: Annotated[int | None, typer.Option(min=1, max=MOST_TRIALS, help="Show only this trial.")] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Also show every request and answer.")] = False,
    json_: Json = False,
) -> None:
    """Print a unit step by step, with the texts that each trial taught: plans, skills, rules, entries.

    Of a compiled program: how it was made, the candidates that were compared, its prompts beside the zero-shot ones.
    """
    from rsso_dspy.records import RULE_BASED_NOTE
    from rsso_dspy.report.page_records import trace_learnt_items
    from rsso_dspy.store.run_folder import Store
    from rsso_dspy.store.unit_log import dump_record

    if not source.is_dir() and unit is None:
        return show_program(source, json_)
    store = Store(source, read_only=True)
    records: list[UnitRecord | TrainingRecord] = [*store.records()]
    print_left_out_files(store)
    if unit is None:
        return _list_units(records)
    record = _choose_record(records, unit, arm)
    chosen = [result for result in record.trials if trial in (None, result.trial)]
    if not chosen:
        raise UsageError(f"{unit} has trials 1 to {len(record.trials)}, not {trial}")
    taught = trace_learnt_items(record)
    if json_:
        return print_json({**dump_record(record), "taught": list(map(asdict, taught))})
    echo(f"{record.key}  {record.arm}  seed {record.seed}  {record.protocol}", bold=True)
    if record.rule_based:
        echo(RULE_BASED_NOTE, dim=True)
    if record.trajectories:
        echo(record.trajectories[0].task.strip())
    for item in taught if trial is None else ():
        if item.trial == 0:
            _print_taught(record, item, "held from the start")
    calls = load_calls(store, record) if prompts else {}
    for result in chosen:
        _print_trial(record, result, calls.get(result.trial, ()))
        for item in taught:
            if item.trial == result.trial:
                _print_taught(record, item, f"learned{f' at step {item.step}' if item.step else ''}")
    return None


def print_left_out_files(store: "Store") -> None:
    """Print a line on stderr for every unreadable file."""
    for why in store.set_aside.values():
        print_status(f"{why}: left out; the next run quarantines it")


def _list_units(records: "Sequence[UnitRecord | TrainingRecord]") -> None:
    """Print the units and trainings with the scores of their trials."""
    for record in records:
        scores = " ".join(str(trajectory.accumulator) for trajectory in record.trajectories) or "error"
        echo(f"{record.key}  {record.arm}  seed {record.seed}: {scores}")
    if not records:
        raise UsageError("no unit is finished yet; repeat the run's command")


def _choose_record(
    records: "Sequence[UnitRecord | TrainingRecord]", unit: str, arm: str | None
) -> "UnitRecord | TrainingRecord":
    here = [record for record in records if record.key == unit]
    if not here:
        raise UnknownName("unit", unit, {record.key for record in records} or {"(none finished)"})
    if arm is not None and arm not in {record.arm for record in here}:
        raise UnknownName("arm", arm, {record.arm for record in here})
    return next(record for record in here if arm in (None, record.arm))


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
    printer = CallPrinter(calls)
    echo(indent_text(trajectory.start.look))
    for number, step in enumerate(trajectory.steps, start=1):
        printer.print_step(number, actor=True)
        _print_step(number, step)
        printer.print_step(number, actor=False)
    for role, texts in result.unread.items():
        for text in texts:
            echo(f"{role}, unreadable answer:", dim=True)
            echo(indent_text(text), dim=True)


def _print_step(number: int, step: "Step") -> None:
    reward = f"  {step.reward:+d}" if step.reward else ""
    echo(f"{number:3d} > {step.action or '(malformed answer)'}{reward}", fg="green" if step.reward > 0 else None)
    if step.subgoal:
        echo(f"      subgoal: {step.subgoal}")
    if step.rejected:
        echo(indent_text(f"subgoal not offered: {step.rejected}"), dim=True)
    if step.unread:
        echo(indent_text(f"[unreadable] {step.unread}"), dim=True)
    echo(indent_text(step.state.observation))


def _print_taught(record: "UnitRecord | TrainingRecord", item: "LearntItem", when: str) -> None:
    """Print one thing that a memory learned, in its words, and where it was read."""
    reads = ", ".join(f"trial {trial} steps {first}-{last}" for trial, first, last in item.reads) or "no step"
    name = "" if item.name == item.id and item.kind == "rule" else f" {item.name}"
    print_paragraph(f"{when}, {item.kind}{name} ({item.id}; read at {reads})", bold=True)
    skills = record.memories.get("skills", {}).get("skills", ()) if item.kind == "skill" else ()
    for skill in skills:
        if skill["id"] == item.id:
            print_paragraph(f"Summary: {skill['summary']}", "  ")
    for line in item.text.splitlines():
        print_paragraph(line, "  ")


def load_calls(store: "Store", record: "UnitRecord | TrainingRecord") -> "Mapping[int, Sequence[Call]]":
    """Load the calls of a unit or training by trial, without vectors; empty if there is no log of it."""
    from rsso_dspy.errors import NotRecorded

    try:
        log = store.read_log(record)
    except NotRecorded:
        return {}
    return {trial: list(map(log.decode, calls)) for trial, calls in log.make_answers("").trials.items()}


class CallPrinter:
    """Prints calls without repeating text from the previous request of the same role."""

    def __init__(self, calls: "Sequence[Call]"):
        self.calls = calls
        self._before: dict[tuple[str, int], str] = {}

    def print_step(self, step: int, actor: bool) -> None:
        """Print the calls of a step: those of the actor before it, or those of the other roles after it."""
        for call in self.calls:
            if call.step == step and (call.role == "actor") == actor:
                self._print(call)

    def _print(self, call: "Call") -> None:
        from rsso_dspy.calls import text_of

        parameters = ", ".join(f"{name} {value}" for name, value in call.request["parameters"].items())
        echo(f"      [sent, {call.role}] {call.request['model']}; {parameters}", fg="cyan")
        for place, message in enumerate(call.request["messages"]):
            text, at = text_of(message.get("content")), (call.role, place)
            again = self._before.get(at) == text
            self._before[at] = text
            content = "as in the previous request" if again else f"\n{indent_text(text)}"
            echo(f"      [{message.get('role')}] {content}", fg="cyan")
        failed = f", {len(call.failed)} failed attempts before" if call.failed else ""
        name = f", {call.served}" if call.served else ""
        echo(f"      [answered{name}, {call.seconds:g} s{failed}]", dim=True)
        error = call.error and f"{call.error.get('kind')}: {call.error.get('message')}"
        echo(indent_text(error or call.text), dim=True)
