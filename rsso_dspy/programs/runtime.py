"""The runtime: the environments, models, embedder and trial rules that a program needs in order to play.

A runtime reaches programs through DSPy's own settings (``with runtime.activate(): agent(variant=...)``). The DSPy
module itself holds only predictors and plain configuration, so many threads can share one program object.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dspy
import numpy as np

from rsso_dspy.environments import ActionChoice, Environments, Interface, Layout, Transition
from rsso_dspy.errors import UsageError
from rsso_dspy.loops import find_loop, is_repeated, name_place
from rsso_dspy.playing import get_playing, playing
from rsso_dspy.records import SOLVED_SCORE, Outcome, State, Step, Trajectory, TrialResult, Usage, Variant
from rsso_dspy.regions import SYSTEM_REGIONS

if TYPE_CHECKING:
    from rsso_dspy.memory.constitution import ConstitutionSettings
    from rsso_dspy.memory.contenders import EntrySettings
    from rsso_dspy.memory.reflections import Neighbours, ReflectionSettings
    from rsso_dspy.memory.skills import SkillSettings

RETRY_TEMPERATURE = 0.7
"""Temperature at which self-consistency samples answers that differ (Wang et al., 2023, section 3.1)."""

_ONE_TEMPERATURE = re.compile(r"embedded/|(.*/)?(o[1-9]|gpt-[5-9])(?!.*-chat)", re.IGNORECASE)
"""Models that take no other temperature: the offline player, and OpenAI's reasoning models."""


def choose_retry_temperature(model: str, temperature: float | None, top_k: int | None) -> float | None:
    """Return the temperature of an actor's retries, where nobody has set one, by the decoding of its first trial.

    `RETRY_TEMPERATURE` at temperature 0, at which retries would repeat the first trial. None, which keeps the model's
    own, where retries vary already, and where a temperature changes nothing (`top_k` 1) or is not taken.
    """
    greedy = temperature == 0 and top_k != 1
    return RETRY_TEMPERATURE if greedy and not _ONE_TEMPERATURE.match(model) else None


@dataclass(frozen=True, slots=True)
class TrialRules:
    """The rules of a protocol that a program applies while it plays one variant."""

    trials: int = 5
    stop_on_success: bool = True
    """Play no further trial of a variant once one has solved it; the variant keeps its best score."""
    max_repeat: int | None = None
    """End a trial of more steps than this when the last so many actions were all equal; None never does."""
    max_ticks: int | None = None
    """End a trial when the simulator's clock passes this many ticks; None sets no limit."""
    exhausted_by_repeat: bool = False
    """End a trial as `exhausted` when an action equals the one before it, as the released code of Reflexion does."""
    exhausted_by_loop: bool = False
    """End a trial as `exhausted` in a semantic loop: ten actions of at most three kinds, or eight steps in at most two
    places."""
    learn_after_last: bool = False
    """Memories also learn from the last trial. No later trial reads what they learn there, and it costs model calls."""
    learn_after_success: bool = True
    """Memories also learn from the trial that solves the variant, although often no later trial reads it. Skills are
    distilled from successes (rSSO, sections 1 and 3): without this, an exported library would lack its best
    evidence."""
    frozen: bool = False
    """Memories are read but never change."""
    lasting: tuple[str, ...] = ()
    """Regions of memories that are passed on to another variant: these also learn from the last trial."""
    interface: Interface = "sso"
    """What the actor sees of an environment and how its actions are understood; see docs/CONCEPTS.md."""
    demonstrations: int = 0
    """How many solved training variants of the task type the actor is shown, if the benchmark has solutions."""
    retry_temperature: float | None = None
    """Temperature of the actor from the second trial of a variant on; None keeps the model's own. See
    `choose_retry_temperature`."""
    action_choice: ActionChoice = "free"
    """Whether the actor is shown the actions that can be taken; see `trial.Conversation`."""
    layout: Layout = "conversation"
    """How its prompts are laid out: ``conversation``, a message for each step, of which none ever changes; ``paper``,
    one message with a window of the last states (rSSO, Algorithm 1)."""
    thoughts: bool = True
    """Whether it is asked for a thought beside the action."""
    in_system: tuple[str, ...] = ()
    """Regions of its prompt that stand in the system message; they must stay the same through a trial."""

    def __post_init__(self) -> None:
        if odd := sorted({*self.in_system}.difference(SYSTEM_REGIONS)):
            allowed = ", ".join(SYSTEM_REGIONS)
            raise UsageError(f"in_system: {', '.join(odd)} cannot stand in the system message; these can: {allowed}")
        if self.max_repeat is not None and self.max_repeat < 2:
            raise UsageError(
                f"max_repeat={self.max_repeat}: one action is not a repetition; give 2 or more, or None for no limit"
            )

    def find_ending(
        self,
        steps: Sequence[Step],
        move: Transition | None,
        budget: int,
        name_place: Callable[[State], str] = name_place,
    ) -> Outcome | None:
        """How the trial ended with the last step; None when it goes on. `name_place` tells the place of a state."""
        if move is not None:
            if move.done or move.score >= SOLVED_SCORE:
                return "solved" if move.score >= SOLVED_SCORE else "failed"
            if move.stalled:
                return "stalled"
            if self.max_ticks is not None and move.ticks > self.max_ticks:
                return "budget"
        limit = self.max_repeat
        if limit is not None and len(steps) > limit and len({step.action for step in steps[-limit:]}) == 1:
            return "repeated"
        if self.exhausted_by_repeat and is_repeated(steps):
            return "exhausted"
        if self.exhausted_by_loop and find_loop(steps, name_place):
            return "exhausted"
        return "budget" if len(steps) >= budget else None

    def stops_after(self, result: TrialResult) -> bool:
        """Whether no trial follows this one: it errored, or it solved the variant, which is then left alone."""
        return result.trajectory is None or (result.trajectory.solved and self.stop_on_success)

    def teaches(self, region: str, trajectory: Trajectory, last: bool) -> bool:
        """Whether the memory of a region learns from a trial: somebody will read what it makes of it, or the protocol
        wants it anyway."""
        if self.frozen:
            return False
        if trajectory.solved and self.learn_after_success:
            return True
        read = region in self.lasting or not (last or (trajectory.solved and self.stop_on_success))
        return self.learn_after_last or read


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Where a program continues: with memories that were learned before, after trials that were played before."""

    memories: Mapping[str, Any] = field(default_factory=dict)
    """Snapshots by memory name. A memory that is not named starts empty."""
    played: tuple[TrialResult, ...] = ()
    """Trials of this unit that were played before; new trials are numbered after them."""


@dataclass(frozen=True)
class Runtime:
    """Everything that a program uses but does not hold. Immutable, so all threads share it."""

    environments: Environments
    variant: Callable[[str], Variant]
    """Returns the variant with a key such as ``'find-plant::229'``."""
    budget: Callable[[Variant], int]
    """Returns how many steps a trial of this variant may have."""
    lm: Callable[..., dspy.LM]
    """Returns the model of a role: ``lm(role, rollout)``, or ``lm(role, rollout, temperature)`` for a temperature other
    than its own. The rollout number tells repeats of the same request apart."""
    embed: Callable[[Sequence[str]], np.ndarray]
    rules: TrialRules = TrialRules()
    constitution: "ConstitutionSettings | None" = None
    """Settings of memories; None stands for the usual ones of each."""
    examples: str = ""
    """Stretches of play, each with rules drawn from it. A neuro-symbolic rule writer is shown them."""
    about: str = ""
    """What actors are told of the environment."""
    benchmark: str = ""
    """Name of the benchmark, as predictions report it; empty for the default benchmark."""
    implied_templates: str | None = None
    """The action templates that records leave out, because a reader knows them from the benchmark. With None, records
    leave out all templates."""
    reflections: "ReflectionSettings | None" = None
    """How many reflections are kept (Reflexion's FIFO), and which improvements are on."""
    neighbours: "Neighbours | None" = None
    """An index that finds reflections of other units by the similarity of their tasks; None without an index."""
    skills: "SkillSettings | None" = None
    entries: "EntrySettings | None" = None
    """Limits of the memories of entries."""
    spend: Callable[[str, Usage], None] = lambda _role, _usage: None
    """Called with the role and the usage of every answer, from any thread."""
    recall: Callable[[str, Usage], None] = lambda _role, _usage: None
    """Called likewise with answers that the log held, which are paid for already."""
    stopped: Callable[[], bool] = lambda: False
    """Called before every step. When it returns True, the program raises `Stopped`."""

    @contextmanager
    def activate(self) -> Iterator["Runtime"]:
        """Make this the runtime of every program called inside the block, in this thread."""
        with playing(runtime=self):
            yield self

    @staticmethod
    def is_stopping() -> bool:
        """Return whether a runtime is active and is being stopped."""
        runtime = get_playing().runtime
        return runtime is not None and runtime.stopped()

    @staticmethod
    @contextmanager
    def get_current() -> Iterator["Runtime"]:
        """Yield the active runtime. Without one, yield that of the default session, which starts with the first call
        and ends with the process. Raises `UsageError` where there is neither."""
        runtime = get_playing().runtime
        if runtime is not None:
            yield runtime
        elif _default_session is None:
            raise UsageError("no session is open: call the agent inside `with rsso_dspy.session(): ...`")
        else:
            with _default_session() as runtime:
                yield runtime


_default_session: Callable[[], AbstractContextManager[Runtime]] | None = None


def set_default_session(opener: Callable[[], AbstractContextManager[Runtime]]) -> None:
    """Set where a program gets its runtime when no session is open: `opener` opens a default session for a block."""
    global _default_session
    _default_session = opener
