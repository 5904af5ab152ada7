"""A run keeps every call to a model, and replays without the models: equal records, or the missing request is named."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.calls import Call, CallLines
from rsso_dspy.cli import main
from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import UsageError
from rsso_dspy.executor import UnitRunner
from rsso_dspy.lm import Backend
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store, find_logs
from rsso_dspy.store.unit_log import UnitLog
from tests.chaos.process import Process, python
from tests.chaos.setup import scripted
from tests.cli.conftest import at_hand, rsso
from tests.hostile.played import PATIENCE, VARIANT, counting
from tests.live import says
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, Run, run_against
from tests.provider_server import Provider, provider

__all__ = ["at_hand", "rsso"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

RUN = ("run", "--methods", "rsso", "--variants", "lifespan-longest-lived::98", "--trials", "2")
FAST = (
    "--set",
    "protocol.preset=sso-adapt/1-cap60",
    "--set",
    "embedder.model=hash",
    "--set",
    "protocol.stop_on_success=false",
)


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


def records(folder: Path) -> list[UnitRecord | TrainingRecord]:
    store = Store(folder, read_only=True)
    return [*store.trainings(), *store.units()] if store.exists else []


def read_logs(folder: Path) -> list[UnitLog]:
    paths = [path for kind in ("units", "trainings") for path in sorted(find_logs(folder / kind))]
    return [UnitLog(path.read_bytes(), path=path, whole=True) for path in paths]


def read_calls(folder: Path) -> list[Call]:
    return [log.decode(lines) for log in read_logs(folder) for lines in log.by_number.values()]


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
        words = [*RUN, *FAST, *settings(served), "--out", str(folder)]
        patch.setattr("sys.argv", ["rsso-dspy", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    assert len(served.inflicted) == 1
    return Recorded(folder, served, len(served.requests))


# A run


def test_every_call_is_kept_as_it_was_sent_and_answered(recorded):
    kept = read_calls(recorded.folder)
    assert len(kept) == recorded.served.given == recorded.asked - 1
    sent = [body for number, body in enumerate(recorded.served.requests, start=1) if number != 3]
    for call, body in zip(kept, sent, strict=True):
        assert call.request["messages"] == json.loads(json.dumps(body["messages"]).replace(KEY, "***"))
        assert call.request["parameters"]["seed"] == body["seed"]
        assert call.served == "m"
        assert call.usage[0]["prompt_tokens"] > 0
        assert call.seconds > 0
    assert [each.failed[0][0] for each in kept if each.failed] == ["LMServerError"]
    assert {each.role for each in kept} == {"actor", "reflector"}


def test_the_key_is_in_no_file(recorded):
    texts = {path: path.read_text() for path in recorded.folder.rglob("*") if path.is_file()}
    assert not [path for path, text in texts.items() if KEY in text]
    assert [path.name for path, text in texts.items() if VARIABLE in text] == ["run.json"], "its name is no secret"


@pytest.mark.usefixtures("at_hand")
def test_it_replays_with_the_server_gone_to_equal_records(recorded, tmp_path, rsso, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    code, _, err = rsso(*RUN, *FAST, "--replay", recorded.folder, "--out", tmp_path / "again")
    assert code == 0, err
    assert records(tmp_path / "again") == records(recorded.folder)
    assert read_calls(tmp_path / "again") == read_calls(recorded.folder)
    code, out, err = rsso("run", "--replay", tmp_path / "again")
    assert code == 0, err
    assert "equal: 1 of 1 records are equal" in out
    assert [path.name for path in tmp_path.iterdir()] == ["again"]
    assert len(recorded.served.requests) == recorded.asked


@pytest.mark.usefixtures("at_hand")
def test_a_record_that_was_changed_is_named(recorded, tmp_path, rsso):
    folder = shutil.copytree(recorded.folder, tmp_path / "run")
    (path,) = find_logs(folder / "units")
    path.write_text(path.read_text().replace('"reasoning":"', '"reasoning":"Hm. ', 1))
    code, out, _ = rsso("run", "--replay", folder)
    assert code == 1
    assert "0 of 1 records are equal" in out
    assert "trials.0.trajectory.steps.0.reasoning is" in out


MISSES = {
    "another prompt": (["--set", "protocol.interface=complete"], r"trial 1, step 1: this request was not recorded"),
    "other decoding": (["--set", "backends.mine.temperature=0.25"], r"- temperature: 0.5\s+\+ temperature: 0.25"),
    "another variant": (["--variants", "lifespan-longest-lived::111"], "is not among the 1 logs"),
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


def test_what_is_no_log_answers_nothing(recorded, tmp_path, rsso, monkeypatch):
    """Neither a folder without a run, nor a damaged log, nor no folder at all; outside of a run nothing is sent."""
    folder = shutil.copytree(recorded.folder, tmp_path / "run")
    (path,) = find_logs(folder / "units")
    path.write_text(f"5\n{path.read_text()}")
    (tmp_path / "empty").mkdir()
    cases = [("empty", "holds no run and no logs", 2), ("run", "damaged.*restore it from a copy", 1)]
    for name, said, expected in cases:
        code, _, err = rsso(*RUN, *FAST, "--replay", tmp_path / name, "--out", tmp_path / "out")
        assert (code, bool(re.search(said, err))) == (expected, True), err
    code, _, err = rsso(*RUN, "--backend", "replay")
    assert code == 2
    assert "--replay DIR" in err
    monkeypatch.delenv(VARIABLE, raising=False)
    config = load_config(overrides=["backend=replay", f"backends.replay.replay={recorded.folder}"])
    assert config.backend == "mine"
    with pytest.raises(UsageError, match="openai/m is not called"):
        Backend(config.active_backend).lm("actor", 0)("hello")


# Kills


def speak(body: dict[str, Any]) -> Said:
    """To a first step, what cannot be read; to the same request always the same."""
    return Said(says(thought="hm", action="look") if "Thought:" in str(body["messages"][-1]) else "Hm.", 100, 10)


def test_a_log_cut_at_any_byte_resumes_to_the_uncut_record_and_pays_for_what_is_lost(tmp_path, monkeypatch):
    """Nothing is asked twice that is in a whole line. Every byte of the last two lines, and those about each other."""
    monkeypatch.setenv(VARIABLE, KEY)
    settings = ("protocol.trials=2", "protocol.stop_on_success=false")
    with run_against("openai", tmp_path, answer=speak, settings=settings) as run:
        (unit, *_), player = run.plan.units, run.executor.player
        whole = player.run_job(run.plan, unit)
        path, paid = run.store.path_of(unit), len(run.served.requests)
        content = path.read_bytes()
        assert sum(trial.usage["actor"].malformed for trial in whole.trials) > 0
        ends = [place + 1 for place, byte in enumerate(content) if byte == 10]
        cuts = {end + more for end in (0, *ends) for more in (-1, 0, 1)} | set(range(ends[-3], len(content)))
        resumed: set[bytes] = set()
        for cut in sorted(cuts & set(range(len(content)))):
            path.write_bytes(content[:cut])
            run.store.open_log(unit)
            kept = path.read_bytes()
            assert kept == content[: max((end for end in ends if end <= cut), default=0)], cut
            if kept in resumed:
                continue
            resumed.add(kept)
            answered = sum(b'"answer": ' in line for line in kept.splitlines())
            before = len(run.served.requests)
            assert player.run_job(run.plan, unit) == whole, cut
            asked = len(run.served.requests) - before
            assert asked == paid - answered, cut
            store = Store(tmp_path, read_only=True)
            assert sum(usage.calls for _, usage in store.read_spending()) == paid, cut
            assert not [*store.read_abandoned(), *store.read_under_way(), *store.set_aside], cut
    assert len(resumed) == len(ends)


KILLED = """
import os, signal
from rsso_dspy.calls import CallLines
find, left = CallLines.find, iter(range({answers}))
def killing(self, *asked):
    if next(left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
    return find(self, *asked)
CallLines.find = killing
from rsso_dspy.cli import main
main()
"""


@pytest.mark.usefixtures("at_hand")
def test_a_kill_while_it_is_played_and_a_kill_while_it_is_replayed(tmp_path, rsso):
    order = ("run", "--methods", "reflexion", "--variants", VARIANT, "--trials", "2")
    folder, again = tmp_path / "run", tmp_path / "again"
    later: list[int] = []

    def kill_in_the_second_trial() -> None:
        if any(log.results for log in read_logs(folder)):
            later.append(model.given)
        if len(later) == 3:
            model.kill()

    with counting() as model:
        model.before = kill_in_the_second_trial
        assert model.start(*order, "--out", folder).wait(PATIENCE) == -9
        (log,) = read_logs(folder)
        assert len(log.results) == 1
        with log.path.open("ab") as torn:
            torn.write(b'{"call": 99, "trial": 2, "att')
        model.before = lambda: None
        assert rsso(*order, *model.settings, "--out", folder)[0] == 0
        settings = model.settings[2:]
        assert len(read_calls(folder)) == len(model.served.requests) - 1, "only what the kill cut off was asked twice"
    assert len({each.trial for each in read_calls(folder)}) == 2
    words = [*order, *settings, "--replay", str(folder), "--out", str(again)]  # the server is gone
    process = Process(python(KILLED.format(answers=len(read_calls(folder)) - 1), *words), {})
    assert process.wait(PATIENCE) == -9, process.said
    assert not records(again)
    assert Store(again).load_begun()
    assert rsso(*words)[0] == 0
    assert records(again) == records(folder)


# Every provider, every fault


@pytest.mark.parametrize("wire", WIRES)
def test_every_provider_is_logged_and_replayed(wire, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    trials = ("protocol.trials=2",)
    with run_against(wire, tmp_path / "run", {2: "overloaded"}, settings=trials, retries=1, temperature=0.0) as run:
        run.play(units=1)
    assert [trial.sent["actor"]["temperature"] for each in run.records for trial in each.trials] == [0, 0.7]
    assert not any(each.has_errors for each in run.records)
    assert replay(run, tmp_path / "again") == run.records


def test_a_trial_that_ended_in_an_error_replays_to_that_error(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with run_against("openai", tmp_path / "run", {2: "bad request"}) as run:
        run.play(units=1)
    assert run.records[0].has_errors
    assert replay(run, tmp_path / "again") == run.records


def replay(run: Run, out: Path) -> list[UnitRecord | TrainingRecord]:
    """The records of the same run, from its log: its server is gone."""
    store, player = Store(out), run.executor.player
    store.open(run.store.read_identity()[0])
    with session(player.live.config) as live:
        again = UnitRunner(live, store, player.programs, player.provenance, source=run.store)
        again.run_job(run.plan, run.plan.units[0])
    return records(out)


# What is built before a run


BUILDS = {
    "program": "compile --method react --optimizer gepa --max-rollouts 4 --set compile.steps=3",
    "constitution": "constitution build --explore 1",
    "run with trainings": (
        "run --methods reflexion --set protocol.setting=transfer --set protocol.train_per_task=1 --per-task 1"
    ),
}


@pytest.mark.usefixtures("at_hand")
@pytest.mark.parametrize("what", BUILDS)
def test_what_is_built_replays_too(what, tmp_path, rsso):
    words = (*BUILDS[what].split(), "--tasks", "lifespan-longest-lived", *FAST[:4])
    place = "--out" if "run" in what else "-o"
    first, second = (tmp_path / f"{name}.json" for name in ("first", "second"))
    code, _, err = rsso(*words, place, first)
    assert code == 0, err
    code, _, err = rsso(*words, "--backend", "replay", "--set", f"backends.replay.replay={first}", place, second)
    assert code == 0, err
    if "run" in what:
        assert records(second) == records(first)
        return
    assert second.read_text() == first.read_text()
    logs = [*tmp_path.glob("first.json.r*")]
    assert len(logs) == 1, "they stay"
    recorded = ("--backend", "replay", "--set", f"backends.replay.replay={logs[0]}")
    changed = ("--set", "protocol.interface=complete", place, tmp_path / "changed.json")
    code, _, err = rsso(*words, *recorded, *changed)
    assert code == 1
    assert "not recorded: actor of" in err


# The lines of calls


def ask(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "parameters": {"temperature": 0.5}}


def read_lines(text: str) -> CallLines:
    calls = CallLines()
    for line in text.splitlines():
        calls.parse_line(json.loads(line))
    return calls


# Who shows them


def test_show_prints_what_was_sent_and_what_came_back(recorded, rsso):
    code, out, _ = rsso("show", recorded.folder, "lifespan-longest-lived::98", "--prompts", "--trial", "1")
    assert code == 0
    first = read_calls(recorded.folder)[0]
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
    kept = read_calls(recorded.folder)
    assert len(shown) == len(kept)

    def whole(parts: list[int]) -> str:
        return "\n\n".join(data["texts"][part] for part in parts)

    assert [whole(each["messages"][1][1]) for each in shown if each["role"] == "actor"] == [
        each.request["messages"][1]["content"] for each in kept if each.role == "actor"
    ]
    assert {whole(each["answer"]) for each in shown} == {each.text for each in kept}
