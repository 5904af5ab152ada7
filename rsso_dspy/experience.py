"""Experience from elsewhere: files and folders whose texts models read, with the variants that these were learned on.

    read_named_experience(config, [method])     # what the configuration names for this method
    check_for_learning(config, [method])        # the same, refused where it was learned on held-out variants

Skill libraries, constitutions, examples for writers, and the reflections of an earlier run all say here what they know.
What does not say it is accepted, and its source is called unknown in plans, files and reports.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import named_in
from rsso_dspy.errors import ConfigError, DamagedFile, SplitError, UsageError
from rsso_dspy.files import read_toml
from rsso_dspy.memory.formats import ConstitutionFile, SkillLibraryFile, read_constitution
from rsso_dspy.memory.reflections import Reflection
from rsso_dspy.programs.methods import Method
from rsso_dspy.records import Variant
from rsso_dspy.store.guards import check_benchmark
from rsso_dspy.store.run_folder import Store

SKILLS, CONSTITUTION = "--skills", "--constitution"
INDEX = "memory.reflections.index"
REFLECTION_EXAMPLES = "memory.reflections.examples"
CONSTITUTION_EXAMPLES = "memory.constitution.examples"

_KEY = re.compile(r"[^\s:]+::\d+")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Experience:
    """A file or folder whose texts a model reads, and what it says of its source."""

    name: str  # of the file or folder, as the user wrote it
    setting: str  # the setting or option that names it
    variants: tuple[str, ...] = ()  # keys of those that it was learned on
    benchmark: str = ""  # on which it was made; empty if it does not say
    unknown: tuple[str, ...] = ()  # file names of what it rests on whose source nobody can tell: mostly itself, or none
    skips_own: bool = False  # whether a variant is never shown what was learned on itself

    def serves(self, method: Method) -> bool:
        """Whether the models of a method read it."""
        if self.setting == CONSTITUTION_EXAMPLES:
            return method.writing == "neuro-symbolic"
        memory = {SKILLS: "skills", CONSTITUTION: "constitution"}.get(self.setting, "reflections")
        return memory in method.memories

    def describe_unknown(self) -> str:
        rests_on = "" if self.unknown == (Path(self.name).name,) else f" rests on {', '.join(self.unknown)}, which"
        return (
            f"source unknown: {self.name} ({self.setting}){rests_on} does not say on which variants it was learned; "
            "see to it that no held-out one is among them"
        )


# What each kind of file says of its source.


def describe_constitution(file: Path, book: ConstitutionFile, setting: str) -> Experience:
    """Rules say in their source what they were learned on, also where somebody has edited the file's own list."""
    from_rules = [source for rule in book.constitution.rules for source in rule.source.split(" + ")]
    is_edited = book.is_edited or any(not _KEY.fullmatch(source) for source in from_rules)
    return _describe_file(
        file,
        setting,
        book.provenance,
        [*book.variants, *filter(_KEY.fullmatch, from_rules)],
        is_edited=is_edited,
    )


def describe_library(file: Path, library: SkillLibraryFile, setting: str) -> Experience:
    variant_keys = library.provenance.get("variants")
    variants = [str(key) for key in variant_keys] if isinstance(variant_keys, list) else []
    return _describe_file(file, setting, library.provenance, variants)


def _describe_file(
    file: Path, setting: str, provenance: Mapping[str, Any], variants: Sequence[str], is_edited: bool = False
) -> Experience:
    made_by = provenance.get("made_by")
    benchmark = named_in(made_by) if isinstance(made_by, Mapping) else None
    unknown = [str(name) for name in _as_list(provenance.get("source_unknown"))]
    if is_edited or not isinstance(provenance.get("variants"), list):
        unknown.append(file.name)
    return Experience(str(file), setting, tuple(dict.fromkeys(variants)), benchmark or "", tuple(unknown))


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _describe_reflection_examples(name: str) -> Experience:
    """The table `[provenance]` of the file holds `variants` and `benchmark`."""
    file = Path(name).expanduser()
    try:
        provenance = read_toml(file).get("provenance", {})
    except (OSError, DamagedFile) as error:
        raise ConfigError(f"{REFLECTION_EXAMPLES}: cannot read {name} ({error})") from None

    variants = provenance.get("variants", []) if isinstance(provenance, dict) else None
    if not isinstance(variants, list) or not all(isinstance(key, str) and "::" in key for key in variants):
        raise ConfigError(
            f"{REFLECTION_EXAMPLES}: [provenance] of {name} has variants that are no list of keys; write the variants "
            'that the examples were taken from, variants = ["TASK::NUMBER"], or [] for none'
        )
    unknown = () if "variants" in provenance else (file.name,)
    return Experience(name, REFLECTION_EXAMPLES, tuple(variants), str(provenance.get("benchmark", "")), unknown)


def _describe_index(name: str) -> Experience:
    """An earlier run: its units, and what their memories had been learned on before."""
    store = Store(Path(name).expanduser(), read_only=True)
    identity, _ = store.read_identity()
    variants: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for unit in store.units():
        variants |= dict.fromkeys([unit.key, *unit.learnt_on])
        if sources := unit.provenance.get("source_unknown"):
            unknown |= dict.fromkeys(sources.split(", "))
    settings = identity.get("config")
    benchmark = settings.get("benchmark", "") if isinstance(settings, dict) else ""
    return Experience(name, INDEX, tuple(variants), str(benchmark), tuple(unknown), skips_own=True)


# What a configuration names.


def read_named_experience(config: Config, methods: Iterable[Method]) -> list[Experience]:
    """The experience that settings name and any of the methods reads. Raises `UsageError` for what cannot be read."""
    reflections = config.memory.reflections
    experiences: list[Experience] = []
    if reflections.index is not None and "retrieval" in reflections.improvements:
        experiences.append(_describe_index(reflections.index))
    if reflections.examples is not None and not reflections.names_no_file:
        experiences.append(_describe_reflection_examples(reflections.examples))
    if config.memory.constitution.examples is not None:
        file = Path(config.memory.constitution.examples)
        experiences.append(describe_constitution(file, read_constitution(file), CONSTITUTION_EXAMPLES))

    rows = list(methods)
    return [experience for experience in experiences if any(experience.serves(method) for method in rows)]


def read_stored_reflections(config: Config) -> list[Reflection] | None:
    """Return the plans of the run that the configuration names, if retrieval is on."""
    settings = config.memory.reflections
    if settings.index is None or "retrieval" not in settings.improvements:
        return None
    store = Store(Path(settings.index).expanduser(), read_only=True)
    store.read_identity()

    plans: dict[Reflection, None] = {}
    for unit in store.units():
        if unit.has_errors:
            continue
        for plan in unit.memories.get("reflections", {}).get("plans", ()):
            variant = plan.get("variant") or unit.variant.key
            task = plan.get("task") or unit.trajectories[0].task
            plans[Reflection(plan["trial"], plan["plan"], variant, task, plan.get("solved", False))] = None

    if settings.outcome and not any(plan.solved == (settings.outcome == "solved") for plan in plans):
        raise UsageError(
            f"memory.reflections.outcome: {settings.index} has none of a {settings.outcome} trial; drop it"
        )
    return list(plans)


# The check.


def check_for_learning(config: Config, methods: Iterable[Method]) -> list[Experience]:
    """Return the experience that a compile, or the building of a constitution, reads for these methods. Raises
    `SplitError` where any of it was learned on held-out variants: what comes of the learning would carry them on."""
    experiences = read_named_experience(config, methods)
    for experience in experiences:
        if held_out := _find_test_variants(experience, config):
            raise SplitError(
                f"{experience.name} ({experience.setting}) was learned on {', '.join(held_out)}, which are held out: "
                "what is learned with it would carry them on; leave the setting out, or name one that was learned on "
                "training variants"
            )
    return experiences


def check_for_run(
    experience: Experience,
    config: Config,
    held_out: Iterable[Variant],
    hands_on: bool = False,
    say: Say = lambda _: None,
) -> None:
    """Raise `SplitError` if a run's experience was learned on a variant that the run holds out. `hands_on`: units or
    trainings of the run hand on what they learn, so that what was learned on a variant comes back to it. `say` receives
    a note on other test variants, and on an unknown source."""
    test_variants = _find_test_variants(experience, config)
    overlap = sorted({variant.key for variant in held_out}.intersection(experience.variants))
    if overlap and (hands_on or not experience.skips_own):
        raise SplitError(
            f"{experience.name} was learned on {', '.join(overlap)}, which this run holds out: scores there would not "
            "be held out; drop them from --variants, or use a file made on training variants"
        )
    if test_variants:
        say(
            f"{experience.name} was learned on {', '.join(test_variants)} of the test split: mention this when you "
            "report scores"
        )
    if experience.unknown:
        say(experience.describe_unknown())


def _find_test_variants(experience: Experience, config: Config) -> list[str]:
    """The test variants among those that it was learned on. Raises `UsageError` if it is of another benchmark."""
    if experience.benchmark:
        check_benchmark(experience.name, experience.benchmark, config.benchmark)
    try:
        return config.active_benchmark.select_held_out(experience.variants)
    except UsageError as error:
        raise UsageError(
            f"{experience.name} was learned on variants that {config.benchmark} does not have ({error}), and does not "
            f"name its benchmark: select that one (--benchmark), or use a file made on {config.benchmark}"
        ) from None


def list_unknown_sources(experiences: Iterable[Experience]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for experience in experiences for name in experience.unknown))


def list_learned_variants(experiences: Iterable[Experience]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for experience in experiences for key in experience.variants))
