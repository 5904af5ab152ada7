"""`rsso-dspy compile` as a person types it: plans, budgets, files, failing models."""

import re

import pytest

from rsso_dspy.optimize.program_file import load
from tests.cli.conftest import COMPILE, FAST, ONE
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
        (["--candidates", "none.toml"], "cannot read the candidates none.toml"),
    ],
)
def test_a_wrong_call_exits_2_names_the_fix_and_leaves_nothing(rsso, tmp_path, words, said):
    code, out, err = rsso(*ONE, "-o", "new.json", *words)
    assert (code, out, said in err, list(tmp_path.iterdir())) == (2, "", True, []), err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--tasks", "identify-life-stages-2", "--calib", "3-per-task"),
            (
                r"on 1 train, 1 val and 2 confirm variants \(3-per-task\)",
                "has 4 train variants: 1 for train, 1 for val and 2 for confirm instead of 3, 3 and 9",
                r"it can confirm nothing: 2 confirm variants do not give p < 0\.05 even if",
            ),
        ),
        (
            ("--max-rollouts", "8"),
            (
                r"gepa compiles rsso on 1 train, 1 val and 3 confirm variants \(1-per-task\)",
                "at most 8 rollouts of 2 trials, each of the protocol's steps, 60 at most",
                r"at most \d+ model calls \(actor \d+, reflector 8, proposer \d+\)",
                r"about 0\.[1-9]\d*M tokens in and \d+\.\dk out",
                "rule-based",
            ),
        ),
    ],
)
def test_a_dry_run_prints_what_it_may_take_and_can_show_and_leaves_nothing(rsso, tmp_path, words, said):
    code, out, err = rsso(*ONE, "--dry-run", *words, "-o", "new.json")
    assert (code, out, list(tmp_path.iterdir())) == (0, "", [])
    assert not [text for text in said if not re.search(text, " ".join(err.split()))], err


def test_calib_1_per_task_draws_one_variant_of_each_task_to_learn_from_and_one_to_choose_by(rsso):
    """As one types it: `compile --calib 1-per-task`. Confirm variants, three a task, only judge what was chosen."""
    tasks = "boil,find-plant,lifespan-longest-lived"
    code, _, err = rsso("compile", "--tasks", tasks, "--calib", "1-per-task", *FAST, "--dry-run", "-o", "new.json")
    assert (code, "on 3 train, 3 val and 9 confirm variants (1-per-task)" in " ".join(err.split())) == (0, True), err


def test_the_end_says_what_came_of_it_what_it_cost_and_what_to_do_next(compiled):
    there = load(compiled.file)
    for text in (
        f"metric {100 * there.before.metric:.1f}",
        f"spent: {there.rollouts} of 8 rollouts, {there.lm_calls} model calls",
        f"rsso, gepa: {there.confirmation.verdict}: ",
        f"the search ended: {there.search_end}",
        "say nothing about language models",
    ):
        assert text in compiled.out
    assert compiled.out.endswith(f"program: {compiled.file}  (rsso-dspy evaluate {compiled.file} --candidate)\n")
    assert there.improved == ("The file holds the zero" not in compiled.out)


def test_the_candidates_of_the_progress_are_those_of_the_file_and_of_the_count(compiled):
    """A rollout's line names its candidate; the end counts every one of them once, by how far it came."""
    played = {int(number) for number in re.findall(r"\] candidate (\d+) ", compiled.err)}
    there = load(compiled.file)
    assert [each.number for each in there.tried] == sorted(played)
    ((total, groups),) = re.findall(r"^(\d+) programs tried: (.*)$", compiled.out, re.M)
    counts = [int(count) for count in re.findall(r"(\d+) (?:on|dropped|cut)", groups)]
    assert int(total) == sum(counts) == len(played)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ""),
        (["--set", "seed=1"], "seed: there 0, now 1"),
        (["--max-rollouts", "9"], "max_rollouts: there 8, now 9"),
        (["--optimizer", "bootstrap"], "optimizer: there 'gepa', now 'bootstrap'"),
        (["--set", "memory.reflections.size=1"], "identity.config.memory.reflections.size: there 3, now 1"),
    ],
)
def test_the_same_command_again_plays_nothing_and_another_is_refused_with_the_difference(rsso, compiled, words, said):
    before = compiled.file.stat().st_mtime_ns, compiled.file.read_bytes()
    code, out, err = rsso(*COMPILE, *words, "-o", compiled.file)
    assert (code, out) == ((2, "") if words else (0, compiled.out))
    assert (said in err and "another -o" in err) if words else "holds the result already: kept" in err
    assert "[1/8]" not in err
    assert (compiled.file.stat().st_mtime_ns, compiled.file.read_bytes()) == before


@pytest.mark.parametrize(("cores", "jobs"), [(1, 1), (2, 2), (64, 8)])
def test_a_compile_plays_by_default_one_rollout_a_core_and_eight_at_most(rsso, monkeypatch, cores, jobs):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)), raising=False)
    started = []
    monkeypatch.setattr("rsso_dspy.cli.play.compile_and_print", lambda *words: started.append(words[-1]))
    assert rsso(*ONE)[0] == 0
    assert rsso(*ONE, "--jobs", "3")[0] == 0
    assert started == [jobs, 3]


OOPS = (500, {"error": {"message": "oops"}})
KEY = (401, {"error": {"message": "bad key", "type": "invalid_request_error", "code": "invalid_api_key"}})


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize(("reply", "said"), [(OOPS, "oops"), (KEY, "bad key")])
def test_a_model_that_fails_ends_the_compile_with_its_words_and_no_score(rsso, tmp_path, monkeypatch, reply, said):
    monkeypatch.setenv("TEST_PROVIDER_KEY", "sk-planted-secret")
    with provider(lambda _: reply) as served:
        keys = {"model": "openai/m", "base_url": served.url, "key_variable": "TEST_PROVIDER_KEY", "retries": 0}
        words = [word for key, value in keys.items() for word in ("--set", f"backends.mine.{key}={value}")]
        code, out, err = rsso(*ONE, "--method", "react", "--backend", "mine", *words, "--yes", "-o", "new.json")
    assert (code, out, "Traceback" in err) == (1, "", False)
    assert re.search(rf"^error: .*{said}", err, re.M)
    there = load(tmp_path / "new.json")
    assert (there.ended_by, there.improved, there.before, there.after) == ("error", False, None, None)
    assert there.tried == ()
    assert "planted" not in (tmp_path / "new.json").read_text() + err
