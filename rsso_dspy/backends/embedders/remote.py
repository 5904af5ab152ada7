"""Vectors from a provider, through LiteLLM: `litellm/PROVIDER/MODEL`."""

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from rsso_dspy.addresses import keep_direct, plain
from rsso_dspy.backends.embedders.route import unit
from rsso_dspy.backends.keys import mended_key, read_key
from rsso_dspy.backends.patience import Patience, asked_for
from rsso_dspy.backends.request_limits import within
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.errors import BackendFailure, BackendUnreachable, MissingKey
from rsso_dspy.redaction import redact
from rsso_dspy.scarcity import shortage

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds before the first further try, which double from try to try, and the longest wait a provider may ask for."""

REFUSED = (401, 403, 404)
"""Statuses that every further request would get too."""


class _None(int):
    """A zero that counts as given: the OpenAI route of LiteLLM takes a plain 0 for "not said" and tries three times."""

    def __bool__(self) -> bool:
        return True


class _Patience(Patience):
    """Patience with what LiteLLM raises. A provider that asks for more than the longest wait is asked after that."""

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        if attempt == self.retries or shortage(error) or not _may_pass(error):
            return None
        return min(asked_for(error) or FIRST_PAUSE * 2**attempt, self.longest)


class Remote:
    """A LiteLLM embedding model. Requests from several threads go out side by side."""

    name = "LiteLLM"
    batch = 64

    def __init__(self, config: EmbedderConfig):
        self.config = config
        self.model = config.model.removeprefix("litellm/")
        self.tokens = 0
        self._lock = Lock()
        self._patience = _Patience(config.retries, LONGEST_PAUSE)
        keep_direct(config.base_url)

    def check(self) -> None:
        """Raise `MissingKey` when the variable that should hold the key is empty, `ConfigError` when that is no key."""
        self._key()

    def identity(self) -> dict[str, str]:
        return {"route": "litellm", "model": self.model, "base_url": self.config.base_url or ""}

    def source(self) -> str:
        return plain(self.config.base_url or "") or f"the endpoint of {self.model.partition('/')[0]}"

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """A text without a word is sent as one space: providers refuse empty ones."""
        key = self._key()
        litellm = _litellm()
        request: dict[str, Any] = {
            "model": self.model,
            "input": [text if text.strip() else " " for text in texts],
            "timeout": self.config.timeout,
            "max_retries": _None(0),
            **({"api_base": self.config.base_url} if self.config.base_url else {}),
            **({"api_key": key} if key else {}),
        }
        try:
            answer = self._patience.ask(lambda: within(self.config.timeout, lambda: litellm.embedding(**request)))
        except Exception as error:  # LiteLLM lets errors of any library through
            failure: Exception = shortage(error) or self._failure(error, litellm)
        else:
            return self._vectors(answer, len(texts))
        raise failure  # outside of the handler: what it was made from would be printed with it, keys and all

    def _vectors(self, answer: Any, count: int) -> list[np.ndarray]:
        """The answer's rows in the order of the texts, each checked and brought to length 1."""
        try:
            entries = sorted(answer.data, key=lambda entry: entry["index"])
            rows = [np.asarray(entry["embedding"], dtype=np.float64) for entry in entries]
            paid = int(answer.usage.total_tokens or answer.usage.prompt_tokens or 0) if answer.usage else 0
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(f"something that holds no vectors ({type(error).__name__}: {error})") from error
        with self._lock:
            self.tokens += paid
        if [entry["index"] for entry in entries] != list(range(count)):
            raise self._unusable(f"{len(rows)} vectors for {count} texts")
        if any(row.shape != rows[0].shape or row.ndim != 1 for row in rows):
            raise self._unusable(f"vectors of shapes {sorted({row.shape for row in rows})}")
        if not all(np.isfinite(row).all() and row.any() for row in rows):
            raise self._unusable("a vector that has no direction (all zero, or not finite)")
        return [unit(row) for row in rows]

    def _unusable(self, what: str) -> BackendFailure:
        return BackendFailure(
            f"{self.source()} answered with {what}; is embedder.model={self.config.model} an embedder?"
        )

    def _failure(self, error: Exception, litellm: Any) -> BackendFailure:
        """What LiteLLM raised, in this project's terms, without the traceback LiteLLM puts into some messages."""
        said = redact(str(error).partition("\nTraceback")[0].strip())
        status = getattr(error, "status_code", None)
        causes = _causes(error)
        if self.config.key_variable is None and (status == 401 or _no_credentials(causes)):
            variables = litellm.validate_environment(self.model).get("missing_keys") or ["its key's variable"]
            return MissingKey(
                f"{self.model} needs a key ({said}): `export {variables[0]}=...`, or name another variable with "
                "embedder.key_variable"
            )
        if status in REFUSED:
            return BackendUnreachable(f"{self.source()} refuses every request for vectors: {said}")
        if any(isinstance(cause, OSError) or "Connect" in type(cause).__name__ for cause in causes):
            return BackendUnreachable(
                f"nothing answers at {self.source()}, the endpoint of {self.config.model} ({said}); start the server, "
                "or set embedder.base_url"
            )
        if isinstance(error, TypeError) or any(isinstance(cause, ValueError) for cause in causes):
            return self._unusable(f"something that cannot be read ({said})")
        return BackendFailure(f"{self.source()} gave no vectors: {said}")

    def _key(self) -> str | None:
        if variable := self.config.key_variable:
            return read_key(variable, self.config.model, "--set embedder.model=all-MiniLM-L6-v2")
        return mended_key(self.model)


def _litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    return litellm


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it arose from."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


def _no_credentials(causes: Sequence[BaseException]) -> bool:
    """Whether a client refused to be made without a key, which LiteLLM reports as a server error."""
    return any("Missing credentials" in str(cause) for cause in causes)


def _may_pass(error: BaseException) -> bool:
    """Whether another try may succeed: failed in transit, rate limited, a server error."""
    causes = _causes(error)
    status = getattr(error, "status_code", None)
    if _no_credentials(causes) or not isinstance(status, int):
        return False
    return status in (408, 409, 425, 429) or status >= 500
