"""The lines of a unit's log: calls, what answers from them, and what it all cost."""

from dataclasses import replace

import pytest

from rsso_dspy.calls import CallLines, Place, TextTable
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.errors import NotRecorded, Stopped
from rsso_dspy.playing import playing
from rsso_dspy.records import Usage
from rsso_dspy.redact import register_secret
from rsso_dspy.store.unit_log import UnitLog
from tests.embedding_server import embedding_server
from tests.provider_runs import KEY, VARIABLE
from tests.records import record

SPENT = [{"prompt_tokens": 10, "completion_tokens": 3}]


def ask(text, **parameters):
    return {"model": "m", "messages": [{"role": "user", "content": text}], "parameters": parameters}


def at(trial=1, attempt=0, step=1, role="actor"):
    return Place(trial, attempt, step, role)


class File:
    """A log in memory."""

    def __init__(self):
        self.text = ""
        self.log = UnitLog(write=self.append, whole=True)

    def append(self, text):
        self.text += text

    def call(self, place, request, answer="go", **more):
        self.log.end(self.log.begin(place, request), answer=[answer], usage=SPENT, **more)

    def read(self, whole=True):
        return UnitLog(self.text.encode(), whole=whole)


@pytest.mark.parametrize(
    "text", ["", "one", "a\nb\nc", "a\na\na", "\n\n", "a\n\nb\n", "next \ud800 \u00fc", "b\nc\na\nb\nc\nd"]
)
def test_a_text_comes_back_and_each_line_is_written_once(text):
    texts = TextTable()
    for each in ("a\nb\nc", text):
        assert texts.decode(texts.encode(each)) == each
    assert len(set(texts.lines)) == len(texts.lines)
    assert texts.encode("a\nb\nc") == "1-3"
    assert texts.encode("a line that is new", add=False) is None


def test_a_call_comes_back_as_it_was_made():
    file = File()
    request = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief.\nAct."},
            {"role": "user", "content": [{"type": "text", "text": "An image."}], "name": "me"},
        ],
        "parameters": {"temperature": 0.5, "stop": None},
    }
    number = file.log.begin(at(2, 1, 7, "reflector"), request)
    assert file.text == "", "nothing is written before an attempt has ended"
    file.log.fail(number, "LMServerError", [])
    file.log.end(number, answer=["No."], usage=SPENT, served="m-2", cut=True, seconds=1.5)
    (lines,) = file.read().by_number.values()
    call = file.read().decode(lines)
    assert (call.trial, call.attempt, call.step, call.role) == (2, 1, 7, "reflector")
    assert call.request == request
    assert (call.text, call.served, call.cut, call.seconds) == ("No.", "m-2", True, 1.5)
    assert (call.failed, call.usage, call.error) == ([("LMServerError", [])], SPENT, None)


def test_secrets_are_in_no_line_and_requests_with_them_are_found():
    register_secret("sk-abcdefghijklmnop")
    file, said = File(), "the key sk-abcdefghijklmnop"
    file.call(at(), ask(f"{said} is refused\nsecond line"), said)
    assert "sk-abc" not in file.text
    answers = file.read().make_answers("u")
    assert answers.find(at(), ask(f"{said} is refused\nsecond line")).text == "the key ***"


def test_an_answer_asked_twice_is_there_twice_and_what_is_missing_is_named():
    file = File()
    file.call(at(), ask("When?", seed=5))
    for text, asked, trial in (("one", "What?", 1), ("else", "Else?", 1), ("two", "What?", 1), ("three", "What?", 2)):
        file.call(at(trial), ask(asked, temperature=0.5), text)
        if text in ("two", "three"):
            file.log.add_trial(record("sso", "boil", 1, [[1]] * trial).trials[-1], {}, 1.0)
    answers = file.read().make_answers("units/sso/boil/1-s0")
    asked = ask("What?", temperature=0.5)
    assert [answers.find(at(trial), asked).text for trial in (1, 1, 2)] == ["one", "two", "three"]
    assert answers.find(at(attempt=1), asked).text == "one", "an attempt at a trial begins anew"
    assert answers.find(at(), ask("When?", seed=77)).text == "go", "only the presence of a seed counts"
    for place, request, words in (
        (at(), asked, "sent 3 times, and 2 answers to it are recorded"),
        (at(role="reflector"), asked, "no request of this role was recorded"),
        (at(3), asked, "recorded trials: 1, 2"),
        (at(), ask("When?"), "this request was sent|nearest one was sent"),
        (at(1), ask("What?", temperature=0.7), r"- temperature: 0.5\n +\+ temperature: 0.7"),
        (at(1), ask("Who?", temperature=0.5), r"nearest one was sent at step 1:\n +- What\?\n +\+ Who\?"),
    ):
        with pytest.raises(NotRecorded, match=words):
            answers.find(place, request)


def test_a_cut_trial_is_answered_from_its_own_lines_and_what_it_asks_no_more_is_billed():
    file, unit = File(), record("sso", "boil", 1, [[10], [20]])
    file.call(at(1), ask("first"))
    file.log.add_trial(unit.trials[0], {}, 1.0)
    for text in ("a", "b", "c"):
        file.call(at(2), ask(text), text)
    log = file.read()
    log.answer_from_own(2)
    assert log.find(at(1), ask("first")) is None
    assert [log.find(at(2), ask(text))[0].text for text in ("a", "b")] == ["a", "b"]
    assert log.find(at(2), ask("a")) is None, "once each"
    assert log.find(at(2, attempt=1), ask("b")) is None, "a second attempt asks for itself"
    assert log.sum_current() == {"actor": Usage(calls=3, input=30, output=9)}
    own = unit.trials[1].usage["actor"]
    assert log.add_trial(unit.trials[1], {}, 1.0).usage["actor"] == own + Usage(calls=1, input=10, output=3)
    assert log.sum_current() == {}


def test_void_trials_count_no_more_and_stay_on_the_bill():
    file, unit = File(), record("sso", "boil", 1, [[10], [20], [30]])
    for trial in unit.trials:
        file.call(at(trial.trial), ask(f"{trial.trial}"))
        file.log.add_trial(trial, {"plans": {"n": trial.trial}}, 1.0)
    number = file.log.begin(at(4), ask("4"))
    file.log.fail(number, "LMTimeoutError", SPENT)
    file.log.note_read(malformed=True)
    file.log.void(2, "a trial stalled")
    file.call(at(2), ask("again"))
    for log in (file.read(), file.read(whole=False)):
        assert (log.results, log.memories, log.seconds) == (unit.trials[:1], {"plans": {"n": 1}}, {1: 1.0})
        assert log.abandoned == {"actor": Usage(calls=5, input=30, output=9, failed=1, malformed=1)}
        assert log.sum_current() == {"actor": Usage(calls=1, input=10, output=3)}
    with pytest.raises(NotRecorded, match="recorded trials: 1, 2"):
        file.read().make_answers("u").find(at(3), ask("3"))


def test_a_replayed_trial_is_answered_by_the_attempt_that_counts_whose_calls_are_copied_whole():
    file, other = File(), File()
    file.call(at(attempt=0), ask("a"), "lost with its simulator")
    number = file.log.begin(at(attempt=1), ask("a"))
    file.log.fail(number, "LMServerError", SPENT)
    file.log.end(number, error={"kind": "LMServerError", "message": "500"})
    (trial,) = record("sso", "boil", 1, [[10]]).trials
    file.log.add_trial(replace(trial, replayed=1), {}, 1.0)
    call = file.read().make_answers("u").find(at(), ask("a"))
    assert (call.attempt, call.error["message"], call.failed) == (1, "500", [("LMServerError", SPENT)])
    other.log.copy(call)
    assert other.read().make_answers("u").find(at(attempt=1), ask("a")) == call


def test_vectors_of_a_server_are_kept_once_and_answer_in_its_place(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    file = File()
    with embedding_server() as server:
        about = {"model": "litellm/openai/m", "base_url": server.url, "key_variable": VARIABLE}
        embed = Embedder(EmbedderConfig(**about, retries=0))
        early = embed(["a door"])
        with playing(calls=file.log):
            first = embed(["a door", "a lamp"])
            embed(["a lamp"])
        again = UnitLog(file.text.encode(), file.append, whole=True)
        again.void(1, "played again")
        again.answer_from_own(1)
        with playing(calls=again):
            assert Embedder(embed.config)(["a lamp"]).tobytes() == first[1:].tobytes()
    assert server.texts == ["a door", "a lamp"], "a unit that goes on has its vectors"
    assert sum('"embedder"' in line for line in file.text.splitlines()) == 2
    monkeypatch.delenv(VARIABLE)
    other, replay = Embedder(embed.config, replays=True), CallLines()
    other.check()
    replay.source = file.read().make_answers("u")
    with playing(calls=replay):
        assert other(["a lamp", "a door"]).tobytes() == first[::-1].tobytes()
        assert other(["a door"]).tobytes() == early.tobytes()
        with pytest.raises(Stopped) as stopped:
            other(["a bird"])
    assert "vector of a text" in str(stopped.value.__cause__)
    replay.source = UnitLog(whole=True).make_answers("u")
    with playing(calls=replay), pytest.raises(Stopped) as stopped:
        Embedder(embed.config, replays=True)(["a lamp"])
    assert "A replay asks no embedder" in str(stopped.value.__cause__), "nor where the log has no vectors at all"
    with pytest.raises(Stopped):
        Embedder(embed.config, replays=True)(["a lamp"])
