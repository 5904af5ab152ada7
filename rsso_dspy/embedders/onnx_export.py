"""A sentence-transformers model for onnxruntime: its recipe and its ONNX file.

The export happens once, in a separate process, so that torch is not loaded here."""

import inspect
import logging
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from rsso_dspy.embedders.weights import hash_weights
from rsso_dspy.errors import BackendFailure, BackendUnreachable, ConfigError, DamagedFile
from rsso_dspy.paths import CACHE_VARIABLE, get_cache_folder
from rsso_dspy.safe_read import read_json

INSTALL = "pip install 'rsso-dspy[onnx]'"
EXPORTER = ("onnx", "torch", "transformers")
"""Packages needed for the export."""
PATIENCE = 1800.0
"""Time limit of an export in seconds, including one by another process."""
CLOSE = 1e-4
"""Largest difference between torch and the exported network in any number of a token's state (they are around 1)."""

EXPORT = (
    f"import sys; from pathlib import Path; from {__name__} import export_to_onnx; "
    "export_to_onnx(*map(Path, sys.argv[1:]))"
)
"""The exporting process."""
_TORCH = "use it without onnx/ in embedder.model"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodingRecipe:
    """The recipe of a standard model: tokens, network, mean, normalization."""

    network: Path
    """Folder of the transformer."""
    tokenizer: Path
    """The fast tokenizer's file."""
    tokens: int
    """Maximum tokens of a text, including special tokens."""
    lower: bool
    """Whether to lower-case texts first, independent of the tokenizer."""

    @classmethod
    def from_folder(cls, folder: Path) -> "EncodingRecipe":
        """Read the recipe of the model in a folder.

        Raises `ConfigError` for a model of another kind, and `BackendUnreachable` if a file is missing.
        """
        modules = _read_optional_json(folder / "modules.json") or []
        kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules] or ["Transformer", "Pooling"]
        if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
            raise _build_unsupported_error(folder, f"is built of {', '.join(kinds)}")
        network = folder / (modules[0].get("path", "") if modules else "")
        pooling = _read_optional_json(folder / modules[1].get("path", "1_Pooling") / "config.json") if modules else {}
        if (how := _list_poolings(pooling or {})) != ["mean"]:
            raise _build_unsupported_error(folder, f"pools by {' and '.join(how) or 'nothing'}")
        if prompt := (_read_optional_json(folder / "config_sentence_transformers.json") or {}).get(
            "default_prompt_name"
        ):
            raise _build_unsupported_error(folder, f"puts the prompt {prompt!r} before every text")
        tokenizer = next((place for place in (network, folder) if (place / "tokenizer.json").is_file()), None)
        if tokenizer is None:
            raise BackendUnreachable(f"{network / 'tokenizer.json'} is missing, which the onnx route reads; {_TORCH}")
        settings = _read_optional_json(network / "sentence_bert_config.json") or {}
        limit = settings.get("max_seq_length") or _find_token_limit(network)
        return cls(network, tokenizer / "tokenizer.json", limit, bool(settings.get("do_lower_case")))

    def prepare_text(self, text: str) -> str:
        return text.lower() if self.lower else text


def _build_unsupported_error(folder: Path, how: str) -> ConfigError:
    return ConfigError(
        f"the model in {folder} {how}; the onnx route runs a Transformer with mean Pooling "
        f"and perhaps Normalize: {_TORCH}"
    )


def _list_poolings(settings: dict[str, Any]) -> list[str]:
    """Return the poolings in use, in either spelling of the file; the default is mean."""
    if named := settings.get("pooling_mode"):
        return [named] if isinstance(named, str) else list(named)
    flags = {key: on for key, on in settings.items() if key.startswith("pooling_mode_")}
    used = [key.removeprefix("pooling_mode_").removesuffix("_tokens") for key, on in flags.items() if on]
    return used if flags else ["mean"]


def _find_token_limit(network: Path) -> int:
    """Return the maximum input length from tokenizer and positions, for a model that does not state it."""
    sizes = [
        (_read_optional_json(network / "tokenizer_config.json") or {}).get("model_max_length"),
        (_read_optional_json(network / "config.json") or {}).get("max_position_embeddings"),
    ]
    return min((int(size) for size in sizes if size), default=512)


def _read_optional_json(file: Path) -> Any:
    """Read the file; None if it does not exist."""
    try:
        return read_json(file)
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile) as error:
        raise BackendUnreachable(f"{file} cannot be read ({error}); download the model again") from error


def require_package(package: str, what: str) -> None:
    """Raise `BackendUnreachable` if a package of the `onnx` extra is not installed; imports nothing."""
    if find_spec(package) is None:
        raise BackendUnreachable(f"{what} needs the package {package}, which is not installed: {INSTALL}")


def ensure_onnx_file(folder: Path, export: bool = True) -> Path:
    """Return the model's ONNX file: `onnx/model.onnx` in its folder, else the export in the user's cache folder.

    The export is named by the digest of the weights. With `export_to_onnx`, one process creates it if missing while
    others wait; without, only the requirements are checked. Raises `BackendUnreachable` if a package is missing, and
    `BackendFailure` if the export fails.
    """
    if (own := folder / "onnx" / "model.onnx").is_file():
        return own
    file = get_cache_folder() / "onnx" / f"{hash_weights(folder)}.onnx"
    if not file.exists():
        for package in EXPORTER:
            require_package(package, f"exporting {folder} to ONNX (once)")
        if export:
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(f"{file}.lock", timeout=PATIENCE):
                    if not file.exists():
                        _export_in_subprocess(folder, file)
            except OSError as error:
                raise BackendFailure(
                    f"cannot write {file} ({error}); free disk space, or set another folder with {CACHE_VARIABLE}"
                ) from error
    return file


def _export_in_subprocess(folder: Path, file: Path) -> None:
    """Export in a separate process to a temporary name, renamed on success."""
    log.info("exporting %s to %s, once", folder, file)
    with tempfile.TemporaryDirectory(dir=file.parent) as scratch:
        made = Path(scratch) / file.name
        command = [
            sys.executable,
            "-c",
            EXPORT,
            str(EncodingRecipe.from_folder(folder).network.resolve()),
            str(made.resolve()),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, errors="replace")
        except subprocess.TimeoutExpired as error:
            raise BackendFailure(f"exporting {folder} to ONNX took more than {PATIENCE:.0f} s; {_TORCH}") from error
        if done.returncode != 0 or not made.is_file():
            why = (done.stderr.strip() or "no message").splitlines()[-1]
            raise BackendFailure(f"exporting {folder} to ONNX failed ({why}); {_TORCH}")
        made.replace(file)


def export_to_onnx(network: Path, file: Path) -> None:
    """Write the transformer in a folder as an ONNX file and compare it with torch on inputs of other lengths.

    Raises `BackendFailure` if they differ.
    """
    import torch
    from transformers import AutoModel

    torch.set_num_threads(1)
    model = AutoModel.from_pretrained(str(network), attn_implementation="eager")
    known = inspect.signature(model.forward).parameters
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in known]

    class TokenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model  # as a submodule, so that its weights are exported

        def forward(self, *given: Any) -> Any:
            return self.model(**dict(zip(names, given, strict=True))).last_hidden_state

    def build_inputs(length: int) -> tuple[Any, ...]:
        tokens = torch.arange(5, 5 + length)[None] % model.config.vocab_size
        given = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return tuple(given.get(name, torch.zeros_like(tokens)) for name in names)

    states = TokenStates().eval()
    axes = {name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracing exporter needs one package, the newer one three
        torch.onnx.export(
            states, build_inputs(12), str(file), input_names=names, output_names=["last_hidden_state"],
            dynamic_axes=axes, opset_version=17, dynamo=False,
        )  # fmt: skip
        _compare_outputs(states, file, names, [build_inputs(length) for length in (2, 7, 100)])


def _compare_outputs(model: Any, file: Path, names: list[str], cases: list[tuple[Any, ...]]) -> None:
    import onnxruntime

    network = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    for given in cases:
        (states,) = network.run(None, {name: array.numpy() for name, array in zip(names, given, strict=True)})
        difference = float(np.abs(states - model(*given).numpy()).max())
        if not difference < CLOSE:
            raise BackendFailure(f"the exported network differs from torch by {difference:.1e}")
