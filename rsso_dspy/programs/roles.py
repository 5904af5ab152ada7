"""The roles of one agent during one unit: records in, texts to the predictors, answers back as records.

The table `MEMORIES` says what each memory of the method table is made of; memories get these roles as plain callables.
`add_method` adds a row, and memories, from outside the package.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.environments import Environment
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.memory import Memory, Recall
from rsso_dspy.memory.constitution import Constitution, ConstitutionMemory, Play, Writer, condensed
from rsso_dspy.memory.constitution.rules import CATEGORIES, said
from rsso_dspy.memory.reflections import ReflectionMemory
from rsso_dspy.memory.skills import Skill, SkillMemory, Verbalization, Window
from rsso_dspy.programs.asking import Categories, asking_for, examples_of
from rsso_dspy.programs.instructions import instructions
from rsso_dspy.programs.methods import ADDITIONS, METHODS, Method, Scaffold
from rsso_dspy.programs.runtime import Caller, Runtime
from rsso_dspy.programs.transcript import example, outcome, stretch, transcript
from rsso_dspy.signatures import ErrorRule, FlatActor, SkillActor
from rsso_dspy.trajectory import ZERO_SHOT, Lesson, Trajectory

ROLE_OF = {
    "actor": "actor",
    "reflector": "reflector",
    "skill_summary": "verbalizer",
    "skill_instructions": "verbalizer",
    "skill_target": "verbalizer",
    "skill_equivalence": "verbalizer",
    "rule_writer": "advisor",
    "constitution_summarizer": "advisor",
}
"""Predictor to role: which model answers it, and under which name its tokens are counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the actor said. ``subgoal`` is the target of a recalled skill, or None."""

    action: str
    reasoning: str
    subgoal: str | None


class Roles:
    """An agent's predictors, by name, with the caller of the present trial. Local to one `Agent.forward`."""

    def __init__(self, predictors: dict[str, dspy.Predict], method: Method):
        self.predictors = predictors
        self.scaffold: Scaffold = method.scaffold
        self.writing = method.writing
        self.regions = method.regions
        self.call: Caller
        self.action_templates = ""
        self.environment: Environment
        self.shown: dict[str, str] = {}
        """Texts of the memories that stood in this trial's prompts; see `TrialResult.shown`."""

    def begin(self, environment: Environment) -> None:
        """A trial begins in an environment that was just reset."""
        self.environment, self.action_templates, self.shown = environment, environment.action_templates, {}

    def show(self, preambles: dict[str, Recall], recalls: dict[str, Recall], progress: str, step: int) -> None:
        """Note what memories put into the prompt of a step, each distinct text once."""
        self._note("progress", progress, step)
        for region, recall in preambles.items():
            if recall.text:
                self.shown[region] = recall.text
        for region, recall in recalls.items():
            if recall.text and recall.ids:
                self.shown[f"{region}:{','.join(recall.ids)}"] = recall.text
            elif not preambles[region].text:
                self._note(region, recall.text, step)

    def _note(self, region: str, text: str, step: int) -> None:
        """What stands in a region from this step on, unless it stood there before."""
        before = next((said for name, said in reversed(self.shown.items()) if name.startswith(f"{region}@")), "")
        if text != before:
            self.shown[f"{region}@{step}"] = text

    def act(self, recalled: Sequence[Recall], **regions: str) -> Answer | None:
        """The actor's next answer; None when it was malformed. `regions` are the actor's input fields by name."""
        actor = self.predictors["actor"]
        form = _with_regions(actor.signature, self.regions)
        prediction = self.call("actor", actor, form, action_templates=self.action_templates, **regions)
        if prediction is None:
            return None
        if self.scaffold == "flat":
            answer = Answer(first_line(prediction.action), prediction.thought or "", None)
        else:
            targets = [target for recall in recalled for target in recall.targets]
            subgoal = _chosen(prediction.current_subgoal or "", targets)
            answer = Answer(first_line(prediction.next_action), prediction.reasoning or "", subgoal)
        if not answer.action:
            self.call.ledger.malformed("actor")
            return None
        return answer

    def reflect(self, trajectory: Trajectory, earlier: tuple[str, ...]) -> str | None:
        """What went wrong and what to do instead; None when the answer was malformed (Reflexion, section 3)."""
        prediction = self._ask(
            "reflector",
            task=trajectory.task,
            earlier_plans="\n".join(earlier),
            transcript=transcript(trajectory),
            outcome=outcome(trajectory),
        )
        return prediction and f"{prediction.what_went_wrong}\n{prediction.plan}".strip()

    def verbalize(self, examples: Sequence[Window]) -> Verbalization | None:
        """Summary, instructions and target of a skill: three calls, each reading the answers before it, so that they
        are one conversation (SSO, section 3.3). None when any answer was malformed, or the instructions are no
        actions."""
        texts = "\n\n".join(
            f"Excerpt {number}\n{example(window.states, window.actions)}"
            for number, window in enumerate(examples, start=1)
        )
        first = self._ask("skill_summary", examples=texts)
        if first is None:
            return None
        said = {"examples": texts, "summary": first.summary, "skill_name": first.skill_name}
        second = self._ask("skill_instructions", **said, action_templates=self.action_templates)
        if second is None:
            return None
        written = tuple(filter(None, map(first_line, second.steps)))
        actions = [action for window in examples for action in window.actions]
        steps = instructions(written, self.action_templates, actions)
        if not steps:
            self.call.ledger.malformed("verbalizer")
            return None
        third = self._ask("skill_target", **said, steps=list(steps))
        if third is None or not third.target.strip():
            return None
        return Verbalization(first.summary, first.skill_name, steps, " ".join(third.target.split()))

    def equivalent(self, new: Skill, library: Sequence[Skill]) -> bool:
        """Whether the library already holds the new skill. A malformed answer counts as no."""
        numbered = "\n".join(f"{number}. {_skill_text(skill)}" for number, skill in enumerate(library, start=1))
        prediction = self._ask("skill_equivalence", library=numbered, new_skill=_skill_text(new))
        return prediction is not None and any(1 <= number <= len(library) for number in prediction.equivalent or ())

    def write_rules(
        self, play: Play, known: Constitution, examples: str, categories: Categories = CATEGORIES
    ) -> list[Lesson] | None:
        """What an episode so far teaches beyond the rules that stand; None when the answer was malformed (OmniReflect,
        section 2.1.1). `examples` are stretches of play with the rules drawn from them."""
        prediction = self._ask(
            "rule_writer",
            categories,
            examples=examples_of(examples, categories),
            task=play.task,
            known_rules=_rules_text(known),
            transcript=stretch(play.states, play.steps),
        )
        return prediction and _lessons(prediction)

    def summarize_rules(self, known: Constitution, categories: Categories = CATEGORIES) -> list[Lesson] | None:
        """The lasting rules in fewer words; None when the answer was malformed, or held none."""
        gathered: dict[str, Any] = {}
        if "abstract" in categories:
            gathered["gathered_abstract_rules"] = [rule.lesson.text for rule in known.of("abstract")]
        if "error" in categories:
            gathered["gathered_error_rules"] = [
                ErrorRule(mistake=rule.lesson.text, solution=rule.lesson.solution) for rule in known.of("error")
            ]
        prediction = self._ask("constitution_summarizer", categories, **gathered)
        return (prediction and _lessons(prediction)) or None

    def _ask(self, name: str, categories: Categories = CATEGORIES, /, **regions: Any) -> dspy.Prediction | None:
        predictor = self.predictors[name]
        return self.call(ROLE_OF[name], predictor, asking_for(predictor.signature, categories), **regions)


def _writer(roles: Roles, runtime: Runtime) -> Writer | None:
    """Who writes the constitution of the method; None when it only reads one."""
    if roles.writing is None:
        return None
    if roles.writing == "symbolic":
        return Writer(
            roles.writing,
            lambda play, _known: roles.environment.lessons(play.states, play.steps),
            condensed,
            conditional=True,
            given=lambda: roles.environment.rules_of_thumb,
        )
    examples = runtime.examples if roles.writing == "neuro-symbolic" else ""
    kept = runtime.constitution.categories
    return Writer(
        roles.writing,
        lambda play, known: roles.write_rules(play, known, examples, kept),
        lambda known: roles.summarize_rules(known, kept),
    )


Build = Callable[[Roles, Runtime], Memory]
"""Makes a fresh memory for a unit."""

MEMORIES: dict[str, Build] = {
    "reflections": lambda roles, runtime: ReflectionMemory(roles.reflect, size=runtime.reflections),
    "skills": lambda roles, runtime: SkillMemory(runtime.embed, roles.verbalize, roles.equivalent, runtime.skills),
    "constitution": lambda roles, runtime: ConstitutionMemory(_writer(roles, runtime), runtime.constitution),
}


_TAKEN = {*SkillActor.fields, *FlatActor.fields, "self", "recalled", "signature", "lm", "demos", "config"}
_TAKEN |= {"new_signature", "completions"}
"""Names that a region cannot have: fields that the actor has already, and what a call is told besides fields."""

_RESERVED = (ZERO_SHOT, *ADDITIONS)
"""Names of a program, and of what may be added to a method."""


def add_method(row: Method, **memories: Build) -> None:
    """Make a method known under its name, with memories of its own, by name. Every verb and `Agent` knows it from then
    on, in this process.

    Raises `UsageError` for a name that is taken or cannot name a folder, and for a region that cannot be a new field of
    the actor's signature or is named twice; `UnknownName` for a memory that is nowhere to be found.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.name):
        raise UsageError(f"method {row.name!r}: its name takes small letters, digits, - and _, for it names folders")
    if taken := [*({row.name} & {*METHODS, *_RESERVED}), *(memories.keys() & MEMORIES.keys())]:
        raise UsageError(f"{', '.join(taken)} is taken; give it another name")
    for name in row.memories:
        if name not in MEMORIES and name not in memories:
            raise UnknownName("memory", name, [*MEMORIES, *memories], "Hand its builder to add_method.")
    regions = [name for name, _ in row.regions]
    for number, (name, told) in enumerate(row.regions):
        if name in regions[:number]:
            raise UsageError(f"region {name!r} of {row.name} is named twice; name it once")
        if name in _TAKEN or not name.isidentifier() or not _fits(name, told):
            raise UsageError(f"region {name!r} of {row.name} cannot be a new field of the actor; give it another name")
    MEMORIES.update(memories)
    METHODS[row.name] = row


def _fits(name: str, told: str) -> bool:
    """Whether both actors can have this field. What DSPy and pydantic refuse, or warn of, is theirs to know."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for actor in (SkillActor, FlatActor):
                _with_regions(actor, ((name, told),))
    except Exception:  # errors of every kind, by the name
        return False
    return True


@lru_cache(maxsize=64)
def _with_regions(signature: type[dspy.Signature], regions: tuple[tuple[str, str], ...]) -> type[dspy.Signature]:
    """The actor's signature with these regions before the history."""
    for name, told in regions:
        place = list(signature.input_fields).index("history")
        signature = signature.insert(place, name, dspy.InputField(desc=told), str)
    return signature


def _rules_text(known: Constitution) -> str:
    """All rules that stand, for who is to write no rule twice."""
    progress = f"Noted progress in this task:\n{known.progress}" if known.progress else ""
    return "\n\n".join(part for part in (known.text, progress) if part)


def _lessons(prediction: dspy.Prediction) -> list[Lesson]:
    """What a rule writer or a summarizer said; entries that say nothing are left out."""
    found = [Lesson("abstract", said(text)) for text in prediction.get("abstract_rules") or ()]
    found += [Lesson("error", said(rule.mistake), said(rule.solution)) for rule in prediction.get("error_rules") or ()]
    found += [Lesson("progress", said(text)) for text in prediction.get("progress_rules") or ()]
    return [lesson for lesson in found if lesson.text]


def _skill_text(skill: Skill) -> str:
    return f"Target: {skill.target} Instructions: {'; '.join(skill.instructions)}"


def first_line(text: Any) -> str:
    """The first line that says something, without list numbers, bullets, quotes or code marks around it."""
    for line in str(text or "").splitlines():
        cleaned = re.sub(r"^\s*(?:[-*>•]\s+|\d+[.)]\s+)?", "", line).strip().strip("`\"'").strip()
        if cleaned:
            return cleaned
    return ""


def _chosen(text: str, targets: Sequence[str]) -> str | None:
    """The target that was copied, up to case, punctuation and spacing; None when it is no target."""

    def words(value: str) -> str:
        return " ".join(re.findall(r"[^\W_]+", value.lower()))

    wanted = words(text)
    return next((target for target in targets if words(target) == wanted), None)
