"""`rsso-dspy compile` as a person types it: plans, budgets, files, failing models."""

import json
import re

import pytest

from rsso_dspy.optimize.program_file import load
from tests.cli.conftest import COMPILE, ONE
from tests.provider_server import provider


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "gepaa"], "unknown optimizer 'gepaa': did you mean gepa?"),
        (["--method", "rss"], "unknown method 'rss': did you mean rsso"),
        (["--calib", "0-per-task"], "'0-per-task' is not K-per-task with K from 1 to 1,000"),
        (["--max-rollouts", "0"], "--max-rollouts"),
        (["--max-rollouts", "99999999999"], "ask for --max-rollouts 100000 at most"),
        (["--set", "compile.stesp=9"], "did you mean compile.steps"),
    ],
)
def test_a_wrong_call_exits_2_names_the_fix_and_leaves_nothing(rsso, tmp_path, words, said):
    code, out, err = rsso(*ONE, "-o", "new.json", *words)
    assert code == 2
    assert said in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_task_with_too_few_variants_gives_what_it_has_and_says_so(rsso):
    code, _, err = rsso(*ONE, "--dry-run", "--tasks", "identify-life-stages-2", "--calib", "3-per-task")
    assert code == 0
    assert "on 1 train, 1 val and 2 confirm variants (3-per-task)" in " ".join(err.split())
    assert "has 4 train variants: 1 for train, 1 for val and 2 for confirm instead of 3, 3 and 9" in " ".join(
        err.split()
    )
    assert "it can confirm nothing: 2 confirm variants do not give p < 0.05 even if" in err


def test_a_dry_run_prints_rollouts_calls_and_tokens_and_leaves_nothing(rsso, tmp_path):
    code, out, err = rsso(*ONE, "--dry-run", "--max-rollouts", "8", "-o", "new.json")
    assert (code, out) == (0, "")
    assert "gepa compiles rsso on 1 train, 1 val and 3 confirm variants (1-per-task)" in err
    assert "it can confirm nothing: " in err
    assert "at most 8 rollouts of 2 trials of 60 steps" in err
    assert re.search(r"at most \d+ model calls \(actor \d+, reflector 8, proposer \d+\)", err)
    assert re.search(r"about 0\.[1-9]\d*M tokens in and \d+\.\dk out", err)
    assert "rule-based" in err
    assert list(tmp_path.iterdir()) == []


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
        (["--max-rollouts", "9"], "max_rollouts: there 8, now 9"),
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


@pytest.mark.usefixtures("at_hand")
def test_a_result_that_was_cut_short_is_played_again(rsso, tmp_path):
    words = [*ONE, "--optimizer", "none", "--set", "compile.steps=3", "-o", "new.json"]
    assert rsso(*words)[0] == 0
    whole = (tmp_path / "new.json").read_bytes()
    for ending in ("interrupted", "error"):
        (tmp_path / "new.json").write_text(json.dumps({**json.loads(whole), "ended_by": ending, "rollouts": 0}))
        code, _, err = rsso(*words)
        assert code == 0
        assert "holds the result already" not in err
        assert (tmp_path / "new.json").read_bytes() == whole, "a compile replays byte for byte"


# Failing models


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
