"""Sections of the configuration about models: where answers and vectors come from, and what they cost."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from rsso_dspy.bounds import MOST_DOLLARS, MOST_KEPT, MOST_RETRIES, MOST_SECONDS, MOST_TEMPERATURE, MOST_TOKENS
from rsso_dspy.redaction import register_address, register_secret, watch_variable

Role = Literal["actor", "reflector", "verbalizer", "advisor", "proposer"]
"""actor acts; reflector writes reflections; verbalizer turns windows into skills; advisor writes constitutions;
proposer is the optimizer's model."""


EMBEDDED = "embedded/explorer"
"""The rule-based model that answers offline and costs nothing."""

TRANSPORT = {"base_url", "key_variable", "timeout", "retries", "longest_wait", "replay"}
"""Settings of a backend, and of the embedder, that change how a model is reached and not what it answers."""


def _check_url(value: str | None) -> str | None:
    """An http(s) address, checked before anything is sent to it. What is secret in it is shown nowhere."""
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
    """The name of an environment variable, whose value is shown nowhere; nor is what may be the key itself."""
    watch_variable(value)
    if value and not _PLAIN_VARIABLE.fullmatch(value):
        register_secret(value)
    return value


_PLAIN_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*")

Variable = Annotated[str | None, AfterValidator(_check_key_variable)]


class Section(BaseModel):
    """A table of the configuration: no other keys than its fields, each of which says what it is."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


TopP = Annotated[float | None, Field(gt=0, le=1)]
TopK = Annotated[int | None, Field(gt=0, le=MOST_KEPT)]
Penalty = Annotated[float | None, Field(gt=0, le=MOST_TEMPERATURE)]


class RoleOverride(Section):
    """What one role does differently from the rest of its backend."""

    model: str | None = None
    """`provider/model`; the backend's own when absent."""
    base_url: Url = None
    """Endpoint of this role."""
    key_variable: Variable = None
    """Environment variable with the key of this role."""
    temperature: float | None = Field(None, ge=0, le=MOST_TEMPERATURE)
    """Sampling temperature of this role."""
    top_p: TopP = None
    """Share of the likelihood that this role's tokens are drawn from."""
    top_k: TopK = None
    """How many of the likeliest tokens this role's are drawn from."""
    repetition_penalty: Penalty = None
    """Repetition penalty of this role."""
    max_tokens: int | None = Field(None, gt=0, le=MOST_TOKENS)
    """Longest answer of this role, in tokens."""


class BackendConfig(Section):
    """Where answers come from."""

    model: str
    """`provider/model`, as LiteLLM and DSPy name them; `embedded/explorer` is the rule-based offline one."""
    base_url: Url = None
    """Endpoint, when it is not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable that holds the key; none for a backend without keys."""
    temperature: float = Field(0.0, ge=0, le=MOST_TEMPERATURE)
    """Sampling temperature of every role that does not override it."""
    top_p: TopP = None
    """Share of the likelihood that tokens are drawn from (nucleus sampling); not sent when absent."""
    top_k: TopK = None
    """How many of the likeliest tokens each is drawn from; not sent when absent. OpenAI and Ollama take none."""
    repetition_penalty: Penalty = None
    """Penalty of tokens that occurred before, 1 for none; not sent when absent. Servers of one's own take it, vLLM and
    llama.cpp among them; Anthropic, OpenAI and Ollama do not."""
    seed: bool = False
    """Whether every request carries a seed of its own, derived from the unit, the trial and its number: what is sampled
    then differs between trials, and a run is played alike as far as the server keeps its word. Anthropic takes none."""
    max_tokens: int = Field(1024, gt=0, le=MOST_TOKENS)
    """Longest answer in tokens."""
    timeout: float = Field(120.0, gt=0, le=MOST_SECONDS)
    """Seconds that a request may take from its first byte to the last of its answer; then it counts as failed."""
    retries: int = Field(4, ge=0, le=MOST_RETRIES)
    """Further tries of a request that failed in transit, was rate limited or met a server error."""
    longest_wait: float = Field(60.0, ge=0, le=MOST_SECONDS)
    """Seconds to wait for a server at most before asking again; one that asks for more fails the trial."""
    adapter: Literal["chat", "json", "xml", "schema"] = "chat"
    """Answer format that is asked for. `schema` is JSON under a schema, for servers that enforce `response_format`:
    llama.cpp, vLLM, Ollama, OpenAI, Anthropic."""
    ask_again: bool | None = None
    """Whether an answer that cannot be read is asked for a second time, in JSON (never under `json` and `schema`). When
    absent: of a provider, and not of a server on this machine, where it takes twice the time."""
    replay: str | None = None
    """Folder of a run that was played with --record, or its recordings: they answer in place of the models, exactly or
    not at all, and nothing is sent."""
    roles: dict[Role, RoleOverride] = Field(default_factory=dict)
    """Overrides per role."""


PROFILES: dict[str, dict[str, Any]] = {
    "embedded": {"model": EMBEDDED, "temperature": 0.5},
    "anthropic": {
        "model": "anthropic/claude-sonnet-4-6",
        "key_variable": "ANTHROPIC_API_KEY",
        "max_tokens": 1024,
    },
    "openai": {"model": "openai/gpt-4.1-mini", "key_variable": "OPENAI_API_KEY"},
    "ollama": {"model": "ollama_chat/llama3.1", "base_url": "http://127.0.0.1:11434"},
    "vllm": {"model": "hosted_vllm/served-model", "base_url": "http://127.0.0.1:8000/v1"},
}
"""Backends that need no entry in a file; a file may change or extend them."""


class EmbedderConfig(Section):
    """The text embedder of the skill memory."""

    model: str = Field("all-MiniLM-L6-v2", min_length=1)
    """A sentence-transformers model by name or folder, `onnx/NAME` for the same without torch,
    `litellm/PROVIDER/MODEL` for a provider's, `lexical` (shared words, instant) or `hash` (knows no meaning: for
    tests)."""
    base_url: Url = None
    """Endpoint of a `litellm/` model, when it is not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable that holds the key of a `litellm/` model."""
    timeout: float = Field(60.0, gt=0, le=MOST_SECONDS)
    """Seconds that a request for vectors may take as a whole; then it counts as failed."""
    retries: int = Field(4, ge=0, le=MOST_RETRIES)
    """Further tries of such a request that failed in transit, was rate limited or met a server error."""
    cache: bool = True
    """Whether vectors are kept in the user's cache folder for later runs."""

    @field_validator("model")
    @classmethod
    def _check_model_route(cls, value: str) -> str:
        """A route without a model would be looked for as a model of that name."""
        route, slash, name = value.partition("/")
        if route == "onnx" and not name.strip("/ "):
            raise ValueError("onnx/ needs a sentence-transformers model after it, e.g. onnx/all-MiniLM-L6-v2")
        provider, _, model = name.partition("/")
        if route == "litellm" and not (provider.strip() and model.strip("/ ")):
            raise ValueError("litellm/ needs provider and model, e.g. litellm/openai/text-embedding-3-small")
        if value != value.strip() or (slash and not route and not name):
            raise ValueError("not the name of a model, e.g. all-MiniLM-L6-v2")
        return value


class PriceConfig(Section):
    """Price of a model in US dollars per million tokens."""

    input: float = Field(ge=0, le=MOST_DOLLARS)
    """Tokens sent."""
    output: float = Field(ge=0, le=MOST_DOLLARS)
    """Tokens answered."""
    cached: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens the provider reads from its cache; the price of input when absent."""
    cache_write: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens it writes to its cache; the price of input when absent."""
