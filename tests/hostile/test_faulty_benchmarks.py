"""A benchmark of a script whose code fails: in one variant, in all, by what it returns, by what it raises."""

from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.store.run_folder import Store

FAST = ("--set", "embedder.model=hash", "--set", "protocol.preset=sso-adapt/3-cap60")
SCRIPT = """
from dataclasses import replace
from pathlib import Path

from rsso_dspy.environments.benchmark import add_benchmark
from tests.toy_benchmark import BENCHMARK, Counting


class Faulty(Counting):
    def reset(self, variant):
        {reset}
        return super().reset(variant)

    def step(self, action):
        {step}
        return super().step(action)


add_benchmark(replace(BENCHMARK, name="faulty", make_environment=lambda *_: Faulty()))
"""
ONE = "if self.variant.index == 10 and not Path('mended').exists(): "


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """What a test adds is gone after it."""
    monkeypatch.setattr("rsso_dspy.environments.benchmark.ADDED", {})
    yield
    get_benchmark.cache_clear()


@pytest.fixture
def script(tmp_path):
    """Run a script whose environment fails as a test wants; gives its text."""

    def run(reset: str = "pass", step: str = "pass") -> str:
        text = SCRIPT.format(reset=reset, step=step)
        exec(compile(text, str(tmp_path / "faulty.py"), "exec"), {"__name__": "__main__"})
        return text

    return run


def play(rsso, *words: str):
    more = ("--methods", "react,react-sso,rsso", "--tasks", "up", "--per-task", "4", "--trials", "1")
    return rsso("run", "--benchmark", "faulty", *more, *FAST, "--out", "r", *words)


def find_line(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), start=1) if part in line)


@pytest.mark.parametrize(
    ("broken", "last"),
    [
        ({"step": ONE + "raise ValueError('no such door')"}, "ValueError: no such door"),
        ({"step": ONE + "{}['door']"}, "KeyError: 'door'"),
        ({"step": ONE + "assert False, 'never'"}, "AssertionError: never"),
        ({"reset": ONE.replace("self.variant", "variant") + "1 / 0"}, "ZeroDivisionError: division by zero"),
    ],
)
def test_an_exception_in_one_variant_is_an_error_of_its_units_and_the_others_are_scored(
    rsso, script, tmp_path, broken, last
):
    text = script(**broken)
    code, _, err = play(rsso)
    assert (code, "Traceback" in err) == (1, False)
    assert err.splitlines()[-1] == f"{last} ({tmp_path}/faulty.py, line {find_line(text, ONE[-20:])})"
    assert "3 ended in errors; repeat the command" in err
    for arm in ("react", "react-sso", "rsso"):
        assert f"{arm} up::10: Faulty raised an exception at " in err

    units = list(Store(Path("r")).units())
    assert len(units) == 12
    assert {unit.key for unit in units if unit.has_errors} == {"up::10"}
    assert all(unit.trajectories for unit in units if unit.key != "up::10")

    Path("mended").touch()
    code, _, err = play(rsso)
    assert (code, "9 units finished, 3 to play" in err) == (0, True), err
    assert not any(unit.has_errors for unit in Store(Path("r")).units())


def test_a_contract_that_one_variant_breaks_is_an_error_of_its_units(rsso, script):
    script(step=ONE + "return replace(super().step(action), score=450, reward=450)")
    code, out, err = play(rsso)
    assert (code, "450.00" in out) == (1, False)
    assert "react up::10: Faulty returned score = 450 (int) at step 1 of up::10 (action " in err
    assert "; expected: a whole number from -100 to 100" in err.splitlines()[-1]
    assert sum(unit.has_errors for unit in Store(Path("r")).units()) == 3


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"step": "raise ValueError('boom')"}, "ValueError: boom ("),
        ({"step": "return None"}, "Faulty returned None (NoneType) at step 1 of up::11 (action "),
        ({"reset": "raise ValueError('boom')"}, "ValueError: boom ("),
        ({"reset": "return 'a state'"}, "Faulty returned 'a state' (str) at the reset of up::11; expected: a State"),
    ],
)
def test_code_that_fails_in_every_variant_stops_the_run_after_three(rsso, script, broken, said):
    script(**broken)
    code, _, err = play(rsso, "--methods", "react")
    assert (code, "Traceback" in err) == (1, False)
    assert "error: stopped: the environment fails in 3 variants in a row." in err
    assert said in "\n".join(err.splitlines()[-2:])
    assert [unit.key for unit in Store(Path("r")).units()] == ["up::9", "up::10", "up::11"]


def test_a_shortage_is_no_fault_of_the_code_and_ends_the_run(rsso, script):
    script(step=ONE + "raise OSError(28, 'No space left on device')")
    code, _, err = play(rsso)
    assert (code, "free disk space" in err, "Traceback" in err) == (1, True, False)


def test_doctor_names_what_is_wrong(rsso, script):
    script(step="return replace(super().step(action), reward=1.0)")
    code, out, _ = rsso("doctor", "--benchmark", "faulty", *FAST)
    lines = [line.split(":")[0] for line in out.splitlines()]
    assert (code, lines[0], lines[3]) == (1, "ok      simulator", "failed  replay")
    assert "Faulty returned reward = 1.0 (float) at step 1 of up::" in out


def test_doctor_says_ok_of_each_check(rsso, script):
    script()
    code, out, _ = rsso("doctor", "--benchmark", "faulty", *FAST)
    names = ["simulator", "embedder", "backend embedded", "replay", "points", "lists", "templates", "leaks"]
    assert (code, [line.split(":")[0] for line in out.splitlines()]) == (0, [f"ok      {name}" for name in names])


def test_a_benchmark_that_cannot_be_reset_is_not_examined_further(rsso, script):
    script(reset="raise ValueError('boom')")
    code, out, _ = rsso("doctor", "--benchmark", "faulty", *FAST)
    assert (code, len(out.splitlines())) == (1, 3)
    assert "failed  simulator: Faulty raised an exception at the reset of up::" in out


def test_a_benchmark_of_a_script_is_known_to_other_verbs(rsso, script):
    script()
    code, out, _ = rsso("tasks", "--benchmark", "faulty")
    assert (code, out.splitlines()[1].split()[0]) == (0, "up")
    with pytest.raises(UsageError, match="the benchmark faulty is there already"):
        script()
