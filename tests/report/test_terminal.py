import io
from dataclasses import replace

from rsso_dspy.records import Failure, State
from rsso_dspy.report.terminal import create_named_table, print_renderable, replace_controls
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso  # noqa: F401 - a fixture
from tests.records import record, save

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31mred\rhidden\x08\u202eevil"


def test_nothing_that_a_terminal_acts_on_is_left():
    for mark in "\x1b\x07\x9b\r\x08\u202e\x00\x7f\ud83d":
        assert replace_controls(f"a{mark}b") == "a\ufffdb"
    assert replace_controls("one\n\ttwo é 中文 🙂") == "one\n\ttwo é 中文 🙂"


def test_what_a_model_or_a_server_said_reaches_the_terminal_as_text(rsso, tmp_path):  # noqa: F811
    store = Store(tmp_path / "run")
    store.open({}, {"rsso": "1"})
    unit = record("rsso", "boil", 22, [[10]])
    trial = unit.trials[0]
    state = State(HOSTILE, HOSTILE, HOSTILE)
    step = replace(trial.trajectory.steps[0], action=HOSTILE, reasoning=HOSTILE, subgoal=HOSTILE, state=state)
    trajectory = replace(trial.trajectory, task=HOSTILE, start=state, steps=(step,))
    shown = {"plans_from_past_attempts": HOSTILE, "skills:": HOSTILE}
    save(store, replace(unit, trials=(replace(trial, trajectory=trajectory, shown=shown),)))
    failed = record("rsso", "boil", 27, [None])
    save(store, replace(failed, trials=(replace(failed.trials[0], failure=Failure("LMError", HOSTILE)),)))
    for words in (("show", "run", "boil::22", "--prompts"), ("show", "run", "boil::27"), ("report", "run")):
        code, out, err = rsso(*words)
        assert code == 0, err
        assert not set(out + err) & set("\x1b\x07\x9b\r\x08\u202e")
        assert "evil" in out


def test_a_cell_of_several_words_is_not_cut_off_either():
    table = create_named_table("Paired differences", "second - first", "95% interval")
    table.add_row("rsso - sso", "-11.11 to +10.58")
    print_renderable(table, told := io.StringIO(), width=12)
    assert "-11.11 to +10.58" in told.getvalue()
