"""What is seen of a run on terminals of several sizes, and where there is none."""

import re
from pathlib import Path

import pytest
from rich.console import Console

from rsso_dspy.cli.progress import RunProgress
from rsso_dspy.cli.play import print_run_plan
from rsso_dspy.config import load_config
from rsso_dspy.executor import EventStream, TrialFinished, UnitFinished
from rsso_dspy.records import UnitRecord
from rsso_dspy.runs import Run, plan_run
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Unit
from tests.live import FAST
from tests.records import record

VARIANTS = ("boil::22", "boil::27", "freeze::21")
PRICED = ('prices."embedded/explorer".input=3', 'prices."embedded/explorer".output=15')
METHODS = ("react-sso", "reflexion-sso")


def planned_run(out: Path, *settings: str, methods: tuple[str, ...] = METHODS) -> Run:
    order = RunSpec(methods=methods, variants=VARIANTS, out=out)
    planned = plan_run(load_config(overrides=[*FAST, *settings]), order)
    if not planned.store.exists:
        planned.store.open(planned.identity)
    return planned


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


def picture(watch: RunProgress) -> str:
    """The line that stands on the terminal now."""
    console = Console(width=watch.console.width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(watch._bar)
        (line,) = [line.rstrip() for line in console.export_text().splitlines() if line.strip()]
        return line


@pytest.mark.parametrize("width", [60, 79, 120])
def test_a_terminal_has_one_line_with_what_is_done(width, monkeypatch, tmp_path):
    on_terminal(monkeypatch, width)
    planned = planned_run(tmp_path)
    with RunProgress(planned.left) as watch:
        played(watch, planned.plan.units[0], 40, 100)
        played(watch, planned.plan.units[1])
        line = picture(watch)
    assert len(line) <= width
    assert "2/6" in line
    assert "react-sso 100" in line
    assert width == 60 or re.search(r"0\.0M tokens  1 errors", line)


def test_without_a_terminal_there_are_plain_lines(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "100")
    planned = planned_run(tmp_path)
    with RunProgress(planned.left) as watch:
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
