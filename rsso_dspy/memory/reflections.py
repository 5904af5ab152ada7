"""Verbal reflection: after a failed trial, one plan for the next (Reflexion, Shinn et al. 2023, section 3), with eight
improvements that can be turned on. What a variant is shown of others never includes a plan that was written on that
variant itself."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, get_args

from rsso_dspy.memory import Memory, Recall, Services
from rsso_dspy.memory.patterns import PatternMemory
from rsso_dspy.memory.texts import find_nearest
from rsso_dspy.records import Trajectory, Variant

Improvement = Literal[
    "structured", "loops", "hierarchical", "across-tasks", "adaptive", "novelty", "counterfactual", "retrieval"
]
"""structured: failed action pattern, root cause, missing exploration, strategy adjustment, priority locations.
loops: the reflector is told of semantic loops. hierarchical: plans that leave are distilled into a long-term memory.
across-tasks: patterns of success and of failure go on to the next variants of their task type. adaptive: five plans
are shown after five failures. novelty: a plan that says what an earlier one says is not kept. counterfactual: the
critical step, what should have been done, the expected outcome. retrieval: plans of other units, by similarity of the
tasks."""

ASKING_MORE = frozenset({"structured", "across-tasks", "counterfactual"})  # they add outputs to the reflector
IMPROVEMENTS: tuple[Improvement, ...] = get_args(Improvement)
WIDE = 5  # plans that an adaptive window shows, after as many failures
MOST_PASSED_ON = 200  # plans that a stream passes on at most, the newest: every record of the stream holds them
MOST_LINES = 10  # of each kind in the long-term part, the newest
MOST_CHARACTERS = 300  # of such a line
DISTILLER = "reflection_distiller"


@dataclass(frozen=True, slots=True)
class ReflectionSettings:
    size: int = 3  # plans kept and shown
    improvements: frozenset[str] = frozenset()  # those of `IMPROVEMENTS` that are on
    novelty_threshold: float = 0.85  # cosine similarity from which on a plan says what an earlier one says
    retrieved: int = 3  # plans of other units that retrieval shows
    index: str | None = None  # run whose reflections retrieval reads; without one, what the stream passes on
    same_type: bool = False  # whether retrieval shows plans of the same task type alone
    outcome: Literal["solved", "failed"] | None = None  # of which trials retrieval shows plans; None for all
    successes: bool = False  # whether a solved trial writes what worked, for other variants
    examples: Sequence[Mapping[str, Any]] = ()  # calls of the reflector, field to value, that stand in its prompt
    own_examples: Sequence[Mapping[str, Any]] = ()  # likewise, where it has no others and is asked for nothing more

    def has(self, improvement: Improvement) -> bool:
        return improvement in self.improvements

    @property
    def is_passed_on(self) -> bool:
        """Whether plans go from each unit of a stream to the next."""
        return self.has("across-tasks") or (self.has("retrieval") and self.index is None)

    @property
    def writes_after_success(self) -> bool:
        """Whether a solved trial costs a call: its plan, or its pattern of success, is for others."""
        return self.successes or self.has("across-tasks")

    @property
    def tells_variants_apart(self) -> bool:
        """Whether a plan has to say which variant it was written on."""
        return self.has("across-tasks") or self.has("retrieval")

    @property
    def most_kept(self) -> int:
        return max(self.size, WIDE) if self.has("adaptive") else self.size

    def finds(self, each: "Reflection", task_type: str) -> bool:
        """Whether retrieval may show a plan at a task of this type."""
        if self.same_type and each.task_type != task_type:
            return False
        outcome = "solved" if each.solved else "failed"
        return self.outcome in (None, outcome)


@dataclass(frozen=True, slots=True)
class Reflection:
    trial: int
    plan: str
    variant: str = ""  # key of the variant, `task type::index`
    task: str = ""  # description of the task, which retrieval compares; empty where no plan leaves its unit
    solved: bool = False  # whether its trial solved the variant

    @property
    def task_type(self) -> str:
        return self.variant.partition("::")[0]

    def describe_source(self, variant: str) -> str:
        """Say after which attempt it was written, to whoever plays `variant`."""
        if self.variant == variant:
            return f"Attempt {self.trial} at this task"
        ending = ", which it solved" if self.solved else ""
        return f"Attempt {self.trial} at another task ({self.task_type}){ending}"

    def dump(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value}


def pass_on_reflections(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot that the next unit starts from: everything is of others, nothing its own."""
    plans = [*snapshot.get("carried", ()), *snapshot["plans"]]
    passed_on: dict[str, Any] = {"plans": [], "carried": plans[-MOST_PASSED_ON:]}
    for name in ("long_term", "patterns"):
        if name in snapshot:
            passed_on[name] = snapshot[name]
    return passed_on


@dataclass(frozen=True, slots=True)
class LongTerm:
    never: list[str] = field(default_factory=list)
    always: list[str] = field(default_factory=list)
    strategies: dict[str, str] = field(default_factory=dict)  # task type to its strategy, the newest last
    learnt_on: list[str] = field(default_factory=list)  # keys of the variants whose plans it was distilled from

    @property
    def text(self) -> str:
        lines = []
        for heading, entries in (("Never do:", self.never), ("Always do:", self.always)):
            if entries:
                lines.append(heading)
                lines += [f"- {line}" for line in entries]
        lines += [f"Strategy for {task}: {strategy}" for task, strategy in self.strategies.items()]
        return "\n".join(lines)

    def replace_lines(self, task: str, said: Any, learnt_on: Sequence[str]) -> "LongTerm":
        strategies = {name: text for name, text in self.strategies.items() if name != task}
        strategy = _clean_line(said.strategy or "") or self.strategies.get(task, "")
        if strategy:
            strategies[task] = strategy
        newest = list(strategies.items())[-MOST_LINES:]
        return LongTerm(
            never=_bound_lines(said.never or ()) or self.never,
            always=_bound_lines(said.always or ()) or self.always,
            strategies=dict(newest),
            learnt_on=list(dict.fromkeys([*self.learnt_on, *learnt_on])),
        )


def _clean_line(line: str) -> str:
    return " ".join(str(line).split())[:MOST_CHARACTERS]


def _bound_lines(lines: Sequence[str]) -> list[str]:
    cleaned = map(_clean_line, lines)
    distinct = dict.fromkeys(line for line in cleaned if line)
    return list(distinct)[-MOST_LINES:]


STRUCTURED = (
    "failed_action_pattern", "root_cause", "missing_exploration", "strategy_adjustment", "priority_locations",
)  # fmt: skip
"""What a structured reflection answers besides."""


def compose_reflection(said: Any, trajectory: Trajectory) -> str:
    """A reflector's answer as the actor reads it: what the improvements add, and the plan. The mistakes that it names
    are for the plan's sake: shown again, they would be two thirds of the text."""
    lines = []
    for name in STRUCTURED:
        value = said.get(name)
        if isinstance(value, list):
            text = ", ".join(map(str, value))
        else:
            text = str(value or "").strip()
        if text:
            label = name.replace("_", " ").capitalize()
            lines.append(f"{label}: {text}")

    number = said.get("critical_step")
    if isinstance(number, int) and 1 <= number <= len(trajectory.steps):
        action = trajectory.steps[number - 1].action or "no action"
        lines.append(f"Critical step: {number}, {action}")
        for name, label in (("should_have_done", "Instead"), ("expected_outcome", "Expected")):
            text = str(said.get(name) or "").strip()
            if text:
                lines.append(f"{label}: {text}")

    lines.append(str(said.plan))
    return "\n".join(lines).strip()


class ReflectionMemory(Memory):
    """The last three plans, each under the number of the trial below 100 points that it was written after, read once a
    trial. A method that names the module that distils is hierarchical."""

    region = "plans_from_past_attempts"
    asks = ("reflector",)
    calls: ClassVar[dict[str, int]] = {"reflector": 1}
    learns_from_success = False

    def __init__(self, services: Services):
        super().__init__(services)
        self.settings: ReflectionSettings = services.runtime.reflections or ReflectionSettings()
        if DISTILLER in services.modules:
            improvements = self.settings.improvements | {"hierarchical"}
            self.settings = replace(self.settings, improvements=improvements)
        self._own: list[Reflection] = []
        self._others: list[Reflection] = []
        self._long_term = LongTerm()
        self._patterns = PatternMemory()
        self._failures = 0
        self._failed_on = ""  # the variant whose failed trials are counted, where variants are told apart
        self._variant = ""
        self._task = ""

    def begin_trial(self, variant: Variant, task: str) -> None:
        """Plans of another variant, in a training, are no longer the unit's own."""
        self._variant = variant.key
        self._task = task
        if not self.settings.tells_variants_apart:
            return
        if self._failed_on != variant.key:
            self._failures = 0
            self._failed_on = variant.key
        self._others += [reflection for reflection in self._own if reflection.variant != variant.key]
        self._others = self._others[-MOST_PASSED_ON:]
        self._own = [reflection for reflection in self._own if reflection.variant == variant.key]

    def preamble(self) -> Recall:
        """The long-term part, plans of other variants, and every own plan under the number of its trial."""
        items = []
        ids = []
        of_itself = self.settings.is_passed_on and self._variant in self._long_term.learnt_on
        if self._long_term.text and not of_itself:
            items.append(self._long_term.text)  # distilled from many plans, and so without an id

        patterns = self._patterns.describe_for(self._variant)
        if patterns:
            items.append(patterns)
            ids.append("patterns")

        for reflection in [*self._select_others(), *self._list_shown()]:
            name = f"attempt-{reflection.trial}"
            if reflection.variant != self._variant:
                name = f"{reflection.variant}-{name}"
            items.append(f"{reflection.describe_source(self._variant)}: {reflection.plan}")
            ids.append(name)
        return Recall(ids=tuple(ids), items=tuple(items))

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts of this trial: ``calls`` made, plans ``written``, answers ``malformed``; plans ``held`` now. With
        novelty also plans dropped as ``similar``, with hierarchical also plans ``distilled``, with across-tasks also
        new ``patterns``."""
        counts = {"calls": 0, "written": 0, "malformed": 0}
        if self.settings.has("novelty"):
            counts["similar"] = 0
        if self.settings.has("hierarchical"):
            counts["distilled"] = 0
        if self.settings.has("across-tasks"):
            counts["patterns"] = 0

        if not trajectory.solved:
            self._failures += 1
        if not trajectory.solved or self.settings.writes_after_success:
            self._write_plan(trajectory, counts)
            self._let_go(trajectory.variant, counts)
        return {**counts, "held": len(self._list_shown())}

    def _write_plan(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        settings = self.settings
        counts["calls"] = 1
        answer = self._ask_reflector(trajectory)
        plan = "" if answer is None else compose_reflection(answer, trajectory)
        if not plan:
            counts["malformed"] = 1
            return

        if settings.has("across-tasks"):
            pattern = plan if trajectory.solved else str(answer.get("pattern") or "")
            is_new = self._patterns.add_pattern(pattern, trajectory.variant.key, trajectory.solved)
            counts["patterns"] += is_new
        if trajectory.solved and not settings.successes:
            return
        if settings.has("novelty") and self._is_known(plan):
            counts["similar"] = 1
            return

        counts["written"] = 1
        reflection = Reflection(
            trial=trajectory.trial,
            plan=plan,
            variant=trajectory.variant.key,
            task=trajectory.task if settings.tells_variants_apart else "",
            solved=trajectory.solved,
        )
        self._own.append(reflection)

    def _ask_reflector(self, trajectory: Trajectory) -> Any:
        services = self.services
        return services.ask(
            "reflector",
            task=trajectory.task,
            earlier_plans=[reflection.plan for reflection in self._list_shown()],
            transcript=services.tell_transcript(trajectory),
            outcome=services.tell_outcome(trajectory),
            **services.list_reflection_fields(self.settings.improvements, trajectory),
        )

    def _is_known(self, plan: str) -> bool:
        """Whether a plan says what an earlier one says."""
        plans = [reflection.plan for reflection in self._own]
        nearest = find_nearest(self.services.runtime.embed, plan, plans)
        if not nearest:
            return False
        _, similarity = nearest[0]
        return similarity > self.settings.novelty_threshold

    def _let_go(self, variant: Variant, counts: dict[str, int]) -> None:
        """Drop the plans that are too many; a hierarchical memory distils them first. Of plans that a stream passes on,
        those of the task type count as well."""
        limit = self.settings.most_kept
        leaving = self._own[:-limit]
        self._own = self._own[-limit:]
        if not self.settings.has("hierarchical"):
            return
        if self.settings.is_passed_on:
            of_type = [reflection for reflection in self._others if reflection.task_type == variant.task]
            surplus = max(0, len(of_type) + len(self._own) - limit)
            oldest = of_type[:surplus]
            leaving = [*oldest, *leaving]
            self._others = [reflection for reflection in self._others if reflection not in oldest]
        if leaving:
            self._distil(leaving, variant, counts)

    def _distil(self, leaving: Sequence[Reflection], variant: Variant, counts: dict[str, int]) -> None:
        """Have plans that leave distilled into the long-term part."""
        plans = [f"Attempt {number}: {reflection.plan}" for number, reflection in enumerate(leaving, start=1)]
        counts["calls"] += 1
        answer = self.services.ask(
            DISTILLER,
            task_type=variant.task,
            known_never=self._long_term.never,
            known_always=self._long_term.always,
            known_strategy=self._long_term.strategies.get(variant.task, ""),
            plans="\n\n".join(plans),
        )
        if answer is None:
            counts["malformed"] += 1
            return
        counts["distilled"] = len(leaving)
        learnt_on = [reflection.variant or variant.key for reflection in leaving]
        self._long_term = self._long_term.replace_lines(variant.task, answer, learnt_on)

    def _list_shown(self) -> list[Reflection]:
        """The unit's own plans that a prompt shows: of an adaptive memory five after five failures."""
        most = self.settings.most_kept if self._failures >= WIDE else self.settings.size
        return self._own[-most:]

    def _select_others(self) -> list[Reflection]:
        """Plans of other variants: with retrieval, those of the nearest tasks, each once."""
        settings = self.settings
        runtime = self.services.runtime
        if not settings.has("retrieval") or not self._variant:
            return []
        stored = self._others[::-1] if runtime.stored is None else runtime.stored

        task_type = self._variant.partition("::")[0]
        readable = [reflection for reflection in stored if reflection.variant != self._variant]
        readable = [reflection for reflection in readable if settings.finds(reflection, task_type)]
        tasks = [reflection.task for reflection in readable]
        nearest = find_nearest(runtime.embed, self._task, tasks)
        selected = [readable[place] for place, _ in nearest[: settings.retrieved]]
        return list(dict.fromkeys(selected))

    def snapshot(self) -> dict[str, Any]:
        data: dict[str, Any] = {"plans": [reflection.dump() for reflection in self._own]}
        if self._others:
            data["carried"] = [reflection.dump() for reflection in self._others]
        if self._long_term.text:
            data["long_term"] = asdict(self._long_term)
        if self._patterns.patterns:
            data["patterns"] = self._patterns.dump()
        if self.settings.has("adaptive"):
            data["failures"] = self._failures
            if self._failed_on:
                data["failed_on"] = self._failed_on
        return data

    def restore(self, data: Mapping[str, Any]) -> None:
        plans = [Reflection(**entry) for entry in data["plans"]]
        self._own = plans[-self.settings.most_kept :]
        self._others = [Reflection(**entry) for entry in data.get("carried", ())]
        self._long_term = LongTerm(**data.get("long_term", {}))
        self._patterns = PatternMemory.load(data.get("patterns", ()))
        self._failures = data.get("failures", 0)
        self._failed_on = data.get("failed_on", "")

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Reflection]:
        entries = [*snapshot["plans"], *snapshot.get("carried", ())]
        return [Reflection(**entry) for entry in entries]
