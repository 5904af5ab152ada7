"""What a program needs from outside to play: environments, models by role, an embedder, and the rules of a trial.

It is handed over through DSPy's own settings (``with runtime.active(): agent(variant=...)``), so the module itself
holds only predictors and plain configuration, and one program object serves many threads.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import dspy
import numpy as np
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.environments import Environments
from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.programs.layouts import Layout, laid_out
from rsso_dspy.trajectory import TrialResult, Usage, Variant


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
    retry_temperature: float | None = None
    """Temperature of the actor in further trials of a variant; the model's own when None."""

    def __post_init__(self) -> None:
        if self.max_repeat is not None and self.max_repeat < 2:
            raise UsageError(f"max_repeat={self.max_repeat}: one action is no repetition; it takes 2 or more, or None")


@dataclass(frozen=True, slots=True)
class Start:
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
    reflections: int = 3
    """Reflections kept (Reflexion's FIFO)."""
    skills: SkillSettings = field(default_factory=SkillSettings.sso_adapt_1)
    spend: Callable[[str, Usage], None] = lambda _role, _usage: None
    """Told, from any thread, what every answer cost in which role."""
    stopped: Callable[[], bool] = lambda: False
    """Asked before every step; when it says yes the program raises `Stopped`."""

    @contextmanager
    def active(self) -> Iterator["Runtime"]:
        """Make this the runtime of every program called inside the block, in this thread."""
        with dspy.context(runtime=self):
            yield self

    @staticmethod
    def stopping() -> bool:
        """Whether the active runtime, if there is one, is being stopped."""
        runtime = dspy.settings.get("runtime")
        return runtime is not None and runtime.stopped()

    @staticmethod
    def current() -> "Runtime":
        """The active runtime; raises `UsageError` when there is none."""
        runtime = dspy.settings.get("runtime")
        if runtime is None:
            raise UsageError("no runtime is active: call the agent inside `with rsso_dspy.session(): ...`")
        return runtime


SEEDS = 2**31
"""How many seeds there are for requests."""


class Ledger:
    """Calls and tokens per role, of one trial. Implements the part of DSPy's usage tracker that a model call uses, and
    hears of failed requests, repaired answers, the settings sent and the model that answered. `spend` is told of each
    entry at once. `place` names the unit, for seeds."""

    def __init__(self, spend: Callable[[str, Usage], None], place: str = "") -> None:
        self.failures: Counter[str] = Counter()
        """Failed requests by kind."""
        self.place = place
        self._sent: dict[str, dict[str, float]] = {}
        self._answered: dict[str, set[str]] = {}
        self._draws: Counter[str] = Counter()
        self._refused = False
        self._usage: dict[str, Usage] = {}
        self._role = ""
        self._longest: int | None = None
        self.growing = ""
        """What the prompt of the present call holds that the next one repeats and adds to, with all before it."""
        self._spend = spend

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        """Called by DSPy once for every answer that was paid for."""
        said = usage.get("completion_tokens") or 0
        read, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        self._add(
            Usage(
                calls=1,
                input=usage.get("prompt_tokens") or 0,
                output=said,
                cached=read.get("cached_tokens") or 0,
                cache_write=read.get("cache_creation_tokens") or 0,
                reasoning=written.get("reasoning_tokens") or 0,
                truncated=int(self._refused or (self._longest is not None and said >= self._longest)),
                unmetered=int(not usage.get("prompt_tokens") and not said),
            )
        )
        self._refused = False

    def refused(self) -> None:
        """The answer that is booked next was too long to be read."""
        self._refused = True

    def sent(self, settings: Mapping[str, float]) -> None:
        """A request went out with these decoding settings; those of a role's first request are kept."""
        self._sent.setdefault(self._role, dict(settings))

    def answered(self, name: str) -> None:
        """The server called the model that answered so."""
        self._answered.setdefault(self._role, set()).add(name)

    def seed(self, rollout: int) -> int:
        """The seed of the next request: drawn for rollout, unit and role, and one higher with every request of it."""
        drawn = hashlib.sha256(f"{rollout} {self.place} {self._role}".encode()).digest()
        number = self._draws[self._role]
        self._draws[self._role] += 1
        return (int.from_bytes(drawn[:4], "big") + number) % SEEDS

    def failed(self, kind: str) -> None:
        """A request failed, whether or not it was asked again."""
        self.failures[kind] += 1
        self._add(Usage(failed=1))

    def repaired(self) -> None:
        """An answer was read that did not keep to the format."""
        self._add(Usage(repaired=1))

    def malformed(self, role: str) -> None:
        """An answer could not be read."""
        self._role = role
        self._add(Usage(malformed=1))

    def _add(self, entry: Usage) -> None:
        self._usage[self._role] = self._usage.get(self._role, Usage()) + entry
        self._spend(self._role, entry)

    def usage(self) -> dict[str, Usage]:
        """Role to usage, roles in alphabetical order."""
        return dict(sorted(self._usage.items()))

    def told(self) -> dict[str, Any]:
        """What a trial's result says of requests: the failed ones, the settings sent, the names of who answered."""
        return {
            "failures": dict(sorted(self.failures.items())),
            "sent": dict(sorted(self._sent.items())),
            "answered": {role: tuple(sorted(names)) for role, names in sorted(self._answered.items())},
        }

    @contextmanager
    def role(self, role: str, longest: int | None = None, growing: str = "") -> Iterator[None]:
        """Book what comes under `role`; an answer of `longest` tokens was cut off."""
        self._role, self._longest, self.growing = role, longest, growing
        with dspy.context(usage_tracker=self):
            yield


def _encodable(answer: dspy.Prediction) -> dspy.Prediction:
    """The answer with characters replaced that no file and no later prompt can hold (lone surrogates)."""
    for name, value in answer.items():
        if isinstance(value, str):
            answer[name] = value.encode("utf-8", "replace").decode()
        elif isinstance(value, list):
            answer[name] = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in value]
    return answer


@dataclass(frozen=True)
class Caller:
    """Calls predictors for one trial: with the model of their role, under the trial's rollout number, on its ledger."""

    runtime: Runtime
    rollout: int
    ledger: Ledger
    retry: bool = False
    """Whether the variant was played before."""

    def __call__(
        self, role: str, predictor: dspy.Predict, form: type[dspy.Signature] | None = None, /, **regions: Any
    ) -> dspy.Prediction | None:
        """The prediction, or None when the answer could not be parsed (counted). Input fields that are not
        given, or are empty text, are removed from the signature for this call: they are absent from the prompt. `form`
        is the signature when it is not the predictor's own."""
        whole: Any = form or predictor.signature
        present = {name: value for name, value in regions.items() if value != ""}
        absent = tuple(name for name in whole.input_fields if name not in present)
        try:
            lm = self._model(role)
            longest = lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens")
            layout = self.runtime.rules.layout
            with self.ledger.role(role, longest, present.get("history", "") if layout == "cache" else ""):
                signature = laid_out(whole, absent, layout)
                answer = predictor(signature=signature, lm=lm, **present)
                return _encodable(answer)
        except AdapterParseError:
            self.ledger.malformed(role)
            return None

    def _model(self, role: str) -> dspy.LM:
        """The model of a role; that of a retrying actor at the temperature that the protocol gives retries."""
        warmer = self.runtime.rules.retry_temperature
        if role == "actor" and self.retry and warmer is not None:
            return self.runtime.lm(role, self.rollout, warmer)
        return self.runtime.lm(role, self.rollout)
