"""What every embedder does, and the two that need no model."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rsso_dspy.config import EmbedderConfig, load_config
from rsso_dspy.embedders import Embedder
from rsso_dspy.errors import BackendFailure, ConfigError

KITCHEN = "This room is called the kitchen. In it, you see: a stove, which is turned off. On the stove is: nothing."


class Slow:
    """Stands in for a route: every call waits for the signal, may fail first, and is kept."""

    name, batch, remote, tokens = "slow", 2, False, 0

    def __init__(self, failures: int = 0, dimensions: int = 3):
        self.calls: list[list[str]] = []
        self.signal, self.failures, self.dimensions = threading.Event(), failures, dimensions

    def cache_identity(self) -> None:
        return None

    def encode(self, texts):
        self.calls.append(list(texts))
        self.signal.wait(30)
        if self.failures:
            self.failures -= 1
            raise BackendFailure("not today")
        return [np.eye(self.dimensions, dtype=np.float32)[len(text) % 3] for text in texts]


def on(route: Slow) -> Embedder:
    embedder = Embedder("hash")
    embedder._route = route
    return embedder


def test_no_texts_give_no_vectors():
    assert len(Embedder("hash")([])) == 0


def test_the_hash_embedder_is_reproducible_and_knows_no_meaning():
    a, b = Embedder("hash")(["a door", "a doors"])
    assert np.array_equal(a, Embedder("hash")(["a door"])[0])
    assert abs(float(a @ b)) < 0.3


def test_each_distinct_text_is_encoded_once_and_in_batches():
    route = Slow()
    route.signal.set()
    embedder = on(route)
    embedder(["a", "bb", "a", "ccc"])
    embedder(["ccc", "a"])
    assert route.calls == [["a", "bb"], ["ccc"]]
    assert len(embedder) == 3


def test_a_text_that_several_threads_want_is_encoded_by_one_of_them():
    route = Slow()
    embedder = on(route)
    with ThreadPoolExecutor(8) as threads:
        pending = [threads.submit(embedder, ["a", "bb"]) for _ in range(8)]
        route.signal.set()
        rows = [future.result(30) for future in pending]
    assert route.calls == [["a", "bb"]]
    assert all(np.array_equal(found, rows[0]) for found in rows)


def test_threads_with_different_texts_do_not_wait_for_each_other():
    route = Slow()
    embedder = on(route)
    both = threading.Barrier(2, timeout=30)
    route.signal.wait = lambda _: both.wait()  # neither goes on before the other has come
    with ThreadPoolExecutor(2) as threads:
        rows = list(threads.map(embedder, [["a"], ["bb"]], timeout=60))
    assert len(rows) == 2


def test_who_waited_for_one_that_failed_tries_again():
    route = Slow(failures=1)
    embedder = on(route)
    with ThreadPoolExecutor(4) as threads:
        pending = [threads.submit(embedder, ["a"]) for _ in range(4)]
        route.signal.set()
        failed = [future.exception(30) for future in pending]
    assert sum(isinstance(error, BackendFailure) for error in failed) == 1
    assert failed.count(None) == 3
    assert len(route.calls) == 2


def test_what_was_encoded_before_a_failure_stays_known():
    route = Slow()
    route.signal.set()
    embedder = on(route)
    embedder(["a"])
    route.failures = 1
    with pytest.raises(BackendFailure, match="not today"):
        embedder(["a", "bb"])
    assert len(embedder(["a", "bb"])) == 2
    assert route.calls == [["a"], ["bb"], ["bb"]]


def test_a_model_whose_dimensions_change_is_refused():
    route = Slow()
    route.signal.set()
    embedder = on(route)
    embedder(["a"])
    route.dimensions = 4
    with pytest.raises(BackendFailure, match=r"4 dimensions after vectors of 3.*embedder\.cache=false"):
        embedder(["bb"])


def test_half_a_character_does_not_stop_a_run():
    for name in ("hash", "lexical"):
        assert np.array_equal(*Embedder(name)(["broken \ud83d", "broken ?"]))


def test_lexical_vectors_know_words():
    embed = Embedder("lexical")
    one, same, swapped, other, empty, punctuation = embed(
        [KITCHEN, KITCHEN.upper(), KITCHEN.replace("off", "on"), "boil water", "", "... !"]
    )
    assert one.shape == (512,)
    assert one.dtype == np.float32
    assert np.array_equal(one, same)
    assert 0.7 < one @ swapped < 0.99
    assert abs(one @ other) < 0.3
    assert np.array_equal(empty, punctuation)
    assert np.allclose([np.linalg.norm(row) for row in (one, swapped, other, empty)], 1, atol=1e-6)


def test_lexical_vectors_know_the_order_of_words_and_repeats_count_less_each_time():
    embed = Embedder("lexical")
    forth, back, more = embed(["red door opens", "opens door red", "red door opens door door door"])
    assert forth @ back < 0.9
    assert forth @ more > 0.5


def test_lexical_vectors_are_the_same_in_every_process():
    code = "from rsso_dspy.embedders import *; print(Embedder('lexical')(['a red door']).tobytes().hex())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == Embedder("lexical")(["a red door"])[0].tobytes().hex()


@pytest.mark.parametrize("name", ["hash", "lexical"])
def test_the_cheap_ones_keep_no_file_and_cost_nothing(name, monkeypatch, tmp_path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    embedder = Embedder(EmbedderConfig(model=name))
    embedder.check()
    embedder(["a door"])
    assert embedder.tokens == 0
    assert embedder.describe_source() == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("numpy/", "numpy/all-MiniLM-L6-v2"),
        ("numpy", "numpy/all-MiniLM-L6-v2"),
        ("litellm/", "provider and model"),
        ("litellm/openai", "litellm/openai/text-embedding-3-small"),
        ("litellm/openai/", "provider and model"),
        ("litellm//m", "provider and model"),
        (" hash", "not the name of a model"),
    ],
)
def test_a_name_of_no_route_is_refused_with_an_example(name, said):
    with pytest.raises(ConfigError, match=said):
        Embedder(name)
    with pytest.raises(ConfigError, match=said):
        load_config(overrides=[f'embedder.model="{name}"'])


def test_how_the_embedder_is_reached_is_no_part_of_a_result():
    plain = load_config(overrides=["embedder.model=litellm/openai/m"])
    mended = ["base_url=http://127.0.0.1:1/v1", "key_variable=OTHER", "timeout=5", "retries=9", "cache=false"]
    changed = load_config(overrides=["embedder.model=litellm/openai/m", *(f"embedder.{change}" for change in mended)])
    assert changed != plain
    assert changed.hash() == plain.hash() != load_config().hash()
    assert changed.resolve_settings()["embedder"] == {"model": "litellm/openai/m"}
