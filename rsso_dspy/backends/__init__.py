"""Language models by role, and the embedder, by name.

    backend = Backend(config.active_backend)
    backend.lm("actor", 1)      # a dspy.LM: role, rollout number

Keys are read from the environment when a model is made and are kept nowhere else.
"""

import os
import socket
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, get_args
from urllib.parse import urlsplit

import dspy
from dspy.utils.exceptions import LMConfigurationError

from rsso_dspy.backends.adapters import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.backends.decoding import decoding, through_litellm, varies
from rsso_dspy.backends.patience import Patience, PatientLM
from rsso_dspy.config import EMBEDDED, BackendConfig, Role, RoleOverride
from rsso_dspy.errors import BackendUnreachable, ConfigError, MissingKey

CONNECT_SECONDS = 5.0
"""How long an endpoint may take to accept a connection."""

NATIVE = {"anthropic", "openai", "hosted_vllm", "ollama", "ollama_chat"}
"""Providers that DSPy speaks to itself. Variables such as ANTHROPIC_BASE_URL make it go through LiteLLM instead, which
builds other paths: not where the configuration names the endpoint."""

ADDRESSED_BY_HOST = {"anthropic", "ollama", "ollama_chat"}
"""Providers whose address is usually given without the path, which is /v1 (Ollama's is that of its OpenAI format)."""


class Backend:
    """The models of one `[backends.NAME]` table. Thread-safe; makes a model when its role first speaks. `stopped` is
    asked whenever a thread waits for a backend to recover."""

    def __init__(self, config: BackendConfig, stopped: Callable[[], bool] = lambda: False):
        self.config = config
        self.patience = Patience(config.retries, config.longest_wait, stopped)
        self.lm = lru_cache(maxsize=1024)(self._lm)

    @property
    def rule_based(self) -> bool:
        """Whether the embedded model answers in some role."""
        return EMBEDDED in self.models.values()

    @property
    def models(self) -> dict[Role, str]:
        """Model of each role, ``provider/model``."""
        return {role: self._settings(role).model or "" for role in get_args(Role)}

    @property
    def adapter(self) -> dspy.Adapter:
        """The answer format the backend asks for, read with tolerance for answers that do not keep to it."""
        adapters = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter}
        return adapters[self.config.adapter]()

    def check(self, retry_temperature: float | None = None) -> None:
        """Raise now what would stop every unit later: an unknown form of model name, a missing key, a setting that a
        model does not take."""
        for role in ("actor", *self.config.roles):
            self.lm(role, 0)
        if retry_temperature is not None:
            self.lm("actor", 0, retry_temperature)

    def reach(self) -> None:
        """Raise `BackendUnreachable` when an endpoint that the configuration names accepts no connection."""
        for role in ("actor", *self.config.roles):
            url = self._settings(role).base_url
            if not url or self._settings(role).model == EMBEDDED:
                continue
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            try:
                socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
            except OSError as error:
                raise BackendUnreachable(
                    f"nothing answers at {url} ({error}), the endpoint of role {role}; start the server, or set "
                    "base_url of the backend, e.g. --set backends.NAME.base_url=http://127.0.0.1:8000/v1"
                ) from None

    def varies(self, role: Role, temperature: float | None = None) -> bool:
        """Whether the model of a role, at its own temperature or at this one, may answer a request in another way when
        it is asked once more."""
        settings = self._settings(role)
        if temperature is not None:
            settings = settings.model_copy(update={"temperature": temperature})
        return settings.model == EMBEDDED or varies(settings)

    def _lm(self, role: Role, rollout: int, temperature: float | None = None) -> dspy.LM:
        """The model of a role, at its own temperature or at this one. `rollout` tells repeats of one request apart
        where a backend can make use of it."""
        settings = self._settings(role)
        if temperature is not None:
            settings = settings.model_copy(update={"temperature": temperature})
        options: dict[str, Any] = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
        provider, slash, name = (settings.model or "").partition("/")
        if not slash or not name:
            raise ConfigError(
                f"model {settings.model!r} of role {role} is not of the form provider/model, "
                f"e.g. anthropic/claude-sonnet-4-6, openai/gpt-4.1-mini, ollama_chat/llama3.1 or {EMBEDDED}"
            )
        if provider == "embedded":
            if settings.model != EMBEDDED:
                raise ConfigError(f"model {settings.model!r}: the only embedded model is {EMBEDDED}")
            from rsso_dspy.backends.embedded import Explorer

            return dspy.LM(settings.model, engine=Explorer(seed=rollout), cache=False, **options)
        options |= decoding(role, settings, self.config.seed)
        if settings.base_url:
            options["api_base"] = _endpoint(provider, settings.base_url)
            options["engine"] = "lm15" if provider in NATIVE else "auto"
        if through_litellm(settings):
            options["engine"] = "litellm"
        if provider not in NATIVE or through_litellm(settings):
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            import_module("litellm")  # seconds, which are not to be taken from the first request's
        if settings.key_variable:
            options["api_key"] = self._key(settings)
        options |= {"cache": False, "timeout": self.config.timeout, "marks": provider == "anthropic"}
        try:
            return PatientLM(f"{provider}/{name}", self.patience, rollout if self.config.seed else None, **options)
        except LMConfigurationError as error:
            raise ConfigError(
                f"model {settings.model!r} of role {role} does not take temperature {settings.temperature} with "
                f"max_tokens {settings.max_tokens}: {error.message}"
            ) from None

    def _settings(self, role: Role) -> RoleOverride:
        """The backend's settings with the role's overrides on top. A role on another provider inherits neither
        endpoint nor key, and one with an endpoint of its own no key: a key goes where it was meant to."""
        own = self.config.roles.get(role, RoleOverride()).model_dump(exclude_none=True)
        inherited = self.config.model_dump(include=set(RoleOverride.model_fields))
        if own.get("model", self.config.model).partition("/")[0] != self.config.model.partition("/")[0]:
            inherited |= {"base_url": None, "key_variable": None}
        if own.get("base_url", self.config.base_url) != self.config.base_url:
            inherited |= {"key_variable": None}
        return RoleOverride(**{**inherited, **own})

    def _key(self, settings: RoleOverride) -> str:
        variable = settings.key_variable or ""
        key = os.environ.get(variable)
        if not key:
            raise MissingKey(
                f"{settings.model} needs a key, and the environment variable {variable} is not set: "
                f"`export {variable}=...`, or use --backend embedded, which needs none"
            )
        return key


def _endpoint(provider: str, url: str) -> str:
    """The address with its path, where that is left out by custom."""
    bare = provider in ADDRESSED_BY_HOST and not urlsplit(url).path.strip("/")
    return f"{url.rstrip('/')}/v1" if bare else url
