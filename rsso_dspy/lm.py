"""Language models by role.

    Backend(config.active_backend).lm("actor", 1)      # a dspy.LM: role, rollout number

Keys are read from the environment when a model is created and are stored nowhere else.
"""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import dspy
from dspy.utils.exceptions import LMConfigurationError

from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.config import EMBEDDED, BackendConfig, Config, Role, RoleOverride
from rsso_dspy.errors import ConfigError, MissingKey
from rsso_dspy.logged_lm import LoggedLM, RequestRetrier, import_litellm
from rsso_dspy.redact import register_secret, strip_credentials, watch_variable


class Provider(NamedTuple):
    """What is known of a provider that DSPy's own client supports."""

    address: str  # to find the proxy for it; other providers are assumed to be at https://NAME
    refused: tuple[str, ...] = ()  # settings that it lacks and may drop silently: refused before anything is sent
    instead: str = ""  # what to do about these
    hottest: float = inf  # highest temperature; DSPy would silently reduce a higher one
    bare: bool = False  # whether its address is usually given without /v1


OLLAMA = Provider(
    "http://localhost:11434", ("top_k", "repetition_penalty"), ", and set it in the model's Modelfile", bare=True
)
NATIVE = {
    "anthropic": Provider("https://api.anthropic.com", ("repetition_penalty", "seed"), hottest=1.0, bare=True),
    "openai": Provider("https://api.openai.com", OLLAMA.refused, ", or name a server of your own with base_url"),
    "hosted_vllm": Provider("http://localhost:8000"),
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
}
"""Variables such as ANTHROPIC_BASE_URL make DSPy use LiteLLM instead, which builds other paths; an endpoint in the
configuration always uses DSPy's client."""


class Backend:
    """The models of one `[backends.NAME]` table, or `users_lm` in all roles. Thread-safe. Waiting threads give up when
    `stopped` returns True."""

    def __init__(
        self, config: BackendConfig, stopped: Callable[[], bool] = lambda: False, users_lm: dspy.BaseLM | None = None
    ):
        self.config = config
        self.users_lm = users_lm
        self.replay = Path(config.replay) if config.replay else None  # folder whose log answers
        self.patience = RequestRetrier(config.retries, config.longest_wait, stopped)
        self.lm = lru_cache(maxsize=1024)(self._build_lm)
        bypass_proxy(*self.addresses.values())

    @property
    def rule_based(self) -> bool:
        return EMBEDDED in self.models.values()

    @property
    def models(self) -> dict[Role, str]:
        return {role: self.config.resolve_role(role).model or "" for role in get_args(Role)}

    @property
    def addresses(self) -> dict[Role, str]:
        """Address of each role's requests; none of the embedded model, or when a log answers."""
        if self.config.replay:
            return {}
        settings = {role: self.config.resolve_role(role) for role in self.models if self.models[role] != EMBEDDED}
        return {role: own.base_url or resolve_provider_address(own.model or "") for role, own in settings.items()}

    @property
    def adapter(self) -> dspy.Adapter:
        """The answer format the backend asks for, read with tolerance for answers that do not keep to it."""
        return {"chat": ChatAdapter, "json": JSONAdapter}[self.config.adapter]()

    def check(self, retry_temperature: float | None = None) -> None:
        """Raise errors that would stop every unit: a malformed model name, a missing key, an unsupported setting."""
        for role in ("actor", *self.config.roles):
            self.lm(role, 0)
        if retry_temperature is not None:
            self.lm("actor", 0, retry_temperature)

    def _build_lm(self, role: Role, rollout: int, temperature: float | None = None) -> dspy.LM:
        """Build the model of a role. `rollout` tells repeats of a request apart for backends that use seeds."""
        if self.users_lm is not None:
            return self.users_lm if temperature is None else self.users_lm.copy(temperature=temperature)
        settings = self.config.resolve_role(role, temperature)
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
            from rsso_dspy.offline import Explorer

            player = LoggedLM(settings.model, engine=Explorer(seed=rollout), cache=False, num_retries=0, **options)
            player.patience = RequestRetrier(0, 0.0, self.patience.stopped)
            return player
        known = settings.model_copy(update={"base_url": settings.base_url or "recorded"} if self.replay else {})
        options |= build_decoding_options(role, known, self.config.seed)
        options |= {} if self.replay else self._way_to(role, settings)
        try:
            lm = LoggedLM(f"{provider}/{name}", cache=False, num_retries=0, **options)
        except LMConfigurationError as error:
            raise ConfigError(
                f"model {settings.model!r} of role {role} does not support temperature {settings.temperature} with "
                f"max_tokens {settings.max_tokens}: {error.message}"
            ) from None
        lm.patience, lm.seeds = self.patience, rollout if self.config.seed else None
        lm.replays, lm.asks_again = self.replay is not None, self.config.ask_again is not False
        return lm

    def _way_to(self, role: Role, settings: RoleOverride) -> dict[str, Any]:
        """Build the options for reaching a model: address, client, key, timeout."""
        options: dict[str, Any] = {"timeout": self.config.timeout}
        provider = (settings.model or "").partition("/")[0]
        if provider in NATIVE and "@" in urlsplit(settings.base_url or "").netloc:
            raise ConfigError(
                f"the address of role {role} contains a user name or a password, which requests for {settings.model} "
                "cannot carry: remove it, and name a variable with the server's key in key_variable"
            )
        if settings.base_url:
            bare = provider in NATIVE and NATIVE[provider].bare and not urlsplit(settings.base_url).path.strip("/")
            options["api_base"] = f"{settings.base_url.rstrip('/')}/v1" if bare else settings.base_url
            options["engine"] = "lm15" if provider in NATIVE else "auto"
        set_beside = settings.top_k is not None or settings.repetition_penalty is not None
        needs_litellm = set_beside and provider in ("openai", "hosted_vllm")  # where DSPy's own client omits these
        if needs_litellm:
            options["engine"] = "litellm"
        address = settings.base_url or resolve_provider_address(settings.model or "")
        by_variable = not settings.base_url and provider in NATIVE and address != NATIVE[provider].address
        if provider not in NATIVE or by_variable or needs_litellm:
            import_litellm()  # now, because its seconds should not count against the first request's timeout
        if key := read_key(settings.key_variable, settings.model or "", "--backend embedded"):
            options["api_key"] = key
        return options


def resolve_provider_address(model: str) -> str:
    """Return the address of a provider: that of its environment variables, otherwise its own."""
    provider = model.partition("/")[0]
    named = (os.environ.get(f"{provider.upper()}_{name}") for name in ("API_BASE", "BASE_URL"))
    return next(filter(None, named), "") or (NATIVE[provider].address if provider in NATIVE else f"https://{provider}")


def list_backend_proxies(config: Config) -> dict[str, str]:
    """Return the environment's proxies by the address they are used for, both without credentials."""
    sent, embedder = list(Backend(config.active_backend).addresses.values()), config.embedder
    if embedder.model.startswith("litellm/"):
        sent.append(embedder.base_url or resolve_provider_address(embedder.model.removeprefix("litellm/")))
    return {strip_credentials(url): proxy for url in sent if (proxy := find_proxy(url))}


# Proxies. Those of the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`, in either case) apply as for
# any HTTP tool, except to this machine: a remote proxy could not reach it, and would see prompts and keys.

LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # libraries know its other names


def is_local(address: str) -> bool:
    """Return whether the address is of this machine: a loopback address in any notation, or its own name."""
    host = (urlsplit(address).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost") or host == socket.gethostname().lower():
        return True
    with suppress(OSError):
        host = socket.inet_ntoa(socket.inet_aton(host))  # 127.1
    try:
        number = ip_address(host)
    except ValueError:
        return False
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified


def find_proxy(address: str) -> str:
    """Return the proxy for this address without user and password, or an empty string."""
    parts = urlsplit(address)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_local(address) or proxy_bypass(parts.hostname or ""):
        return ""
    return strip_credentials(proxy if "://" in proxy else f"http://{proxy}")


def bypass_proxy(*addresses: str | None) -> None:
    """Make every HTTP library reach this machine without a proxy: in `no_proxy`, plain names mean the same to all."""
    proxies = getproxies()
    if not {"http", "https", "all"} & set(proxies) or proxies.get("no", "").strip() == "*":
        return
    hosts = [urlsplit(address).hostname or "" for address in addresses if address and is_local(address)]
    spared = [name.strip() for name in proxies.get("no", "").split(",") if name.strip()]
    names = ",".join(dict.fromkeys([*spared, *LOOPBACK, *hosts]))
    if names != proxies.get("no"):
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = names


def read_key(variable: str | None, model: str, otherwise: str) -> str | None:
    """Return the key in an environment variable, without surrounding white space; without a `variable`, that in the
    provider's usual one if libraries would send it with white space, else None. Raises `MissingKey`, which names the
    option `otherwise` that needs none, and `ConfigError` for a key that no HTTP header can hold."""
    name = variable or f"{model.partition('/')[0].upper()}_API_KEY"
    watch_variable(name)
    found = os.environ.get(name, "")
    key = found.strip()
    if not key and variable is None:
        return None
    if not key:
        raise MissingKey(
            f"{model} needs a key, and the environment variable {name} is not set: "
            f"`export {name}=...`, or use {otherwise}, which needs none"
        )
    if odd := next((letter for letter in key if not " " <= letter <= "~"), None):
        what = "a line break" if odd in "\r\n" else f"the character U+{ord(odd):04X}"
        raise ConfigError(
            f"the key in {name} contains {what}, which no request can carry: set it again to the key alone, "
            f"`export {name}=...`"
        )
    register_secret(key)
    return key if variable or key != found else None


def build_decoding_options(role: str, settings: RoleOverride, seeded: bool) -> dict[str, Any]:
    """Return the decoding options except temperature and length. Raises `ConfigError` for one not supported."""
    found = {"top_p": settings.top_p, "top_k": settings.top_k, "repetition_penalty": settings.repetition_penalty}
    options: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    model, known = settings.model or "", NATIVE.get((settings.model or "").partition("/")[0], Provider(""))
    if (settings.temperature or 0) > known.hottest:
        raise ConfigError(
            f"model {model!r} of role {role} does not support temperature {settings.temperature}: {known.hottest:g} is "
            "the highest that its provider supports"
        )
    for name in list_refused_settings(model, settings.base_url):
        if name in options or (name == "seed" and seeded):
            raise ConfigError(f"model {model!r} of role {role} does not support {name}: leave it out{known.instead}")
    if "repetition_penalty" in options:
        options["repeat_penalty"] = options["repetition_penalty"]  # llama.cpp's name; vLLM uses the other one
    return options


def list_refused_settings(model: str, base_url: str | None) -> tuple[str, ...]:
    """Settings that the provider of a model does not take; none where a server of one's own speaks OpenAI's format."""
    provider = model.partition("/")[0]
    return NATIVE[provider].refused if provider in NATIVE and not (provider == "openai" and base_url) else ()
