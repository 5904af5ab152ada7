"""The configuration: one tree, read from TOML and overrides. It holds no secrets: a backend names the variable with its
key. Every field has a docstring, which the template shows.

config = load_config(path="rsso.toml", overrides=["backend=anthropic", "protocol.trials=3"])
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from rsso_dspy.bounds import MOST_COUNT, MOST_DOLLARS, MOST_PER_TASK, MOST_SECONDS, MOST_SEED, MOST_TRIALS, shorten_text
from rsso_dspy.calls import read_replayed_backend
from rsso_dspy.constitutions import Constitutions, parse_constitutions
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import ConfigError, DamagedFile, UnknownName, UsageError
from rsso_dspy.files import explain_absence, read_bytes, read_toml
from rsso_dspy.log_lines import find_logs
from rsso_dspy.records import Variant
from rsso_dspy.redact import register_address, register_secret, strip_addresses, watch_variable

Role = Literal["actor", "reflector", "verbalizer", "advisor", "proposer"]
"""actor acts; reflector writes reflections; verbalizer describes skills; advisor writes constitutions; proposer is the
optimizer's model."""

EMBEDDED = "embedded/explorer"  # the rule-based offline model, which costs nothing
TRANSPORT = {"base_url", "key_variable", "timeout", "retries", "longest_wait", "replay"}
"""Settings of a backend or the embedder that affect how a model is reached, but not its answers."""


def _check_url(value: str) -> str:
    """Check an http(s) address. Messages do not show its secrets."""
    register_address(value)
    with suppress(ValueError):
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0:
            return value
    raise ValueError("not an address like http://127.0.0.1:8000/v1")


def _check_key_variable(value: str) -> str:
    """Keep what is no name of a variable out of messages, since it may be the key itself."""
    watch_variable(value)
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*|[a-z_][a-z0-9_]*", value):
        register_secret(value)
    return value


Url = Annotated[str, AfterValidator(_check_url)] | None
Variable = Annotated[str, AfterValidator(_check_key_variable)] | None


class Section(BaseModel):
    """Base class of configuration tables. Unknown keys are refused; every field has a docstring."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


Count = Annotated[int, Field(gt=0, le=MOST_COUNT)]
Trials = Annotated[int, Field(gt=0, le=MOST_TRIALS)]
Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS)]
Dollars = Annotated[float, Field(ge=0, le=MOST_DOLLARS)]
Temperature = Annotated[float, Field(ge=0, le=100)]

NotSent = Literal["none"]
NOT_SENT: NotSent = "none"  # value of a setting that a model does not take; one that is absent is inherited


class RoleOverride(Section):
    """What a role may have of its own, in place of its backend's."""

    model: str | None = None
    base_url: Url = None
    """Endpoint, if not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable with the key; absent for a backend without keys."""
    temperature: Temperature | NotSent | None = None
    """Sampling temperature; `none` sends none, for models that take none."""
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    """Nucleus sampling (top-p); not sent when absent."""
    top_k: Count | None = None
    """Top-k sampling; not sent when absent. OpenAI and Ollama do not support it."""
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100)] = None
    """Penalty of repeated tokens, 1 for none; not sent when absent. Anthropic, OpenAI and Ollama do not support it."""
    max_tokens: Count | NotSent | None = None
    """Maximum answer length in tokens; `none` sends no limit."""
    system: Literal["system", "user"] | None = None
    """Where instructions stand: in a system message, or at the beginning of the first user message, for models that
    take no system message (Gemma 2, Mistral Instruct). When absent: `system`."""


class BackendConfig(RoleOverride):
    model: str
    """`provider/model`, as in LiteLLM and DSPy; `embedded/explorer` is the rule-based offline model."""
    temperature: Temperature | NotSent | None = 0.0
    """Sampling temperature of every role that does not override it; `none` sends none, for models that take none."""
    max_tokens: Count | NotSent | None = 1024
    """Maximum answer length in tokens; `none` sends no limit."""
    seed: bool = False
    """Whether every request carries its own seed, derived from unit, trial and request number. Samples then differ
    between trials and repeat between runs, if the server honours seeds. Anthropic does not support it."""
    timeout: Seconds = 120.0
    """Time limit of a request in seconds, from its first byte to the last byte of the answer."""
    retries: int = Field(4, ge=0, le=1000)
    """Retries of a request after a connection failure, a rate limit or a server error."""
    longest_wait: float = Field(60.0, ge=0, le=MOST_SECONDS)
    """Maximum seconds to wait before a retry; a server that asks for more fails the trial."""
    adapter: Literal["chat", "json"] = "chat"
    """Requested answer format."""
    ask_again: bool | None = None
    """Whether to ask once more, in the same conversation, for an answer that cannot be read. When absent: yes."""
    replay: str | None = None
    """Folder of a run whose logs answer in place of the models. Only exact matches count, and nothing is sent."""
    roles: dict[Role, RoleOverride] = Field(default_factory=dict)
    """Overrides per role."""

    def resolve_role(self, role: Role, temperature: float | None = None) -> RoleOverride:
        """Merge the settings with the role's overrides and a temperature. A role on another provider inherits
        neither endpoint nor key, and a role with its own endpoint no key, so that no key reaches another server. A role
        that sends no temperature sends none whatever is asked for."""
        override = self.roles.get(role, RoleOverride()).model_dump(exclude_none=True)
        inherited = self.model_dump(include=set(RoleOverride.model_fields))
        if override.get("model", self.model).partition("/")[0] != self.model.partition("/")[0]:
            inherited |= {"base_url": None, "key_variable": None}
        if override.get("base_url", self.base_url) != self.base_url:
            inherited |= {"key_variable": None}
        merged = {**inherited, **override}
        if temperature is not None and merged["temperature"] != NOT_SENT:
            merged["temperature"] = temperature
        return RoleOverride(**merged)


PROFILES: dict[str, dict[str, Any]] = {
    "embedded": {"model": EMBEDDED, "temperature": 0.5},
    "anthropic": {"model": "anthropic/claude-sonnet-4-6", "key_variable": "ANTHROPIC_API_KEY", "max_tokens": 1024},
    "openai": {"model": "openai/gpt-4.1-mini", "key_variable": "OPENAI_API_KEY"},
    "ollama": {"model": "ollama_chat/llama3.1", "base_url": "http://127.0.0.1:11434"},
    "vllm": {"model": "hosted_vllm/served-model", "base_url": "http://127.0.0.1:8000/v1"},
}  # built-in backends; a file may override or extend them

MINILM = "all-MiniLM-L6-v2"  # the default sentence-transformers model


def pick_default_embedder() -> str:
    """Return the default of `embedder.model`: with torch where it is installed, else in numpy."""
    return MINILM if all(find_spec(name) for name in ("sentence_transformers", "torch")) else f"numpy/{MINILM}"


class EmbedderConfig(Section):
    model: str = Field(default_factory=pick_default_embedder, min_length=1)
    """A sentence-transformers model by name or folder, `numpy/all-MiniLM-L6-v2` for this one without torch,
    `litellm/PROVIDER/MODEL` for a provider's, `lexical` (shared words, instant) or `hash` (meaningless, for tests).
    Default: all-MiniLM-L6-v2 where sentence-transformers is installed, else numpy/all-MiniLM-L6-v2."""
    base_url: Url = None
    """Endpoint of a `litellm/` model, if not the provider's own."""
    key_variable: Variable = None
    """Name of the environment variable with the key of a `litellm/` model."""
    timeout: Seconds = 60.0
    """Time limit of an embedding request in seconds."""
    retries: int = Field(4, ge=0, le=1000)
    """Retries of an embedding request after a connection failure, a rate limit or a server error."""

    cache: bool = Field(False, exclude=True)
    """Read past: a key that is gone, which the runs in examples/recorded were given."""

    @field_validator("model")
    @classmethod
    def _check_model_route(cls, value: str) -> str:
        """Refuse a route without a model, which would be taken for a model name."""
        route, _, name = value.partition("/")
        if route == "numpy" and name != MINILM:
            raise ValueError(f"only numpy/{MINILM} runs in numpy")
        if route == "litellm" and not all(name.partition("/")):
            raise ValueError("litellm/ needs provider and model, e.g. litellm/openai/text-embedding-3-small")
        return value


class PriceConfig(Section):
    input: Dollars
    """Input tokens."""
    output: Dollars
    """Output tokens."""
    cached: Dollars | None = None
    """Tokens read from the provider's cache (default: the input price)."""
    cache_write: Dollars | None = None
    """Tokens written to the provider's cache (default: the input price)."""


class EnvironmentConfig(Section):
    simplification: str = "easy"
    """Comma-separated simplifications, for benchmarks that have any. The paper plays `easy`."""
    heap: str = Field("512m", pattern="^[1-9][0-9]*[kmgKMG]$")
    """Memory limit of each simulator process, e.g. 512m or 2g."""
    step_seconds: Seconds = 20.0
    """Time limit of a step in seconds; a longer step ends its trial as stalled."""
    data: str | None = None
    """What a benchmark plays of your own, of one that takes any: a folder, a file, or one of several sets that come
    along."""


class ProtocolConfig(Section):
    """How to play held-out variants. What is left out is the preset's; every other setting becomes part of its id."""

    preset: str = "adapt/4"
    """`adapt/4` (the paper's rules; shows all actions and the whole room), `sso-adapt/3` (the paper's rules; shows what
    the SSO code shows), `release/2` (the SSO code's choices); `adapt/4-cap60` and `sso-adapt/3-cap60` have at most 60
    steps. `omnireflect/3`, `agentboard/3` and `reflexion/3` are the rules of these projects on their benchmarks."""
    trials: Trials | None = None
    """Trials per variant."""
    steps: Count | None = None
    """Steps per trial, whatever the gold length; most presets have 1.5 times the gold length."""
    demonstrations: int | None = Field(None, ge=0, le=20)
    """Solved training variants of the task type shown to the actor, if the benchmark knows solutions."""
    demonstration_thoughts: bool | None = None
    """Whether a thought stands ahead of each action of these. Default: where the actor is asked for thoughts."""
    retry_temperature: Temperature | None = None
    """Temperature of the actor from the second trial of a variant on. Default: 0.7 for an actor at temperature 0, whose
    trials would repeat each other and be no control; otherwise the actor's own. 0 keeps an actor at temperature 0."""
    action_choice: Literal["free", "listed"] | None = None
    """What the actor learns about the actions possible now: `free`, only the templates; `listed`, all of them, for
    benchmarks with short lists. `adapt/4` lists them where a benchmark can."""
    layout: Literal["conversation", "paper", "released"] | None = None
    """Prompts of the actor: `conversation`, a message for a step; `paper`, one message in the order of rSSO's Algorithm
    1, with the last ten states; `released`, what each scaffold was released with: flat, one message with the whole
    transcript; SSO, everything in the system message but the last ten states, which are a message each."""
    thoughts: bool | None = None
    """Whether the actor is asked for a thought beside the action. Default: where actions are not listed."""
    in_system: tuple[str, ...] | None = None
    """Regions of the prompt that stand in the system message, such as `constitution` and `plans_from_past_attempts`."""
    stop_on_success: bool | None = None
    """Whether to stop replaying a variant once it is solved."""
    learn_after_last: bool | None = None
    """Whether memories also learn from the last trial, although no trial follows."""
    learn_after_success: bool | None = None
    """Whether memories learn from the trial that solves a variant, although no trial follows."""
    exhausted_by_repeat: bool | None = None
    """Whether a trial ends as `exhausted` when an action is the one before it, as in the released code of Reflexion."""
    exhausted_by_loop: bool | None = None
    """Whether a loop ends a trial as `exhausted`: ten actions of at most three kinds, or eight steps in two places."""
    frozen: bool | None = None
    """Whether memories are read-only, as in held-out trials of the transfer setting."""
    interface: Literal["sso", "complete"] | None = None
    """What the actor sees and how its actions are understood: `sso` as in the SSO code (14 templates, new lines of the
    room), `complete` with all actions and whole listings (default: the preset's)."""
    setting: Literal["adaptation", "transfer"] = "adaptation"
    """`adaptation`: memories start empty and learn on the held-out variant. `transfer`: they learn on training variants
    of the task, then each held-out variant gets one trial (the transfer setting of SSO)."""
    train_trials: Trials = 3
    """Transfer: number of rounds, with one trial on each training variant."""
    train_per_task: int = Field(10, gt=0, le=MOST_PER_TASK)
    """Transfer: number of training variants per task."""
    stream_trials: Trials = 1
    """Trials per variant for methods that write a constitution over a stream of variants."""


class SkillsConfig(Section):
    pairs: Literal["across-trials", "any"] | None = None
    """`across-trials`: a skill needs windows of two trials; `any`: two pieces of one long trial suffice."""
    retrieved: Count | None = None
    """Skills shown per step."""
    min_window: Count | None = None
    """Fewest states of a stretch that a skill is made of: one more than it has actions. Default: 3."""
    max_window: Count | None = None
    """Most states of such a stretch. Default: 6 (`release/2`: 5); 4 and 7 are the 3 to 6 actions of the rSSO paper."""
    inventory_first: bool | None = None
    """Whether to put the inventory first when embedding states; embedders with short inputs would cut it off."""


class ConstitutionConfig(Section):
    """The constitution: when rules are written, and which are kept. Defaults follow OmniReflect (section 3.2)."""

    r_freq: Count = 10
    """Steps of an episode between two writings by a model."""
    s_freq: Count = 10
    """Tasks between two summaries."""
    at_end: bool | None = None
    """Whether a model is asked at the end of an episode too, and told its outcome; the preset's when absent."""
    prompts: Literal["joint", "separate"] | None = None
    """Whether a model is asked for all categories in one call (`joint`) or for each in its own (`separate`)."""
    summaries: Literal["joint", "separate"] | None = None
    """Whether a model summarizes abstract and error rules in one call (`joint`) or in two (`separate`)."""
    samples: Count | None = None
    """Answers to each question for rules, each a call of its own; more than one are settled by `agreement`. A model at
    temperature 0 is asked at 0.7 then."""
    agreement: Literal["majority", "consistent"] | None = None
    """What is taken of several samples: the rules that more than half of them hold (`majority`), or the one that agrees
    most with the others (`consistent`)."""
    priorities: bool | None = None
    """Whether a model begins every lasting rule by its priority, 1 to 3; prompts list them in that order, and bounds
    drop the last first."""
    relevant: Count | None = None
    """Maximum number of rules in a prompt: those whose embeddings are nearest to the task's; all when absent."""
    categories: tuple[Literal["abstract", "error", "progress"], ...] = ("abstract", "error", "progress")
    """Categories of rules to keep; a model is asked only for these."""
    max_rules: Count = 50
    """Maximum number of rules in a category; more trigger a summary."""
    max_chars: Count = 12_000
    """Maximum length of all rules in characters; more trigger a summary."""
    examples: str | None = None
    """Constitution file with examples for a neuro-symbolic writer (default: those of the package)."""


def _digest_units(name: str) -> str:
    """Hash the trials of a run with what memories held after each, packed or not. Raises `ConfigError` if there is
    none, or one cannot be read."""
    run = Path(name).expanduser()
    digest = hashlib.sha256()
    logs = find_logs(run / "units")
    if not logs:
        raise ConfigError(f"config key memory.reflections.index: {name} is no folder of a run with finished units")
    for log in logs:
        content = _read_named_file("index", log)
        complete = content[: content.rfind(b"\n") + 1]
        lines = [line for line in complete.split(b"\n") if line.startswith(DIGESTED)]
        digest.update(b"\n".join((log.relative_to(run).as_posix().encode(), *lines)))
    return digest.hexdigest()[:12]


DIGESTED = (b'{"trial"', b'{"void"')  # lines of a log that say what its memories hold


def _digest_file(name: str) -> str:
    return hashlib.sha256(_read_named_file("examples", Path(name).expanduser())).hexdigest()[:12]


def _read_named_file(setting: str, path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ConfigError(f"config key memory.reflections.{setting}: cannot read {path}: {error.strerror}") from None


OWN_EXAMPLES, NO_EXAMPLES = "own", "none"  # names in place of a file with examples for the reflector


class ReflectionsConfig(Section):
    size: Count = 3
    """Number of reflections kept; the oldest is dropped first."""
    improvements: tuple[
        Literal[
            "structured", "loops", "hierarchical", "across-tasks", "adaptive", "novelty", "counterfactual", "retrieval"
        ],
        ...,
    ] = ()
    """Any of structured, loops, hierarchical, across-tasks, adaptive, novelty, counterfactual and retrieval."""
    novelty_threshold: float = Field(0.85, ge=0, le=1)
    """`novelty`: a reflection is dropped when its cosine similarity with one that is kept is higher."""
    retrieved: Count = 3
    """`retrieval`: number of reflections of other units that are shown."""
    index: str | None = None
    """`retrieval`: folder of an earlier run whose reflections are read; without one, those of the stream so far."""
    same_type: bool | None = None
    """`retrieval`: whether only reflections of the same task type are found. Default: no."""
    outcome: Literal["solved", "failed"] | None = None
    """`retrieval`: whether only reflections after solved, or after failed trials are found. Default: both."""
    successes: bool | None = None
    """Whether a solved trial writes what worked, which `across-tasks` and `retrieval` show to other variants. Default:
    no."""
    examples: str | None = Field(None, min_length=1)
    """What the reflector is shown as examples: `own`, those that come with the benchmark; `none`; or a TOML file with
    tables `[[example]]` of its fields. Default: the preset's, which is `own` for `adapt/4`, `sso-adapt/3` and
    `reflexion/3`, and `none` for the others."""

    @property
    def names_no_file(self) -> bool:
        return self.examples in (None, OWN_EXAMPLES, NO_EXAMPLES)

    def identify(self) -> dict[str, Any]:
        """What results depend on: the size, the improvements and what these read."""
        keys = {"size", "improvements", "successes", "examples"}
        keys |= {"novelty_threshold"} if "novelty" in self.improvements else set()
        keys |= {"retrieved", "index", "same_type", "outcome"} if "retrieval" in self.improvements else set()
        data = self.model_dump(mode="json", include=keys, exclude_none=True)
        if "index" in data:
            data["index"] = _digest_units(data["index"])  # results depend on what it holds, not on where it lies
        if "examples" in data and not self.names_no_file:
            data["examples"] = _digest_file(data["examples"])
        return {**data, "improvements": sorted(self.improvements)}


class EntriesConfig(Section):
    """Bounds of the memories that keep a list of texts: `last-trajectory` to `cheatsheet`."""

    max_entries: Count = 100
    """Maximum number of entries; the weakest, or the oldest, is dropped first."""
    max_chars: Count = 12_000
    """Maximum length in a prompt in characters; what does not fit is left out, and both prompt and record say so."""
    retrieved: Count = 3
    """Attempts at other tasks whose entries are shown, by the memories that retrieve."""


class MemoryConfig(Section):
    reflections: ReflectionsConfig = ReflectionsConfig()
    """The reflections."""
    skills: SkillsConfig = SkillsConfig()
    """The skill memory."""
    constitution: ConstitutionConfig = ConstitutionConfig()
    """The constitution."""
    entries: EntriesConfig = EntriesConfig()
    """The memories of entries."""


def _join_names(value: Any) -> Any:
    return ",".join(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value


Names = Annotated[str, BeforeValidator(_join_names)]  # comma-separated names, or a list of them


def _parse_constitutions(value: Any) -> Any:
    """Parse a file, a list of ``NAME=FILE``, or a table; other values are left to the validation."""
    texts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    if not all(isinstance(text, Path | str) for text in texts):
        return value
    try:
        return parse_constitutions(value)
    except UsageError as error:
        raise ValueError(str(error)) from None


class RunOptions(Section):
    methods: Names | None = None
    tasks: Names = "all"
    variants: Names | None = None
    per_task: int | None = Field(None, gt=0, le=MOST_PER_TASK)
    trials: Trials | None = None
    programs: Names = "zero-shot"
    constitution: Annotated[Constitutions | None, BeforeValidator(_parse_constitutions)] = None
    engine: Literal["threads", "ray"] = "threads"  # of this process, or a Ray cluster


class CompileOptions(Section):
    """Section `[compile]` of a file, or `--set compile.KEY=VALUE`. Other commands ignore it."""

    trials: Trials = 2
    """Trials per rollout."""
    steps: Count = 60
    """Steps per trial at most; or what the protocol allows."""


class Config(Section):
    backend: str = "embedded"
    """Name of the selected backend: one of [backends] or a built-in profile."""
    seed: int = Field(0, ge=0, le=MOST_SEED)
    """Seed of every unit; the same seed replays the same run."""
    shared_answers: bool = False
    """Whether the arms of a run take the answer to a request that the first arm sent too, word for word, in the same
    trial of the same variant. What is the same in all arms, such as the first trial, is then played once."""
    benchmark: str = DEFAULT
    """Name of the benchmark: a built-in one, or one of an installed package."""
    protocol: ProtocolConfig = ProtocolConfig()
    """The held-out protocol; what is left out is the preset's."""
    memory: MemoryConfig = MemoryConfig()
    """The memories."""
    embedder: EmbedderConfig = EmbedderConfig()
    """The embedder."""
    environment: EnvironmentConfig = EnvironmentConfig()
    """The simulator."""
    prices: dict[str, PriceConfig] = Field(default_factory=dict)
    """Prices by `provider/model` that replace those of LiteLLM's table."""
    backends: dict[str, BackendConfig] = Field(
        default_factory=lambda: {name: BackendConfig(**profile) for name, profile in PROFILES.items()}
    )
    """Backends by name."""
    run: RunOptions = Field(RunOptions(), exclude=True)
    compile: CompileOptions = Field(CompileOptions(), exclude=True)

    @property
    def active_backend(self) -> BackendConfig:
        if self.backend not in self.backends:
            raise UnknownName("backend", self.backend, self.backends, "Backends are the [backends.NAME] tables.")
        return self.backends[self.backend]

    @property
    def active_benchmark(self) -> Benchmark:
        """The selected benchmark, with the task types of the user's data, where these decide them. Raises what
        `environments.benchmark` raises."""
        return get_benchmark(self.benchmark).take_tasks(self.environment.data)

    @property
    def benchmark_in_data(self) -> Benchmark:
        """The selected benchmark with what the user's data folder holds of it, for selecting and drawing variants."""
        return self.active_benchmark.limit_to_data(self.environment.data)

    def list_strata(self, variant: Variant) -> tuple[str, ...]:
        """Return the parts of the selected benchmark that a variant belongs to."""
        benchmark = self.active_benchmark
        return tuple(benchmark.strata(variant, benchmark.locate_data(self.environment.data)))

    @property
    def simplification(self) -> str:
        """Simplification of the variants; empty if the benchmark has none. Raises `ConfigError` for unknown names."""
        benchmark = self.active_benchmark
        try:
            return benchmark.check_simplification(self.environment.simplification)
        except UsageError as error:
            raise ConfigError(f"config key environment.simplification: {error}") from None

    def resolve_settings(self) -> dict[str, Any]:
        """Return what results depend on, as JSON data: the backend in use, and not how a model is reached."""
        data = self.model_dump(
            mode="json", exclude={"environment": {"heap", "data"}, "prices": True, "embedder": TRANSPORT}
        )
        hidden: Any = {**dict.fromkeys(TRANSPORT, True), "roles": {"__all__": TRANSPORT}}
        data["backends"] = {self.backend: self.active_backend.model_dump(mode="json", exclude=hidden)}
        if (folder := self.active_benchmark.locate_data(self.environment.data)) is not None:
            data["environment"]["data"] = self.active_benchmark.identify_data(folder)
        data["memory"]["reflections"] = self.memory.reflections.identify()
        if examples := self.memory.constitution.examples:  # wherever the file is: its content is named too
            data["memory"]["constitution"]["examples"] = Path(examples).name
        return data

    def dump_settings(self, exclude_none: bool = False) -> dict[str, Any]:
        """Return every key as JSON data, with the selected backend only and without secrets in addresses."""
        data = self.model_dump(mode="json", exclude={"backends"}, exclude_none=exclude_none)
        data["backends"] = {self.backend: self.active_backend.model_dump(mode="json", exclude_none=exclude_none)}
        strip_addresses(data)
        return data

    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.resolve_settings(), sort_keys=True).encode()).hexdigest()[:12]


# Reading and writing.

RECORDED = "replay"  # name of the backend that stands for the recorded one
DEFAULT_FILE = "rsso.toml"  # file that is read from the working directory if it exists and no other is named


def load_config(path: Path | str | None = None, overrides: Sequence[str] = (), whole: bool = True) -> Config:
    """Load a file (or `rsso.toml` here, or the defaults) and apply `key=value` overrides. Unless it is `whole`, options
    may yet name another backend and benchmark, so that these are not checked."""
    file = None if path is None else Path(path)
    data = _read_config_file(file)
    for override in overrides:
        _merge_tables(data, _parse_override(override))
    backends = data.setdefault("backends", {})
    if not isinstance(backends, dict) or not all(isinstance(table, dict) for table in backends.values()):
        raise ConfigError('a backend must be a table: [backends.NAME] with model = "provider/model"')
    _name_recorded(data)
    for name, profile in PROFILES.items():
        backends[name] = {**profile, **backends.get(name, {})}
    config = validate_config(data, file)
    if whole:
        _ = config.active_backend, config.simplification
    return config


def validate_config(data: Mapping[str, Any], path: Path | None = None) -> Config:
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise _explain_invalid(error, path) from None


def _name_recorded(data: dict[str, Any]) -> None:
    """Replace the backend `replay` by the recorded one, so that results carry its name and settings."""
    table = data["backends"].pop(RECORDED, None)
    if data.get("backend") != RECORDED:
        return
    folder = (table or {}).get("replay")
    if not isinstance(folder, str):
        raise ConfigError(
            f'backend "{RECORDED}" needs a log: add --replay DIR to run, elsewhere --set backends.replay.replay=DIR'
        )
    data["backend"], settings = read_replayed_backend(Path(folder))
    data["backends"][data["backend"]] = {**settings, "replay": folder}


def format_override(key: str, value: str) -> str:
    """Return ``key=value`` such that `load_config` reads this value."""
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _read_config_file(path: Path | None) -> dict[str, Any]:
    if path is None and not os.path.lexists(DEFAULT_FILE):
        return {}
    try:
        return read_toml(path or Path(DEFAULT_FILE))
    except OSError as error:
        hint = f"`rsso-dspy config init` writes one{explain_absence(path) if path else ''}"
        raise ConfigError(f"cannot read {path}: {error.strerror}; {hint}") from None
    except DamagedFile as error:
        raise ConfigError(str(error)) from None


def _parse_override(override: str) -> dict[str, Any]:
    """Parse ``key=value`` as TOML; a value that is none is text: model names need no quotes."""
    key, equals, value = map(str.strip, override.partition("="))
    for text in (value, json.dumps(value)):
        with suppress(ValueError):  # also for a number with thousands of digits
            if equals and key:
                return tomllib.loads(f"{key} = {text}")
    raise ConfigError(
        f"--set {override!r} must have the form key=value, e.g. --set protocol.trials=3; a name with other characters "
        'than letters, digits, - and _ is quoted: prices."openai/m".input=1'
    )


def _merge_tables(table: dict[str, Any], other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge_tables(table[key], value)
        else:
            table[key] = value


def _explain_invalid(error: ValidationError, path: Path | None) -> ConfigError | UnknownName:
    errors = error.errors()
    first = next((detail for detail in errors if detail["type"] == "extra_forbidden"), errors[0])
    where = ".".join(map(str, first["loc"]))
    source = f" in {path}" if path else ""
    if where.endswith(".[key]"):
        return UnknownName(f"role{source}", str(first["input"]), get_args(Role))
    if first["type"] == "extra_forbidden":
        section: Any = Config
        for part in first["loc"][:-1]:
            fields = getattr(section, "model_fields", None)
            section = fields[part].annotation if fields else get_args(section)[1]
        prefix = where.rpartition(".")[0]
        keys = [f"{prefix}.{key}".lstrip(".") for key in section.model_fields]
        hint = "Options of `run` stand in its section [run]." if where in RunOptions.model_fields else ""
        return UnknownName(f"config key{source}", where, keys, hint)
    message = first["msg"].removeprefix("Value error, ")
    value = first["input"]
    if where.endswith("base_url") and "@" in str(value):
        value = f"***@{str(value).rpartition('@')[2]}"
    text = shorten_text(repr(value))
    return ConfigError(f"config key {where}{source}: {message[0].lower()}{message[1:]} (it is {text})")


def render_config_template() -> str:
    """Return a file with every key, its default and its meaning."""
    import tomlkit

    text: str = _fill_table(tomlkit.document(), Config(), "").as_string()
    return text


def _fill_table(table: Any, values: BaseModel, section: str) -> Any:
    import tomlkit
    from tomlkit import comment

    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        note = " ".join((field.description or "").split())
        if field.exclude:
            continue
        if isinstance(value, BaseModel):
            table.add(name, _fill_table(tomlkit.table().comment(note), value, f"{section}{name}."))
        elif name == "backends":
            backends = tomlkit.table(is_super_table=True)
            for backend, settings in value.items():
                backends.add(backend, _fill_table(tomlkit.table(), settings, f"{name}.{backend}."))
            table.add(name, backends)
        elif name == "roles":
            keys = ", ".join(RoleOverride.model_fields)
            table.add(comment(f"[{section}roles.actor]  # overrides of one role: {keys}"))
        elif name == "prices":
            keys = ", ".join(PriceConfig.model_fields)
            table.add(tomlkit.nl()).add(comment(note)).add(comment(f'[prices."provider/model"]  # {keys}'))
        else:
            table.add(comment(note))
            table.add(comment(f"{name} =")) if value is None else table.add(name, value)
    return table
