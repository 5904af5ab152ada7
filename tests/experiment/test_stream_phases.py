"""Two tests of memories in streams: a return to the first task types, and wrong rewards that are corrected later."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from rsso_dspy.config import load_config
from rsso_dspy.errors import EnvironmentFailure, UsageError
from rsso_dspy.experiment.events import TrialFinished
from rsso_dspy.experiment.executor import Executor, fingerprint_programs, list_pending_jobs, make_zero_shot_programs
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.provenance import make_provenance, make_run_identity
from rsso_dspy.experiment.session import session
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.report.analysis import RunRecords, analyze_run
from rsso_dspy.report.analysis_json import serialize_analysis
from rsso_dspy.report.page_sections import build_page_sections
from rsso_dspy.report.terminal_report import render_analysis
from rsso_dspy.store.unit_store import Store
from tests.experiment.test_memory_rows import TOY, Killed, die_at, files, toy  # noqa: F401 - toy is a fixture
from tests.live import Engine, model, says
from tests.toy_benchmark import Counting

RETURN = [*TOY, "protocol.stream_returns=1"]
REPAIR = [*TOY, "protocol.wrong_rewards=1"]
ROWS = ["react", "ace", "exprag"]
CUT = 9
"""Trials of `ace` before a run is cut: the ninth is the first after the wrong rewards, and corrects them."""


def answer(prompt):
    """Right where it counts up. The reviewer writes how the attempt ended."""
    if "[[ ## bullet_tags ## ]]" in prompt:
        ended = "Solved" if "Solved" in prompt.rpartition("[[ ## outcome ## ]]")[2] else "Failed"
        return says(bullet_tags="[]", new_bullets=f'["{ended} {len(prompt)}."]')
    return says(thought="One.", action="add 1")


def play(out, settings, cut=0, refused=()):
    """Play a run, in two parts if it is cut after so many trials. Returns the prompts and the planned calls."""
    config, engine = load_config(overrides=settings), Engine(answer)
    plan = plan_held_out(config, ROWS, per_task=6)
    store, programs = Store(out), make_zero_shot_programs(plan)
    preset = resolve_protocol(config)
    store.open(make_run_identity(config, preset), fingerprint_programs(programs))
    with session(config) as live:
        used = replace(live, runtime=replace(live.runtime, lm=lambda *_: model(engine)))
        player = UnitRunner(used, store, programs, make_provenance(config))
        run = lambda: Executor(player).run(plan, list_pending_jobs(plan, store), jobs=1)  # noqa: E731
        if cut:
            die = die_at(cut)
            player.events.subscribe(TrialFinished, lambda event: event.work.arm.name == "ace" and die(event))
            with pytest.raises(Killed):
                run()
            player.stop.clear()
        outcome = run()
        assert {record.key for record in outcome.errored} <= set(refused)
        assert not outcome.untrained
    return engine.prompts, plan.forecast_calls().calls


def play_twice(out, settings):
    """Play a run whole, and in two parts: equal bytes and prompts. Returns its analysis and the stream of `ace`."""
    whole, planned = play(out / "whole", settings)
    again, _ = play(out / "cut", settings, cut=CUT)
    assert files(out / "whole") == files(out / "cut")
    assert again == whole
    units = [unit for unit in Store(out / "whole").units() if unit.arm != "react"]
    ace, other = (
        sorted((unit for unit in units if unit.arm == arm), key=lambda unit: unit.stream.place) for arm in ROWS[1:]
    )
    assert [(unit.key, unit.stream_phase) for unit in ace] == [(unit.key, unit.stream_phase) for unit in other]
    spent = sum(trial.usage["reflector"].calls for unit in ace for trial in unit.trials)
    assert 0 < spent <= planned["reflector"]
    return analyze_run(RunRecords(list(Store(out / "whole").units()))), ace


@pytest.mark.usefixtures("toy")
def test_a_return_has_other_variants_of_the_first_type_and_is_scored_against_the_first_visit(tmp_path):
    found, units = play_twice(tmp_path, RETURN)
    assert "stream_returns=1" in units[0].protocol
    assert [unit.stream_phase for unit in units] == ["first visit"] * 3 + ["between"] * 6 + ["return"] * 3
    (task,) = {unit.variant.task for unit in (*units[:3], *units[-3:])}
    assert task not in {unit.variant.task for unit in units[3:-3]}
    assert len({unit.key for unit in units}) == 12
    control, ace, _ = found.stream_tests
    assert (control.in_stream, ace.in_stream, ace.units) == (False, True, {"first visit": 3, "return": 3})
    (change,) = ace.changes
    assert (change.phase, change.pairs) == ("return", 3)
    assert change.difference == pytest.approx(ace.means["return"] - ace.means["first visit"])
    assert control.means == ace.means  # this player does not read its memory


@pytest.mark.usefixtures("toy")
def test_wrong_rewards_reach_the_memory_and_not_the_score_and_are_corrected_once(tmp_path):
    found, units = play_twice(tmp_path, REPAIR)
    assert "wrong_rewards=1.0" in units[0].protocol
    assert [unit.stream_phase for unit in units] == ["before"] * 4 + ["during"] * 4 + ["after"] * 4
    told = [unit.trials[0].learnt["constitution"].get("told_wrong", 0) for unit in units]
    corrected = [unit.trials[0].learnt["constitution"].get("corrected", 0) for unit in units]
    assert (told, corrected) == ([0] * 4 + [1] * 4 + [0] * 4, [0] * 8 + [4] + [0] * 3)
    bullets = {unit.key: [] for unit in units}
    for row in units[-1].memories["ace"]["entries"]:
        bullets[row["learned"][0][0]].append(row["text"].split()[0])
    for unit in units:
        truth = "Solved" if unit.trajectories[0].solved else "Failed"
        assert bullets[unit.key] == [truth], "what the wrong reward taught is taken back"
    assert {unit.trajectories[0].solved for unit in units if unit.stream_phase == "during"} == {True, False}
    control, ace, _ = found.stream_tests
    assert control.means == ace.means
    assert (ace.told_wrong, ace.corrected, ace.taken_back, ace.control) == (4, 4, 4, "react")
    assert (control.told_wrong, control.taken_back, control.control) == (0, None, None)
    assert [change.beside_retries.difference for change in ace.changes] == [0, 0]
    assert [change.phase for change in ace.changes] == ["during", "after"]
    assert serialize_analysis(found)["stream_tests"][1]["changes"][0]["phase"] == "during"
    screen = io.StringIO()
    Console(file=screen, width=80).print(render_analysis(found))
    assert "Repair: wrong rewards, then corrected" in screen.getvalue()
    assert all(len(line) <= 80 for line in screen.getvalue().splitlines())
    on_page = {sheet.name for section in build_page_sections(found, {}) for sheet in section.sheets}
    assert {"repair", "beside_retries"} <= on_page


@pytest.mark.usefixtures("toy")
def test_a_stream_passes_over_what_its_environment_refuses(tmp_path, monkeypatch):
    order = [unit.variant.key for unit in plan_held_out(load_config(overrides=REPAIR), ["ace"], per_task=6).units]
    refused, reset = {order[2], order[3], order[8], order[11]}, Counting.reset

    def refuse(environment, variant):
        if variant.key in refused:
            raise EnvironmentFailure(f"{variant.key} has no number")
        return reset(environment, variant)

    monkeypatch.setattr(Counting, "reset", refuse)
    prompts, _ = play(tmp_path / "whole", REPAIR, refused=refused)
    for cut in (4, CUT + 1):
        again, _ = play(tmp_path / f"cut {cut}", REPAIR, cut, refused)
        assert files(tmp_path / f"cut {cut}") == files(tmp_path / "whole"), cut
        assert set(again) == set(prompts)
    units = list(Store(tmp_path / "whole").units())
    ace = sorted((unit for unit in units if unit.arm == "ace"), key=lambda unit: unit.stream.place)
    assert [unit.is_refused for unit in ace] == [key in refused for key in order]
    met = []
    for unit in ace:
        assert list(unit.learnt_on) == met, "of those that were played"
        met += [] if unit.is_refused else [unit.key]
    told = [[trial.learnt["constitution"].get("corrected", 0) for trial in unit.trials if trial.learnt] for unit in ace]
    assert told == [[] if unit.is_refused else [4 * (place == 9)] for place, unit in enumerate(ace)]
    found = analyze_run(RunRecords(units))
    assert [(row.units, row.errored) for row in found.arms] == [(8, 4)] * 3
    assert {each.unit for each in found.errored if each.is_skipped} == refused
    (said,) = found.describe_errored()
    assert said.startswith("Skipped by every arm, as the environment refuses them: ")
    (pair, *_) = found.findings
    assert (pair.comparison.pairs, pair.comparison.excluded) == (8, 4)
    assert {change.pairs for test in found.stream_tests for change in test.changes} == {1, 2}
    screen = io.StringIO()
    Console(file=screen, width=80).print(render_analysis(found))
    assert "Skipped (no score; the environment refuses these variants" in screen.getvalue()
    assert "repeat the command" not in screen.getvalue()


@pytest.mark.parametrize(
    ("settings", "methods", "tasks", "said"),
    [
        ([*RETURN, "protocol.stream_returns=2"], ["ace"], None, "at least one other type"),
        (RETURN, ["ace"], ["up"], "at least one other type"),
        (REPAIR, ["omnireflect-symbolic"], None, "learn after a trial"),
        ([*REPAIR, *RETURN], ["ace"], None, "set one of them"),
        ([*REPAIR, "protocol.setting=transfer"], ["ace"], None, "transfer setting"),
    ],
)
@pytest.mark.usefixtures("toy")
def test_an_impossible_test_is_refused(settings, methods, tasks, said):
    with pytest.raises(UsageError, match=said):
        plan_held_out(load_config(overrides=settings), methods, tasks)


@pytest.mark.parametrize(("settings", "least"), [(RETURN, 2), (REPAIR, 3)])
@pytest.mark.usefixtures("toy")
def test_too_few_variants_are_refused(settings, least):
    with pytest.raises(UsageError, match=f"--per-task {least}"):
        plan_held_out(load_config(overrides=settings), ["ace"], per_task=least - 1)
