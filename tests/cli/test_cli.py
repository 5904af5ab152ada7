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
    ],
)
def test_a_wrong_call_exits_2_names_the_fix_and_leaves_nothing(rsso, tmp_path, words, said):
    code, _, err = rsso("run", "--out", "out", *words)
    assert code == 2
    assert said in err
    assert "Traceback" not in err
    assert "plan:" not in err
    assert not (tmp_path / "out").exists()


def test_a_dry_run_changes_nothing_and_says_what_a_run_would_say(rsso, tmp_path):
    small = [
        "run",
        "--methods",
        "react",
        "--tasks",
        "lifespan-longest-lived",
        "--variants",
        "lifespan-longest-lived::98",
        "--trials",
        "1",
    ]
    small += ["--set", "embedder.model=hash", "--out", "out"]
    assert rsso(*small)[0] == 0
    (unit,) = (tmp_path / "out/units/react/lifespan-longest-lived").iterdir()
    unit.write_text("{\n")
    code, _, err = rsso(*small, "--dry-run")
    assert code == 0
    assert "to be quarantined" in err
    assert "0 units finished, 1 to play" in err
    assert "rule-based" in err
    assert unit.read_text() == "{\n"
    code, _, err = rsso(*small, "--dry-run", "--set", "memory.reflections.size=1")
    assert code == 2
    assert "config.memory.reflections.size: there 3, now 1" in err
    code, _, err = rsso(*small)
    assert code == 0
    assert "its unit is played again" in err
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
    assert (code, out) == (2, "")
    assert "file/x cannot be written: file is a file; " in err
    assert " another " in err
    assert err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(("words", "place"), [(["config", "init", "new/x"], "new/x"), (["export", "done"], "done-")])
def test_a_full_disk_is_named_by_the_place_and_nobody_speaks_of_play(rsso, monkeypatch, words, place):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rsso_dspy.files.os.fsync", full)
    code, _, err = rsso(*words)
    assert code == 1
    assert err.startswith(f"error: {place}")
    assert "No space left on device; free disk space or name another place" in err
    assert "kept" not in err


def test_gold_lengths_outside_the_shipped_table_are_announced(rsso, tmp_path, monkeypatch):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path / "cache"))
    words = [
        "run",
        "--dry-run",
        "--tasks",
        "lifespan-longest-lived",
        "--variants",
        "lifespan-longest-lived::124",
        "--out",
        "out",
    ]
    assert "computing the gold length of lifespan-longest-lived::124 (1/1)" in rsso(*words)[2]
    assert "computing" not in rsso(*words)[2]


def test_a_missing_key_is_said_before_anything_is_played(rsso, tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    code, _, err = rsso("run", "--backend", "anthropic", "--tasks", "boil", "--out", "out")
    assert code == 2
    assert "ANTHROPIC_API_KEY" in err
    assert not (tmp_path / "out").exists()


def test_an_unreachable_endpoint_is_said_before_anything_is_played(rsso, tmp_path):
    address = "backends.vllm.base_url=http://127.0.0.1:9/v1"
    code, _, err = rsso("run", "--backend", "vllm", "--set", address, "--tasks", "boil", "--out", "out")
    assert code == 1
    assert "127.0.0.1:9" in err
    assert not (tmp_path / "out").exists()


def test_report_prints_the_tables(rsso, finished):
    code, out, _ = rsso("report", finished)
    assert code == 0
    for word in ("Mean", "Solve", "Acc100", "trial-1", "best_of_2", "rsso - sso", "+70.00", "rule-based"):
        assert word in out


@pytest.mark.usefixtures("finished")
def test_a_look_at_a_unit_names_a_damaged_file(rsso, tmp_path):
    (tmp_path / "done/units/rsso/boil/22-s0.jsonl").write_text("{\n")
    code, _, err = rsso("show", "done", "boil::22", "--arm", "rsso")
    assert code == 2
    first, last = err.splitlines()
    assert first.startswith("done/units/rsso/boil/22-s0.jsonl cannot be read (line 1 is no JSON object")
    assert first.endswith(": left out; the next run quarantines it")
    assert first in rsso("report", "done")[2], "in the report's own words"
    assert "sso" in last
    assert (tmp_path / "done/units/rsso/boil/22-s0.jsonl").read_text() == "{\n", "a look changes nothing"


def test_show_prints_a_unit_step_by_step(rsso, finished):
    code, out, _ = rsso("show", finished, "boil::22", "--arm", "rsso", "--trial", "2")
    assert code == 0
    assert "Trial 2: solved after 1 of 9 steps, accumulator 100" in out
    assert "Trial 1" not in out
    assert "1 > look  +100" in out


def test_tasks_lists_all_18_with_their_held_out_variants(rsso):
    code, out, _ = rsso("tasks")
    assert code == 0
    assert len(tasks()) == 18
    assert all(task in out for task in tasks())
    assert "22 27 21 28 26 29 25 23 24" in " ".join(out.split())


def test_config_init_writes_a_file_that_config_show_reads(rsso, tmp_path):
    assert rsso("config", "init")[0] == 0
    tomllib.loads((tmp_path / "rsso.toml").read_text())
    code, out, _ = rsso("config", "show", "--set", "protocol.preset=reflexion/2", "--set", "protocol.trials=3")
    shown = json.loads(out)
    assert code == 0
    assert (shown["backend"], shown["protocol"]["steps"]) == ("embedded", None)
    resolved = shown["resolved_protocol"]
    assert resolved["id"] == "reflexion/2 trials=3"
    assert (resolved["steps"], resolved["rules"]["trials"], resolved["rules"]["stop_on_success"]) == (49, 3, True)
    code, _, err = rsso("config", "init")
    assert code == 2
    assert "exists" in err


def test_doctor_uses_each_part_and_says_what_is_wrong(rsso):
    code, out, _ = rsso("doctor", "--set", "embedder.model=hash")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["ok"] * 3
    code, out, _ = rsso(
        "doctor",
        "--backend",
        "vllm",
        "--set",
        "backends.vllm.base_url=http://127.0.0.1:9/v1",
        "--set",
        "embedder.model=hash",
    )
    assert code == 1
    assert "failed  backend vllm" in out
    assert "127.0.0.1:9" in out


@pytest.mark.parametrize(("adapter", "wanted"), [("chat", "the answer alone"), ("json", '{"answer": ...}')])
def test_doctor_says_in_one_line_what_an_answer_should_have_been(rsso, monkeypatch, adapter, wanted):
    monkeypatch.setenv("RSSO_TEST_KEY", "not-a-secret")
    with provider(lambda _: Said("I'm sorry,\nI can't.")) as served:
        mine = {"model": "openai/any", "base_url": served.url, "key_variable": "RSSO_TEST_KEY", "adapter": adapter}
        settings = ["backend=mine", "embedder.model=hash", *(f"backends.mine.{k}={v}" for k, v in mine.items())]
        code, out, _ = rsso("doctor", *(word for setting in settings for word in ("--set", setting)))
    assert code == 1
    (line,) = (line for line in out.splitlines() if "backend mine" in line)
    assert f"\"I'm sorry,\\nI can't.\", which cannot be parsed: adapter {adapter} expects {wanted}" in line
    assert f"--set backends.mine.adapter={adapter}" not in line
    for fix in ("--set backends.mine.adapter=", "--set backends.mine.max_tokens=2048", "another model"):
        assert fix in line
    assert [each.split()[0] for each in out.splitlines()] == ["ok", "ok", "failed"]
