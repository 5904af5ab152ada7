"""`rsso-dspy compile` as a person types it: plans, budgets, files, failing models."""

import inspect
import json
import re

import pytest

from rsso_dspy.cli.compile import compile_program
from rsso_dspy.config import CompileOptions
from rsso_dspy.optimize.compile import compile
from rsso_dspy.optimize.program_file import load
from tests.cli.conftest import COMPILE, ONE
from tests.provider_server import completion, provider


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "gepaa"], "unknown optimizer 'gepaa': did you mean gepa?"),
        (["--optimizer", "evolution"], "unknown optimizer"),
        (["--method", "rss"], "unknown method 'rss': did you mean rsso"),
        (["--tasks", "find-plnat"], "find-plant"),
        (["--calib", "0-per-task"], "neither K-per-task with K from 1 (e.g. 1-per-task) nor a file"),
        (["--calib", "one each"], "neither K-per-task"),
        (["--calib", "nowhere.json"], "No such file"),
        (["--max-rollouts", "0"], "--max-rollouts"),
        (["--seeds", "0"], "--seeds"),
        (["--seeds", "21"], "--seeds"),
        (["--set", "compile.trials=0"], "compile.trials: input should be greater than 0"),
        (["--set", "compile.trials=99999999999"], "less than or equal to 1000"),
        (["--max-rollouts", "99999999999"], "ask for --max-rollouts 100000 at most"),
        (["--set", "compile.stesp=9"], "did you mean compile.steps"),
        (["--protocol", "sso-adapt"], "sso-adapt/1"),
    ],
)
def test_a_wrong_call_exits_2_names_the_fix_and_leaves_nothing(rsso, tmp_path, words, said):
    code, out, err = rsso(*ONE, "-o", "new.json", *words)
    assert code == 2
    assert said in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"train": ["boil::22"], "val": ["boil::0", "boil::25"]}', "test split: boil::22, boil::25; take train or"),
        ('{"train": ["boil::1"], "val": ["boil::1"]}', "both in train and in val: boil::1"),
        ('{"train": ["boil::1"], "val": ["boil::2"], "confirm": ["boil::2"]}', "both in val and in confirm: boil::2"),
        ('{"train": ["boil::1"]}', "'val' is missing"),
        ('{"train": ["boil::1"], "val": ["boil::999"]}', "boil has no variant 999: its indices run from 0 to 29"),
        ('{"train": ["boil::1"], "val": ["boil::2"]}', "no variant of lifespan-longest-lived in 'train' and"),
        ("train: boil", "not JSON"),
    ],
)
def test_a_calibration_file_that_will_not_do_is_refused_by_what_is_wrong(rsso, tmp_path, content, said):
    (tmp_path / "mine.json").write_text(content)
    code, _, err = rsso(*ONE, "--calib", "mine.json", "-o", "new.json")
    assert code == 2
    assert said in err
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--max-rollouts", []),
        ("--max-rollouts", ["--optimizer", "bootstrap", "--calib", "2-per-task"]),
        ("compile.max_lm_calls=", ["--calib", "2-per-task"]),
    ],
)
def test_a_budget_that_is_too_small_is_refused_with_the_least_that_works(rsso, option, words):
    def dry_run(most: int) -> tuple[int, str, str]:
        limit = ("--set", f"{option}{most}") if option.endswith("=") else (option, str(most))
        return rsso(*ONE, *words, "--dry-run", *limit)

    code, _, err = dry_run(1)
    assert code == 2
    least = int(re.search(rf"{option} ?(\d+)", err)[1])
    assert least > 1
    assert dry_run(least - 1)[0] == 2
    assert dry_run(least)[0] == 0


def test_a_task_with_too_few_variants_gives_what_it_has_and_says_so(rsso):
    code, _, err = rsso(*ONE, "--dry-run", "--tasks", "identify-life-stages-2", "--calib", "3-per-task")
    assert code == 0
    assert "on 1 train, 1 val and 2 confirm variants (3-per-task)" in " ".join(err.split())
    assert "has 4 train variants: 1 for train, 1 for val and 2 for confirm instead of 3, 3 and 9" in " ".join(
        err.split()
    )
    assert "it can confirm nothing: 2 confirm variants do not give p < 0.05 even if" in err
    assert "fewer than 5 spare train variants for feedback: identify-life-stages-2 has 0" in err


def test_a_dry_run_prints_rollouts_calls_and_tokens_and_leaves_nothing(rsso, tmp_path):
    code, out, err = rsso(
        *ONE, "--dry-run", "--max-rollouts", "8", "--set", "compile.max_lm_calls=99", "-o", "new.json"
    )
    assert (code, out) == (0, "")
    assert "gepa compiles rsso on 1 train, 1 val and 3 confirm variants (1-per-task)" in err
    assert "5 points take about 138 confirm variants" in err
    assert "at most 8 rollouts of 2 trials of 60 steps" in err
    assert re.search(r"at most \d+ model calls \(actor \d+, reflector 8, proposer \d+\)", err)
    assert re.search(r"about 0\.[1-9]\d*M tokens in and \d+\.\dk out", err)
    assert "stopped after 99 calls" in err
    assert "rule-based" in err
    assert list(tmp_path.iterdir()) == []


def test_the_account_of_a_compile_is_within_what_was_forecast(compiled):
    forecast = re.search(r"at most (\d+) rollouts.*at most ([\d,]+) model calls", compiled.err, re.S)
    there = load(compiled.file)
    assert 0 < there.rollouts <= int(forecast[1]) == 8
    assert 0 < there.lm_calls <= int(forecast[2].replace(",", ""))
    assert sum(usage.calls for usage in there.usage.values()) == there.lm_calls


def test_without_a_terminal_every_rollout_is_a_plain_line(compiled):
    lines = [line for line in compiled.err.splitlines() if line.startswith("[")]
    there = load(compiled.file)
    assert len(lines) == there.rollouts
    assert re.fullmatch(r"\[1/8\] candidate 0 [\w-]+::\d+: \d+\.\d(  best \d+\.\d)?  \d+ calls", lines[0])
    assert f"best {100 * there.after.metric:.1f}" in lines[-1]
    assert "\x1b" not in compiled.err + compiled.out


def test_the_end_says_what_came_of_it_what_it_cost_and_what_to_do_next(compiled):
    there = load(compiled.file)
    assert f"metric {100 * there.before.metric:.1f}" in compiled.out
    assert f"spent: {there.rollouts} of 8 rollouts, {there.lm_calls} model calls" in compiled.out
    assert "say nothing about language models" in compiled.out
    assert compiled.out.endswith(f"program: {compiled.file}  (rsso-dspy show {compiled.file})\n")
    assert there.improved == ("The file holds the zero" not in compiled.out)
    assert f"verdict: {there.confirmation.verdict}" in compiled.out
    assert f"the search ended: {there.search_end}" in compiled.out


# The file


def test_the_same_command_again_keeps_the_result_and_plays_nothing(rsso, compiled):
    before = compiled.file.stat().st_mtime_ns, compiled.file.read_bytes()
    code, out, err = rsso(*COMPILE, "-o", compiled.file)
    assert code == 0
    assert "holds the result already: kept" in err
    assert out == compiled.out
    assert "[1/8]" not in err
    assert (compiled.file.stat().st_mtime_ns, compiled.file.read_bytes()) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "seed=1"], "seed: there 0, now 1"),
        (["--set", "compile.trials=1"], "trials: there 2, now 1"),
        (["--set", "compile.steps=9"], "steps: there 60, now 9"),
        (["--max-rollouts", "9"], "max_rollouts: there 8, now 9"),
        (["--seeds", "2", "--max-rollouts", "12"], "seeds: there 1, now 2"),
        (["--method", "sso"], "method: there 'rsso', now 'sso'"),
        (["--optimizer", "bootstrap"], "optimizer: there 'gepa', now 'bootstrap'"),
        (["--set", "memory.reflections.size=1"], "identity.config.memory.reflections.size: there 3, now 1"),
    ],
)
def test_the_result_of_another_compile_is_refused_with_the_difference(rsso, compiled, words, said):
    before = compiled.file.read_bytes()
    code, _, err = rsso(*COMPILE, *words, "-o", compiled.file)
    assert code == 2
    assert said in err
    assert "another -o" in err
    assert compiled.file.read_bytes() == before


@pytest.mark.parametrize("content", ["Dear diary", "{}", ""])
def test_a_file_that_is_something_else_is_never_overwritten(rsso, tmp_path, content):
    (tmp_path / "diary.txt").write_text(content)
    code, _, err = rsso(*ONE, "-o", "diary.txt")
    assert code == 2
    assert "diary.txt" in err
    assert "no compiled program" in err
    assert (tmp_path / "diary.txt").read_text() == content


@pytest.mark.usefixtures("at_hand")
def test_a_result_that_was_cut_short_is_played_again(rsso, tmp_path):
    words = [*ONE, "--set", "compile.max_lm_calls=6", "-o", "new.json"]
    assert rsso(*words)[0] == 0
    whole = (tmp_path / "new.json").read_bytes()
    for ending in ("interrupted", "error"):
        (tmp_path / "new.json").write_text(json.dumps({**json.loads(whole), "ended_by": ending, "rollouts": 0}))
        code, _, err = rsso(*words)
        assert code == 0
        assert "kept" not in err
        assert (tmp_path / "new.json").read_bytes() == whole, "a compile replays byte for byte"


@pytest.mark.usefixtures("at_hand")
def test_a_place_that_cannot_be_written_is_found_out_before_anything_is_played(rsso, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = rsso(*ONE, "--max-rollouts", "4", "-o", "file/new.json")
    assert code in (1, 2)
    assert "candidate 0" not in err


# Budgets and failing models


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("most", [4, 30])
def test_spent_model_calls_end_the_compile_with_the_best_so_far(rsso, tmp_path, most):
    code, out, _ = rsso(*ONE, "--optimizer", "bootstrap", "--set", f"compile.max_lm_calls={most}", "-o", "new.json")
    there = load(tmp_path / "new.json")
    assert code == 0
    assert "the model calls of compile.max_lm_calls were spent" in out
    assert (there.ended_by, there.lm_calls) == ("lm-calls", most)
    assert sum(usage.calls for usage in there.usage.values()) <= most
    assert (there.before is None) == (most == 4) == ("ended before the zero-shot program was scored" in out)


@pytest.mark.usefixtures("at_hand")
def test_every_call_that_was_paid_for_is_in_the_account_of_its_role(rsso, tmp_path):
    rsso(*ONE, "--set", "compile.max_lm_calls=4", "-o", "new.json")
    there = load(tmp_path / "new.json")
    assert sum(usage.calls for usage in there.usage.values()) == there.lm_calls


OOPS = (500, {"error": {"message": "oops"}})
KEY = (401, {"error": {"message": "bad key", "type": "invalid_request_error", "code": "invalid_api_key"}})


def against(url: str) -> list[str]:
    keys = {"model": "openai/m", "base_url": url, "key_variable": "TEST_PROVIDER_KEY", "retries": 0}
    words = [word for key, value in keys.items() for word in ("--set", f"backends.mine.{key}={value}")]
    return [*ONE, "--method", "react", "--backend", "mine", *words, "-o", "new.json"]


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize(("reply", "said"), [(OOPS, "oops"), (KEY, "bad key")])
def test_a_model_that_fails_ends_the_compile_with_its_words_and_no_score(rsso, tmp_path, monkeypatch, reply, said):
    monkeypatch.setenv("TEST_PROVIDER_KEY", "sk-planted-secret")
    with provider(lambda _: reply) as served:
        code, out, err = rsso(*against(served.url))
    assert (code, out) == (1, "")
    assert re.search(rf"^error: .*{said}", err, re.M)
    assert "Traceback" not in err
    there = load(tmp_path / "new.json")
    assert (there.ended_by, there.improved) == ("error", False)
    assert (there.before, there.after, there.tried) == (None, None, ())
    assert "planted" not in (tmp_path / "new.json").read_text() + err


def test_an_endpoint_where_nothing_answers_is_named_before_anything_is_written(rsso, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_PROVIDER_KEY", "x")
    code, _, err = rsso(*against("http://127.0.0.1:9/v1"))
    assert code == 1
    assert "error: nothing answers at http://127.0.0.1:9/v1" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("at_hand")
def test_no_request_is_sent_beyond_the_model_calls_allowed(rsso, monkeypatch):
    monkeypatch.setenv("TEST_PROVIDER_KEY", "x")
    with provider(lambda _: completion("I would rather chat.")) as served:
        rsso(*against(served.url), "--set", "compile.max_lm_calls=6")
    assert len(served.requests) <= 6


def test_the_defaults_that_the_help_shows_are_those_of_the_library():
    typed = inspect.signature(compile_program).parameters
    of_python = inspect.signature(compile).parameters
    shown = {name: typed[name].default for name in ("calib", "optimizer")} | CompileOptions().model_dump(
        include={"trials", "steps"}
    )
    assert shown == {name: of_python[name].default for name in shown}
