"""A teacher plays the train variants in place of the student, to make demonstrations. It plays the student's own
program: a `gold` teacher by the benchmark's solution of a training variant, another backend as its model does."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import BackendConfig, Config
from rsso_dspy.errors import GoldUnknown, UsageError
from rsso_dspy.lm import Backend
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.plan import TEACHING
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import TrialResult, Variant
from rsso_dspy.sessions import Session

GOLD = "gold"  # name of the teacher that plays gold paths
IDLE = "wait"  # answered when the path has ended and the trial has not
QUESTION = re.compile(r"mbiguous request.*^\d+:", re.M | re.S)  # the simulator's, when an action has several meanings
SLACK = 20  # steps that a path may take beyond its actions, because the simulator may ask


class GoldPlayer:
    """Follows a path, anew whenever the history shows no action yet. A number in the path answers a question and is
    left out where none is asked; a question that the path does not expect gets its first option."""

    def __init__(self, path: Sequence[str]):
        self._path = tuple(path)
        self._left: list[str] = []

    def complete(self, request: Request) -> Response:
        context, _, newest = (request.messages[-1].text or "").rpartition("Observation:")
        if "\nHistory:" not in context and all(message.role != "assistant" for message in request.messages):
            self._left = [*self._path]
        action = self._choose_action(bool(QUESTION.search(newest)))
        thought = f"Thought: The next step towards what the task asks for is to {action}.\n"
        text = f"{thought if 'Thought:' in str(request.system) else ''}Action: {action}"
        return Response(None, request.model, Message.assistant([TextPart(text)]), "stop", Usage())

    def _choose_action(self, asked: bool) -> str:
        while not asked and self._left and self._left[0].isdigit():
            self._left.pop(0)
        if asked and not (self._left and self._left[0].isdigit()):
            return "0"
        return self._left.pop(0) if self._left else IDLE

    def close(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "GoldPlayer":
        return self


@dataclass(frozen=True)
class Teacher:
    name: str  # `gold`, or the name of a backend
    backend: BackendConfig | None = None  # None for `gold`
    settings: Mapping[str, Any] = field(default_factory=dict)  # what its answers depend on, as JSON data

    @property
    def models(self) -> dict[str, str]:
        """Role, as it is booked, to the model that answers; empty for `gold`."""
        models = Backend(self.backend).models if self.backend else {}
        return {f"{TEACHING}{role}": model for role, model in models.items()}

    @property
    def model(self) -> str:
        return self.models.get(f"{TEACHING}actor", GOLD)

    @property
    def notes(self) -> tuple[str, ...]:
        note = "demonstrations are taken from solutions of training variants, which no player of the paper was shown"
        return () if self.backend else (f"taught by gold: {note}",)

    def check(self, calibration: Calibration, optimizer: str) -> None:
        """Raise `UsageError` for an optimizer without use for a teacher, and what `check_gold_paths` raises."""
        if optimizer != "bootstrap":
            fix = "leave out --teacher, or take --optimizer bootstrap"
            raise UsageError(f"{optimizer} has no use for a teacher, who plays for demonstrations: {fix}")
        if not self.backend:
            calibration.played_benchmark.check_gold_paths(calibration.train)


def choose_teacher(name: str, config: Config) -> Teacher:
    """Raises `UnknownName` for what is neither `gold` nor a backend of the configuration."""
    if name == GOLD:
        return Teacher(GOLD)
    replay = config.active_backend.replay
    taught = config.model_copy(update={"backend": name})
    backend = taught.active_backend
    settings = taught.resolve_settings()["backends"][name]
    return Teacher(name, backend.model_copy(update={"replay": replay}) if replay else backend, settings)


@dataclass(frozen=True)
class Lead:
    adapter: dspy.Adapter  # the format of its answers
    asks_models: bool
    take_over: Callable[[Runtime, Variant], Runtime]  # with the teacher in place of the student

    def bill(self, trials: tuple[TrialResult, ...]) -> tuple[TrialResult, ...]:
        """The trials with their usage booked under the teacher's roles; a gold path costs nothing."""
        paid = [trial.usage.items() if self.asks_models else () for trial in trials]
        booked = [{f"{TEACHING}{role}": usage for role, usage in items} for items in paid]
        return tuple(replace(trial, usage=usage) for trial, usage in zip(trials, booked, strict=True))


def open_lead(teacher: Teacher, calibration: Calibration, live: Session) -> Lead:
    """Raises `MissingKey` or `ConfigError` when the teacher's backend cannot work."""
    if teacher.backend is None:
        data = live.config.active_benchmark.locate_data(live.config.environment.data)
        return Lead(ChatAdapter(), False, lambda runtime, variant: play_gold(runtime, variant, calibration, data))
    backend = Backend(teacher.backend, Runtime.is_stopping)
    update = {"backend": teacher.name, "backends": {teacher.name: teacher.backend}}
    warmer = resolve_protocol(live.config.model_copy(update=update)).rules.retry_temperature
    backend.check(warmer)

    def play_backend(runtime: Runtime, _: Variant) -> Runtime:
        return replace(
            runtime,
            lm=backend.lm,
            rules=replace(runtime.rules, retry_temperature=warmer),
            spend=lambda role, usage: runtime.spend(f"{TEACHING}{role}", usage),
            recall=lambda role, usage: runtime.recall(f"{TEACHING}{role}", usage),
        )

    return Lead(backend.adapter, True, play_backend)


def play_gold(runtime: Runtime, variant: Variant, calibration: Calibration, data: str | None = None) -> Runtime:
    """The runtime with the gold path of a training variant in place of a model: one trial without learning. A variant
    whose path is unknown is not solved."""
    try:
        path = calibration.played_benchmark.find_gold_path(variant, data, runtime.rules.interface)
    except GoldUnknown:
        path = ()  # which teaches nothing, as a note of the compile says
    player = dspy.LM("gold/path", engine=GoldPlayer(path), cache=False)
    return replace(
        runtime,
        lm=lambda *_: player,
        budget=lambda _: len(path) + SLACK,
        rules=replace(runtime.rules, trials=1, frozen=True, max_repeat=None, max_ticks=None),
        spend=lambda *_: None,
        recall=lambda *_: None,
    )
