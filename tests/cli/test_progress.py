"""What is seen of a run on terminals of several sizes, and where there is none."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rsso_dspy.cli.arm_progress import LiveRow, RunningTotals, build_live_table
from rsso_dspy.cli.progress import RunProgress
from rsso_dspy.cli.run_plan import print_run_plan
from rsso_dspy.config import load_config
from rsso_dspy.environments.pool import StartProgress
from rsso_dspy.experiment.events import EventStream, SimulatorsStarting, TrialFinished, UnitFinished
from rsso_dspy.experiment.run import Run, plan_run
from rsso_dspy.records import UnitRecord, Usage
from rsso_dspy.report.cost import TokenCost, sum_usage_cost
from rsso_dspy.store.run_spec import RunSpec
from rsso_dspy.store.units import Unit
from tests.live import FAST
from tests.records import record, save

VARIANTS = ("boil::22", "boil::27", "freeze::21")
PRICED = ('prices."embedded/explorer".input=3', 'prices."embedded/explorer".output=15')
METHODS = ("react-sso", "reflexion-sso")


def planned_run(out: Path, *settings: str, methods: tuple[str, ...] = METHODS) -> Run:
    order = RunSpec(methods=methods, variants=VARIANTS, out=out)
    return plan_run(load_config(overrides=[*FAST, *settings]), order)


def unit(work: Unit, *scores: int) -> UnitRecord:
    """The unit as it would be with trials of these scores; none: it errored."""
    trials = [[score] for score in scores] or [None]
    return record(work.arm.name, work.variant.task, work.variant.index, trials)


def played(watch: RunProgress, work: Unit, *scores: int) -> UnitRecord:
    """Tell the watch of the unit's trials, and of its end."""
    made = unit(work, *scores)
    events = EventStream()
    watch.follow(events)
    for trial in made.trials:
        events.emit(TrialFinished(work, trial))
    events.emit(UnitFinished(work, made))
    return made


def on_terminal(monkeypatch, width: int, height: int = 24) -> None:
    """A terminal of this size on stderr."""
    known = {"COLUMNS": str(width), "LINES": str(height), "FORCE_COLOR": "1", "TERM": "xterm"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)


def picture(watch: RunProgress) -> list[str]:
    """What stands on the terminal now, line by line."""
    console = Console(width=watch.console.width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(watch._render_progress())
        return [line.rstrip() for line in console.export_text().splitlines() if line.strip()]


@pytest.mark.parametrize("width", [80, 120])
def test_every_arm_has_a_row(width, monkeypatch, tmp_path):
    on_terminal(monkeypatch, width)
    planned = planned_run(tmp_path, *PRICED)
    with RunProgress(planned.left, planned, jobs=2) as watch:
        played(watch, planned.plan.units[0], 40, 100)
        played(watch, planned.plan.units[1])
        watch.on_trial_finished(TrialFinished(planned.plan.units[2], unit(planned.plan.units[2], 10).trials[0]))
        seen = picture(watch)
    assert all(len(line) <= width for line in seen)
    assert seen[0].split() == ["arm", "units", "errors", "Mean", "solved", "trial", "tokens", "cost"]
    assert seen[1].split() == ["react-sso", "1/3", "100.0", "1", "2", "0.0k", "$0.0002"]
    assert seen[2].split() == ["reflexion-sso", "0/3", "1", "1", "0.0k", "$0.0001"]
    assert re.search(r"2/6 .*0\.0M tokens  1 errors", seen[3])
    assert "units" in seen[3]


def test_a_narrow_or_low_terminal_has_the_bar_alone(monkeypatch, tmp_path):
    planned = planned_run(tmp_path)
    for width, height in ((60, 24), (79, 24), (100, 7)):
        on_terminal(monkeypatch, width, height)
        with RunProgress(planned.left, planned) as watch:
            played(watch, planned.plan.units[0], 40)
            (seen,) = picture(watch)
        assert "1/6" in seen
        assert "react-sso 40" in seen or width == 60


def test_what_was_finished_before_counts_too(monkeypatch, tmp_path):
    on_terminal(monkeypatch, 100)
    planned = planned_run(tmp_path)
    planned.store.open(planned.identity)
    first, second, third, *_ = planned.plan.units
    here = {"protocol": planned.plan.protocol}
    save(planned.store, replace(unit(first, 30), **here))
    save(planned.store, replace(unit(second), **here))
    save(planned.store, replace(unit(third, 20), **here), begun=True)
    again = planned_run(tmp_path)
    with RunProgress(again.left, again) as watch:
        before = picture(watch)
        played(watch, second, 60)
        after = picture(watch)
    assert before[1].split() == ["react-sso", "1/3", "30.0", "0", "2", "0.0k"]
    assert before[2].split()[:3] == ["reflexion-sso", "0/3", "1"]
    assert after[2].split()[:4] == ["reflexion-sso", "1/3", "60.0", "0"], "what is played again has no error any more"


def test_without_a_terminal_there_are_plain_lines(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    planned = planned_run(tmp_path)
    with RunProgress(planned.left, planned) as watch:
        played(watch, planned.plan.units[0], 40, 100)
        played(watch, planned.plan.units[1])
        held = record("react-sso", "boil", 27, [[60], [100]], at_reset=8)
        watch.on_job_finished(UnitFinished(planned.plan.units[2], held))
    assert capsys.readouterr().err.splitlines() == [
        "[1/6] react-sso boil::22: 40 100",
        "[2/6] reflexion-sso boil::22: error: LMServerError: 500",
        "[3/6] react-sso boil::27: 52 92 solved",
    ]


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("80", 80), ("", 1000)])
def test_a_plan_is_wrapped_to_the_terminal_and_left_alone_elsewhere(columns, width, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    print_run_plan(planned_run(Path("runs/first")))
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= width
    assert all(line.startswith("      ") for line in lines[1:])
    assert "2 arms x 3 variants = 6 units" in " ".join(" ".join(lines).split())
    assert columns or max(map(len, lines)) > 80


def test_units_wait_for_trainings(monkeypatch, tmp_path):
    on_terminal(monkeypatch, 100)
    train = ("protocol.setting=transfer", "protocol.train_trials=2", "protocol.train_per_task=2")
    planned = planned_run(tmp_path, *train, methods=("react-sso", "sso"))
    with RunProgress(planned.left, planned, jobs=4) as watch:
        rows = {row.arm: row for row in watch._arms.build_rows()}
        assert (rows["react-sso"].trials, rows["sso"].trials) == ((), (1, 1))
        assert "train 1" in picture(watch)[2]


def test_the_names_and_numbers_of_a_table():
    tally = RunningTotals()
    for index in (0, 1, 2, 0):  # each counts once
        tally.add_finished(record("sso", "boil", index, [[10 * index], [50]]))
    assert (tally.mean, len(tally.units), tally.solved) == (50, 3, 0)
    assert sum_usage_cost({"actor": Usage(1, 5, 5)}, {}, lambda _: None).cost is None, "unpriced is never free"
    rows = [
        LiveRow("sso\x1b[2J", 12, tally, TokenCost(1_234_567, 0, None), (1, 2, 3, 5)),
        LiveRow("a-long-name+of-a-compiled-program-that-goes-on", 12, RunningTotals(), TokenCost(0, 0, 12.5)),
    ]
    console = Console(width=80, record=True, quiet=False, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(build_live_table(rows))
        seen = console.export_text()
    assert "\x1b" not in seen
    assert re.search(r"3/12 +50\.0 +0 +1-5 +1\.23M +unpriced", seen)
    assert "$12.50" in seen


def test_simulators_that_start_are_counted_until_all_are_there(capsys, monkeypatch, tmp_path):
    planned = planned_run(tmp_path)
    with RunProgress(planned.left, planned) as watch:
        for ready in range(1, 65):
            watch.on_simulator_started(SimulatorsStarting(StartProgress(ready, 64)))
    counts = (1, 11, 21, 31, 41, 51, 61, 64)
    assert capsys.readouterr().err.splitlines() == [f"starting simulators: {ready} of 64" for ready in counts]
    for width in (60, 100):
        on_terminal(monkeypatch, width)
        with RunProgress(planned.left, planned) as watch:
            watch.on_simulator_started(SimulatorsStarting(StartProgress(5, 64)))
            played(watch, planned.plan.units[0], 40)
            line = picture(watch)[-1]
            assert "1/6" in line
            assert "starting simulators: 5 of 64" in line
            watch.on_simulator_started(SimulatorsStarting(StartProgress(64, 64)))
            assert "simulators" not in picture(watch)[-1]
