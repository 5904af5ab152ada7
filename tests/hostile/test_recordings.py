"""A run of a real model, recorded, replays without it: the same bytes, or a miss that says which request is missing."""

import gzip
import json
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import dspy
import pytest

from rsso_dspy.cli import main
from rsso_dspy.config import EmbedderConfig, load_config
from rsso_dspy.embedders import Embedder
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import MissingKey, NotRecorded, Stopped, UsageError
from rsso_dspy.experiment.tapes import about_of, recordings_beside
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.lm import Backend
from rsso_dspy.lm.recording import Packer, Tape
from rsso_dspy.lm.replaying import Replay
from rsso_dspy.recordings import Exchange, Recordings, members, text_of
from rsso_dspy.store.merge_runs import merge_shards
from rsso_dspy.store.taping import Taping, name_of
from rsso_dspy.store.unit_store import Store
from tests.chaos.process import Process, python
from tests.chaos.setup import scripted
from tests.cli.conftest import at_hand, rsso
from tests.embedding_server import embedding_server
from tests.hostile.played import PATIENCE, VARIANT, Model, counting
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, Run, run_against
from tests.provider_server import Provider, provider
from tests.records import record
from tests.store.test_store import IDENTITY

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


def exchanges_of(folder: Path) -> list[Exchange]:
    return [
        exchange
        for file in sorted((folder / "recordings").rglob("*.gz"))
        for member in members(file.read_bytes())
        for exchange in member.exchanges
    ]


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
def test_a_conversation_replays_to_the_same_bytes_and_show_has_it_as_it_was_sent(tmp_path, rsso):
    talk = ("run", "--methods", "react", "--variants", "lifespan-longest-lived::98", "--trials", "1", *FAST)
    talk += ("--set", "protocol.layout=append")
    assert rsso(*talk, "--record", "--out", tmp_path / "first")[0] == 0
    code, _, err = rsso(*talk, "--replay", tmp_path / "first", "--record", "--out", tmp_path / "again")
    assert code == 0, err
    assert records(tmp_path / "again") == records(tmp_path / "first")
    kept = [exchange.request["messages"] for exchange in exchanges_of(tmp_path / "first")]
    assert exchanges_of(tmp_path / "again") == exchanges_of(tmp_path / "first")
    assert len(kept) > 1
    for before, after in pairwise(kept):
        assert after[: len(before)] == before
    _, out, _ = rsso("show", tmp_path / "first", "lifespan-longest-lived::98", "--prompts")
    shown = " ".join(out.split())
    assert all(" ".join(message["content"].split()) in shown for message in kept[-1])


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
    "another prompt": (["--set", "protocol.layout=cache"], r"trial 1, step 1: no request like this one"),
    "other decoding": (["--set", "backends.mine.temperature=0.25"], r"- temperature: 0.5\s+\+ temperature: 0.25"),
    "another variant": (["--variants", "lifespan-longest-lived::111"], "is not among the 1 recorded ones"),
    "one trial more": (["--trials", "3"], r"trial 2, step \d+: nothing was recorded in this role"),
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
    assert "Nothing was played on" in err or "drop --replay" in err
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
def test_every_provider_is_recorded_and_replayed(wire, live, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with run_against(live, wire, tmp_path / "run", {2: "overloaded"}, retries=1) as run:
        record_all(run)
        run.play(units=1)
    assert not any(each.has_errors for each in run.records)
    assert replayed(run, tmp_path / "again") == records(tmp_path / "run")


def test_a_trial_that_ended_in_an_error_replays_to_that_error(live, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with run_against(live, "openai", tmp_path / "run", {2: "bad request"}) as run:
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
    UnitRunner(player.live, store, player.programs, player.provenance, source=source).run_job(
        run.plan, run.plan.units[0]
    )
    return records(out)


# What is built before a run


BUILDS = {
    "program": ["compile", "--method", "react", "--optimizer", "copro", "--max-rollouts", "3", "--compile-steps", "3"],
    "constitution": ["constitution", "build", "--explore", "1"],
    "run with trainings": [
        "run",
        "--methods",
        "reflexion",
        "--setting",
        "transfer",
        "--train-per-task",
        "1",
        "--per-task",
        "1",
    ],
}


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("what", BUILDS)
def test_what_is_built_replays_too(what, tmp_path, rsso):
    words = (*BUILDS[what], "--tasks", "lifespan-longest-lived", *FAST[:4])
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
    code, _, err = rsso(*words, "--set", "protocol.layout=cache", "--replay", f"{first}.recordings", place, changed)
    assert code == 1
    assert "not recorded: actor of" in err


# What carries them along


@pytest.mark.usefixtures("at_hand")
def test_a_fork_takes_them_along(recorded, tmp_path, rsso):
    words = (*RUN, *FAST, "--set", "memory.constitution.s_freq=3", "--replay", recorded.folder)
    code, _, err = rsso(*words, "--fork", recorded.folder, "--out", tmp_path / "fork")
    assert code == 0, err
    assert "1 record of" in err
    assert exchanges_of(tmp_path / "fork") == exchanges_of(recorded.folder)


def test_merging_takes_them_along(tmp_path):
    parts = []
    for index in (22, 23):
        store, unit = Store(tmp_path / str(index)), record("rsso", "boil", index, [[10]])
        store.open(IDENTITY, {"rsso": "1"})
        store.open_recordings({"kind": "any"})
        store.add_recording(name_of(unit), 1, member(1, f"unit {index}"))
        store.save(unit)
        parts.append(store.folder)
    whole = Store(tmp_path / "whole")
    merge_shards(parts, whole)
    assert whole.recorded
    assert [each.text for each in exchanges_of(whole.folder)] == ["unit 22", "unit 23"]


# What is in a file


def request(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "parameters": {"temperature": 0.5}}


def said(text: str, asked: str = "What?", step: int = 1, role: str = "actor") -> Exchange:
    return Exchange(role, request(asked), step, [text])


def member(trial: int, *texts: str) -> bytes:
    tape = Tape(keeps=True)
    for text in texts:
        tape.put(said(text))
    return tape.take(trial)


def test_an_answer_asked_twice_is_there_twice():
    replay = Replay("units/sso/boil/22-s0", {1: [said("one"), said("else", "Else?"), said("two")], 2: [said("three")]})
    found = [replay.find(trial, 0, 1, "actor", request("What?")).text for trial in (1, 1, 2)]
    assert found == ["one", "two", "three"]
    with pytest.raises(NotRecorded, match="asked 3 times, and 2 answers to it are recorded"):
        replay.find(1, 0, 5, "actor", request("What?"))
    assert replay.find(1, 1, 1, "actor", request("What?")).text == "one", "an attempt at a trial begins anew"
    with pytest.raises(NotRecorded, match="nothing was recorded in this role"):
        replay.find(1, 0, 5, "reflector", request("What?"))
    with pytest.raises(NotRecorded, match=r"not among the recorded ones \(1, 2\)"):
        replay.find(3, 0, 1, "actor", request("What?"))


def test_a_trial_that_is_played_again_is_kept_once():
    tape = Tape(keeps=True)
    tape.put(said("lost with its simulator"), attempt=0)
    tape.put(said("kept"), attempt=1)
    (only,) = members(tape.take(1))
    assert [each.text for each in only.exchanges] == ["kept"]
    odd = said("next \ud800 \u00fc", "What \ud800?")
    tape.put(odd)
    (only,) = members(tape.take(2))
    assert only.exchanges == [odd]
    assert only.exchanges[0].key == odd.key


def test_lines_that_tell_of_no_exchange_are_read_past():
    packer = Packer()
    for entry in (
        {"request": {}},
        [],
        {**asdict(said("x")), "failed": 7},
        {**asdict(said("y")), "request": {"messages": [1]}},
    ):
        packer.add(json.dumps(entry))
    packer.add(json.dumps(asdict(said("sound"))))
    (only,) = members(packer.close(1))
    assert [each.text for each in only.exchanges] == ["sound"]


def test_outside_of_a_run_recordings_answer_nothing_and_nothing_is_sent(recorded, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    config = load_config(overrides=["backend=replay", f"backends.replay.replay={recorded.folder}"])
    assert config.backend == "mine"
    with pytest.raises(UsageError, match="openai/m is not asked"):
        Backend(config.active_backend).lm("actor", 0)("hello")


WHOLE = member(1, "a"), member(2, "b")
CUTS = {
    "a trial too many": (WHOLE[0] + WHOLE[1], 1, [1]),
    "cut off": (WHOLE[0] + WHOLE[1][:-5], 2, [1]),
    "cut off in the first": (WHOLE[0][:-1], 0, None),
    "damaged": (b"no gzip", 1, None),
    "begun anew": (WHOLE[0], 0, None),
    "whole": (WHOLE[0] + WHOLE[1], 2, [1, 2]),
}


@pytest.mark.parametrize("case", CUTS)
def test_what_is_given_up_or_cut_off_is_no_longer_there(case, tmp_path):
    data, keep, left = CUTS[case]
    files = Taping(tmp_path)
    file = tmp_path / "recordings/units/a.jsonl.gz"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    files.cut_recording("units/a", keep)
    assert ((file.exists() and [each.trial for each in members(file.read_bytes())]) or None) == left
    files.add_recording("units/a", 3, member(3, "c"))
    assert [each.trial for each in members(file.read_bytes())] == [*(left or []), 3]


def test_what_does_not_fit_is_left_out_and_said(tmp_path):
    files = Taping(tmp_path)
    files.open_recordings({"kind": "any"})
    files.most_recorded = len(member(1, "a")) + 10
    for trial in (1, 2):
        files.add_recording("units/a", trial, member(trial, "a"))
    files.most_recorded *= 10
    files.add_recording("units/a", 3, member(3, "a"))
    files.add_recording("units/b", 1, member(1, "b"))
    assert files.trials_left_out() == 2
    source = Recordings(files.recordings)
    assert [list(source.trials(name)) for name in ("units/a", "units/b")] == [[1], [1]]
    files.cut_recording("units/a", 0)
    with pytest.raises(NotRecorded, match="which it was too large for"):
        source.trials("units/a")


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


def test_recordings_beside_nothing_are_none(tmp_path, live):
    assert recordings_beside(tmp_path / "x.json", False, live, record=False) is None


def test_vectors_of_a_server_are_kept_and_answer_in_its_place(monkeypatch):
    """Each text once, whoever knew it before; a trial that is played again keeps those of the first attempt."""
    monkeypatch.setenv(VARIABLE, KEY)
    tape = Tape(keeps=True)
    with embedding_server() as server:
        about = {"model": "litellm/openai/m", "base_url": server.url, "key_variable": VARIABLE}
        embed = Embedder(EmbedderConfig(**about, cache=False, retries=0))
        early = embed(["a door"])
        with dspy.context(tape=tape):
            first = embed(["a door", "a lamp"])
            tape.put(said("x"), attempt=1)
            embed(["a lamp"])
    assert server.texts == ["a door", "a lamp"]
    data = tape.take(1)
    kept = [each for member_ in members(data) for each in member_.exchanges]
    assert [text_of(each.request["messages"][0]["content"]) for each in kept] == ["What?", "a door", "a lamp"]
    with dspy.context(tape=tape):
        embed(["a lamp"])
    assert b"a lamp" not in gzip.decompress(tape.take(2))

    monkeypatch.delenv(VARIABLE)
    replay = Replay("u", {member_.trial: member_.exchanges for member_ in members(data)})
    other = Embedder(embed.config)
    other.check(replayed=True)
    with dspy.context(tape=Tape(replay)):
        assert other(["a lamp", "a door"]).tobytes() == first[::-1].tobytes()
        assert other(["a door"]).tobytes() == early.tobytes()
        with pytest.raises(Stopped) as stopped:
            other(["a bird"])
    assert "vector of a text" in str(stopped.value.__cause__)
    older = Replay("u", {1: [said("x")]})
    with dspy.context(tape=Tape(older)), pytest.raises(MissingKey):
        Embedder(embed.config)(["a lamp"])
