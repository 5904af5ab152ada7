"""Sections of the configuration about models: backends, roles, embedder, prices."""

import re
from importlib.util import find_spec
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from rsso_dspy.bounds import MOST_DOLLARS, MOST_KEPT, MOST_RETRIES, MOST_SECONDS, MOST_TEMPERATURE, MOST_TOKENS
from rsso_dspy.redact import register_address, register_secret, watch_variable

Role = Literal["actor", "reflector", "verbalizer", "advisor", "proposer"]
"""actor acts; reflector writes reflections; verbalizer describes skills; advisor writes constitutions; proposer is the
optimizer's model."""


EMBEDDED = "embedded/explorer"
"""The rule-based offline model, which costs nothing."""

TRANSPORT = {"base_url", "key_variable", "timeout", "retries", "longest_wait", "replay"}
"""Settings of a backend or the embedder that affect how a model is reached, but not its answers."""


def _check_url(value: str | None) -> str | None:
    """Check an http(s) address. Messages do not show its secrets."""
    register_address(value)
    if value is not None:
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("not an address like http://127.0.0.1:8000/v1")
    return value


Url = Annotated[str | None, AfterValidator(_check_url)]


def _check_key_variable(value: str | None) -> str | None:
    """Check the name of an environment variable. Messages do not show the text, which may be the key itself."""
    watch_variable(value)
    if value and not _PLAIN_VARIABLE.fullmatch(value):
        register_secret(value)
    return value


_PLAIN_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*")

Variable = Annotated[str | None, AfterValidator(_check_key_variable)]


class Section(BaseModel):
    """Base class of configuration tables. Unknown keys are refused; every field has a docstring."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


TopP = Annotated[float | None, Field(gt=0, le=1)]
TopK = Annotated[int | None, Field(gt=0, le=MOST_KEPT)]
Penalty = Annotated[float | None, Field(gt=0, le=MOST_TEMPERATURE)]


class RoleOverride(Section):
    """Overrides of a backend for one role."""

    model: str | None = None
    """`provider/model` (default: the backend's)."""
    base_url: Url = None
    """Endpoint of this role."""
    key_variable: Variable = None
    """Environment variable with the key of this role."""
    temperature: float | None = Field(None, ge=0, le=MOST_TEMPERATURE)
    """Sampling temperature of this role."""
    top_p: TopP = None
    """Nucleus sampling (top-p) of this role."""
    top_k: TopK = None
    """Top-k sampling of this role."""
    repetition_penalty: Penalty = None
    """Repetition penalty of this role."""
    max_tokens: int | None = Field(None, gt=0, le=MOST_TOKENS)
    """Maximum answer length of this role, in tokens."""


class BackendConfig(Section):
    """A backend: the source of answers for all roles."""

    model: str
    """`provider/model`, as in LiteLLM and DSPy; `embedded/explorer` is the rule-based offline model."""
    base_url: Url = None
    """Endpoint, if not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable with the key; absent for a backend without keys."""
    temperature: float | None = Field(0.0, ge=0, le=MOST_TEMPERATURE)
    """Sampling temperature of every role that does not override it."""
    top_p: TopP = None
    """Nucleus sampling (top-p); not sent when absent."""
    top_k: TopK = None
    """Top-k sampling; not sent when absent. OpenAI and Ollama do not support it."""
    repetition_penalty: Penalty = None
    """Penalty of repeated tokens, 1 for none; not sent when absent. Self-hosted servers such as vLLM and llama.cpp
    support it; Anthropic, OpenAI and Ollama do not."""
    seed: bool = False
    """Whether every request carries its own seed, derived from unit, trial and request number. Samples then differ
    between trials and repeat between runs, if the server honours seeds. Anthropic does not support it."""
    max_tokens: int | None = Field(1024, gt=0, le=MOST_TOKENS)
    """Maximum answer length in tokens."""
    timeout: float = Field(120.0, gt=0, le=MOST_SECONDS)
    """Time limit of a request in seconds, from its first byte to the last byte of the answer."""
    retries: int = Field(4, ge=0, le=MOST_RETRIES)
    """Retries of a request after a connection failure, a rate limit or a server error."""
    longest_wait: float = Field(60.0, ge=0, le=MOST_SECONDS)
    """Maximum seconds to wait before a retry; a server that asks for more fails the trial."""
    adapter: Literal["chat", "json", "xml"] = "chat"
    """Requested answer format."""
    ask_again: bool | None = None
    """Whether to ask a second time, in JSON, for an answer that cannot be parsed (never under `json`).
    When absent: yes for a provider, no for a server on this machine, where it doubles the time."""
    replay: str | None = None
    """Folder of a run whose logs answer in place of the models. Only exact matches
    count, and nothing is sent."""
    roles: dict[Role, RoleOverride] = Field(default_factory=dict)
    """Overrides per role."""

    def resolve_role(self, role: Role, temperature: float | None = None) -> RoleOverride:
        """Merge the settings with the role's overrides and a temperature. A role on another provider inherits
        neither endpoint nor key, and a role with its own endpoint no key, so that no key reaches another server."""
        own = self.roles.get(role, RoleOverride()).model_dump(exclude_none=True)
        inherited = self.model_dump(include=set(RoleOverride.model_fields))
        if own.get("model", self.model).partition("/")[0] != self.model.partition("/")[0]:
            inherited |= {"base_url": None, "key_variable": None}
        if own.get("base_url", self.base_url) != self.base_url:
            inherited |= {"key_variable": None}
        return RoleOverride(**{**inherited, **own, **({} if temperature is None else {"temperature": temperature})})


PROFILES: dict[str, dict[str, Any]] = {
    "embedded": {"model": EMBEDDED, "temperature": 0.5},
    "anthropic": {"model": "anthropic/claude-sonnet-4-6", "key_variable": "ANTHROPIC_API_KEY", "max_tokens": 1024},
    "openai": {"model": "openai/gpt-4.1-mini", "key_variable": "OPENAI_API_KEY"},
    "ollama": {"model": "ollama_chat/llama3.1", "base_url": "http://127.0.0.1:11434"},
    "vllm": {"model": "hosted_vllm/served-model", "base_url": "http://127.0.0.1:8000/v1"},
}
"""Built-in backends; a file may override or extend them."""


MINILM = "all-MiniLM-L6-v2"
"""The default sentence-transformers model."""


def pick_default_embedder() -> str:
    """Return the default of `embedder.model`: with torch where sentence-transformers is installed, else in numpy.

    Both have the same weights and agree up to rounding. Records and protocol ids name the one in use, and a folder
    continues only with its own.
    """
    return MINILM if all(find_spec(name) for name in ("sentence_transformers", "torch")) else f"numpy/{MINILM}"


class EmbedderConfig(Section):
    """The text embedder of the skill memory."""

    model: str = Field(default_factory=pick_default_embedder, min_length=1)
    """A sentence-transformers model by name or folder, `numpy/NAME` for the same without torch,
    `litellm/PROVIDER/MODEL` for a provider's, `lexical` (shared words, instant) or `hash` (meaningless, for tests).
    Default: all-MiniLM-L6-v2 where sentence-transformers is installed, else numpy/all-MiniLM-L6-v2."""
    base_url: Url = None
    """Endpoint of a `litellm/` model, if not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable with the key of a `litellm/` model."""
    timeout: float = Field(60.0, gt=0, le=MOST_SECONDS)
    """Time limit of an embedding request in seconds."""
    retries: int = Field(4, ge=0, le=MOST_RETRIES)
    """Retries of an embedding request after a connection failure, a rate limit or a server error."""
    cache: bool = True
    """Whether to keep vectors in the user's cache folder for later runs."""

    @field_validator("model")
    @classmethod
    def _check_model_route(cls, value: str) -> str:
        """Refuse a route without a model, which would be taken for a model name."""
        route, slash, name = value.partition("/")
        if route == "numpy" and not name.strip("/ "):
            raise ValueError(f"numpy/ needs a sentence-transformers model after it, e.g. numpy/{MINILM}")
        provider, _, model = name.partition("/")
        if route == "litellm" and not (provider.strip() and model.strip("/ ")):
            raise ValueError("litellm/ needs provider and model, e.g. litellm/openai/text-embedding-3-small")
        if value != value.strip() or (slash and not route and not name):
            raise ValueError("not the name of a model, e.g. all-MiniLM-L6-v2")
        return value


class PriceConfig(Section):
    """Price of a model in US dollars per million tokens."""

    input: float = Field(ge=0, le=MOST_DOLLARS)
    """Input tokens."""
    output: float = Field(ge=0, le=MOST_DOLLARS)
    """Output tokens."""
    cached: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens read from the provider's cache (default: the input price)."""
    cache_write: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens written to the provider's cache (default: the input price)."""
