"""The ONNX file of a sentence-transformers model.

The export happens once, in a separate process, so that torch is not loaded here."""

import inspect
import logging
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from rsso_dspy.embedders.recipe import USE_TORCH, EncodingRecipe
from rsso_dspy.embedders.weights import hash_weights
from rsso_dspy.errors import BackendFailure, BackendUnreachable
from rsso_dspy.paths import CACHE_VARIABLE, get_cache_folder

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

log = logging.getLogger(__name__)


def require_package(package: str, what: str, install: str = INSTALL) -> None:
    """Raise `BackendUnreachable` if a package of an extra is not installed; imports nothing."""
    if find_spec(package) is None:
        raise BackendUnreachable(f"{what} needs the package {package}, which is not installed: {install}")


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
        network = EncodingRecipe.from_folder(folder).network.resolve()
        command = [sys.executable, "-c", EXPORT, str(network), str(made.resolve())]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, errors="replace")
        except subprocess.TimeoutExpired as error:
            raise BackendFailure(f"exporting {folder} to ONNX took more than {PATIENCE:.0f} s; {USE_TORCH}") from error
        if done.returncode != 0 or not made.is_file():
            why = (done.stderr.strip() or "no message").splitlines()[-1]
            raise BackendFailure(f"exporting {folder} to ONNX failed ({why}); {USE_TORCH}")
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
