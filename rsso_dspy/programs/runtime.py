"""What a program needs in order to play and does not hold: environments, models, embedder, trial rules. They reach it
through DSPy's settings, ``with runtime.activate(): agent(variant=...)``, so many threads can share a program."""

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
from rsso_dspy.playing import get_playing, is_stopping, playing
from rsso_dspy.records import SOLVED_SCORE, Outcome, State, Step, Trajectory, TrialResult, Usage, Variant
from rsso_dspy.regions import SYSTEM_REGIONS

if TYPE_CHECKING:
    from rsso_dspy.memory.constitution import ConstitutionSettings
    from rsso_dspy.memory.contenders import EntrySettings
    from rsso_dspy.memory.reflections import Reflection, ReflectionSettings
    from rsso_dspy.memory.skill_windows import SkillSettings

PlaceReader = Callable[[State], str]  # names the place of a state
Spend = Callable[[str, Usage], None]  # takes a role and what it used
RETRY_TEMPERATURE = 0.7  # at which self-consistency samples answers that differ (Wang et al., 2023, section 3.1)

_ONE_TEMPERATURE = re.compile(r"embedded/|(.*/)?(o[1-9]|gpt-[5-9])(?!.*-chat)", re.IGNORECASE)
"""Models that take no other temperature: the offline player, and OpenAI's reasoning models."""


def choose_retry_temperature(model: str, temperature: float | None, top_k: int | None) -> float | None:
    """The temperature of an actor's retries where nobody has set one: `RETRY_TEMPERATURE` at temperature 0, at which
    they would repeat the first trial. None, the model's own, where retries vary already, and where a temperature
    changes nothing (`top_k` 1) or is not taken."""
    is_greedy = temperature == 0 and top_k != 1
    return RETRY_TEMPERATURE if is_greedy and not _ONE_TEMPERATURE.match(model) else None


@dataclass(frozen=True, slots=True)
class TrialRules:
    trials: int = 5
    stop_on_success: bool = True  # play no further trial of a variant that is solved
    max_repeat: int | None = None  # end a longer trial when so many last actions were equal
    max_ticks: int | None = None  # end a trial when the simulator's clock passes so many ticks
    exhausted_by_repeat: bool = False  # end a trial when an action equals the one before it (code of Reflexion)
    exhausted_by_loop: bool = False  # end a trial in a semantic loop (`loops.find_loop`)
    learn_after_last: bool = False  # learn from the last trial too, although no later one reads it
    learn_after_success: bool = True  # also from the trial that solves the variant: skills come from successes
    frozen: bool = False  # memories are read but never change
    lasting: tuple[str, ...] = ()  # regions of memories that are passed on: these also learn from the last trial
    interface: Interface = "sso"  # what the actor sees, and how its actions are understood; see docs/CONCEPTS.md
    demonstrations: int = 0  # how many solved training variants of the task type the actor is shown
    demonstration_thoughts: bool = False  # whether thoughts stand in them, where points are earned
    retry_temperature: float | None = None  # of the actor from the second trial on; see `choose_retry_temperature`
    action_choice: ActionChoice = "free"  # whether the actor is shown the actions that can be taken
    layout: Layout = "conversation"
    """``conversation``, a message for each step, of which none ever changes; ``paper``, one message with a window of
    the last states (rSSO, Algorithm 1); ``released``, one message with the whole transcript in the flat scaffold
    (Reflexion's code), and the window with a message for each step in the other (SSO's code)."""
    thoughts: bool = True  # whether the actor is asked for a thought beside the action
    in_system: tuple[str, ...] = ()  # regions that stand in the system message: the same through a trial

    def __post_init__(self) -> None:
        if odd := sorted({*self.in_system}.difference(SYSTEM_REGIONS)):
            allowed = ", ".join(SYSTEM_REGIONS)
            raise UsageError(f"in_system: {', '.join(odd)} cannot stand in the system message; these can: {allowed}")
        if self.demonstration_thoughts and not self.demonstrations:
            raise UsageError(
                "demonstration_thoughts: there are no demonstrations to hold thoughts; leave it out, or set "
                "protocol.demonstrations to 1 or more on a benchmark whose solutions are known"
            )

    def find_ending(
        self, steps: Sequence[Step], move: Transition | None, budget: int, name_place: PlaceReader = name_place
    ) -> Outcome | None:
        """How the trial ended with the last step; None when it goes on."""
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
        if (self.exhausted_by_repeat and is_repeated(steps)) or (
            self.exhausted_by_loop and find_loop(steps, name_place)
        ):
            return "exhausted"
        return "budget" if len(steps) >= budget else None

    def stops_after(self, result: TrialResult) -> bool:
        """Whether no trial follows this one: it errored, or it solved the variant, which is then left alone."""
        return result.trajectory is None or (result.trajectory.solved and self.stop_on_success)

    def teaches(self, region: str, trajectory: Trajectory, last: bool) -> bool:
        """Whether the memory of a region learns from a trial: somebody will read what it makes of it, or the protocol
        wants it anyway."""
        is_wanted = self.learn_after_last or (trajectory.solved and self.learn_after_success)
        is_read = region in self.lasting or not (last or (trajectory.solved and self.stop_on_success))
        return (is_wanted or is_read) and not self.frozen


@dataclass(frozen=True, slots=True)
class ResumeState:
    memories: Mapping[str, Any] = field(default_factory=dict)  # snapshots by name; others start empty
    played: tuple[TrialResult, ...] = ()  # trials of this unit that were played before; new ones follow


@dataclass(frozen=True)
class Runtime:
    """Everything that a program uses but does not hold. Immutable, so all threads share it."""

    environments: Environments
    variant: Callable[[str], Variant]  # the variant with a key such as ``'find-plant::229'``
    budget: Callable[[Variant], int]  # how many steps a trial of this variant may have
    lm: Callable[..., dspy.LM]
    """The model of a role: ``lm(role, rollout)``, or ``lm(role, rollout, temperature)`` for a temperature other than
    its own. The rollout number tells repeats of the same request apart."""
    embed: Callable[[Sequence[str]], np.ndarray]
    listen: Callable[[Any], Any] = lambda adapter: adapter
    """Given the adapter that a user set, or None, returns the one whose calls are logged."""
    rules: TrialRules = TrialRules()
    constitution: "ConstitutionSettings | None" = None  # settings of memories: None for the usual ones of each
    reflections: "ReflectionSettings | None" = None
    skills: "SkillSettings | None" = None
    entries: "EntrySettings | None" = None
    examples: str = ""  # stretches of play, each with rules drawn from it, for a neuro-symbolic rule writer
    stored: "Sequence[Reflection] | None" = None  # reflections of an earlier run, which retrieval searches
    about: str = ""  # what actors are told of the environment
    benchmark: str = ""  # its name, as predictions report it; empty for the default benchmark
    benchmark_name: str = ""  # its name in any case
    implied_templates: str | None = None  # action templates that records leave out; with None, they leave out all
    spend: Spend = lambda _role, _usage: None  # told every answer's usage, from any thread
    recall: Spend = lambda _role, _usage: None  # likewise of answers that the log held
    hear_answers: Callable[[int, bool], None] = lambda _answers, _is_read: None
    """Told after each question to the actor how many answers it took, and whether one of them could be read."""
    stopped: Callable[[], bool] = lambda: False  # asked before every step; when True, the program raises `Stopped`

    @contextmanager
    def activate(self) -> Iterator["Runtime"]:
        with playing(runtime=self):
            yield self

    is_stopping = staticmethod(is_stopping)

    @staticmethod
    @contextmanager
    def get_current(benchmark: str | None = None) -> Iterator["Runtime"]:
        """Yield the active runtime, or that of the default session, which starts with the first call and ends with the
        process: of this benchmark, where one is named and the call is the first. Raises `UsageError` where there is
        neither, and where the runtime is of another benchmark than the one that is named."""
        runtime = get_playing().runtime
        if runtime is not None:
            runtime.check_benchmark(benchmark)
            yield runtime
        elif _default_session is None:
            raise UsageError("no session is open: call the agent inside `with rsso_dspy.session(): ...`")
        else:
            with _default_session(benchmark) as runtime:
                runtime.check_benchmark(benchmark)
                yield runtime

    def check_benchmark(self, expected: str | None) -> None:
        """Raise `UsageError` where another benchmark than this runtime's is expected."""
        if expected not in (None, self.benchmark_name):
            raise UsageError(
                f"this agent is for {expected}, and the session is of {self.benchmark_name}: call it inside "
                f'`with rsso_dspy.session(benchmark="{expected}"): ...`'
            )


SessionOpener = Callable[[str | None], AbstractContextManager[Runtime]]  # takes the name of a benchmark, or None
_default_session: SessionOpener | None = None


def set_default_session(opener: SessionOpener) -> None:
    """Set where a program gets its runtime when no session is open: `opener` opens a default session for a block."""
    global _default_session
    _default_session = opener
