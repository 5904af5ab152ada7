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
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

import dspy
from dspy.utils.exceptions import LMConfigurationError

from rsso_dspy.addresses import bypass_proxy, find_proxy, is_local, strip_credentials
from rsso_dspy.config import EMBEDDED, BackendConfig, Config, Role, RoleOverride
from rsso_dspy.errors import BackendUnreachable, ConfigError
from rsso_dspy.lm.adapters import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.lm.adapters.schemas import JSONAdapter as SchemaAdapter
from rsso_dspy.lm.decoding import build_decoding_options, is_litellm_needed, is_stochastic_decoding
from rsso_dspy.lm.keys import read_api_key, strip_provider_key
from rsso_dspy.lm.recording import OfflineLM
from rsso_dspy.lm.retry import RequestRetrier, RetryingLM
from rsso_dspy.recordings import Recordings

CONNECT_SECONDS = 5.0
"""How long an endpoint may take to accept a connection."""

NATIVE = {"anthropic", "openai", "hosted_vllm", "ollama", "ollama_chat"}
"""Providers that DSPy speaks to itself. Variables such as ANTHROPIC_BASE_URL make it go through LiteLLM instead, which
builds other paths: not where the configuration names the endpoint."""

ADDRESSED_BY_HOST = {"anthropic", "ollama", "ollama_chat"}
"""Providers whose address is usually given without the path, which is /v1 (Ollama's is that of its OpenAI format)."""

ADDRESSES = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "hosted_vllm": "http://localhost:8000",
    "ollama": "http://localhost:11434",
    "ollama_chat": "http://localhost:11434",
}
"""Where providers are, to say which proxy stands before them; others are taken to be at https://NAME."""


class Backend:
    """The models of one `[backends.NAME]` table. Thread-safe; makes a model when its role first speaks. `stopped` is
    asked whenever a thread waits for a backend to recover. `users_lm` answers in every role in place of the table's."""

    def __init__(
        self,
        config: BackendConfig,
        stopped: Callable[[], bool] = lambda: False,
        users_lm: dspy.BaseLM | None = None,
    ):
        self.config = config
        self.users_lm = users_lm
        self.recordings = Recordings.of(Path(config.replay)) if config.replay else None
        """What answers in place of the models; None when they are asked."""
        self.patience = RequestRetrier(config.retries, config.longest_wait, stopped)
        self.lm = lru_cache(maxsize=1024)(self._build_lm)
        bypass_proxy(*self.addresses.values())
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices

    @property
    def rule_based(self) -> bool:
        """Whether the embedded model answers in some role."""
        return EMBEDDED in self.models.values()

    @property
    def deaf_roles(self) -> frozenset[Role]:
        """Roles in which the embedded model heeds a few fixed sentences of an instruction at most."""
        from rsso_dspy.explorer import HEEDING

        return frozenset(role for role, model in self.models.items() if model == EMBEDDED and role not in HEEDING)

    @property
    def models(self) -> dict[Role, str]:
        """Model of each role, ``provider/model``."""
        return {role: self._resolve_role_settings(role).model or "" for role in get_args(Role)}

    @property
    def addresses(self) -> dict[Role, str]:
        """Where the requests of each role go: to the configured address, or the provider's own. None of the embedded
        model's go anywhere, and none at all where recordings answer."""
        if self.config.replay:
            return {}
        settings = {role: self._resolve_role_settings(role) for role in self.models if self.models[role] != EMBEDDED}
        return {role: own.base_url or resolve_provider_address(own.model or "") for role, own in settings.items()}

    @property
    def adapter(self) -> dspy.Adapter:
        """The answer format the backend asks for, read with tolerance for answers that do not keep to it."""
        adapters = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter, "schema": SchemaAdapter}
        return adapters[self.config.adapter]()

    def check(self, retry_temperature: float | None = None) -> None:
        """Raise now what would stop every unit later: an unknown form of model name, a missing key, a setting that a
        model does not take."""
        for role in ("actor", *self.config.roles):
            self.lm(role, 0)
        if retry_temperature is not None:
            self.lm("actor", 0, retry_temperature)

    def check_connections(self) -> None:
        """Raise `BackendUnreachable` when an endpoint that the configuration names accepts no connection."""
        if self.recordings:
            return
        for role in ("actor", *self.config.roles):
            url = self._resolve_role_settings(role).base_url
            if not url or self._resolve_role_settings(role).model == EMBEDDED:
                continue
            proxy = find_proxy(url)
            parts = urlsplit(proxy or url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            try:
                socket.create_connection((parts.hostname or "", port), timeout=CONNECT_SECONDS).close()
            except OSError as error:
                what = (
                    f"the proxy {proxy} (of the environment), which requests for {strip_credentials(url)} go through,"
                )
                mend = f"name {urlsplit(url).hostname} in no_proxy" if proxy else "start the server"
                raise BackendUnreachable(
                    f"nothing answers at {what if proxy else strip_credentials(url)} ({error}), the endpoint of role "
                    f"{role}; "
                    f"{mend}, or set base_url of the backend, e.g. --set backends.NAME.base_url=http://127.0.0.1:8000/v1"
                ) from None

    def asks_again(self, role: Role) -> bool:
        """Whether an answer in this role that cannot be read is asked for once more, in JSON: of a provider, unless the
        configuration says otherwise, and not of a server on this machine."""
        if self.config.ask_again is not None:
            return self.config.ask_again
        own = self._resolve_role_settings(role)  # where recordings answer too, as when they were made
        return own.model == EMBEDDED or not is_local(own.base_url or resolve_provider_address(own.model or ""))

    def is_stochastic(self, role: Role, temperature: float | None = None) -> bool:
        """Whether the model of a role, at its own temperature or at this one, may answer a request in another way when
        it is asked once more."""
        settings = self._resolve_role_settings(role)
        if temperature is not None:
            settings = settings.model_copy(update={"temperature": temperature})
        return settings.model == EMBEDDED or is_stochastic_decoding(settings)

    def _build_lm(self, role: Role, rollout: int, temperature: float | None = None) -> dspy.LM:
        """The model of a role, at its own temperature or at this one. `rollout` tells repeats of one request apart
        where a backend can make use of it."""
        if self.users_lm is not None:
            return self.users_lm
        settings = self._resolve_role_settings(role)
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
            from rsso_dspy.explorer import Explorer

            return OfflineLM(settings.model, engine=Explorer(seed=rollout), cache=False, **options)
        known = settings.model_copy(update={"base_url": settings.base_url or "recorded"} if self.recordings else {})
        options |= {**build_decoding_options(role, known, self.config.seed), "cache": False}
        options |= {"replays": True} if self.recordings else self._way_to(role, settings)
        try:
            seeds = rollout if self.config.seed else None
            return RetryingLM(f"{provider}/{name}", self.patience, seeds, asks_again=self.asks_again(role), **options)
        except LMConfigurationError as error:
            raise ConfigError(
                f"model {settings.model!r} of role {role} does not take temperature {settings.temperature} with "
                f"max_tokens {settings.max_tokens}: {error.message}"
            ) from None

    def _way_to(self, role: Role, settings: RoleOverride) -> dict[str, Any]:
        """The options that say how a model is reached, its key among them."""
        options: dict[str, Any] = {}
        provider = (settings.model or "").partition("/")[0]
        if settings.base_url:
            options["api_base"] = _complete_endpoint_url(provider, settings.base_url)
            options["engine"] = "lm15" if provider in NATIVE else "auto"
        if is_litellm_needed(settings):
            options["engine"] = "litellm"
        if provider not in NATIVE or is_litellm_needed(settings):
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
            import_module("litellm")  # seconds, which are not to be taken from the first request's
        if settings.key_variable:
            options["api_key"] = read_api_key(settings.key_variable, settings.model or "", "--backend embedded")
        elif key := strip_provider_key(settings.model or ""):
            options["api_key"] = key
        self._check_endpoint(role, settings)
        return options | {"timeout": self.config.timeout, "marks": provider == "anthropic"}

    def _resolve_role_settings(self, role: Role) -> RoleOverride:
        """The backend's settings with the role's overrides on top. A role on another provider inherits neither
        endpoint nor key, and one with an endpoint of its own no key: a key goes where it was meant to."""
        own = self.config.roles.get(role, RoleOverride()).model_dump(exclude_none=True)
        inherited = self.config.model_dump(include=set(RoleOverride.model_fields))
        if own.get("model", self.config.model).partition("/")[0] != self.config.model.partition("/")[0]:
            inherited |= {"base_url": None, "key_variable": None}
        if own.get("base_url", self.config.base_url) != self.config.base_url:
            inherited |= {"key_variable": None}
        return RoleOverride(**{**inherited, **own})

    def _check_endpoint(self, role: Role, settings: RoleOverride) -> None:
        """Raise `ConfigError` for a way to the model that DSPy's own client cannot go: it knows no proxy but those
        spoken to by plain HTTP, and would take a user's name in an address for a part of the host's."""
        if (settings.model or "").partition("/")[0] not in NATIVE:
            return
        if "@" in urlsplit(settings.base_url or "").netloc:
            raise ConfigError(
                f"the address of role {role} holds a user or a password, which requests for {settings.model} cannot "
                "hold: leave it out, and name a variable with the server's key in key_variable"
            )
        url = settings.base_url or resolve_provider_address(settings.model or "")
        proxy = find_proxy(url)
        if proxy and urlsplit(proxy).scheme != "http":
            raise ConfigError(
                f"requests for {settings.model} would go through {proxy}, the environment's proxy, and only proxies "
                f"at http:// addresses can be used: set another, or name {urlsplit(url).hostname} in no_proxy"
            )


def resolve_provider_address(model: str) -> str:
    """Where requests for `provider/model` go when no address is configured: where variables of the provider say, else
    to its own endpoint."""
    provider = model.partition("/")[0]
    named = (os.environ.get(f"{provider.upper()}_{name}") for name in ("API_BASE", "BASE_URL"))
    return next(filter(None, named), "") or ADDRESSES.get(provider, f"https://{provider}")


def list_backend_proxies(config: Config) -> dict[str, str]:
    """The environment's proxies that requests go through, by the address that they are for; what is secret in either
    is left out."""
    sent = list(Backend(config.active_backend).addresses.values())
    if config.embedder.model.startswith("litellm/"):
        sent.append(
            config.embedder.base_url or resolve_provider_address(config.embedder.model.removeprefix("litellm/"))
        )
    return {strip_credentials(url): proxy for url in sent if (proxy := find_proxy(url))}


def _complete_endpoint_url(provider: str, url: str) -> str:
    """The address with its path, where that is left out by custom."""
    bare = provider in ADDRESSED_BY_HOST and not urlsplit(url).path.strip("/")
    return f"{url.rstrip('/')}/v1" if bare else url
