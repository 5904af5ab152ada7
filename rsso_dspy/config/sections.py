"""The sections of the configuration. Every field says what it is."""

import hashlib
import json
import re
from typing import Any, Literal

from pydantic import Field, field_validator

from rsso_dspy.addresses import strip_credentials
from rsso_dspy.bounds import (
    MOST_KEPT,
    MOST_PER_TASK,
    MOST_SECONDS,
    MOST_SEED,
    MOST_STATES,
    MOST_TEMPERATURE,
    MOST_TOKENS,
    MOST_TRIALS,
)
from rsso_dspy.config.models import PROFILES, TRANSPORT, BackendConfig, EmbedderConfig, PriceConfig, Section
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import UnknownName

_LEFT_OUT = (
    "top_p", "top_k", "repetition_penalty", "seed", "retry_temperature", "ask_again", "action_choice", "interface",
)  # fmt: skip
"""Settings that results do not depend on where they are not set, so that runs from before them go on."""

_HEAP = re.compile(r"[1-9][0-9]*[kmgKMG]")


class EnvironmentConfig(Section):
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
    def _check_heap_size(cls, value: Any) -> str:
        """A size as Java takes it; a number alone would be bytes."""
        if not isinstance(value, str) or not _HEAP.fullmatch(value):
            raise ValueError("not a size in k, m or g such as 512m or 4g")
        return value


class ProtocolConfig(Section):
    """How held-out variants are played. Anything set here departs from the named protocol and is recorded."""

    preset: str = "adapt/2"
    """`adapt/2` (the paper's rules, with all actions and everything that can be seen), `sso-adapt/1` (the paper, with
    what the SSO code shows), `release` (the SSO code's choices); `adapt/2-cap60` and `sso-adapt/1-cap60` have 60 steps
    at most."""
    trials: int | None = Field(None, gt=0, le=MOST_TRIALS)
    """Trials per variant; the preset's when absent."""
    retry_temperature: float | None = Field(None, ge=0, le=MOST_TEMPERATURE)
    """Temperature of the actor from the second trial of a variant on; the backend's when absent. At temperature 0 a
    model answers the same request alike, and trials that repeat each other are no control."""
    action_choice: Literal["free", "listed", "constrained"] | None = None
    """What the actor is told of the actions that can be taken now: `free`, nothing beyond the templates; `listed`, all
    of them, where a benchmark has short lists; `constrained`, nothing, but its answer is held to them (needs
    `adapter = "schema"` and a server of one's own). The preset's when absent, which is free."""
    stop_on_success: bool | None = None
    """Whether a solved variant is left alone; the preset's when absent."""
    learn_after_last: bool | None = None
    """Whether memories learn from the last trial too, which no trial will read; the preset's when absent."""
    learn_after_success: bool | None = None
    """Whether memories learn from the trial that solves a variant, when no trial will read it; the preset's when
    absent."""
    frozen: bool | None = None
    """Whether memories are read and never written; they are in held-out trials of the transfer setting."""
    interface: Literal["sso", "complete"] | None = None
    """What the actor is shown and how it is understood: `sso` as in the SSO code (14 templates, what is new in the
    room), `complete` all actions, whole listings and names as they are observed; the preset's when absent."""
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


class SkillsConfig(Section):
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
    past_reward: bool | None = None
    """Whether a skill's words go one action beyond the reward that its examples end at, where both do the same next."""
    inventory_first: bool | None = None
    """Whether states are embedded with the inventory in front, which embedders that read short texts cut off."""


class ConstitutionConfig(Section):
    """The constitution: when rules are written, and which are kept. Defaults are those of OmniReflect (section 3.2)."""

    r_freq: int = Field(10, gt=0, le=MOST_KEPT)
    """Steps between two writings by a model inside an episode."""
    s_freq: int = Field(10, gt=0, le=MOST_KEPT)
    """Tasks between two summaries."""
    at_end: bool | None = None
    """Whether a model is asked at the end of an episode too, and told its outcome; the preset's when absent."""
    categories: tuple[Literal["abstract", "error", "progress"], ...] = ("abstract", "error", "progress")
    """Categories of rules that are kept; a model is asked for no other."""
    max_rules: int = Field(50, gt=0, le=MOST_KEPT)
    """Rules of one category at most; more are summarized early."""
    max_chars: int = Field(12_000, gt=0, le=MOST_TOKENS)
    """Characters of all rules at most; more are summarized early."""
    examples: str | None = None
    """Constitution file whose examples a neuro-symbolic writer is shown; those of the package when absent."""


class MemoryConfig(Section):
    """What survives between trials."""

    reflections: int = Field(3, gt=0, le=MOST_KEPT)
    """Reflections kept; the oldest goes first."""
    skills: SkillsConfig = SkillsConfig()
    """The skill memory."""
    constitution: ConstitutionConfig = ConstitutionConfig()
    """The constitution."""


def _show_addresses(table: dict[str, Any]) -> None:
    for key, value in table.items():
        if isinstance(value, dict):
            _show_addresses(value)
        elif key == "base_url" and value:
            table[key] = strip_credentials(value)


class Config(Section):
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
    def active_benchmark(self) -> Benchmark:
        """The benchmark that is played. Raises what `environments.benchmark` raises."""
        return get_benchmark(self.benchmark)

    @property
    def simplification(self) -> str:
        """Simplification of the variants that are played; empty where the benchmark has none."""
        return self.active_benchmark.check_simplification(self.environment.simplification)

    def resolve_settings(self) -> dict[str, Any]:
        """What a result depends on, as JSON data: everything but the backends that are not in use and the ways to reach
        a model, which may have to be mended in the middle of a run."""
        data = self.model_dump(
            mode="json", exclude={"environment": {"heap"}, "prices": True, "embedder": TRANSPORT | {"cache"}}
        )
        used = self.active_backend.model_dump(mode="json", exclude=TRANSPORT)
        roles = self.active_backend.roles.items()
        used["roles"] = {role: own.model_dump(mode="json", exclude=TRANSPORT) for role, own in roles}
        data["backends"] = {self.backend: used}
        if self.benchmark == DEFAULT:
            del data["benchmark"]  # runs from before there were others go on
        for table, name in ((data["memory"]["skills"], "past_reward"), (data["memory"]["constitution"], "at_end")):
            if table[name] is None:
                del table[name]
        for table in (data["protocol"], used, *used["roles"].values()):
            for name in _LEFT_OUT:
                if table.get(name) is None or table.get(name) is False:  # a temperature of 0 is one
                    table.pop(name, None)
        return data

    def shown(self) -> dict[str, Any]:
        """Every key, as JSON data, of the backends the one in use. What may be a secret in an address is left out."""
        data = self.model_dump(mode="json", exclude={"backends"})
        data["backends"] = {self.backend: self.active_backend.model_dump(mode="json")}
        _show_addresses(data)
        return data

    def hash(self) -> str:
        """12 hexadecimal digits over `resolve_settings`."""
        text = json.dumps(self.resolve_settings(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]
