import shutil

import numpy as np
import pytest

from rsso_dspy.backends.embedder import Embedder, _packaged_minilm, find_weights, verify_weights
from rsso_dspy.errors import BackendUnreachable


@pytest.fixture(scope="module")
def minilm():
    return Embedder("all-MiniLM-L6-v2")


def test_minilm_gives_unit_vectors_that_know_meaning(minilm):
    vectors = minilm(["a closed red door", "the red door is shut", "boil the water on the stove"])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert vectors[0] @ vectors[1] > 0.6 > vectors[0] @ vectors[2]


def test_a_vector_does_not_depend_on_the_company_its_text_keeps(minilm):
    long = "a very long description of a kitchen " * 20
    together = minilm([long, "a short text never seen before"])
    alone = Embedder("all-MiniLM-L6-v2")(["a short text never seen before"])
    assert np.array_equal(together[1], alone[0])


def test_each_distinct_text_is_encoded_once(minilm):
    before = len(minilm)
    minilm(["twice", "twice"])
    minilm(["twice"])
    assert len(minilm) == before + 1


def test_no_texts_give_no_vectors():
    assert len(Embedder("hash")([])) == 0


def test_the_hash_embedder_is_reproducible_and_knows_no_meaning():
    a, b = Embedder("hash")(["a door", "a doors"])
    assert np.array_equal(a, Embedder("hash")(["a door"])[0])
    assert abs(float(a @ b)) < 0.3


def test_other_weights_than_the_published_ones_are_refused(tmp_path):
    folder = _packaged_minilm()
    assert folder is not None
    changed = tmp_path / "model.safetensors"
    shutil.copy(folder / "model.safetensors", changed)
    verify_weights(changed)
    with changed.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"\x00\x01")
    with pytest.raises(BackendUnreachable, match="other weights"):
        verify_weights(changed)
    with pytest.raises(BackendUnreachable, match="missing"):
        verify_weights(tmp_path / "none")


def test_an_unknown_model_out_of_the_hubs_reach_says_what_to_do(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BackendUnreachable, match="offline"):
        find_weights("no-such-model-anywhere")
