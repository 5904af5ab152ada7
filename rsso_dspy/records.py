"""The records everything else is made of. Frozen: written once, never mutated; no behaviour beyond properties.

Variant      one concrete problem of a task type
State        what the agent can see at one moment
Step         one action and the state it led to
Trajectory   one trial, from reset to its end
Lesson       what a piece of experience teaches: one sentence for a constitution
TrialResult  the trial as it stands in a unit's file: trajectory, what was learnt, what it cost
Failure      why a trial has no score
Source       where a memory has what it holds before the first trial
Record       serial trials of one program, whose memories go from each to the next, and where they came from
UnitRecord      of one variant: one (arm, task, variant, seed), the unit that is compared
TrainingRecord  of training variants one after the other: what units of the transfer setting start from
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal

SCHEMA_VERSION = 1
"""Version of the unit file. A file of a newer version is refused by name, never rewritten."""

SOLVED_SCORE = 100

ZERO_SHOT = "zero-shot"
"""Name of the program whose prompts nobody compiled."""

RULE_BASED_NOTE = (
    "The embedded rule-based model answered here in place of a language model: these scores say nothing about "
    "language models."
)
"""Stands beside every result in which the offline model had a role."""

Split = Literal["train", "dev", "test"]
Outcome = Literal["solved", "failed", "budget", "stalled", "repeated", "error"]
"""How a trial ended: score reached 100; the environment ended it below 100; the step budget was used up; one step
took too long; the same action too often in a row; infrastructure failed (such a trial has no score)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One variation of a task type, e.g. ``find-plant::228``."""

    task: str
    index: int
    split: Split = "test"
    simplification: str = "easy"

    @property
    def key(self) -> str:
        return f"{self.task}::{self.index}"


@dataclass(frozen=True, slots=True)
class State:
    """What can be seen at one moment: the text an action produced, the surroundings and the inventory."""

    observation: str
    look: str
    inventory: str

    @property
    def description(self) -> str:
        """The whole state as one text, the one that is embedded: the observation, then the surroundings unless it
        lists them already, then the inventory unless it holds it (SSO reference, state_description). An observation
        that the surroundings begin with, as after looking around, is not said twice."""
        parts = [] if self.look.startswith(self.observation) else [self.observation]
        if "you see" not in self.observation.lower():
            parts.append(self.look)
        if self.inventory.lower() not in "\n".join(parts).lower():
            parts.append(self.inventory)
        return "\n".join(part for part in parts if part)

    @property
    def inventory_first(self) -> str:
        """The same text with the inventory before the rest, for embedders that cut off the end of long texts."""
        whole, carried = self.description, f"\n{self.inventory}"
        if not self.inventory or not whole.endswith(carried):
            return whole
        return f"{self.inventory}\n{whole.removesuffix(carried)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One action of the actor and the state it led to. Points are of 100."""

    proposed: str
    """The action as the actor wrote it."""
    action: str
    """The text that was sent, after action repair; empty when the answer was malformed."""
    state: State
    reward: int
    """Change of the environment score."""
    score: int
    """Environment score after the step, -100 to 100."""
    understood: bool
    reasoning: str = ""
    subgoal: str | None = None
    """Target of the recalled skill that the actor said it pursues."""
    recalled: tuple[str, ...] = ()
    """Ids of the skills that stood in the prompt of this step."""
    malformed: bool = False
    """The language model's answer held no action; nothing was sent."""
    unread: str = ""
    """What it said, when that could not be read."""
    rejected: str = ""
    """What the actor gave as its subgoal, when it is none that it was offered."""
    asked_back: bool = False
    """The environment asked which of several actions was meant; nothing was done."""
    no_effect: bool = False
    """The environment understood the action and says that nothing came of it."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One trial. ``states[0]`` is the start, ``states[i + 1]`` the state after ``steps[i]``."""

    variant: Variant
    trial: int
    """1-based."""
    task: str
    """Task description as the agent read it."""
    start: State
    points_at_reset: int
    steps: tuple[Step, ...]
    outcome: Outcome

    @property
    def states(self) -> tuple[State, ...]:
        return (self.start, *(step.state for step in self.steps))

    @property
    def accumulator(self) -> int:
        """Sum of positive rewards, the paper's score (section 4): a final -100 does not erase it, and points already
        held after reset are not in it."""
        return sum(step.reward for step in self.steps if step.reward > 0)

    @property
    def environment_score(self) -> int:
        """The environment's own score at the end, -100 to 100."""
        return self.steps[-1].score if self.steps else self.points_at_reset

    @property
    def solved(self) -> bool:
        return self.environment_score >= SOLVED_SCORE

    @property
    def invalid_actions(self) -> int:
        """Actions that were malformed or that the environment did not understand."""
        return sum(not step.understood for step in self.steps)

    @property
    def asked_back(self) -> int:
        """Steps that the environment answered with a question; none where an older version did not say."""
        return sum(step.asked_back for step in self.steps)

    @property
    def no_effect(self) -> int:
        """Steps whose action was understood and did nothing; none where an older version did not say."""
        return sum(step.no_effect for step in self.steps)


Category = Literal["abstract", "error", "progress"]
"""abstract: what holds in the environment or for a type of task. error: a mistake that was made, and its solution.
progress: what is done and left in the present task; dropped at its end (OmniReflect, section 2.2)."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one piece of experience teaches."""

    category: Category
    text: str
    """The rule; of an error, the mistake."""
    solution: str = ""
    """Of an error: what to do instead."""

    @property
    def line(self) -> str:
        """As it stands in a prompt."""
        if self.category != "error" or not self.solution:
            return self.text
        return f"Mistake: {self.text.rstrip('.')}. Instead: {self.solution}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens of one role."""

    calls: int = 0
    """Answers that came."""
    input: int = 0
    """All tokens sent, `cached` and `cache_write` among them."""
    output: int = 0
    """All tokens answered, `reasoning` among them."""
    malformed: int = 0
    """Answers that could not be parsed, also not when asked for once more in another format."""
    repaired: int = 0
    """Answers that were read although they did not keep to the format."""
    truncated: int = 0
    """Answers cut off at the longest length allowed, or too long to be read at all."""
    failed: int = 0
    """Requests that got no answer, whether or not they were asked again."""
    unmetered: int = 0
    """Answers whose tokens the server did not tell: what they cost is not known."""
    cached: int = 0
    """Input tokens that the provider read from its cache."""
    cache_write: int = 0
    """Input tokens that it wrote to its cache."""
    reasoning: int = 0
    """Output tokens of hidden reasoning."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(operator.add, _counts_of(self), _counts_of(other)))

    def subtract(self, other: "Usage") -> "Usage":
        """What is left without the other; nothing is less than none."""
        return Usage(*(max(0, left) for left in map(operator.sub, _counts_of(self), _counts_of(other))))


_counts_of: Callable[[Usage], tuple[int, ...]] = operator.attrgetter(*(count.name for count in fields(Usage)))
"""The counts of a usage in order; `astuple` would copy each deeply, once per answer."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial has no score. Whoever decides by it decides by its kind; the message is for a person."""

    kind: str
    """Name of the error's class, e.g. ``LMServerError``."""
    message: str = ""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        """The failure that an error is."""
        return cls(type(error).__name__, str(error))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One trial as recorded. ``trajectory`` is None exactly when infrastructure failed: an error is not a score."""

    trial: int
    trajectory: Trajectory | None
    learnt: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Per memory what its ``learn`` reported after this trial."""
    usage: dict[str, Usage] = field(default_factory=dict)
    """Per role, this trial and the learning after it."""
    shown: dict[str, str] = field(default_factory=dict)
    """What memories put into the prompt: the text of a region, under its name alone for what stood there throughout
    the trial, under ``region:id,id`` for what stood there at the steps that recalled those ids, under ``region@n`` for
    what stood there from step n on, until the next such entry. ``action_templates`` are those of the variant; where
    they are missing, the default benchmark's were shown."""
    error: str | None = None
    """The failure as one text, ``Kind: message``."""
    replayed: int = 0
    """How often the trial was played again because the simulator died."""
    failures: dict[str, int] = field(default_factory=dict)
    """Requests that failed, by kind of error."""
    sent: dict[str, dict[str, float]] = field(default_factory=dict)
    """Per role the decoding settings that its requests carried: ``temperature``, ``top_p``, ``top_k``,
    ``repetition_penalty``, ``max_tokens``, and the ``seed`` of the first, which is one higher in every further one.
    Empty for the embedded model, and where an older version did not say."""
    answered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per role the names under which the server said that its models answered; empty likewise."""
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Per role, less the actor, whose steps hold theirs: answers that could not be read, cut short."""
    failure: Failure | None = None
    """What failed, when infrastructure did."""

    def __post_init__(self) -> None:
        if self.failure is not None and self.error is None:
            object.__setattr__(self, "error", str(self.failure))

    @property
    def stalled(self) -> bool:
        """Whether a step that took too long ended it: its score is what it had until then."""
        return self.trajectory is not None and self.trajectory.outcome == "stalled"


RoleUsage = tuple[str, str, Usage]
"""Arm, role and usage of what no record tells of: trials cut short, or errored and played again."""


def sum_usage(trials: Iterable[TrialResult]) -> dict[str, Usage]:
    """What several trials cost together, by role."""
    total: dict[str, Usage] = {}
    for trial in trials:
        for role, usage in trial.usage.items():
            total[role] = total.get(role, Usage()) + usage
    return total


SourceKind = Literal["file", "training", "stream"]
"""A file that was given to the run; the training before it; the unit before it in its stream."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory has what it holds before the first trial, when it does not start empty."""

    memory: str
    """``reflections``, ``skills`` or ``constitution``."""
    kind: SourceKind
    name: str
    """Of the file; of the task that was trained; which place of how many in which stream, ``3/36 of 1f0c9a``."""
    digest: str = ""
    """12 hexadecimal digits over the content of a file."""
    place: int = 0
    """Which one of its stream the unit is, from 1."""
    size: int | None = None
    """Entries that the memory then holds: reflections, skills, rules. None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsRecord:
    """Serial trials of one program, whose memories go from each to the next. The content of one JSON file."""

    protocol: str
    arm: str
    method: str
    program: str
    """Name of the program: ``zero-shot`` or that of a compiled file."""
    backend: str
    model: str
    """The acting model, ``provider/model``."""
    rule_based: bool
    """The offline rule-based model answered in some role; such scores say nothing about language models."""
    seed: int
    trials: tuple[TrialResult, ...]
    memories: dict[str, Any] = field(default_factory=dict)
    """Snapshot of every memory after the last trial; empty where they only read what a training had learnt."""
    start: str = ""
    """`sources` in words: nothing, or the names of what was learnt elsewhere."""
    learnt_on: tuple[str, ...] = ()
    """Keys of the variants that this was learnt on, however long ago."""
    models: dict[str, str] = field(default_factory=dict)
    """Role to the model that answered in it."""
    provenance: dict[str, str] = field(default_factory=dict)
    """Config hash, program hash, versions, git commit."""
    schema: int = SCHEMA_VERSION
    sources: tuple[Source, ...] = ()
    """What the memories held before the first trial, and where from. Later ones go over earlier ones: a training that
    itself started from a file comes after that file."""

    @property
    def stream(self) -> Source | None:
        """The place in a stream; None outside of one."""
        return next((source for source in self.sources if source.kind == "stream"), None)

    @property
    def has_errors(self) -> bool:
        return any(trial.trajectory is None for trial in self.trials)

    @property
    def stalled_trials(self) -> int:
        """Trials that stalled."""
        return sum(trial.stalled for trial in self.trials)

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        return tuple(trial.trajectory for trial in self.trials if trial.trajectory is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord(TrialsRecord):
    """One (arm, task, variant, seed): the trials of one variant, compared with those of other arms."""

    variant: Variant
    budget: int
    """Steps allowed per trial."""
    trials_allowed: int = 0
    """Trials that it may play, though a solved one ends it; 0 where an older version did not say."""

    @property
    def key(self) -> str:
        return self.variant.key


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord(TrialsRecord):
    """One (arm, task, seed) of the transfer setting: one trial on each training variant in turn, as often as the
    setting says (the transfer setting of SSO). A trial's trajectory names its variant."""

    task: str
    budgets: tuple[int, ...]
    """Steps allowed, per trial."""

    @property
    def key(self) -> str:
        return self.task
