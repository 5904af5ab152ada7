"""The records, frozen: written once, never mutated; no behaviour beyond properties.

A *unit* (`UnitRecord`) holds the trials of one (arm, task, variant, seed), the unit that is compared; a *training*
(`TrainingRecord`) those of training variants one after the other, which units of the transfer setting start from.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Literal

from rsso_dspy.usage_forms import NESTED, is_count, is_output_name, is_total_name, read_token_counts

SCHEMA_VERSION: Literal[1] = 1  # version of the files of a run; those of another one are refused
SOLVED_SCORE = 100
ZERO_SHOT = "zero-shot"  # name of the uncompiled program

RULE_BASED_NOTE = (
    "The embedded rule-based model answered here in place of a language model: these scores say nothing about "
    "language models."
)  # shown beside every result in which the offline model had a role

Split = Literal["train", "dev", "test"]
Outcome = Literal["solved", "failed", "budget", "stalled", "repeated", "exhausted", "error"]
"""How a trial ended: score 100; ended by the environment below 100; step budget used up; a step took too long; the
same action too often in a row; the same action again or a semantic loop (Reflexion's evaluator); infrastructure failure
(such a trial has no score)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant of a task type, e.g. ``find-plant::228``."""

    task: str
    index: int
    split: Split = "test"
    simplification: str = "easy"

    @property
    def key(self) -> str:
        return f"{self.task}::{self.index}"


@dataclass(frozen=True, slots=True)
class State:
    """What the agent sees at one moment: observation, surroundings and inventory."""

    observation: str
    look: str
    inventory: str

    @property
    def description(self) -> str:
        """The whole state as one text, for embedding, without repetitions: state_description of the SSO reference."""
        parts = [] if self.look.startswith(self.observation) else [self.observation]
        if "you see" not in self.observation.lower():
            parts.append(self.look)
        if self.inventory.lower() not in "\n".join(parts).lower():
            parts.append(self.inventory)
        return "\n".join(part for part in parts if part)

    @property
    def inventory_first(self) -> str:
        """The same text with the inventory first, for embedders that cut off long texts."""
        text = self.description
        carried = f"\n{self.inventory}"
        if not self.inventory or not text.endswith(carried):
            return text
        return f"{self.inventory}\n{text.removesuffix(carried)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One action of the actor and the resulting state. Rewards and scores are in points of 100."""

    proposed: str  # the action as it was read of the actor's answer
    action: str  # the text sent to the environment, after repair; empty for a malformed answer
    state: State
    reward: int  # change of the environment score
    score: int  # environment score after the step, -100 to 100
    understood: bool
    reasoning: str = ""
    subgoal: str | None = None  # target of the recalled skill that the actor named as its subgoal
    recalled: tuple[str, ...] = ()  # ids of the skills, and entries of other memories, in the prompt of this step
    malformed: bool = False  # the model's answer held no action, so nothing was sent
    unread: str = ""  # the answer, if it could not be parsed
    rejected: str = ""  # the actor's subgoal, if it was not among those offered
    asked_back: bool = False  # the environment asked which of several actions was meant and did nothing
    no_effect: bool = False  # the environment understood the action but reports that it had no effect
    cut: str = ""  # what the model gave as its action, if anything of it was cut off
    outputs: dict[str, Any] = field(default_factory=dict, hash=False)  # what an actor of one's own answered besides


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One trial. ``states[0]`` is the start, ``states[i + 1]`` the state after ``steps[i]``."""

    variant: Variant
    trial: int  # 1-based
    task: str  # task description as the agent read it
    start: State
    points_at_reset: int
    steps: tuple[Step, ...]
    outcome: Outcome

    @property
    def states(self) -> tuple[State, ...]:
        return (self.start, *(step.state for step in self.steps))

    @property
    def accumulator(self) -> int:
        """Sum of positive rewards, the paper's score (section 4): without a final -100 and points held at reset."""
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
        return sum(not step.understood for step in self.steps)

    @property
    def asked_back(self) -> int:
        return sum(step.asked_back for step in self.steps)

    @property
    def no_effect(self) -> int:
        return sum(step.no_effect for step in self.steps)


Category = Literal["abstract", "error", "progress"]
"""abstract: holds in the environment or for a type of task. error: a mistake and its solution. progress: what is done
and left in the current task; dropped at its end (OmniReflect, section 2.2)."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson from one piece of experience."""

    category: Category
    text: str  # the rule; for an error, the mistake
    solution: str = ""  # for an error: what to do instead

    @property
    def line(self) -> str:
        if self.category != "error" or not self.solution:
            return self.text
        return f"Mistake: {self.text.rstrip('.')}. Instead: {self.solution}"


@dataclass(frozen=True, slots=True)
class Usage:
    """Calls and tokens of one role."""

    calls: int = 0  # number of answers
    input: int = 0  # input tokens, including `cached` and `cache_write`
    output: int = 0  # output tokens, including `reasoning`
    malformed: int = 0  # answers that could not be parsed, even after a second request in another format
    repaired: int = 0  # answers parsed although they violated the format
    truncated: int = 0  # answers cut off at the length limit, or too long to be read
    failed: int = 0  # requests without an answer, retried or not
    unmetered: int = 0  # answers without a token count from the server; their cost is unknown
    cached: int = 0  # input tokens read from the provider's cache
    cache_write: int = 0  # input tokens written to the provider's cache
    reasoning: int = 0  # output tokens of hidden reasoning
    undercounted: int = 0  # answers for which the server counted far fewer input tokens than were sent

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(operator.add, _counts_of(self), _counts_of(other)))

    def subtract(self, other: "Usage") -> "Usage":
        """Subtract another usage; counts do not go below 0."""
        return Usage(*(max(0, difference) for difference in map(operator.sub, _counts_of(self), _counts_of(other))))


_counts_of: Callable[[Usage], tuple[int, ...]] = operator.attrgetter(*(count.name for count in fields(Usage)))
"""Return the counts in order; `astuple` would deep-copy them, once per answer."""


CHARACTERS_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has, rounded up: not every model has a tokenizer here."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def read_usage(reported: Any) -> Usage:
    """Return the usage of one answer as a provider reported it, or as a log holds it, in any form and of any type
    (`usage_forms`). A usage whose input or output stays unknown is unmetered; what is known of it counts."""
    counts = read_token_counts(reported)
    return Usage(
        calls=1,
        input=counts.cached + counts.cache_write if counts.input is None else counts.input,
        output=counts.reasoning if counts.output is None else counts.output,
        cached=counts.cached,
        cache_write=counts.cache_write,
        reasoning=counts.reasoning,
        unmetered=int(not counts.are_metered),
    )


def read_logged_usage(reported: Any) -> Usage:
    """Return the usage of one answer as a log holds it, in OpenAI's form, whatever its type. Of the usage of a server
    that stands in an earlier version's log, this is what was booked then: a log and its trials say the same."""
    usage = drop_unreadable_counts(reported)
    input_tokens = usage.get("prompt_tokens") or 0
    output_tokens = usage.get("completion_tokens")
    total = usage.get("total_tokens") or 0
    if not input_tokens:
        input_tokens = max(0, total - (output_tokens or 0))
    elif not output_tokens and total > input_tokens:
        output_tokens = total - input_tokens
    is_metered = input_tokens > 0 and output_tokens is not None

    input_details = usage.get("prompt_tokens_details") or {}
    output_details = usage.get("completion_tokens_details") or {}
    cached = input_details.get("cached_tokens") or 0
    cache_write = input_details.get("cache_creation_tokens") or 0
    reasoning = output_details.get("reasoning_tokens") or 0
    if cached + cache_write > input_tokens:
        input_tokens += cached + cache_write

    return Usage(
        calls=1,
        input=input_tokens,
        output=reasoning if output_tokens is None else output_tokens,
        cached=cached,
        cache_write=cache_write,
        reasoning=reasoning,
        unmetered=int(not is_metered),
    )


def reaches_limit(usage: Usage, longest: float) -> bool:
    """Whether an answer took all the tokens that it could. Reasoning that does not count against the limit may be more
    than it."""
    return usage.output == longest or usage.output - usage.reasoning >= longest


def drop_unreadable_counts(reported: Any) -> dict[str, Any]:
    """Return a usage without counts that are none: negative, impossibly large, or no whole number. Where the output is
    such, the total goes too, so that nothing is derived from it."""
    if not isinstance(reported, Mapping):
        return {}

    usage: dict[str, Any] = {}
    dropped = set[str]()
    for name, value in reported.items():
        readable = value.model_dump() if hasattr(value, "model_dump") else value
        if str(name).endswith("tokens_details"):
            readable = drop_unreadable_counts(readable) if isinstance(readable, Mapping) else None
        elif name in NESTED and isinstance(readable, Mapping):
            readable = drop_unreadable_counts(readable)
        elif str(name).endswith("tokens") and readable is not None:
            if not is_count(readable):
                dropped.add(name)
                continue
            readable = int(readable)
        elif isinstance(readable, float) and readable != readable:  # NaN, which no log can hold
            dropped.add(name)
            continue
        usage[name] = readable

    if any(is_output_name(name) for name in dropped):
        return {name: value for name, value in usage.items() if not is_total_name(name)}
    return usage


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a trial has no score. Code decides by its kind; the message is for people."""

    kind: str  # name of the error's class, e.g. ``LMServerError``
    message: str = ""

    @classmethod
    def of(cls, error: BaseException) -> "Failure":
        return cls(type(error).__name__, str(error))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


REFUSED = "EnvironmentFailure"  # kind of a failure that comes again: an environment cannot load the variant


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One recorded trial. ``trajectory`` is None exactly after a failure: an error is not a score."""

    trial: int
    trajectory: Trajectory | None
    learnt: dict[str, dict[str, int | float]] = field(default_factory=dict)  # memory to the counts of its ``learn``
    usage: dict[str, Usage] = field(default_factory=dict)  # role to usage, in this trial and the learning after it
    shown: dict[str, str] = field(default_factory=dict)
    """Texts of prompt regions. Key ``region``: shown throughout the trial; ``region:id,id``: shown at steps that
    recalled these ids; ``region@n``: shown from step n on, until the next such entry. ``action_templates`` are those of
    the variant; if missing, the default benchmark's."""
    replayed: int = 0  # number of replays of the trial because the simulator died
    failures: dict[str, int] = field(default_factory=dict)  # number of failed requests by kind of error
    sent: dict[str, dict[str, float]] = field(default_factory=dict)
    """Role to decoding settings of its requests, with the ``seed`` of the first, which grows by one per request. Empty
    for the embedded model."""
    answered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Role to the model names that the server reported; empty likewise."""
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)  # role to unparsed answers, but those in steps
    failure: Failure | None = None

    @property
    def error(self) -> str | None:
        return None if self.failure is None else str(self.failure)

    @property
    def stalled(self) -> bool:
        """Whether a step took too long; the trial keeps its score until then."""
        return self.trajectory is not None and self.trajectory.outcome == "stalled"


RoleUsage = tuple[str, str, Usage]  # arm, role and usage of abandoned trials: cut short, or errored and played again


def add_usage(*parts: Mapping[str, Usage]) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for role, usage in chain.from_iterable(part.items() for part in parts):
        total[role] = total.get(role, Usage()) + usage
    return total


def sum_usage(trials: Iterable[TrialResult]) -> dict[str, Usage]:
    return add_usage(*(trial.usage for trial in trials))


def name_arm(method: str, constitution: str, program: str) -> str:
    """Return the name of an arm, which names a folder too: its method, then the names that it has besides."""
    return "+".join([method, *filter(None, [constitution]), *([] if program == ZERO_SHOT else [program])])


SourceKind = Literal["file", "training", "stream"]  # an input file; a training; the previous unit of a stream


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a memory that does not start empty."""

    memory: str  # ``reflections``, ``skills`` or ``constitution``
    kind: SourceKind
    name: str  # name of the file, task of the training, or place in the stream: ``3/36 of 1f0c9a``
    digest: str = ""  # 12 hexadecimal digits over the content of a file
    place: int = 0  # place of the unit in its stream, from 1
    size: int | None = None  # number of entries in the memory: reflections, skills, rules. None if unknown.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialsRecord:
    """Serial trials of one program with shared memories; the content of one JSON file."""

    protocol: str
    arm: str
    method: str
    program: str  # name of the program: ``zero-shot`` or that of a compiled file
    constitution: str = ""  # name of the constitution that the arm starts from, where the run has several
    backend: str
    model: str  # the acting model, ``provider/model``
    rule_based: bool  # whether the offline model answered in any role, so that scores say nothing about others
    seed: int
    trials: tuple[TrialResult, ...]
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)  # snapshots after the last trial
    start: str = ""  # `sources` in words; empty if memories started empty
    learnt_on: tuple[str, ...] = ()  # keys of all variants that the memories were learned on
    models: dict[str, str] = field(default_factory=dict)  # role to the model that answered in it
    provenance: dict[str, str] = field(default_factory=dict)  # config hash, program hash, versions, git commit
    schema: Literal[1] = SCHEMA_VERSION
    sources: tuple[Source, ...] = ()  # of the initial memories; later ones build on earlier ones

    @property
    def stream(self) -> Source | None:
        """The place in a stream; None outside of one."""
        return next((source for source in self.sources if source.kind == "stream"), None)

    @property
    def has_errors(self) -> bool:
        return any(trial.trajectory is None for trial in self.trials)

    @property
    def is_refused(self) -> bool:
        """Whether the environment refuses the variant, as it will again: not a simulator that died."""
        failure = self.trials[-1].failure if self.trials else None
        return failure is not None and failure.kind == REFUSED

    @property
    def stalled_trials(self) -> int:
        return sum(trial.stalled for trial in self.trials)

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        return tuple(trial.trajectory for trial in self.trials if trial.trajectory is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRecord(TrialsRecord):
    """One (arm, task, variant, seed): the trials of one variant, compared with those of other arms."""

    variant: Variant
    budget: int  # steps allowed per trial
    trials_allowed: int = 0  # maximum number of trials; 0 where nobody said
    strata: tuple[str, ...] = ()  # parts of the benchmark that its variant belongs to, of which a report also tells

    @property
    def key(self) -> str:
        return self.variant.key


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord(TrialsRecord):
    """One (arm, task, seed) of the transfer setting (of SSO): several rounds of one trial on each training variant. A
    trial's trajectory names its variant."""

    task: str
    budgets: tuple[int, ...]  # steps allowed, per trial

    @property
    def key(self) -> str:
        return self.task


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a run of rounds was going to be before its first unit was played."""

    variants: tuple[tuple[str, ...], ...]  # keys of the variants of each round
    pairs: tuple[tuple[str, str], ...]  # names of arms: equal retries, and the one with a memory that is compared
    margin: float  # points from which a gain matters

    @property
    def rounds(self) -> int:
        return len(self.variants)

    @property
    def task_types(self) -> int:
        return len(self.variants[0])

    @property
    def round_of(self) -> Mapping[str, int]:
        """Key of each variant to the number of its round."""
        return {key: number for number, keys in enumerate(self.variants, 1) for key in keys}
