"""Vectors from a provider: a real server on this machine that speaks the OpenAI format, and fails in every way."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embedders import Embedder
from rsso_dspy.errors import BackendFailure, BackendUnreachable, MissingKey
from rsso_dspy.lm.retry import RequestRetrier
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from tests.embedding_server import MALFORMED, EmbeddingServer, embedding_server, fault, reply, vector, vectors
from tests.live import REWARDED, acting, walks

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
KEY = "TEST_EMBEDDING_KEY"
SECRET = "sk-planted-secret"


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """A key and a cache folder of this test's own; other keys of this machine are not there."""
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The waits between tries, which take no time here."""
    waits: list[float] = []
    monkeypatch.setattr(RequestRetrier, "_sleep_unless_stopped", lambda _, seconds: waits.append(seconds))
    return waits


@contextmanager
def served(*args, model: str = "litellm/openai/m", **settings) -> Iterator[tuple[Embedder, EmbeddingServer]]:
    with embedding_server(*args, faults=settings.pop("faults", ())) as server:
        given = {"key_variable": KEY, "retries": 0, **settings}
        yield Embedder(EmbedderConfig(model=model, base_url=server.url, **given)), server


@pytest.mark.parametrize("model", ["litellm/openai/m", "litellm/hosted_vllm/m"])
def test_vectors_come_in_the_order_of_the_texts_and_with_length_1(model):
    with served(model=model) as (embed, server):
        embed.check()
        assert server.inputs == []
        rows = embed(["a door", "漢字 😀", "a door"])
        assert server.inputs == [["a door", "漢字 😀"]]
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
        assert embed.describe_source() == server.url
    assert rows.shape == (3, 8)
    assert rows.dtype == np.float32
    assert np.allclose(rows, [np.array(vector(text)) / 3 for text in ("a door", "漢字 😀", "a door")], atol=1e-6)
    assert embed.tokens == 5


def test_a_request_holds_64_texts_at_most():
    with served() as (embed, server):
        embed([f"text {number}" for number in range(130)])
        assert [len(texts) for texts in server.inputs] == [64, 64, 2]
    assert embed.tokens == 15


def test_a_text_without_a_word_is_sent_as_a_space():
    with served() as (embed, server):
        assert embed(["", "a"]).shape == (2, 8)
        assert server.inputs == [[" ", "a"]]


def test_the_key_is_read_when_it_is_used_and_kept_nowhere(monkeypatch, tmp_path):
    with served() as (embed, server):
        monkeypatch.delenv(KEY)
        for use in (embed.check, lambda: embed(["a door"])):
            with pytest.raises(MissingKey, match=rf"{KEY} is not set: `export {KEY}=.*embedder\.model"):
                use()
        monkeypatch.setenv(KEY, SECRET)
        embed(["a door"])
        assert len(server.inputs) == 1
        assert SECRET not in repr(vars(embed)) + repr(vars(embed._route))
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


def test_a_provider_that_finds_no_key_of_its_own_names_the_variable(pauses):
    with (
        served(key_variable=None, retries=3) as (embed, server),
        pytest.raises(MissingKey, match="export OPENAI_API_KEY"),
    ):
        embed(["a door"])
    assert server.inputs == []
    assert pauses == []


@pytest.mark.parametrize("model", ["litellm/openai/m", "litellm/hosted_vllm/m"])
@pytest.mark.parametrize("retries", [0, 2])
def test_a_server_error_is_tried_again_as_often_as_asked_for(pauses, model, retries):
    with served(model=model, retries=retries, faults=[fault(500)] * 3) as (embed, server):
        with pytest.raises(BackendFailure, match="oops"):
            embed(["a door"])
        assert len(server.inputs) == 1 + retries
    assert pauses == [0.5, 1.0][:retries]


def test_a_further_try_that_succeeds_is_an_answer(pauses):
    with served(retries=2, faults=[fault(500), MALFORMED]) as (embed, server):
        assert embed(["a door"]).shape == (1, 8)
        assert len(server.inputs) == 3
    assert len(pauses) == 2


@pytest.mark.parametrize("model", ["litellm/openai/m", "litellm/hosted_vllm/m"])
def test_a_rate_limit_is_waited_out_as_long_as_the_provider_says(pauses, model):
    limits = [fault(429, retry_after="7"), fault(429, retry_after="99999"), fault(429), fault(429, retry_after="soon")]
    with served(model=model, retries=4, faults=limits) as (embed, _):
        assert embed(["a door"]).shape == (1, 8)
    assert pauses == [7.0, 60.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MALFORMED, "something unreadable"),
        ((200, {}, b"<html>"), "something unreadable"),
        (reply({}), "oop|without vectors|unreadable"),
        (vectors([[1.0, 2.0]]), "1 vectors for 2 texts"),
        (vectors([[1.0, 2.0]] * 3), "3 vectors for 2 texts"),
        (vectors([[0.0, 0.0], [1.0, 0.0]]), "without a direction"),
        (vectors([[float("nan"), 0.0], [1.0, 0.0]]), "without a direction"),
        (vectors([[1.0, 2.0], [1.0, 2.0, 3.0]]), r"shapes \[\(2,\), \(3,\)\]"),
        (fault(400, "too long"), "too long"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_failure(answer, said):
    with served(lambda _: answer) as (embed, _), pytest.raises(BackendFailure, match=said) as failure:
        embed(["a", "b"])
    assert not isinstance(failure.value, BackendUnreachable)


def test_a_request_refused_for_what_it_says_is_not_repeated(pauses):
    with served(lambda _: fault(400, "too long"), retries=3) as (embed, server):
        with pytest.raises(BackendFailure, match="too long"):
            embed(["a"])
        assert len(server.inputs) == 1
    assert pauses == []


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_provider_that_refuses_everything_is_unreachable(pauses, status):
    with served(lambda _: fault(status, "bad key"), retries=3) as (embed, server):
        with pytest.raises(BackendUnreachable, match="bad key"):
            embed(["a"])
        assert len(server.inputs) == 1
    assert pauses == []


@pytest.mark.parametrize("model", ["litellm/openai/m", "litellm/hosted_vllm/m"])
def test_no_server_at_all_is_unreachable(pauses, model):
    with served(model=model) as (embed, server):
        pass
    with pytest.raises(BackendUnreachable, match=r"nothing answers at http://127\.0\.0\.1.*embedder\.base_url"):
        embed(["a"])
    assert server.inputs == pauses == []


def test_a_server_that_does_not_answer_in_time_is_given_up():
    release = threading.Event()

    def late(texts: list[str]):
        release.wait(30)
        return vectors([vector(text) for text in texts])

    with served(late, timeout=0.2) as (embed, _):
        with pytest.raises(BackendFailure):
            embed(["a"])
        release.set()


def test_dimensions_that_change_are_refused():
    sizes = iter((8, 9))
    with served(lambda texts: vectors([vector(texts[0], next(sizes))])) as (embed, _):
        embed(["a"])
        with pytest.raises(BackendFailure, match="9 dimensions after vectors of 8"):
            embed(["b"])


def test_what_was_paid_for_before_a_failure_is_not_paid_for_again():
    texts = [f"text {number}" for number in range(100)]
    with served() as (embed, server):
        server.answer = lambda texts: vectors([vector(text) for text in texts]) if len(texts) == 64 else fault(500)
        with pytest.raises(BackendFailure):
            embed(texts)
        server.answer = lambda texts: vectors([vector(text) for text in texts])
        embed(texts)
        again = Embedder(embed.config)
        again(texts)
        assert [len(texts) for texts in server.inputs] == [64, 36, 36]
    assert (again.tokens, len(again)) == (0, 100)


def test_requests_of_several_threads_go_out_side_by_side():
    together = threading.Barrier(3, timeout=30)

    def answer(texts: list[str]):
        together.wait()  # answers nobody before all three are there
        return vectors([vector(text) for text in texts])

    with served(answer) as (embed, server), ThreadPoolExecutor(3) as threads:
        rows = list(threads.map(embed, (["a", "x"], ["b"], ["c"]), timeout=60))
        assert sorted(server.texts) == ["a", "b", "c", "x"]
    assert [len(row) for row in rows] == [2, 1, 1]


def test_a_failure_while_playing_is_an_errored_trial_and_no_score(live):
    with served(lambda _: fault(500)) as (embed, server):
        embed.check()
        with acting(live, walks(live)[0], rules=TrialRules(3, False), embed=embed):
            result = Agent("sso")(variant=REWARDED)
        assert server.inputs
    assert result.score is None
    assert result.trials[-1].trajectory is None
    assert result.trials[-1].error.startswith("BackendFailure: ")
