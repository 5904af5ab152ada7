"""Embeddings from a provider, through LiteLLM: `litellm/PROVIDER/MODEL`."""

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from rsso_dspy.addresses import bypass_proxy, strip_credentials
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embedders.base import normalize_vector
from rsso_dspy.errors import BackendFailure, BackendUnreachable, MissingKey, find_shortage, list_causes
from rsso_dspy.lm.keys import read_api_key, strip_provider_key
from rsso_dspy.lm.request_limits import call_with_timeout, import_litellm
from rsso_dspy.lm.retry import RequestRetrier, read_retry_after
from rsso_dspy.redaction import redact

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before the first retry, doubled each time, and the longest wait that a provider may ask for."""

REFUSED = (401, 403, 404)
"""HTTP statuses that every further request would get too."""


class _ExplicitZero(int):
    """A zero that is not falsy: LiteLLM's OpenAI route treats a plain 0 as unset and tries three times."""

    def __bool__(self) -> bool:
        return True


class _LiteLLMRetrier(RequestRetrier):
    """Retry policy for LiteLLM's errors; waits are limited to the longest wait."""

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        if attempt == self.retries or find_shortage(error) or not _is_retryable(error):
            return None
        return min(read_retry_after(error) or FIRST_PAUSE * 2**attempt, self.longest)


class LiteLLMRoute:
    """A LiteLLM embedding model. Requests from several threads run in parallel."""

    name = "LiteLLM"
    batch = 64
    remote = True

    def __init__(self, config: EmbedderConfig):
        self.config = config
        self.model = config.model.removeprefix("litellm/")
        self.tokens = 0
        self._lock = Lock()
        self._patience = _LiteLLMRetrier(config.retries, LONGEST_PAUSE)
        bypass_proxy(config.base_url)

    def check(self) -> None:
        """Raise `MissingKey` if the key's variable is empty, `ConfigError` if it holds no valid key."""
        self._find_api_key()

    def cache_identity(self) -> dict[str, str]:
        return {"route": "litellm", "model": self.model, "base_url": self.config.base_url or ""}

    def describe_source(self) -> str:
        return strip_credentials(self.config.base_url or "") or f"the endpoint of {self.model.partition('/')[0]}"

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Encode texts; an empty one is sent as a space, because providers refuse empty texts."""
        key = self._find_api_key()
        litellm = import_litellm()
        request: dict[str, Any] = {
            "model": self.model,
            "input": [text if text.strip() else " " for text in texts],
            "timeout": self.config.timeout,
            "max_retries": _ExplicitZero(0),
            **({"api_base": self.config.base_url} if self.config.base_url else {}),
            **({"api_key": key} if key else {}),
        }
        try:
            answer = self._patience.send_with_retries(
                lambda: call_with_timeout(self.config.timeout, lambda: litellm.embedding(**request))
            )
        except Exception as error:  # LiteLLM raises errors of any library
            failure: Exception = find_shortage(error) or self._translate_error(error, litellm)
        else:
            return self._parse_vectors(answer, len(texts))
        raise failure  # outside of the handler, or the original error would be printed too, with keys

    def _parse_vectors(self, answer: Any, count: int) -> list[np.ndarray]:
        """Return the rows of the answer in the order of the texts, checked and normalized."""
        try:
            entries = sorted(answer.data, key=lambda entry: entry["index"])
            rows = [np.asarray(entry["embedding"], dtype=np.float64) for entry in entries]
            paid = int(answer.usage.total_tokens or answer.usage.prompt_tokens or 0) if answer.usage else 0
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._build_unusable_error(f"something without vectors ({type(error).__name__}: {error})") from error
        with self._lock:
            self.tokens += paid
        if [entry["index"] for entry in entries] != list(range(count)):
            raise self._build_unusable_error(f"{len(rows)} vectors for {count} texts")
        if any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
            raise self._build_unusable_error(f"vectors of shapes {sorted({row.shape for row in rows})}")
        if not all(np.isfinite(row).all() and row.any() for row in rows):
            raise self._build_unusable_error("a vector without a direction (all zero, or not finite)")
        return [normalize_vector(row) for row in rows]

    def _build_unusable_error(self, what: str) -> BackendFailure:
        return BackendFailure(
            f"{self.describe_source()} answered with {what}; is embedder.model={self.config.model} an embedder?"
        )

    def _translate_error(self, error: Exception, litellm: Any) -> BackendFailure:
        """Translate LiteLLM's error into one of this project, without tracebacks in the message."""
        said = redact(str(error).partition("\nTraceback")[0].strip())
        status = getattr(error, "status_code", None)
        causes = list_causes(error)
        if self.config.key_variable is None and (status == 401 or _is_missing_credentials(causes)):
            variables = litellm.validate_environment(self.model).get("missing_keys") or ["its key's variable"]
            return MissingKey(
                f"{self.model} needs a key ({said}): `export {variables[0]}=...`, or name another variable with "
                "embedder.key_variable"
            )
        if status in REFUSED:
            return BackendUnreachable(f"{self.describe_source()} refuses every request for vectors: {said}")
        if any(isinstance(cause, OSError) or "Connect" in type(cause).__name__ for cause in causes):
            return BackendUnreachable(
                f"nothing answers at {self.describe_source()}, the endpoint of {self.config.model} ({said}); start "
                "the server, "
                "or set embedder.base_url"
            )
        if isinstance(error, TypeError) or any(isinstance(cause, ValueError) for cause in causes):
            return self._build_unusable_error(f"something unreadable ({said})")
        return BackendFailure(f"{self.describe_source()} gave no vectors: {said}")

    def _find_api_key(self) -> str | None:
        if variable := self.config.key_variable:
            return read_api_key(variable, self.config.model, "--set embedder.model=all-MiniLM-L6-v2")
        return strip_provider_key(self.model)


def _is_missing_credentials(causes: Sequence[BaseException]) -> bool:
    """Return whether a client could not be created without a key, which LiteLLM reports as a server error."""
    return any("Missing credentials" in str(cause) for cause in causes)


def _is_retryable(error: BaseException) -> bool:
    """Return whether a retry may succeed: connection failure, rate limit, server error."""
    causes = list_causes(error)
    status = getattr(error, "status_code", None)
    if _is_missing_credentials(causes) or not isinstance(status, int):
        return False
    return status in (408, 409, 425, 429) or status >= 500
