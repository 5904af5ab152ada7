"""How a sentence-transformers model makes a vector of a text, read from its files: for the route without torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.errors import BackendUnreachable, ConfigError, DamagedFile
from rsso_dspy.files import read_json

USE_TORCH = "use it without numpy/ in embedder.model, which needs the extra rsso-dspy[sentence-transformers]"


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
        modules = read_optional_json(folder / "modules.json") or []
        kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules] or ["Transformer", "Pooling"]
        if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
            raise build_unsupported_error(folder, f"is built of {', '.join(kinds)}")
        network = folder / (modules[0].get("path", "") if modules else "")
        pooling = read_optional_json(folder / modules[1].get("path", "1_Pooling") / "config.json") if modules else {}
        if (how := _list_poolings(pooling or {})) != ["mean"]:
            raise build_unsupported_error(folder, f"pools by {' and '.join(how) or 'nothing'}")
        if prompt := (read_optional_json(folder / "config_sentence_transformers.json") or {}).get(
            "default_prompt_name"
        ):
            raise build_unsupported_error(folder, f"puts the prompt {prompt!r} before every text")
        tokenizer = next((place for place in (network, folder) if (place / "tokenizer.json").is_file()), None)
        if tokenizer is None:
            raise BackendUnreachable(
                f"{network / 'tokenizer.json'} is missing, which the numpy route reads; {USE_TORCH}"
            )
        settings = read_optional_json(network / "sentence_bert_config.json") or {}
        limit = settings.get("max_seq_length") or _find_token_limit(network)
        return cls(network, tokenizer / "tokenizer.json", limit, bool(settings.get("do_lower_case")))

    def prepare_text(self, text: str) -> str:
        return text.lower() if self.lower else text


def build_unsupported_error(folder: Path, how: str) -> ConfigError:
    """Say what is unusual about the model in a folder, and which route runs it."""
    return ConfigError(
        f"the model in {folder} {how}; the numpy route runs a Transformer with mean Pooling "
        f"and perhaps Normalize: {USE_TORCH}"
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
        (read_optional_json(network / "tokenizer_config.json") or {}).get("model_max_length"),
        (read_optional_json(network / "config.json") or {}).get("max_position_embeddings"),
    ]
    return min((int(size) for size in sizes if size), default=512)


def read_optional_json(file: Path) -> Any:
    """Read a file of a model; None if it does not exist. Raises `BackendUnreachable` for a damaged one."""
    try:
        return read_json(file)
    except FileNotFoundError:
        return None
    except (OSError, DamagedFile) as error:
        raise BackendUnreachable(f"{file} cannot be read ({error}); download the model again") from error
