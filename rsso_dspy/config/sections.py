"""The sections of the configuration. Every field says what it is."""

import hashlib
import json
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from rsso_dspy.bounds import (
    MOST_DOLLARS,
    MOST_KEPT,
    MOST_PER_TASK,
    MOST_RETRIES,
    MOST_SECONDS,
    MOST_SEED,
    MOST_STATES,
    MOST_TEMPERATURE,
    MOST_TOKENS,
    MOST_TRIALS,
)
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, benchmark
from rsso_dspy.errors import UnknownName
from rsso_dspy.redaction import register_address, register_secret, watch_variable

Role = Literal["actor", "reflector", "verbalizer", "advisor", "proposer"]
"""actor acts; reflector writes reflections; verbalizer turns windows into skills; advisor writes constitutions;
proposer is the optimizer's model."""


EMBEDDED = "embedded/explorer"
"""The rule-based model that answers offline and costs nothing."""

_LEFT_OUT = ("top_p", "top_k", "repetition_penalty", "seed", "retry_temperature")
"""Settings that results do not depend on where they are not set, so that runs from before them go on."""

_TRANSPORT = {"base_url", "key_variable", "timeout", "retries", "longest_wait"}
"""Settings of a backend, and of the embedder, that change how a model is reached and not what it answers."""


def _url(value: str | None) -> str | None:
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


Url = Annotated[str | None, AfterValidator(_url)]


def _variable(value: str | None) -> str | None:
    """The name of an environment variable, whose value is shown nowhere; nor is what may be the key itself."""
    watch_variable(value)
    if value and not _PLAIN_VARIABLE.fullmatch(value):
        register_secret(value)
    return value


_PLAIN_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*")

Variable = Annotated[str | None, AfterValidator(_variable)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


TopP = Annotated[float | None, Field(gt=0, le=1)]
TopK = Annotated[int | None, Field(gt=0, le=MOST_KEPT)]
Penalty = Annotated[float | None, Field(gt=0, le=MOST_TEMPERATURE)]


class RoleOverride(_Section):
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


class BackendConfig(_Section):
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
    adapter: Literal["chat", "json", "xml"] = "chat"
    """Answer format that is asked for."""
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


class EmbedderConfig(_Section):
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
    def _routed(cls, value: str) -> str:
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


_HEAP = re.compile(r"[1-9][0-9]*[kmgKMG]")


class EnvironmentConfig(_Section):
    """The simulator."""

    simplification: str = "easy"
    """Comma-separated simplifications, of a benchmark that has any; the paper plays `easy`, for which gold lengths
    are shipped."""
    heap: str = "512m"
    """Memory cap of each simulator process, e.g. 512m or 2g."""
    step_seconds: float = Field(20.0, gt=0, le=MOST_SECONDS)
    """A step that takes longer ends its trial as stalled."""

    @field_validator("heap", mode="before")
    @classmethod
    def _size(cls, value: Any) -> str:
        """A size as Java takes it; a number alone would be bytes."""
        if not isinstance(value, str) or not _HEAP.fullmatch(value):
            raise ValueError("not a size in k, m or g such as 512m or 4g")
        return value


class ProtocolConfig(_Section):
    """How held-out variants are played. Anything set here departs from the named protocol and is recorded."""

    preset: str = "sso-adapt/1"
    """`sso-adapt/1` (the paper), `release` (the SSO code's choices) or `sso-adapt/1-cap60` (60 steps at most)."""
    trials: int | None = Field(None, gt=0, le=MOST_TRIALS)
    """Trials per variant; the preset's when absent."""
    retry_temperature: float | None = Field(None, ge=0, le=MOST_TEMPERATURE)
    """Temperature of the actor from the second trial of a variant on; the backend's when absent. At temperature 0 a
    model answers the same request alike, and trials that repeat each other are no control."""
    stop_on_success: bool | None = None
    """Whether a solved variant is left alone; the preset's when absent."""
    learn_after_last: bool | None = None
    """Whether memories learn from the last trial too, which no trial will read; the preset's when absent."""
    learn_after_success: bool | None = None
    """Whether memories learn from the trial that solves a variant, when no trial will read it; the preset's when
    absent."""
    frozen: bool | None = None
    """Whether memories are read and never written; they are in held-out trials of the transfer setting."""
    layout: Literal["paper", "cache"] | None = None
    """Order of the prompt's regions: `paper` as in Algorithm 1, `cache` with what stays the same first."""
    setting: Literal["adaptation", "transfer"] = "adaptation"
    """`adaptation`: memories start empty and learn on the held-out variant. `transfer`: they learn on training variants
    of the task, then each held-out variant gets one trial (the transfer setting of SSO)."""
    train_trials: int = Field(3, gt=0, le=MOST_TRIALS)
    """Transfer: trials on each training variant, in as many rounds."""
    train_per_task: int = Field(10, gt=0, le=MOST_PER_TASK)
    """Transfer: training variants per task."""
    stream_trials: int = Field(1, gt=0, le=MOST_TRIALS)
    """Trials per variant of methods that write a constitution and carry it from variant to variant."""


class SkillsConfig(_Section):
    """Departures of the skill memory from the preset."""

    extraction: Literal["reward-boundary", "sliding"] | None = None
    """Which stretches of a trajectory are candidates."""
    pairs: Literal["across-trials", "any"] | None = None
    """`across-trials`: a skill takes windows of two trials; `any`: two pieces of one long trial make one too."""
    max_window: int | None = Field(None, ge=3, le=MOST_STATES)
    """Longest candidate in states."""
    feedback: bool | None = None
    """Whether the fate of skills the actor pursued enters their scores."""
    retrieved: int | None = Field(None, gt=0, le=MOST_STATES)
    """Skills shown per step."""
    inventory_first: bool | None = None
    """Whether states are embedded with the inventory in front, which embedders that read short texts cut off."""


class ConstitutionConfig(_Section):
    """The constitution: when rules are written, and which are kept. Defaults are those of OmniReflect (section 3.2)."""

    r_freq: int = Field(10, gt=0, le=MOST_KEPT)
    """Steps between two writings by a model inside an episode."""
    s_freq: int = Field(10, gt=0, le=MOST_KEPT)
    """Tasks between two summaries."""
    categories: tuple[Literal["abstract", "error", "progress"], ...] = ("abstract", "error", "progress")
    """Categories of rules that are kept; a model is asked for no other."""
    max_rules: int = Field(50, gt=0, le=MOST_KEPT)
    """Rules of one category at most; more are summarized early."""
    max_chars: int = Field(12_000, gt=0, le=MOST_TOKENS)
    """Characters of all rules at most; more are summarized early."""
    examples: str | None = None
    """Constitution file whose examples a neuro-symbolic writer is shown; those of the package when absent."""


class MemoryConfig(_Section):
    """What survives between trials."""

    reflections: int = Field(3, gt=0, le=MOST_KEPT)
    """Reflections kept; the oldest goes first."""
    skills: SkillsConfig = SkillsConfig()
    """The skill memory."""
    constitution: ConstitutionConfig = ConstitutionConfig()
    """The constitution."""


class PriceConfig(_Section):
    """Price of a model in US dollars per million tokens."""

    input: float = Field(ge=0, le=MOST_DOLLARS)
    """Tokens sent."""
    output: float = Field(ge=0, le=MOST_DOLLARS)
    """Tokens answered."""
    cached: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens the provider reads from its cache; the price of input when absent."""
    cache_write: float | None = Field(None, ge=0, le=MOST_DOLLARS)
    """Tokens it writes to its cache; the price of input when absent."""


class Config(_Section):
    """The whole configuration."""

    backend: str = "embedded"
    """Name of the backend in use: one of [backends] or a built-in profile."""
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Seed of every unit; the same seed replays the same run."""
    benchmark: str = DEFAULT
    """Name of the benchmark that is played: the one that comes with the project, or one of an installed package."""
    protocol: ProtocolConfig = ProtocolConfig()
    """The held-out protocol."""
    memory: MemoryConfig = MemoryConfig()
    """The memories."""
    embedder: EmbedderConfig = EmbedderConfig()
    """The embedder."""
    environment: EnvironmentConfig = EnvironmentConfig()
    """The simulator."""
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices by `provider/model`, where they are not those of LiteLLM's table."""
    backends: dict[str, BackendConfig] = Field(
        default_factory=lambda: {name: BackendConfig(**profile) for name, profile in PROFILES.items()}
    )
    """Backends by name."""

    @property
    def active_backend(self) -> BackendConfig:
        if self.backend not in self.backends:
            raise UnknownName("backend", self.backend, self.backends, "Backends are the [backends.NAME] tables.")
        return self.backends[self.backend]

    @property
    def played(self) -> Benchmark:
        """The benchmark that is played. Raises what `environments.benchmark` raises."""
        return benchmark(self.benchmark)

    @property
    def simplification(self) -> str:
        """Simplification of the variants that are played; empty where the benchmark has none."""
        return self.played.simplified(self.environment.simplification)

    def resolved(self) -> dict[str, Any]:
        """What a result depends on, as JSON data: everything but the backends that are not in use and the ways to reach
        a model, which may have to be mended in the middle of a run."""
        data = self.model_dump(
            mode="json", exclude={"environment": {"heap"}, "prices": True, "embedder": _TRANSPORT | {"cache"}}
        )
        used = self.active_backend.model_dump(mode="json", exclude=_TRANSPORT)
        roles = self.active_backend.roles.items()
        used["roles"] = {role: own.model_dump(mode="json", exclude=_TRANSPORT) for role, own in roles}
        data["backends"] = {self.backend: used}
        if self.benchmark == DEFAULT:
            del data["benchmark"]  # runs from before there were others go on
        for table in (data["protocol"], used, *used["roles"].values()):
            for name in _LEFT_OUT:
                if table.get(name) is None or table.get(name) is False:  # a temperature of 0 is one
                    table.pop(name, None)
        return data

    def hash(self) -> str:
        """12 hexadecimal digits over `resolved`."""
        text = json.dumps(self.resolved(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
