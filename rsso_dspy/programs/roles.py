"""What the memories of an agent may ask its modules, and the table of memories.

A memory is pure data and algorithms; what it needs of a language model it gets as a callable of `Roles`. `MEMORIES`
says what each memory of the method table is made of; `add_method` adds a row, and memories, from outside the package.
"""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.environments import Environment, get_place_reader, list_verbs
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.memory import Recall
from rsso_dspy.memory.constitution import Constitution, ConstitutionMemory, PartialEpisode, RuleWriter, condense_rules
from rsso_dspy.memory.constitution.rules import CATEGORIES, LASTING
from rsso_dspy.memory.reflections import LongTerm, ReflectionMemory
from rsso_dspy.memory.skills import Skill, SkillMemory, Verbalization, Window
from rsso_dspy.playing import playing
from rsso_dspy.programs.actor import SCAFFOLDS, Answer, add_regions, read_answer
from rsso_dspy.programs.memory_rows import MEMORY_ROWS, MemoryBuilder, MemoryRow
from rsso_dspy.programs.methods import ADDITIONS, METHODS, Method, Scaffold, Writing
from rsso_dspy.programs.modules import MODULES, get_role
from rsso_dspy.programs.outcome import tell_outcome
from rsso_dspy.programs.reflecting import compose_reflection, describe_long_term, list_reflection_fields
from rsso_dspy.programs.role_calls import RoleCalls
from rsso_dspy.programs.rule_categories import Categories, select_category_examples
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.programs.skill_verbalizer import describe_skill
from rsso_dspy.programs.transcript import Render, describe_outcome, render_transcript
from rsso_dspy.records import ZERO_SHOT, Lesson, Trajectory
from rsso_dspy.regions import REGIONS


def list_modules(row: Method) -> tuple[str, ...]:
    """The modules that a method needs beside its actor: those of its memories, and those the row names."""
    needed = {*row.modules, *(module for name in row.memories for module in MEMORIES[name].modules)}
    if "constitution" in row.memories and row.writing in ("neural", "neuro-symbolic"):
        needed.add("constitution_writer")
    return tuple(name for name in MODULES if name in needed)


class Roles:
    """The modules of an agent, asked by its loop and its memories. Local to one `Agent.forward`."""

    def __init__(self, modules: Mapping[str, dspy.Module], method: Method):
        self.modules = modules
        self.method = method.name
        self.scaffold: Scaffold = method.scaffold
        self.writing = method.writing
        self.passed_on = method.passed_on
        self.improvements: frozenset[str] = frozenset()
        """Those of the reflection memory."""
        self.call: RoleCalls
        self.environment: Environment

    def act(self, recalled: Sequence[Recall], **regions: str) -> Answer | None:
        """The actor's next answer; None when it was malformed. `regions` are the actor's input fields by name."""
        with playing(verbs=list_verbs(self.environment)):
            prediction = self.ask("actor", action_templates=self.environment.action_templates, **regions)
        if prediction is None:
            return None
        answer = read_answer(prediction, self.scaffold, [target for recall in recalled for target in recall.targets])
        if not answer.action:
            self.call.ledger.count_malformed("actor", _said(prediction))
            return None
        return answer

    def reflect(self, trajectory: Trajectory, earlier: tuple[str, ...]) -> str | None:
        """What went wrong and what to do instead; None when the answer was malformed (Reflexion, section 3)."""
        prediction = self.ask(
            "reflector",
            task=trajectory.task,
            earlier_plans="\n".join(earlier),
            transcript=self.tell_transcript(trajectory),
            outcome=self.tell_outcome(trajectory),
            **list_reflection_fields(
                self.modules["reflector"], self.improvements, trajectory, get_place_reader(self.environment)
            ),
        )
        return prediction and compose_reflection(prediction, trajectory)

    def distill(
        self, known: LongTerm, task_type: str, plans: Sequence[str]
    ) -> tuple[Sequence[str], Sequence[str], str] | None:
        """What remains of plans that a hierarchical reflection memory drops; None when the answer was malformed."""
        prediction = self.ask("reflection_distiller", **describe_long_term(known, task_type, plans))
        return prediction and (prediction.never or (), prediction.always or (), prediction.strategy or "")

    def verbalize(self, examples: Sequence[Window]) -> Verbalization | None:
        """Summary, instructions and target of a skill. None when an answer was malformed, or the instructions are no
        actions."""
        templates = self.environment.action_templates
        prediction = self.ask("skill_verbalizer", examples=examples, action_templates=templates)
        if prediction is not None and not prediction.steps:
            self.call.ledger.count_malformed("verbalizer", _said(prediction))
        return prediction and prediction.skill

    def judge_equivalence(self, new: Skill, library: Sequence[Skill]) -> bool:
        """Whether the library already holds the new skill. A malformed answer counts as no."""
        numbered = "\n".join(f"{number}. {describe_skill(skill)}" for number, skill in enumerate(library, start=1))
        prediction = self.ask("skill_equivalence", library=numbered, new_skill=describe_skill(new))
        return prediction is not None and any(1 <= number <= len(library) for number in prediction.equivalent or ())

    def write_rules(
        self, play: PartialEpisode, known: Constitution, examples: str, categories: Categories = CATEGORIES
    ) -> list[Lesson] | None:
        """What an episode so far teaches beyond the rules that stand; None when the answer was malformed (OmniReflect,
        section 2.1.1). `examples` are stretches of play with the rules drawn from them."""
        seen = replace(play, render=self._renderer)
        prediction = self.ask("constitution_writer", play=seen, known=known, examples=examples, categories=categories)
        return prediction and prediction.lessons

    def summarize_rules(self, known: Constitution, categories: Categories = CATEGORIES) -> list[Lesson] | None:
        """The lasting rules in fewer words; None when the answer was malformed, or held none."""
        prediction = self.ask("constitution_writer", "shorten", known=known, categories=categories)
        return (prediction and prediction.lessons) or None

    def tell_transcript(self, trajectory: Trajectory) -> str:
        """Every action of an attempt, numbered, with what was seen after it."""
        return render_transcript(trajectory, self._renderer)

    def tell_outcome(self, trajectory: Trajectory) -> str:
        """How an attempt ended and what its steps earned."""
        return describe_outcome(trajectory) if self._renderer is None else tell_outcome(trajectory)

    @property
    def _renderer(self) -> Render | None:
        """How what was in sight is shown to other roles than the actor; None where they are not to see it."""
        return self.environment.render if self.call.runtime.rules.interface == "complete" else None

    def ask(self, name: str, method: str = "", /, **inputs: Any) -> dspy.Prediction | None:
        """What a module, or a method of it, answers; None when the answer was malformed."""
        if name not in self.modules and name not in STOCK:
            raise UsageError(
                f"a memory of {self.method} asks for the {name}, which this method has not: "
                f"name it in the row, Method(..., modules=({name!r},))"
            )
        module = self.modules.get(name) or _get_stock_module(name)
        return self.call.ask(get_role(name), module, getattr(module, method) if method else module, **inputs)


STOCK = ("reflection_distiller",)
"""Modules that a configuration asks for, not a row: an agent that has none of its own is played with the package's.
One that is to be compiled is named in the row (`reflexion-hierarchical`)."""


@lru_cache(maxsize=8)
def _get_stock_module(name: str) -> dspy.Module:
    """The package's own module, shared by all agents that have none of this name."""
    return MODULES[name]()


def _said(prediction: dspy.Prediction) -> str:
    return "\n".join(
        f"{name}: {value}" for name, value in prediction.items() if value and isinstance(value, str | list)
    )


def require_examples(method: str, writing: Writing | None, examples: str, kept: Categories = CATEGORIES) -> str:
    """Return the examples that a writer of a kind is shown, empty unless it is neuro-symbolic. Raises `UsageError` if
    such a writer has none with rules of the categories kept: it would be the neural one under another name."""
    if writing != "neuro-symbolic":
        return ""
    if not select_category_examples(examples, kept):
        raise UsageError(
            f"{method}: its writer is shown rules that patterns drew from play, and there are no such examples with "
            f"{' or '.join(kept) or 'any'} rules. Name a constitution file that holds some, --set "
            "memory.constitution.examples=FILE (`rsso-dspy constitution build --writer symbolic -o FILE` writes one if "
            "the benchmark has `lessons`), or take a neural writer"
        )
    return examples


def _build_rule_writer(roles: Roles, runtime: Runtime) -> RuleWriter | None:
    """Who writes the constitution of the method; None when it only reads one."""
    if roles.writing is None:
        return None
    if roles.writing == "symbolic":
        return RuleWriter(
            roles.writing,
            lambda play, _known: roles.environment.lessons(play.states, play.steps),
            condense_rules,
            conditional=True,
            given=lambda: roles.environment.rules_of_thumb,
        )
    kept = runtime.constitution.categories
    examples = require_examples(roles.method, roles.writing, runtime.examples, kept)
    lasting = tuple(category for category in kept if category in LASTING)
    return RuleWriter(
        roles.writing,
        lambda play, known: roles.write_rules(play, known, examples, lasting if play.ended else kept),
        lambda known: roles.summarize_rules(known, kept),
        write_category=lambda play, known, category: roles.write_rules(play, known, examples, (category,)),
    )


def _build_reflections(roles: Roles, runtime: Runtime) -> ReflectionMemory:
    """The reflection memory with the improvements of the configuration, and with what the row's modules imply."""
    settings = runtime.reflections
    if "reflection_distiller" in roles.modules:
        settings = replace(settings, improvements=settings.improvements | {"hierarchical"})
    roles.improvements = settings.improvements
    return ReflectionMemory(
        roles.reflect, settings=settings, embed=runtime.embed, distill=roles.distill, neighbours=runtime.neighbours
    )


MEMORIES: dict[str, MemoryRow] = {
    "reflections": MemoryRow(_build_reflections, "plans_from_past_attempts", ("reflector",)),
    "skills": MemoryRow(
        lambda roles, runtime: SkillMemory(runtime.embed, roles.verbalize, roles.judge_equivalence, runtime.skills),
        "skills",
        ("skill_verbalizer", "skill_equivalence"),
    ),
    "constitution": MemoryRow(
        lambda roles, runtime: ConstitutionMemory(_build_rule_writer(roles, runtime), runtime.constitution),
        "constitution",
    ),
    **MEMORY_ROWS,
}
"""Name to memory."""


def list_regions(row: Method) -> tuple[tuple[str, str], ...]:
    """Regions that an actor of the method has beside those of its scaffold, name and description: those of its
    memories in the order of the table of regions, then those that the row names. Raises `UsageError` where two
    memories fill one region."""
    filled = [(name, MEMORIES[name].region) for name in row.memories if MEMORIES[name].region]
    for number, (name, region) in enumerate(filled):
        if (other := next((one for one, same in filled[:number] if same == region), None)) is not None:
            raise UsageError(f"{row.name}: {other} and {name} both fill the region {region}; drop one of them")
    scaffold = SCAFFOLDS[row.scaffold].input_fields
    needed = {region for _, region in filled if region not in scaffold}
    added = [(region.name, region.description) for region in REGIONS.values() if region.name in needed]
    return (*added, *row.regions)


def actor_signature(row: Method) -> type[dspy.Signature]:
    """The signature of the method's actor: its scaffold's, with the regions of its memories before the history."""
    return add_regions(SCAFFOLDS[row.scaffold], list_regions(row))


_TAKEN = {name for actor in SCAFFOLDS.values() for name in actor.fields} | {"self", "recalled", "signature", "lm"}
_TAKEN |= {"demos", "config", "new_signature", "completions"}
"""Names that a region cannot have: fields that the actor has already, and what a call is told besides fields."""

_RESERVED = (ZERO_SHOT, *ADDITIONS)
"""Names of a program, and of what may be added to a method."""


def add_method(row: Method, **memories: MemoryBuilder | MemoryRow) -> None:
    """Make a method known under its name, with memories of its own, by name. Every verb and `Agent` knows it from then
    on, in this process.

    Raises `UsageError` for a name that is taken or cannot name a folder, and for a region that cannot be a new field of
    the actor's signature or is named twice; `UnknownName` for a memory or module that is nowhere to be found.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.name):
        raise UsageError(f"method {row.name!r}: its name takes small letters, digits, - and _, for it names folders")
    if taken := [*({row.name} & {*METHODS, *_RESERVED}), *(memories.keys() & MEMORIES.keys())]:
        raise UsageError(f"{', '.join(taken)} is taken; give it another name")
    for name in row.memories:
        if name not in MEMORIES and name not in memories:
            raise UnknownName("memory", name, [*MEMORIES, *memories], "Hand its builder to add_method.")
    for name in row.modules:
        if name not in MODULES:
            raise UnknownName("module", name, MODULES)
    regions = [name for name, _ in row.regions]
    for number, (name, description) in enumerate(row.regions):
        if name in regions[:number]:
            raise UsageError(f"region {name!r} of {row.name} is named twice; name it once")
        if name in _TAKEN or not name.isidentifier() or not _can_be_field(name, description):
            raise UsageError(f"region {name!r} of {row.name} cannot be a new field of the actor; give it another name")
    MEMORIES.update({name: each if isinstance(each, MemoryRow) else MemoryRow(each) for name, each in memories.items()})
    METHODS[row.name] = row


def _can_be_field(name: str, description: str) -> bool:
    """Whether both actors can have this field. What DSPy and pydantic refuse, or warn of, is theirs to know."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for actor in SCAFFOLDS.values():
                add_regions(actor, ((name, description),))
    except Exception:  # errors of every kind, by the name
        return False
    return True
