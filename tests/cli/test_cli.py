"""The commands as a person types them: what they print, and what they say when the call is wrong."""

import json
import tomllib

import pytest

from tests.provider_formats import Said
from tests.provider_server import provider

SMALL = ("run", "--methods", "react", "--variants", "lifespan-longest-lived::98", "--trials", "1", "--out", "out")
HASH = ("--set", "embedder.model=hash")
NOWHERE = ("--backend", "vllm", "--set", "backends.vllm.base_url=http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tasks", "find-plnat"], "find-plant"),
        (["--tasks", "boil", "--variants", "boil::3"], "train"),
        (["--methods", ","], "--methods is empty"),
        (["--backend", "antropic"], "anthropic"),
        (["--set", "protocol.trails=2"], "protocol.trials"),
        (["--seed", "99999999999999999999999"], "less than or equal to 2147483647"),
        (["--set", "protocol.frozen=true"], "add --skills FILE"),
        (["--set", "run.engine=spark"], "run.engine"),
        (["--variants", "abc"], "known: first, sso. Or list variants, such as find-plant::229"),
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


@pytest.mark.usefixtures("at_hand")
def test_without_options_a_small_run_is_played_and_says_what_is_next(rsso, monkeypatch, tmp_path):
    code, _, err = rsso("run", "--dry-run")
    assert (code, "2 arms x 2 variants = 4 units, 3 trials each, protocol adapt/4 trials=3" in err) == (0, True), err
    assert ("a small run is played" in err, "into runs/small" in err) == (True, True)
    one = {"methods": "react", "tasks": "lifespan-longest-lived", "per_task": 1, "trials": 1}
    monkeypatch.setattr("rsso_dspy.cli.run.SMALL", one)
    code, out, _ = rsso("run")
    assert (code, "That was a small run" in out, (tmp_path / "runs/small/run.json").exists()) == (0, True, True)
    (tmp_path / "rsso.toml").write_text("seed = 7\n")
    assert "4 arms x " in rsso("run", "--dry-run")[2], "a file names what to play"


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


def test_config_init_writes_a_file_that_config_show_reads(rsso, tmp_path):
    assert rsso("config", "init")[0] == 0
    tomllib.loads((tmp_path / "rsso.toml").read_text())
    code, out, _ = rsso("config", "show", "--set", "protocol.preset=reflexion/3", "--set", "protocol.trials=3")
    shown = json.loads(out)
    assert (code, shown["backend"], shown["protocol"]["steps"]) == (0, "embedded", None)
    resolved = shown["resolved_protocol"]
    assert (resolved["id"], resolved["steps"], resolved["rules"]["trials"]) == ("reflexion/3 trials=3", 49, 3)
    code, _, err = rsso("config", "init")
    assert (code, "exists" in err) == (2, True)


def test_doctor_uses_each_part_and_says_what_is_wrong(rsso, monkeypatch):
    monkeypatch.setenv("RSSO_TEST_KEY", "not-a-secret")
    code, out, _ = rsso("doctor", *HASH)
    assert (code, [line.split()[0] for line in out.splitlines()]) == (0, ["ok"] * 3)
    code, out, _ = rsso("doctor", *NOWHERE, *HASH)
    assert (code, "failed  backend vllm" in out, "127.0.0.1:9" in out) == (1, True, True)
    with provider(lambda _: Said("I'm sorry,\nI can't.")) as served:
        mine = {"model": "openai/any", "base_url": served.url, "key_variable": "RSSO_TEST_KEY", "adapter": "json"}
        settings = ["backend=mine", *(f"backends.mine.{key}={value}" for key, value in mine.items())]
        _, out, _ = rsso("doctor", *HASH, *(word for setting in settings for word in ("--set", setting)))
    (line,) = (line for line in out.splitlines() if line.startswith("failed  backend mine"))
    assert "\"I'm sorry,\\nI can't.\", which adapter json cannot parse. Try --set backends.mine.adapter=chat; " in line
