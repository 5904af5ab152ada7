"""Protocols by name. Scores compare only under one protocol, so every result carries its id."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rsso_dspy.config import Config, EmbedderConfig, EnvironmentConfig, MemoryConfig, ProtocolConfig
from rsso_dspy.environments import Interface
from rsso_dspy.errors import UnknownName
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.programs.runtime import TrialRules

GOLD_FACTOR = 1.5
"""Steps per trial = floor(1.5 x gold length) (rSSO, section 4)."""


@dataclass(frozen=True, slots=True)
class NamedProtocol:
    """One protocol."""

    id: str
    source: str
    rules: TrialRules = field(default_factory=TrialRules)
    skills: SkillSettings = field(default_factory=SkillSettings.sso_adapt_1)
    constitution: ConstitutionSettings = field(default_factory=ConstitutionSettings)
    max_steps: int | None = None
    """Upper bound of the step budget."""

    def compute_budget(self, gold: int) -> int:
        """Return the step budget of a trial for a gold path of `gold` actions."""
        steps = int(GOLD_FACTOR * gold)
        return steps if self.max_steps is None else min(steps, self.max_steps)


PRESETS = {
    preset.id: preset
    for preset in (
        NamedProtocol(
            "adapt/2",
            "the paper's protocol (rSSO, section 4), with all actions and everything that can be seen",
            TrialRules(interface="complete"),
            SkillSettings.adapt_2(),
            ConstitutionSettings(at_end=True),
        ),
        NamedProtocol(
            "adapt/2-cap60",
            "the same, at most 60 steps a trial: for demos and benchmarks",
            TrialRules(interface="complete"),
            SkillSettings.adapt_2(),
            ConstitutionSettings(at_end=True),
            max_steps=60,
        ),
        NamedProtocol("sso-adapt/1", "the paper's protocol with the interface of the released SSO code"),
        NamedProtocol(
            "sso-adapt/1-cap60",
            "the paper's protocol, at most 60 steps a trial: for demos and benchmarks",
            max_steps=60,
        ),
        NamedProtocol(
            "release",
            "the released SSO code's choices: no stop on success, ten equal actions end a trial, 100 simulator ticks",
            TrialRules(stop_on_success=False, max_repeat=10, max_ticks=100),
            SkillSettings.sso_release(),
        ),
    )
}


def get_protocol(name: str) -> NamedProtocol:
    """Return the preset called `name`. Raises `UnknownName` with the nearest names."""
    if name not in PRESETS:
        raise UnknownName("protocol preset", name, PRESETS)
    return PRESETS[name]


def resolve_protocol(config: Config) -> NamedProtocol:
    """Return the configured protocol: the preset with setting and departures, all of which are part of the id."""
    base = get_protocol(config.protocol.preset)
    setting = []
    if config.protocol.setting == "transfer":
        base = replace(base, rules=replace(base.rules, trials=1, frozen=True))
        setting = [f"transfer={config.protocol.train_trials}x{config.protocol.train_per_task}"]
    wanted = config.protocol.model_dump(include={*_get_field_names(TrialRules)})
    rules = {k: v for k, v in wanted.items() if v is not None}
    skills = {k: v for k, v in config.memory.skills.model_dump().items() if v is not None}
    book = config.memory.constitution.model_dump(include={*_get_field_names(ConstitutionSettings)}, exclude_none=True)
    changed = replace(
        base,
        rules=replace(base.rules, **rules),
        skills=replace(base.skills, **skills),
        constitution=replace(base.constitution, **book),
    )
    return replace(changed, id=" ".join([base.id, *setting, *_list_departures(config, base, changed)]))


def interface_of(protocol: Mapping[str, Any]) -> Interface:
    """Return the interface of a resolved section `protocol`, e.g. of a run's folder.

    Raises `UnknownName` for an unknown preset.
    """
    named: Interface | None = protocol.get("interface")
    return named or get_protocol(str(protocol.get("preset", "sso-adapt/1"))).rules.interface


def _list_departures(config: Config, base: NamedProtocol, changed: NamedProtocol) -> list[str]:
    """Return ``name=value`` for every departure from the preset."""
    pairs = [(name, getattr(base.rules, name), getattr(changed.rules, name)) for name in _get_field_names(TrialRules)]
    pairs += [
        (f"skills.{name}", getattr(base.skills, name), getattr(changed.skills, name))
        for name in _get_field_names(SkillSettings)
    ]
    pairs += [
        (f"constitution.{name}", getattr(base.constitution, name), getattr(changed.constitution, name))
        for name in _get_field_names(ConstitutionSettings)
    ]
    pairs += [
        ("stream_trials", ProtocolConfig().stream_trials, config.protocol.stream_trials),
        ("constitution.examples", None, config.memory.constitution.examples),
        ("reflections", MemoryConfig().reflections, config.memory.reflections),
        ("embedder", EmbedderConfig().model, config.embedder.model),
        ("simplification", EnvironmentConfig().simplification, config.environment.simplification),
    ]
    return [f"{name}={value}" for name, usual, value in pairs if value != usual]


def _get_field_names(record: type) -> list[str]:
    return [entry.name for entry in fields(record)]
