"""The files of recordings: what is kept of each exchange, what is cut off or left out, and what answers in a replay."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import dspy
import pytest
from rsso_dspy.experiment.tapes import recordings_beside
from rsso_dspy.lm.replaying import Replay
from rsso_dspy.recordings import Exchange, Recordings, members, text_of
from rsso_dspy.store.taping import Taping, name_of

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.errors import MissingKey, NotRecorded, Stopped
from rsso_dspy.lm.recording import Packer, Tape
from rsso_dspy.store.merge_runs import merge_shards
from rsso_dspy.store.run_folder import Store
from tests.embedding_server import embedding_server
from tests.provider_runs import KEY, VARIABLE
from tests.records import record, save
from tests.store.test_store import IDENTITY


def exchanges_of(folder: Path) -> list[Exchange]:
    return [
        exchange
        for file in sorted((folder / "recordings").rglob("*.gz"))
        for member in members(file.read_bytes())
        for exchange in member.exchanges
    ]


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
    with pytest.raises(NotRecorded, match="sent 3 times, and 2 answers to it are recorded"):
        replay.find(1, 0, 5, "actor", request("What?"))
    assert replay.find(1, 1, 1, "actor", request("What?")).text == "one", "an attempt at a trial begins anew"
    with pytest.raises(NotRecorded, match="no request of this role was recorded"):
        replay.find(1, 0, 5, "reflector", request("What?"))
    with pytest.raises(NotRecorded, match=r"recorded trials: 1, 2"):
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


def test_merging_takes_them_along(tmp_path):
    parts = []
    for index in (22, 23):
        store, unit = Store(tmp_path / str(index)), record("rsso", "boil", index, [[10]])
        store.open(IDENTITY, {"rsso": "1"})
        store.open_recordings({"kind": "any"})
        store.add_recording(name_of(unit), 1, member(1, f"unit {index}"))
        save(store, unit)
        parts.append(store.folder)
    whole = Store(tmp_path / "whole")
    merge_shards(parts, whole)
    assert whole.recorded
    assert [each.text for each in exchanges_of(whole.folder)] == ["unit 22", "unit 23"]


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
