"""What is seen of a run where there is no terminal."""

from contextlib import closing

from rsso_dspy.cli.play import RunProgress
from rsso_dspy.config import load_config
from rsso_dspy.executor import EventStream, TrialFinished, UnitFinished
from rsso_dspy.runs import plan_run
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Unit
from tests.live import FAST
from tests.records import record


def play(watch: RunProgress, work: Unit, *trials: list[int] | None, at_reset: int = 0) -> None:
    """Tell the watch of a unit's trials, and of its end; None is an error."""
    made = record(work.arm.name, work.variant.task, work.variant.index, list(trials), at_reset=at_reset)
    events = EventStream()
    watch.follow(events)
    for trial in made.trials:
        events.emit(TrialFinished(work, trial))
    events.emit(UnitFinished(work, made))


def test_without_a_terminal_there_are_plain_lines(capsys, tmp_path):
    spec = RunSpec(methods=("react-sso", "reflexion-sso"), variants=("boil::22", "boil::27"), out=tmp_path)
    units = plan_run(load_config(overrides=FAST), spec).plan.units
    with closing(RunProgress(len(units))) as watch:
        play(watch, units[0], [40], [100])
        play(watch, units[1], None)
        play(watch, units[2], [60], [100], at_reset=8)
    assert capsys.readouterr().err.splitlines() == [
        "[1/4] react-sso boil::22: 40 100",
        "[2/4] reflexion-sso boil::22: error: LMServerError: 500",
        "[3/4] react-sso boil::27: 52 92 solved",
    ]
