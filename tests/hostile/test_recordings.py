"""A run of a real model, recorded, replays without it: the same bytes, or a miss that says which request is missing."""

import gzip
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rsso_dspy.experiment.tapes import about_of
from rsso_dspy.recordings import Recordings, members

from rsso_dspy.cli import main
from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.session import session
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.lm import Backend
from rsso_dspy.store.run_folder import Store
from tests.chaos.process import Process, python
from tests.chaos.setup import scripted
from tests.cli.conftest import at_hand, rsso
from tests.hostile.played import PATIENCE, VARIANT, Model, counting
from tests.hostile.test_recording_files import exchanges_of
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, Run, run_against
from tests.provider_server import Provider, provider

__all__ = ["at_hand", "rsso"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

RUN = ("run", "--methods", "rsso", "--variants", "lifespan-longest-lived::98", "--trials", "2")
FAST = ("--protocol", "sso-adapt/1-cap60", "--set", "embedder.model=hash", "--set", "protocol.stop_on_success=false")


@dataclass(frozen=True)
class Recorded:
    """A run that was recorded against a server that is gone."""

    folder: Path
    served: Provider
    asked: int
    """Requests that the server had."""


def settings(served: Provider) -> list[str]:
    about = {"model": "openai/m", "base_url": served.url, "key_variable": VARIABLE, "temperature": 0.5}
    about |= {"longest_wait": 0.01, "seed": "true"}
    words = [f"backends.mine.{name}={value}" for name, value in about.items()]
    return ["--backend", "mine", *(word for each in words for word in ("--set", each))]


def records(folder: Path) -> dict[str, bytes]:
    found = [*folder.glob("units/*/*/*.json"), *folder.glob("trainings/*/*/*.json")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in found}


@contextmanager
def one_simulator(env: ScienceWorld) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(env, "close", lambda: None)
        patch.setattr("rsso_dspy.environments.scienceworld.benchmark.ScienceWorld", lambda **_: env)
        yield patch


@pytest.fixture(scope="module")
def recorded(env: ScienceWorld, tmp_path_factory) -> Recorded:
    """Two trials; the third request meets a server that is overloaded, and one answer quotes the key."""
    folder = tmp_path_factory.mktemp("recorded") / "run"

    def answer(body: dict[str, Any]) -> Said:
        said = scripted(body)
        return Said(said.text.replace("I will", f"({KEY}) I will"), said.input, said.output)

    with one_simulator(env) as patch, provider(answer, {3: "overloaded"}) as served:
        patch.setenv(VARIABLE, KEY)
        words = [*RUN, *FAST, *settings(served), "--record", "--out", str(folder)]
        patch.setattr("sys.argv", ["rsso-dspy", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    assert len(served.inflicted) == 1
    return Recorded(folder, served, len(served.requests))


# A run


def test_every_exchange_is_kept_as_it_was_sent_and_answered(recorded):
    kept = exchanges_of(recorded.folder)
    assert len(kept) == recorded.served.given == recorded.asked - 1
    sent = [body for number, body in enumerate(recorded.served.requests, start=1) if number != 3]
    for exchange, body in zip(kept, sent, strict=True):
        assert exchange.request["messages"] == json.loads(json.dumps(body["messages"]).replace(KEY, "***"))
        assert exchange.request["parameters"]["seed"] == body["seed"]
        assert exchange.model == "m"
        assert exchange.usage[0]["prompt_tokens"] > 0
        assert exchange.seconds > 0
    assert [each.failed[0][0] for each in kept if each.failed] == ["LMServerError"]
    assert {each.role for each in kept} == {"actor", "reflector"}


def test_the_key_is_in_no_file(recorded):
    for file in recorded.folder.rglob("*"):
        if file.is_file():
            data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
            assert KEY.encode() not in data, file
            assert VARIABLE.encode() not in data or "given" in file.parts


@pytest.mark.usefixtures("at_hand")
def test_it_replays_with_the_server_gone_to_the_same_bytes(recorded, tmp_path, rsso, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    code, _, err = rsso(*RUN, *FAST, "--replay", recorded.folder, "--out", tmp_path / "again", "--record")
    assert code == 0, err
    assert records(tmp_path / "again") == records(recorded.folder)
    assert "replay" in (tmp_path / "again/run.log.jsonl").read_text()
    assert exchanges_of(tmp_path / "again") == exchanges_of(recorded.folder)
    code, out, err = rsso("reproduce", tmp_path / "again", "--run", "--replay")
    assert code == 0, err
    assert "1 of 1 records are equal" in out
    assert "rsso lifespan-longest-lived::98: equal" in out
    assert not list(tmp_path.glob("*-again"))
    assert len(recorded.served.requests) == recorded.asked


@pytest.mark.usefixtures("at_hand")
def test_it_is_shipped_as_a_file(recorded, tmp_path, rsso):
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for file in recorded.folder.rglob("*"):
            archive.write(file, f"demo/{file.relative_to(recorded.folder)}")
    code, out, err = rsso("reproduce", tmp_path / "run.zip", "--run", "--replay")
    assert code == 0, err
    assert "1 of 1 records are equal" in out


@pytest.mark.usefixtures("at_hand")
def test_a_record_that_was_changed_is_named(recorded, tmp_path, rsso):
    folder = shutil.copytree(recorded.folder, tmp_path / "run")
    (file,) = folder.glob("units/*/*/*.json")
    file.write_text(file.read_text().replace('"reasoning":"', '"reasoning":"Hm. ', 1))
    code, out, _ = rsso("reproduce", folder, "--run", "--replay")
    assert code == 1
    assert "0 of 1 records are equal" in out
    assert "trials.0.trajectory.steps.0.reasoning is" in out


MISSES = {
    "another prompt": (["--set", "protocol.interface=complete"], r"trial 1, step 1: this request was not recorded"),
    "other decoding": (["--set", "backends.mine.temperature=0.25"], r"- temperature: 0.5\s+\+ temperature: 0.25"),
    "another variant": (["--variants", "lifespan-longest-lived::111"], "is not among the 1 recorded ones"),
    "one trial more": (["--trials", "3"], r"trial 2, step \d+: no request of this role was recorded"),
}


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("case", MISSES)
def test_what_was_not_recorded_is_named_and_nothing_is_played_on(case, recorded, tmp_path, rsso, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    more, said = MISSES[case]
    named = settings(recorded.served) if "decoding" in case else []
    out = tmp_path / "out"
    code, _, err = rsso(*RUN, *FAST, *named, *more, "--replay", recorded.folder, "--out", out)
    assert code == 1
    assert re.search(said, err), err
    assert "The run stopped here" in err or "drop --replay" in err
    assert not records(out)
    assert len(recorded.served.requests) == recorded.asked


def test_a_folder_without_recordings_is_refused(tmp_path, rsso, run):
    for words in [(*RUN, "--replay", run, "--out", tmp_path / "out"), ("reproduce", run, "--run", "--replay")]:
        code, _, err = rsso(*words)
        assert code == 2
        assert "holds no recordings" in err
    code, _, err = rsso(*RUN, "--backend", "replay")
    assert code == 2
    assert "--replay DIR" in err


# Kills


KILLED = """
import os, signal
from rsso_dspy.lm.replaying import Replay
find, left = Replay.find, iter(range({answers}))
def killing(self, *asked):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return find(self, *asked)
Replay.find = killing
from rsso_dspy.cli import main
main()
"""


@pytest.mark.usefixtures("at_hand")
def test_a_kill_while_it_is_recorded_and_a_kill_while_it_is_replayed(tmp_path, rsso):
    order = ("run", "--methods", "reflexion", "--variants", VARIANT, "--trials", "2")
    folder, again = tmp_path / "run", tmp_path / "again"
    with counting() as model:
        kill_in_the_second_trial(model, folder)
        assert model.start(*order, "--record", "--out", folder).wait(PATIENCE) == -9
        assert len(trials(folder)) == 1
        (file,) = (folder / "recordings").rglob("*.gz")
        with file.open("ab") as torn:
            torn.write(gzip.compress(b"half of what a kill cut off")[:-9])
        model.before = lambda: None
        assert rsso(*order, *model.settings, "--out", folder)[0] == 0, "it goes on recording without being told"
        settings = model.settings[2:]
    assert trials(folder) == [1, 2]
    words = [*order, *settings, "--replay", str(folder), "--out", str(again)]  # the server is gone
    process = Process(python(KILLED.format(answers=len(exchanges_of(folder)) - 1), *words), {})
    assert process.wait(PATIENCE) == -9, process.said
    assert not records(again)
    assert list(again.glob("started/units/*/*/*.json"))
    assert rsso(*words)[0] == 0
    assert records(again) == records(folder)


def kill_in_the_second_trial(model: Model, folder: Path) -> None:
    asked = []

    def before() -> None:
        if list(folder.glob("started/units/*/*/*.json")):
            asked.append(model.given)
        if len(asked) == 3:
            model.kill()

    model.before = before


def trials(folder: Path) -> list[int]:
    (file,) = (folder / "recordings").rglob("*.gz")
    return [member.trial for member in members(file.read_bytes())]


# Every provider, every fault


@pytest.mark.parametrize("wire", WIRES)
def test_every_provider_is_recorded_and_replayed(wire, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    trials = ("protocol.trials=2",)
    with run_against(wire, tmp_path / "run", {2: "overloaded"}, settings=trials, retries=1, temperature=0.0) as run:
        record_all(run)
        run.play(units=1)
    assert [trial.sent["actor"]["temperature"] for each in run.records for trial in each.trials] == [0, 0.7]
    assert not any(each.has_errors for each in run.records)
    assert replayed(run, tmp_path / "again") == records(tmp_path / "run")


def test_a_trial_that_ended_in_an_error_replays_to_that_error(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with run_against("openai", tmp_path / "run", {2: "bad request"}) as run:
        record_all(run)
        run.play(units=1)
    (played,) = run.records
    assert played.has_errors
    assert replayed(run, tmp_path / "again") == records(tmp_path / "run")


def record_all(run: Run) -> None:
    run.executor.player.records = True
    run.store.open_recordings(about_of(run.executor.player.live.config))


def replayed(run: Run, out: Path) -> dict[str, bytes]:
    """The records of the same run, from its recordings: its server is gone."""
    store, player = Store(out), run.executor.player
    store.open(run.store.read_identity()[0])
    source = Recordings.of(run.store.folder)
    with session(player.live.config) as live:
        again = UnitRunner(live, store, player.programs, player.provenance, source=source)
        again.run_job(run.plan, run.plan.units[0])
    return records(out)


# What is built before a run


BUILDS = {
    "program": "compile --method react --optimizer gepa --max-rollouts 4 --compile-steps 3",
    "constitution": "constitution build --explore 1",
    "run with trainings": "run --methods reflexion --setting transfer --train-per-task 1 --per-task 1",
}


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("what", BUILDS)
def test_what_is_built_replays_too(what, tmp_path, rsso):
    words = (*BUILDS[what].split(), "--tasks", "lifespan-longest-lived", *FAST[:4])
    place = "--out" if "run" in what else "-o"
    first, second = (tmp_path / f"{name}.json" for name in ("first", "second"))
    code, _, err = rsso(*words, "--record", place, first)
    assert code == 0, err
    code, _, err = rsso(*words, "--replay", first, place, second)
    assert code == 0, err
    if "run" in what:
        assert records(second) == records(first)
        return
    assert second.read_text() == first.read_text()
    first.unlink()
    code, _, err = rsso(*words, "--record", place, first)
    assert code == 2
    assert "recordings of another build" in err
    changed = tmp_path / "changed.json"
    code, _, err = rsso(
        *words, "--set", "protocol.interface=complete", "--replay", f"{first}.recordings", place, changed
    )
    assert code == 1
    assert "not recorded: actor of" in err


# Outside of a run


def test_outside_of_a_run_recordings_answer_nothing_and_nothing_is_sent(recorded, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    config = load_config(overrides=["backend=replay", f"backends.replay.replay={recorded.folder}"])
    assert config.backend == "mine"
    with pytest.raises(UsageError, match="openai/m is not called"):
        Backend(config.active_backend).lm("actor", 0)("hello")


def test_it_can_be_read_with_what_is_at_hand(recorded):
    (file,) = (recorded.folder / "recordings").rglob("*.gz")
    lines = subprocess.run(["gzip", "-dc", file], capture_output=True, check=True).stdout.splitlines()
    assert [json.loads(line).get("trial") for line in lines if b'"trial"' in line[:40]] == [1, 2]


# Who shows them


def test_show_prints_what_was_sent_and_what_came_back(recorded, rsso):
    code, out, _ = rsso("show", recorded.folder, "lifespan-longest-lived::98", "--prompts", "--trial", "1")
    assert code == 0
    first = exchanges_of(recorded.folder)[0]
    system, user = (each["content"] for each in first.request["messages"])
    for text in (system, user, first.text):
        assert all(f"      {line}".rstrip() in out for line in text.splitlines())
    assert "[sent, actor] openai/m; max_tokens 1024" in out
    assert "[answered, m," in out


def test_the_page_holds_what_was_sent_and_what_came_back(recorded, tmp_path, rsso):
    from tests.report.test_page import opened

    code, _, err = rsso("report", recorded.folder, "--html", tmp_path / "page.html")
    assert code == 0, err
    data = opened((tmp_path / "page.html").read_text(encoding="utf-8"), 0)
    shown = [each for trial in data["trials"] for each in trial["exchanges"]]
    kept = exchanges_of(recorded.folder)
    assert len(shown) == len(kept)

    def whole(parts: list[int]) -> str:
        return "\n\n".join(data["texts"][part] for part in parts)

    assert [whole(each["messages"][1][1]) for each in shown if each["role"] == "actor"] == [
        each.request["messages"][1]["content"] for each in kept if each.role == "actor"
    ]
    assert {whole(each["answer"]) for each in shown} == {each.text for each in kept}
