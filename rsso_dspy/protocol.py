"""Protocols by name, and the identity of a run: what its results depend on.

    make_run_identity(config, resolve_protocol(config))

Scores compare only under one protocol, so every result carries its id.
"""

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import rsso_dspy.signatures as signatures
from rsso_dspy.config import EMBEDDED, MINILM, NO_EXAMPLES, OWN_EXAMPLES, Config
from rsso_dspy.environments import Interface
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.errors import ConfigError, UnknownName, UsageError
from rsso_dspy.files import read_toml
from rsso_dspy.lm import list_refused_settings
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.memory.reflections import ReflectionSettings
from rsso_dspy.memory.skill_windows import SkillSettings
from rsso_dspy.programs.runtime import TrialRules, choose_retry_temperature
from rsso_dspy.records import Variant
from rsso_dspy.signatures.actor import THOUGHT_ON_PLANS
from rsso_dspy.signatures.layouts import ARRANGEMENTS
from rsso_dspy.version import __version__

GOLD_FACTOR = 1.5  # steps per trial = floor(1.5 x gold length) (rSSO, section 4)


@dataclass(frozen=True, slots=True)
class NamedProtocol:
    id: str
    rules: TrialRules = field(default_factory=TrialRules)
    skills: SkillSettings = field(default_factory=SkillSettings)
    constitution: ConstitutionSettings = field(default_factory=ConstitutionSettings)
    max_steps: int | None = None  # upper bound of the step budget
    steps: int | None = None  # step budget of every trial, whatever the gold length
    decoding: tuple[tuple[str, float], ...] = ()  # of language models, by the names of `[backends.NAME]`
    reflection_examples: str = NO_EXAMPLES  # what the reflector's prompt shows where the configuration does not say

    def compute_budget(self, gold: int) -> int:
        """Return the step budget of a trial for a gold path of `gold` actions."""
        steps = int(GOLD_FACTOR * gold) if self.steps is None else self.steps
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def find_budget(self, variant: Variant, benchmark: Benchmark) -> int:
        """Return the step budget of a trial. Raises what `Budget.gold_length` raises, where that is needed."""
        budget = self.compute_budget(0 if self.steps is not None else benchmark.budget.gold_length(variant))
        return benchmark.limit_steps(budget)


_ADAPT = NamedProtocol(  # the paper's (rSSO, section 4) as a conversation, with all actions and all that can be seen
    "adapt/4",
    TrialRules(interface="complete"),
    SkillSettings.adapt(),
    ConstitutionSettings(at_end=True),
    reflection_examples=OWN_EXAMPLES,
)
_SSO_ADAPT = NamedProtocol(  # with the interface of the released SSO code
    "sso-adapt/3", TrialRules(layout="paper"), reflection_examples=OWN_EXAMPLES
)

PRESETS = {
    preset.id: preset
    for preset in (
        _ADAPT,
        replace(_ADAPT, id="adapt/4-cap60", max_steps=60),  # for demos and benchmarks
        _SSO_ADAPT,
        replace(_SSO_ADAPT, id="sso-adapt/3-cap60", max_steps=60),
        NamedProtocol(  # the choices of the released SSO code
            "release/2",
            TrialRules(stop_on_success=False, max_repeat=10, max_ticks=100, layout="released"),
            SkillSettings.sso_release(),
        ),
        NamedProtocol(  # OmniReflect, section 3.2
            "omnireflect/3",
            TrialRules(trials=1, demonstrations=1),
            steps=50,
            decoding=(("temperature", 0.0), ("top_p", 0.7), ("top_k", 50)),
        ),
        NamedProtocol("agentboard/3", TrialRules(trials=1, demonstrations=1), steps=30),
        NamedProtocol(  # Reflexion's loop of trials; an action equal to the one before ends one
            "reflexion/3",
            TrialRules(trials=15, exhausted_by_repeat=True, demonstrations=2),
            steps=49,
            reflection_examples=OWN_EXAMPLES,
        ),
    )
}


GONE = (
    "adapt/3",
    "adapt/3-cap60",
    "sso-adapt/2",
    "sso-adapt/2-cap60",
    "release",
    "omnireflect/2",
    "agentboard/2",
    "reflexion/2",
)
"""Presets whose prompts this version does not send. Runs under them are shown and reported."""


def check_prompts_of(protocol_id: str) -> None:
    """Raise `UsageError` for the id of a protocol whose prompts this version does not send."""
    preset = protocol_id.split()[0] if protocol_id.split() else ""
    if preset in GONE:
        get_protocol(preset)


def get_protocol(name: str) -> NamedProtocol:
    """Return the preset called `name`. Raises `UnknownName` with the nearest names, and `UsageError` for one whose
    prompts are gone."""
    if name in GONE:
        successors = (preset for preset in PRESETS if preset.partition("/")[0] == name.partition("/")[0])
        successor = next(preset for preset in successors if preset.endswith("-cap60") == name.endswith("-cap60"))
        raise UsageError(
            f"{name} cannot be played: this version sends other prompts, those of {successor}. A run under {name} can "
            f"be shown and reported; to play or replay it, install the version that made it, or play under {successor}"
        )
    if name not in PRESETS:
        raise UnknownName("protocol preset", name, PRESETS)
    return PRESETS[name]


def apply_decoding(config: Config) -> Config:
    """Return the configuration with the protocol's decoding settings in its backend, where the configuration names none
    and the provider takes them; `resolve_protocol` names both cases in the id."""
    decoding = get_protocol(config.protocol.preset).decoding
    backend = config.active_backend
    if not decoding or backend.model == EMBEDDED:
        return config
    refused = list_refused_settings(backend.model, backend.base_url)
    settings = {name: value for name, value in decoding if name not in {*backend.model_fields_set, *refused}}
    decoded = backend.model_copy(update=settings)
    return config.model_copy(update={"backends": {**config.backends, config.backend: decoded}})


def resolve_protocol(config: Config) -> NamedProtocol:
    """Return the configured protocol: the preset with setting and departures, all of which are part of the id. Raises
    `ConfigError` if actions are to be listed and the benchmark lists none."""
    if config.protocol.action_choice == "listed" and not config.active_benchmark.lists_actions:
        raise ConfigError(
            f"protocol.action_choice = listed shows the actions that can be taken, and {config.benchmark} does not "
            "list them: leave it out"
        )
    base = get_protocol(config.protocol.preset)
    setting = []
    if config.protocol.setting == "transfer":
        base = replace(base, rules=replace(base.rules, trials=1, frozen=True))
        setting = [f"transfer={config.protocol.train_trials}x{config.protocol.train_per_task}"]
    rules = config.protocol.model_dump(include={field.name for field in fields(TrialRules)}, exclude_none=True)
    if base.rules.interface == "complete" and config.active_benchmark.lists_actions:
        base = replace(base, rules=replace(base.rules, action_choice="listed"))
    if rules.get("action_choice", base.rules.action_choice) == "listed":
        base = replace(base, rules=replace(base.rules, thoughts=False))
    if config.active_benchmark.gold_path is None:
        rules["demonstrations"] = 0  # there are no solutions to show, whatever is asked for
    if max(rules.get("trials", base.rules.trials), config.protocol.stream_trials) > 1:
        rules.setdefault("retry_temperature", _choose_retry_temperature(config))
    elif config.protocol.setting != "transfer":  # only compiles play a variant again, so the id does not name it
        base = replace(base, rules=replace(base.rules, retry_temperature=_choose_retry_temperature(config)))
    thinks = rules.get("demonstrations", base.rules.demonstrations) > 0
    thinks = thinks and rules.get("thoughts", base.rules.thoughts)  # solved examples have the form that is asked for
    base = replace(base, rules=replace(base.rules, demonstration_thoughts=thinks))
    names = {field.name for field in fields(ConstitutionSettings)}
    book = config.memory.constitution.model_dump(include=names, exclude_none=True)
    changed = replace(
        base,
        rules=replace(base.rules, **rules),
        skills=replace(base.skills, **config.memory.skills.model_dump(exclude_none=True)),
        constitution=replace(base.constitution, **book),
        steps=base.steps if config.protocol.steps is None else config.protocol.steps,
    )
    return replace(changed, id=" ".join([base.id, *setting, *_list_departures(config, base, changed)]))


def _choose_retry_temperature(config: Config) -> float | None:
    actor = apply_decoding(config).active_backend.resolve_role("actor")
    temperature = actor.temperature if isinstance(actor.temperature, float) else None
    return choose_retry_temperature(actor.model or "", temperature, actor.top_k)


def _list_departures(config: Config, base: NamedProtocol, changed: NamedProtocol) -> list[str]:
    """Return ``name=value`` for every departure from the preset."""
    pairs: list[tuple[str, object, object]] = []
    for prefix, preset_values, values in (
        ("", base.rules, changed.rules),
        ("skills.", base.skills, changed.skills),
        ("constitution.", base.constitution, changed.constitution),
    ):
        names = [field.name for field in fields(preset_values)]
        pairs += [(f"{prefix}{name}", getattr(preset_values, name), getattr(values, name)) for name in names]
    defaults = Config()
    examples = config.memory.constitution.examples
    reflections = {
        **defaults.memory.reflections.model_dump(),
        "improvements": [],
        "examples": base.reflection_examples,
    }
    reflection_values = config.memory.reflections.identify()
    pairs += [("steps", base.steps, changed.steps), *_compare_decoding(base, config)]
    pairs += [
        ("stream_trials", defaults.protocol.stream_trials, config.protocol.stream_trials),
        ("constitution.examples", None, examples and Path(examples).name),
        ("reflections", defaults.memory.reflections.size, reflection_values.pop("size")),
        *((f"reflections.{name}", reflections[name], value) for name, value in reflection_values.items()),
        ("embedder", MINILM, config.embedder.model),
        ("simplification", defaults.environment.simplification, config.environment.simplification),
    ]
    departures = ((name, value) for name, default, value in pairs if value != default)
    return [f"{name}={','.join(value) if isinstance(value, list | tuple) else value}" for name, value in departures]


def _compare_decoding(base: NamedProtocol, config: Config) -> list[tuple[str, object, object]]:
    """Return name, the protocol's value and the configuration's, of every decoding setting that the protocol names."""
    backend = apply_decoding(config).active_backend
    if backend.model == EMBEDDED:
        return []
    pairs: list[tuple[str, object, object]] = []
    for name, preset_value in base.decoding:
        value = getattr(backend, name)
        pairs.append((name, preset_value, "unset" if value is None else value))
        roles = ((role, getattr(override, name)) for role, override in sorted(backend.roles.items()))
        pairs += [(f"{role}.{name}", preset_value, value) for role, value in roles if value is not None]
    return pairs


def make_reflection_settings(config: Config) -> ReflectionSettings:
    settings = config.memory.reflections
    if settings.outcome == "solved" and settings.index is None and not settings.successes:
        raise ConfigError(
            "memory.reflections.outcome = solved finds nothing, for no solved trial writes a reflection: set "
            "memory.reflections.successes = true"
        )
    examples = settings.examples or get_protocol(config.protocol.preset).reflection_examples
    overrides = {
        "improvements": frozenset(settings.improvements),
        "examples": [] if examples in (NO_EXAMPLES, OWN_EXAMPLES) else _read_examples(examples),
        "own_examples": config.active_benchmark.hints.reflections() if names_own_examples(config) else (),
    }
    return ReflectionSettings(**{**settings.model_dump(exclude_none=True), **overrides})


def names_own_examples(config: Config) -> bool:
    """Whether the reflector is to be shown the benchmark's own examples."""
    examples = config.memory.reflections.examples or get_protocol(config.protocol.preset).reflection_examples
    return examples == OWN_EXAMPLES


def _read_examples(name: str) -> list[dict[str, Any]]:
    """Read what stands in the reflector's prompt as examples: tables of its fields."""
    fields = signatures.Reflect.fields.keys()
    try:
        rows: list[dict[str, Any]] = read_toml(Path(name).expanduser()).get("example", [])
        fit = bool(rows) and all({"transcript", "plan"} <= row.keys() <= fields for row in rows)
    except (OSError, AttributeError, TypeError):
        fit = False
    if not fit:
        raise ConfigError(
            f"memory.reflections.examples: {name} is no TOML file of tables [[example]], each with transcript and "
            f"plan, and with no other keys than {', '.join(fields)}"
        )
    return rows


def make_run_identity(
    config: Config, preset: NamedProtocol, carried: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return what all results of a folder depend on. `carried`: memories to digests of files that units start from."""
    return {
        **({"carried": dict(carried)} if carried else {}),
        "protocol": preset.id,
        "config": config.resolve_settings(),
        **_describe_origin(config, preset),
    }


def make_provenance(config: Config) -> dict[str, str]:
    """Return the provenance of each record. It is equal for all runs of one installation."""
    origin = _describe_origin(config, resolve_protocol(config))
    return {**origin, "python": platform.python_version(), "commit": read_commit()}


def _describe_origin(config: Config, protocol: NamedProtocol) -> dict[str, str]:
    return {
        "config_hash": config.hash(),
        "prompts": hash_prompts(config.active_benchmark, protocol.rules.interface),
        "rsso_dspy": __version__,
        "dspy": version("dspy"),
        **config.active_benchmark.origin(),
    }


def hash_prompts(of: Benchmark, interface: Interface = "sso") -> str:
    """Hash the prompts of the zero-shot programs into 12 hexadecimal digits: instructions and fields, how layouts
    arrange them, the benchmark's action templates and its examples for the reflector. The fingerprint of each arm's
    program covers the other writers."""
    texts = [of.hints.about, *(of.action_templates.get(name, "") for name in dict.fromkeys(("sso", interface)))]
    texts += [str(sorted(example.items())) for example in of.hints.reflections()]
    texts += [THOUGHT_ON_PLANS, *(f"{name} {arrangement}" for name, arrangement in ARRANGEMENTS.items())]
    for name in sorted({*signatures.__all__} - {"DistillReflections", "ErrorRule"}):
        signature = getattr(signatures, name)
        fields = [
            (key, str(field.annotation), field.json_schema_extra["desc"]) for key, field in signature.fields.items()
        ]
        texts.append(f"{name} {signature.instructions} {fields}")
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]


def read_commit() -> str:
    """Return the git commit of the source tree, with `+dirty` for changes, or `release` for an installed package."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return "release"
    words = ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+dirty"]
    env = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        answer = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
