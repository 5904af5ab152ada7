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

from rsso_dspy.cli import main
from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import UsageError
from rsso_dspy.lm import Backend
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.run_folder import Store, find_logs
from tests.chaos.setup import scripted
from tests.embedding_server import embedding_server
from tests.live import says
from tests.provider_formats import Said
from tests.provider_runs import KEY, VARIABLE, run_against
from tests.provider_server import Provider, provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

RUN = ("run", "--methods", "rsso", "--variants", "lifespan-longest-lived::98", "--trials", "2")
FAST = ("--set", "protocol.preset=sso-adapt/3-cap60", "--set", "embedder.model=hash")
FAST += ("--set", "protocol.stop_on_success=false")


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


@contextmanager
def one_simulator(env: ScienceWorld) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)
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


MISSES = {
    "another prompt": (["--set", "protocol.interface=complete"], r"trial 1, step 1: this request was not recorded"),
    "other decoding": (["--set", "backends.mine.temperature=0.25"], r"- temperature: 0.5\s+\+ temperature: 0.25"),
    "another variant": (["--variants", "lifespan-longest-lived::111"], "is not among the 1 logs"),
    "one trial more": (["--trials", "3"], r"trial 3, step 1: this trial is not recorded"),
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


@pytest.mark.usefixtures("at_hand")
def test_a_compile_replays_to_the_same_file(tmp_path, rsso):
    words = ("compile", "--method", "react", "--optimizer", "gepa", "--max-rollouts", "4", *FAST[:4])
    words += ("--set", "compile.steps=3", "--tasks", "lifespan-longest-lived")
    first, second = (tmp_path / f"{name}.json" for name in ("first", "second"))
    code, _, err = rsso(*words, "-o", first)
    assert code == 0, err
    recorded = ("--backend", "replay", "--set", f"backends.replay.replay={first}")
    code, _, err = rsso(*words, *recorded, "-o", second)
    assert code == 0, err
    assert second.read_text() == first.read_text()
    changed = ("--set", "protocol.interface=complete", "-o", tmp_path / "changed.json")
    code, _, err = rsso(*words, *recorded, *changed)
    assert code == 1
    assert "not recorded: actor of" in err


def take_out_vectors(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a log as if no text had been embedded; the calls are numbered anew."""
    numbers: dict[int, int] = {0: 0}
    for line in map(json.loads, log.read_text().splitlines()):
        if line.get("role") == "embedder":
            continue
        if "call" in line:
            line["call"] = numbers.setdefault(line["call"], len(numbers))
        if "read" in line:
            line["read"] = numbers[line["read"]]
        yield line


def test_a_replay_of_a_folder_without_vectors_opens_no_connection_and_reads_no_key(tmp_path, rsso, monkeypatch):
    """Whoever hands over a folder chooses the address and the variable that its configuration names."""
    monkeypatch.setenv("KEY_OF_THE_READER", "sk-of-the-reader-0123456789")
    folder = tmp_path / "run"
    with embedding_server() as server:
        embedder = ("embedder.model=litellm/openai/m", f"embedder.base_url={server.url}")
        named = (*embedder, "embedder.key_variable=KEY_OF_THE_READER", "protocol.steps=4")
        settings = [word for setting in named for word in ("--set", setting)]
        novel = ("--set", 'memory.reflections.improvements=["novelty"]')
        play = ("run", "--benchmark", "babyai", "--variants", "Unlock::1234", "--methods", "reflexion", "--trials", "3")
        code, _, err = rsso(*play, *settings, *novel, "--out", folder)
        assert code == 0, err
        assert server.texts

        asked = len(server.inputs)
        assert rsso("run", "--replay", folder)[0] == 0, "with its vectors it replays"
        (log,) = find_logs(folder / "units")
        log.write_text("".join(f"{json.dumps(line)}\n" for line in take_out_vectors(log)))
        monkeypatch.delenv("KEY_OF_THE_READER")

        code, _, err = rsso("run", "--replay", folder)

        assert (code, "not recorded: the vector of a text" in err) == (1, True), err
        assert len(server.inputs) == asked
