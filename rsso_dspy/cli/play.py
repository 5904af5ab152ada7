"""Play the planned units of a run, followed on the terminal, and print the report.

`run` and `evaluate` share it.
"""

import os
import threading
from typing import TYPE_CHECKING

import typer

from rsso_dspy.cli.interruption import catch_interruptions
from rsso_dspy.cli.options import format_command, format_plural, print_status
from rsso_dspy.cli.program_files import describe_programs
from rsso_dspy.cli.run_plan import describe_units_beside, print_run_plan
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import LimitReached

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.executor import RunOutcome
    from rsso_dspy.forecast import SpendLimit
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.runs import Run
    from rsso_dspy.store.commands import RunSpec
    from rsso_dspy.store.run_folder import Store


def plan_and_play(
    settings: "Config",
    spec: "RunSpec",
    programs: "dict[str, Compiled | None]",
    jobs: int,
    dry_run: bool,
    max_cost: float | None,
    max_tokens: int | None,
    engine: str = "threads",
) -> None:
    """Plan the run, print its estimated cost and, unless `dry_run`, play pending units and print the report."""
    from rsso_dspy.runs import check_engine, plan_run

    check_engine(engine)
    planned = plan_run(settings, spec, programs, dry_run, print_status)
    for file in planned.store.set_aside:
        what = f"{'to be ' if dry_run else ''}quarantined as {file.name}; its unit is played again"
        print_status(f"{planned.store.describe_quarantined(file)}: {what}")
    print_run_plan(planned, jobs)
    plan, actor = planned.plan, planned.models_in_use.get("actor", "")
    trials = max(plan.get_rules(unit).trials for unit in plan.units)
    for line in describe_programs(programs, plan.protocol, actor, trials):
        print_status(f"      {line}")
    purse = planned.make_spend_limit(max_cost, max_tokens)
    if not dry_run:
        _play_and_report(planned, jobs, purse, engine)


def _play_and_report(planned: "Run", jobs: int, purse: "SpendLimit", engine: str) -> None:
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.pricing import make_price_lookup

    outcome, limit = play_watched(planned, jobs, purse, engine)
    print_report(planned.store, make_price_lookup(planned.config.prices))
    if beside := describe_units_beside(planned):
        print_status(beside)
    folder = planned.store.folder
    first = planned.plan.units[0].variant.key
    echo(f"\nrun: {folder}  ({format_command('report', folder)}; {format_command('show', folder, first)})")
    exit_if_incomplete(outcome, limit, count_stalled_trials(planned.store))


def play_watched(
    planned: "Run", jobs: int, purse: "SpendLimit", engine: str = "threads"
) -> "tuple[RunOutcome | None, str]":
    """Play the pending units with progress; return the outcome, or None, and the limit that was reached."""
    from rsso_dspy.cli.progress import RunProgress
    from rsso_dspy.executor import EventStream
    from rsso_dspy.sessions import session

    with catch_interruptions() as ending, session(planned.config, jobs=jobs) as live:
        live.backend.check_connections()
        if any("skills" in unit.arm.method.memories for unit in planned.plan.units):
            live.embedder.check(live.backend.replay is not None)
        with RunProgress(planned.left, planned, jobs) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                return planned.execute(live, jobs, purse, events, engine), ""
            except LimitReached as reached:
                return None, str(reached)
            except KeyboardInterrupt:
                watch.print_line("interrupted: finished trials are kept; repeat the command to resume")
                if any(thread.name.startswith("unit") for thread in threading.enumerate()):
                    os._exit(ending.code)  # pressed twice: do not wait for current answers; their cost is stored
                raise typer.Exit(ending.code) from None


def count_stalled_trials(store: "Store") -> int:
    """Count stalled trials among the finished units of a folder."""
    return sum(record.stalled_trials for record in store.records())


def exit_if_incomplete(outcome: "RunOutcome | None", limit: str, stalled: int = 0) -> None:
    """Report missing and stalled units, and exit with code 1 if there are any."""
    if outcome and outcome.untrained:
        print_status(f"{len(outcome.untrained)} units were not played: what they start from errored")
    skipped = outcome.skipped if outcome else []
    for record in skipped:
        print_status(f"{record.arm} {record.key} was skipped, and would be again: {record.trials[-1].failure}")
    if skipped:
        print_status("to be rid of these variants, leave them out (--variants) or mend their data, in another --out")
    if outcome and (errored := len(outcome.errored) - len(skipped)):
        print_status(f"{errored} ended in errors; repeat the command to resume from their last good trial")
    if stalled:
        print_status(
            f"{format_plural(range(stalled), 'trial')} stalled: a step took longer than environment.step_seconds. "
            "Means include their scores so far; add --retry stalled to play their units again"
        )
    if limit:
        print_status(limit)
    if limit or stalled or (outcome and outcome.errored):
        raise typer.Exit(1)
