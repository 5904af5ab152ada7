"""The commands as a person types them: what they print, and what they say when the call is wrong."""

import errno
import json
import tomllib

import pytest

from rsso_dspy.environments.scienceworld.tasks import tasks
from rsso_dspy.store.run_folder import Store
from tests.provider_formats import Said
from tests.provider_server import provider
from tests.records import record, save

SMALL = ("run", "--methods", "react", "--variants", "lifespan-longest-lived::98", "--trials", "1", "--out", "out")
HASH = ("--set", "embedder.model=hash")
NOWHERE = ("--backend", "vllm", "--set", "backends.vllm.base_url=http://127.0.0.1:9/v1")


@pytest.fixture
def finished(tmp_path):
    """A folder with a finished run of two arms."""
    store = Store(tmp_path / "done")
    store.open({"protocol": "sso-adapt/2"}, {"sso": "1", "rsso": "2"})
    for index in (22, 25):
        save(store, record("sso", "boil", index, [[10, 20], [30]]))
        save(store, record("rsso", "boil", index, [[10, 20], [100]]))
    return str(tmp_path / "done")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tasks", "find-plnat"], "find-plant"),
        (["--tasks", "boil", "--variants", "boil::3"], "train"),
        (["--methods", "rss"], "rsso"),
        (["--methods", ","], "--methods is empty"),
        (["--backend", "antropic"], "anthropic"),
        (["--set", "protocol.trails=2"], "protocol.trials"),
        (["--per-task", "0"], "--per-task"),
        (["--seed", "99999999999999999999999"], "less than or equal to 2147483647"),
        (["--set", "protocol.frozen=true"], "add --skills FILE"),
        (["--engine", "spark", "--dry-run"], "is not one of"),
        (["--variants", "abc"], "known: first, sso. Or list variants, such as find-plant::228"),
        (["--backend", "anthropic", "--tasks", "boil"], "ANTHROPIC_API_KEY"),
    ],
)
def test_a_wrong_call_exits_2_names_the_fix_and_leaves_nothing(rsso, tmp_path, monkeypatch, words, said):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    code, _, err = rsso("run", "--out", "out", *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert words[0] == "--backend" or "plan:" not in err
    assert not (tmp_path / "out").exists()


def test_an_unreachable_endpoint_is_said_before_anything_is_played(rsso, tmp_path):
    code, _, err = rsso("run", *NOWHERE, "--tasks", "boil", "--out", "out")
    assert (code, "127.0.0.1:9" in err, (tmp_path / "out").exists()) == (1, True, False)


def test_a_dry_run_changes_nothing_and_says_what_a_run_would_say(rsso, tmp_path):
    assert rsso(*SMALL, *HASH)[0] == 0
    (unit,) = (tmp_path / "out/units/react/lifespan-longest-lived").iterdir()
    unit.write_text("{\n")
    code, _, err = rsso(*SMALL, *HASH, "--dry-run")
    assert code == 0
    assert all(text in err for text in ("to be quarantined", "0 units finished, 1 to play", "rule-based"))
    assert unit.read_text() == "{\n"
    code, _, err = rsso(*SMALL, *HASH, "--dry-run", "--set", "memory.reflections.size=1")
    assert (code, "config.memory.reflections.size: there 3, now 1" in err) == (2, True)
    code, _, err = rsso(*SMALL, *HASH)
    assert (code, "its unit is played again" in err) == (0, True)
    assert unit.with_suffix(".jsonl.damaged").read_text() == "{\n"


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(
    "words",
    [
        ["run", "--tasks", "boil", "--per-task", "1", "--out", "file/x"],
        ["compile", "--tasks", "boil", "-o", "file/x"],
        ["config", "init", "file/x"],
        ["export", "done", "-o", "file/x"],
    ],
    ids=" ".join,
)
def test_a_place_below_a_file_is_refused_with_what_is_in_the_way(rsso, tmp_path, words):
    (tmp_path / "file").write_text("mine")
    code, out, err = rsso(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "file/x cannot be written: file is a file; " in err
    assert " another " in err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(("words", "place"), [(["config", "init", "new/x"], "new/x"), (["export", "done"], "done-")])
def test_a_full_disk_is_named_by_the_place_and_nobody_speaks_of_play(rsso, monkeypatch, words, place):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rsso_dspy.files.os.fsync", full)
    code, _, err = rsso(*words)
    assert (code, "kept" in err) == (1, False)
    assert err.startswith(f"error: {place}")
    assert "No space left on device; free disk space or name another place" in err


def test_report_and_show_print_what_was_played(rsso, finished):
    code, out, _ = rsso("report", finished)
    assert code == 0
    for word in ("Mean", "Solve", "Acc100", "trial-1", "best_of_2", "rsso - sso", "+70.00", "rule-based"):
        assert word in out
    code, out, _ = rsso("show", finished, "boil::22", "--arm", "rsso", "--trial", "2")
    assert (code, "Trial 1" in out) == (0, False)
    assert "Trial 2: solved after 1 of 9 steps, accumulator 100" in out
    assert "1 > look  +100" in out


@pytest.mark.usefixtures("finished")
def test_a_look_at_a_unit_names_a_damaged_file(rsso, tmp_path):
    file = tmp_path / "done/units/rsso/boil/22-s0.jsonl"
    file.write_text("{\n")
    code, _, err = rsso("show", "done", "boil::22", "--arm", "rsso")
    first, last = err.splitlines()
    assert (code, "sso" in last) == (2, True)
    assert first.startswith("done/units/rsso/boil/22-s0.jsonl cannot be read (line 1 is no JSON object")
    assert first.endswith(": left out; the next run quarantines it")
    assert first in rsso("report", "done")[2], "in the report's own words"
    assert file.read_text() == "{\n", "a look changes nothing"


def test_tasks_lists_all_18_with_their_held_out_variants(rsso):
    code, out, _ = rsso("tasks")
    assert (code, len(tasks())) == (0, 18)
    assert all(task in out for task in tasks())
    assert "22 27 21 28 26 29 25 23 24" in " ".join(out.split())


def test_config_init_writes_a_file_that_config_show_reads(rsso, tmp_path):
    assert rsso("config", "init")[0] == 0
    tomllib.loads((tmp_path / "rsso.toml").read_text())
    code, out, _ = rsso("config", "show", "--set", "protocol.preset=reflexion/2", "--set", "protocol.trials=3")
    shown = json.loads(out)
    assert (code, shown["backend"], shown["protocol"]["steps"]) == (0, "embedded", None)
    resolved = shown["resolved_protocol"]
    assert (resolved["id"], resolved["steps"], resolved["rules"]["trials"]) == ("reflexion/2 trials=3", 49, 3)
    code, _, err = rsso("config", "init")
    assert (code, "exists" in err) == (2, True)


def test_doctor_uses_each_part_and_says_what_is_wrong(rsso):
    code, out, _ = rsso("doctor", *HASH)
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["ok"] * 3)
    code, out, _ = rsso("doctor", *NOWHERE, *HASH)
    assert (code, "failed  backend vllm" in out, "127.0.0.1:9" in out) == (1, True, True)


@pytest.mark.parametrize(("adapter", "wanted"), [("chat", "the answer alone"), ("json", '{"answer": ...}')])
def test_doctor_says_in_one_line_what_an_answer_should_have_been(rsso, monkeypatch, adapter, wanted):
    monkeypatch.setenv("RSSO_TEST_KEY", "not-a-secret")
    with provider(lambda _: Said("I'm sorry,\nI can't.")) as served:
        mine = {"model": "openai/any", "base_url": served.url, "key_variable": "RSSO_TEST_KEY", "adapter": adapter}
        settings = ["backend=mine", "embedder.model=hash", *(f"backends.mine.{k}={v}" for k, v in mine.items())]
        code, out, _ = rsso("doctor", *(word for setting in settings for word in ("--set", setting)))
    assert (code, [each.split()[0] for each in out.splitlines()]) == (1, ["ok", "ok", "failed"])
    (line,) = (line for line in out.splitlines() if "backend mine" in line)
    assert f"\"I'm sorry,\\nI can't.\", which cannot be parsed: adapter {adapter} expects {wanted}" in line
    assert f"--set backends.mine.adapter={adapter}" not in line
    for fix in ("--set backends.mine.adapter=", "--set backends.mine.max_tokens=2048", "another model"):
        assert fix in line
