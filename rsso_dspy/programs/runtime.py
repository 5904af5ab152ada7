"""What a program needs from outside to play: environments, models by role, an embedder, and the rules of a trial.

It is handed over through DSPy's own settings (``with runtime.activate(): agent(variant=...)``), so the module itself
holds only predictors and plain configuration, and one program object serves many threads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np

from rsso_dspy.environments import ActionChoice, Environments, Interface
from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.records import TrialResult, Usage, Variant
from rsso_dspy.signatures.layouts import Layout


@dataclass(frozen=True, slots=True)
class TrialRules:
    """The protocol, as far as a program sees it."""

    trials: int = 5
    stop_on_success: bool = True
    """A solved variant keeps its best score and is not played again."""
    max_repeat: int | None = None
    """End a trial, once it has more steps than this, when this many actions in a row were equal."""
    max_ticks: int | None = None
    """End a trial when the simulator's clock passes this."""
    max_idle: int | None = None
    """End a trial after this many steps in a row that earned nothing."""
    learn_after_last: bool = False
    """Learn from the last trial too, although no trial reads it; it costs model calls."""
    learn_after_success: bool = True
    """Learn from the trial that solves the variant, although no trial may read it: skills are distilled from successes,
    and a library that is taken along would lack the best there is (rSSO, sections 1 and 3)."""
    frozen: bool = False
    """Memories are read and never written."""
    lasting: tuple[str, ...] = ()
    """Regions of memories that go on to another variant: they learn from the last trial too."""
    layout: Layout = "paper"
    """Order of the actor's regions; see `layouts.py`."""
    max_conversation: int = 32_000
    """Longest conversation under the layout `append`, in tokens, of which four characters are taken to be one: what
    grows longer loses its older half."""
    interface: Interface = "sso"
    """How environments show themselves and read actions, and what the actor is told about it."""
    retry_temperature: float | None = None
    """Temperature of the actor in further trials of a variant; the model's own when None."""
    action_choice: ActionChoice = "free"
    """What the actor is told of the actions that can be taken, and held to; see `choosing.py`."""

    def __post_init__(self) -> None:
        if self.max_repeat is not None and self.max_repeat < 2:
            raise UsageError(f"max_repeat={self.max_repeat}: one action is no repetition; it takes 2 or more, or None")


@dataclass(frozen=True, slots=True)
class ResumeState:
    """Where a program begins when that is not at its first trial with empty memories."""

    memories: Mapping[str, Any] = field(default_factory=dict)
    """Memory to the snapshot it is restored from; one that is not named starts empty."""
    played: tuple[TrialResult, ...] = ()
    """Trials of this unit that were played before, whose numbers are taken."""


@dataclass(frozen=True)
class Runtime:
    """Everything outside the program. Immutable; shared by all threads."""

    environments: Environments
    variant: Callable[[str], Variant]
    """``'task::index'`` to a Variant."""
    budget: Callable[[Variant], int]
    """Steps allowed per trial."""
    lm: Callable[..., dspy.LM]
    """(role, rollout number) to the model, and (role, rollout number, temperature) to it at another temperature than
    its own. The rollout number tells repeats of the same request apart."""
    embed: Callable[[Sequence[str]], np.ndarray]
    rules: TrialRules = TrialRules()
    constitution: ConstitutionSettings = field(default_factory=ConstitutionSettings)
    examples: str = ""
    """Stretches of play with rules drawn from them, which a neuro-symbolic rule writer is shown."""
    benchmark: str = ""
    """Name of the benchmark that is played, as predictions say it; empty for the default one."""
    implied_templates: str | None = None
    """Action templates that records do not note, because whoever reads them knows; none are noted when None."""
    reflections: int = 3
    """Reflections kept (Reflexion's FIFO)."""
    skills: SkillSettings = field(default_factory=SkillSettings.sso_adapt_1)
    spend: Callable[[str, Usage], None] = lambda _role, _usage: None
    """Told, from any thread, what every answer cost in which role."""
    stopped: Callable[[], bool] = lambda: False
    """Asked before every step; when it says yes the program raises `Stopped`."""

    @contextmanager
    def activate(self) -> Iterator["Runtime"]:
        """Make this the runtime of every program called inside the block, in this thread."""
        with dspy.context(runtime=self, layout=self.rules.layout, interface=self.rules.interface):
            yield self

    @staticmethod
    def is_stopping() -> bool:
        """Whether the active runtime, if there is one, is being stopped."""
        runtime = dspy.settings.get("runtime")
        return runtime is not None and runtime.stopped()

    @staticmethod
    @contextmanager
    def get_current() -> Iterator["Runtime"]:
        """The active runtime; without one, that of the default session, which starts with the first call and ends with
        the process."""
        runtime = dspy.settings.get("runtime")
        if runtime is not None:
            yield runtime
        elif _default_session is None:
            raise UsageError("no session is open: call the agent inside `with rsso_dspy.session(): ...`")
        else:
            with _default_session() as runtime:
                yield runtime


_default_session: Callable[[], AbstractContextManager[Runtime]] | None = None


def set_default_session(opener: Callable[[], AbstractContextManager[Runtime]]) -> None:
    """Say where a program gets a runtime when no session is open: `opener` makes it current for a block."""
    global _default_session
    _default_session = opener
