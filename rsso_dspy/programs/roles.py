"""The roles of an agent: what its loop and its memories ask of its modules, who answers, and what it costs.

    roles = Roles(agent.modules, agent.method, runtime)
    roles.begin_trial(TrialLedger(spend), rollout=1)
    roles.choose_action([], task="...", history="...")        # an `Answer`, or None

The model is the predictor's own (`agent.set_lm`), otherwise the user's (`dspy.context(lm=...)`,
`dspy.configure(lm=...)`), otherwise that of the role in the configured backend.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dspy
from dspy.dsp.utils.settings import main_thread_config
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from rsso_dspy.environments import Environment, get_place_reader, list_verbs
from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Recall
from rsso_dspy.playing import get_playing, playing
from rsso_dspy.programs.methods import MODULES, Method, load_memory
from rsso_dspy.programs.render import render_transcript, tell_outcome
from rsso_dspy.programs.runtime import Runtime, choose_retry_temperature
from rsso_dspy.records import Trajectory, Usage, read_usage
from rsso_dspy.regions import POSSIBLE


class Roles:
    """The modules of an agent, asked by its loop and its memories: the `Services` of these. Local to one
    `Agent.forward`."""

    def __init__(self, modules: Mapping[str, dspy.Module], method: Method, runtime: Runtime):
        self.modules = modules
        self.method = method
        self.runtime = runtime
        self.handed_on = frozenset(load_memory(name).region for name in method.streamed)
        self.environment: Environment
        self.ledger: TrialLedger

    def begin_trial(self, ledger: "TrialLedger", rollout: int, retry: bool = False) -> None:
        """Ask under this rollout number from now on, and book in this ledger. `retry` says that the variant was played
        before."""
        self.ledger, self.rollout, self.is_retry = ledger, rollout, retry

    def choose_action(
        self, recalled: Sequence[Recall], unasked: frozenset[str] = frozenset(), **regions: Any
    ) -> "Answer | None":
        """The actor's next answer; None when it was malformed. `regions` are the actor's input fields by name;
        `unasked`, the outputs that it is not asked for."""
        told = {"verbs": list_verbs(self.environment), "possible": frozenset(regions.get(POSSIBLE, ()))}
        rules = self.runtime.rules
        with playing(layout=rules.layout, in_system=rules.in_system, unasked=unasked, **told):
            prediction = self.ask("actor", **regions)
        if prediction is None:
            return None
        answer = read_answer(prediction, [target for recall in recalled for target in recall.targets])
        if not answer.action:
            self.ledger.count_malformed("actor", _said(prediction))
            return None
        return answer

    def ask(self, name: str, method: str = "", /, **inputs: Any) -> dspy.Prediction | None:
        """What a module, or a method of it, answers; None when the answer was malformed."""
        if name not in self.modules and name not in STOCK:
            raise UsageError(
                f"a memory of {self.method.name} asks for the {name}, which this method has not: name it in the class "
                f"of the memory, asks = ({name!r},)"
            )
        module = self.modules.get(name) or _get_stock_module(name)
        role = "actor" if name == "actor" else MODULES[name].role
        lm = self._find_model(role)
        with (
            self.ledger.book_under_role(role, _find_max_tokens(module, lm)),
            dspy.context(lm=lm),
            playing(rollout=self.rollout),
        ):
            try:
                return _replace_surrogates((getattr(module, method) if method else module)(**inputs))
            except AdapterParseError as error:
                self.ledger.unread(str(error.lm_response or ""))
                self.ledger.count_malformed(role)
                return None

    def _find_model(self, role: str) -> dspy.BaseLM:
        """Return the model of a role; for a retrying actor at the protocol's retry temperature, and without one at
        that of `choose_retry_temperature` for a model that the user set."""
        users, warmer = find_users_lm(), self.runtime.rules.retry_temperature
        if role != "actor" or not self.is_retry:
            return users or self.runtime.lm(role, self.rollout)
        if users and warmer is None:
            warmer = choose_retry_temperature(users.model, users.kwargs.get("temperature"), users.kwargs.get("top_k"))
        if warmer is None:
            return users or self.runtime.lm(role, self.rollout)
        return users.copy(temperature=warmer) if users else self.runtime.lm(role, self.rollout, warmer)

    def reject(self, name: str, said: dspy.Prediction) -> None:
        """Count an answer of a module that could be read and is of no use."""
        self.ledger.count_malformed(MODULES[name].role, _said(said))

    def tell_transcript(self, trajectory: Trajectory) -> str:
        """Every action of an attempt, numbered, with what was seen after it."""
        return render_transcript(trajectory, self.environment.render)

    def tell_outcome(self, trajectory: Trajectory) -> str:
        """How an attempt ended and what its steps earned."""
        return tell_outcome(trajectory)

    def list_reflection_fields(self, improvements: frozenset[str], trajectory: Trajectory) -> dict[str, Any]:
        """What a call of the reflector is told besides, for these improvements: a signature with their fields, and the
        loops. Empty without them, so that the prompt stays what it was.

        Raises `UsageError` when the reflector was replaced by a module that lacks the fields and cannot be given them.
        """
        from rsso_dspy.loops import describe_loops
        from rsso_dspy.signatures.reflection import ADDED_INPUTS, ADDED_OUTPUTS, LOOPS, add_reflection_fields

        asked, module = improvements & (ADDED_INPUTS.keys() | ADDED_OUTPUTS.keys()), self.modules["reflector"]
        if not asked:
            return {}
        place_reader = get_place_reader(self.environment)
        told: dict[str, Any] = {LOOPS: describe_loops(trajectory.steps, place_reader)} if "loops" in asked else {}
        if isinstance(module, dspy.Predict):
            return {**told, "signature": add_reflection_fields(module.signature, asked)}
        for predictor in module.predictors():
            if add_reflection_fields(predictor.signature, asked) is predictor.signature:
                return told
        fields = [
            name for each in sorted(asked) for name in (*ADDED_INPUTS.get(each, ()), *ADDED_OUTPUTS.get(each, ()))
        ]
        raise UsageError(
            f"this {type(module).__name__} cannot be the reflector of {', '.join(sorted(asked))}: its signature lacks "
            f"{', '.join(fields)}; add them to the signature, or use dspy.Predict"
        )


STOCK = ("reflection_distiller",)
"""Modules that a configuration asks for, not a row: an agent that has none of its own is played with the package's.
One that is to be compiled is named in the row (`reflexion-hierarchical`)."""


@lru_cache(maxsize=8)
def _get_stock_module(name: str) -> dspy.Module:
    """The package's own module, shared by all agents that have none of this name."""
    return MODULES[name].make()


def _said(prediction: dspy.Prediction) -> str:
    return "\n".join(
        f"{name}: {value}" for name, value in prediction.items() if value and isinstance(value, str | list)
    )


def find_users_lm() -> dspy.BaseLM | None:
    """Return the model that the user set in DSPy; None if only the session's models may answer. Includes a
    `dspy.configure` after the session was opened, which DSPy's contexts hide."""
    if get_playing().session_models_only:
        return None
    return dspy.settings.lm or main_thread_config.get("lm")


def _find_max_tokens(module: dspy.Module, lm: dspy.BaseLM) -> int | None:
    """Return the maximum tokens of an answer of the model that answers."""
    own = next((predictor.lm for predictor in module.predictors() if predictor.lm is not None), None)
    settings = getattr(own or lm, "kwargs", {})
    return settings.get("max_tokens") or settings.get("max_completion_tokens")


def _replace_surrogates(answer: dspy.Prediction) -> dspy.Prediction:
    """Replace lone surrogates in the answer, which no file and no later prompt can hold."""
    for name, value in answer.items():
        if isinstance(value, str):
            answer[name] = value.encode("utf-8", "replace").decode()
        elif isinstance(value, list):
            answer[name] = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in value]
    return answer


LONGEST_KEPT = 2000
"""Maximum characters kept of an unreadable answer."""

AGAIN = "\n[asked again]\n"
"""Separates two unreadable answers to one question."""

SEEDS = 2**31
"""Number of possible seeds of requests."""


class TrialLedger:
    """Calls and tokens of one trial by role.

    As ``get_playing().ledger`` it also receives failed requests, repaired answers, sent settings and the names of
    models. `spend` is called with each entry at once, or `recall` if it was paid for before. `place` names the unit,
    for seeds; `trial` is the trial's number. Step and attempt are set during play.
    """

    def __init__(
        self,
        spend: Callable[[str, Usage], None],
        place: str = "",
        trial: int = 0,
        recall: Callable[[str, Usage], None] = lambda _role, _usage: None,
    ) -> None:
        self.trial = trial
        self.step = 0
        """The actor's current step, or the last one."""
        self.attempt = 0
        """1 if the trial is played again because its simulator died."""
        self.failures: Counter[str] = Counter()
        """Failed requests by kind."""
        self.place = place
        self._sent: dict[str, dict[str, float]] = {}
        self._answered: dict[str, set[str]] = {}
        self._draws: Counter[str] = Counter()
        self._refused = False
        self.is_paid = False
        """Whether the last answer was paid for before: a line of this trial, which was cut off, held it."""
        self._unread: list[str] = []
        self.kept: dict[str, list[str]] = {}
        """Unreadable answers by role."""
        self._usage: dict[str, Usage] = {}
        self._role = ""
        self._longest: int | None = None
        self._spend, self._recall = spend, recall

    def add_usage(self, usage: dict[str, Any]) -> None:
        """Add an answer with the usage that the provider reported."""
        self._add_entry(read_usage(usage) + Usage(truncated=int(self._refused)))
        self._refused = False

    @property
    def speaker(self) -> str:
        return self._role

    def is_cut(self, usage: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether an answer is as long as the role's answers may be."""
        return self._longest is not None and any(
            (each.get("completion_tokens") or 0) >= self._longest for each in usage
        )

    def note_truncated(self) -> None:
        """Note that the next answer added was cut off, or too long to read."""
        self._refused = True

    def note_settings(self, settings: Mapping[str, float]) -> None:
        """Note the decoding settings of a request; those of a role's first request are kept."""
        self._sent.setdefault(self._role, dict(settings))

    def note_model(self, name: str) -> None:
        """Note the model name that the server reported."""
        self._answered.setdefault(self._role, set()).add(name)

    def draw_seed(self, rollout: int) -> int:
        """Return the seed of the next request, derived from rollout, unit and role; each request adds one."""
        drawn = hashlib.sha256(f"{rollout} {self.place} {self._role}".encode()).digest()
        number = self._draws[self._role]
        self._draws[self._role] += 1
        return (int.from_bytes(drawn[:4], "big") + number) % SEEDS

    def count_failure(self, kind: str) -> None:
        """Count a failed request, whether or not it is retried."""
        self.failures[kind] += 1
        self._add_entry(Usage(failed=1))

    def count_repaired(self) -> None:
        """Count an answer that was read although it broke the format."""
        self._add_entry(Usage(repaired=1))
        self._note_read(repaired=True)

    def unread(self, text: str) -> None:
        """Keep an unreadable answer of the current call, which may be asked again."""
        if text and text not in self._unread:
            self._unread.append(text)

    def count_malformed(self, role: str, said: str = "") -> None:
        """Count a call without a readable answer: `said`, or the answers passed to `unread` since it began."""
        if texts := [said] if said else self._unread:
            self.kept.setdefault(role, []).append(AGAIN.join(text[:LONGEST_KEPT] for text in texts))
        self._unread = []
        self._role = role
        self._add_entry(Usage(malformed=1))
        self._note_read(malformed=True)

    def last_unread(self, role: str) -> str:
        """Return the role's last unreadable answer."""
        return (self.kept.get(role) or [""])[-1]

    def _add_entry(self, entry: Usage) -> None:
        self._usage[self._role] = self._usage.get(self._role, Usage()) + entry
        (self._recall if self.is_paid else self._spend)(self._role, entry)

    def _note_read(self, **what: bool) -> None:
        calls = get_playing().calls
        if calls is not None and not self.is_paid:
            calls.note_read(**what)

    def usage_by_role(self) -> dict[str, Usage]:
        """Return usage by role, in alphabetical order."""
        return dict(sorted(self._usage.items()))

    def to_result_fields(self) -> dict[str, Any]:
        """Return the fields of a trial's result about requests: failures, sent settings, names of models."""
        return {
            "failures": dict(sorted(self.failures.items())),
            "sent": dict(sorted(self._sent.items())),
            "answered": {role: tuple(sorted(names)) for role, names in sorted(self._answered.items())},
            "unread": {role: tuple(texts) for role, texts in sorted(self.kept.items()) if role != "actor"},
        }

    @contextmanager
    def book_under_role(self, role: str, longest: int | None = None) -> Iterator[None]:
        """Add the usage in the block to `role`. An answer of `longest` tokens counts as truncated."""
        self._role, self._longest, self._unread = role, longest, []
        tracker = _LedgerTracker(self, dspy.settings.usage_tracker)
        with dspy.context(usage_tracker=tracker), playing(ledger=self):
            yield


class _LedgerTracker(UsageTracker):
    """A DSPy usage tracker that passes usage to the ledger and to the outer tracker."""

    def __init__(self, ledger: TrialLedger, outer: UsageTracker | None):
        super().__init__()
        self.ledger = ledger
        self.outer = outer

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:
        self.ledger.add_usage(usage_entry)
        if self.outer is not None:
            self.outer.add_usage(lm, usage_entry)


@dataclass(frozen=True, slots=True)
class Answer:
    """The actor's answer. ``subgoal`` is the target of a recalled skill or None; ``rejected`` is the given subgoal if
    it was not offered."""

    action: str
    thought: str
    subgoal: str | None
    rejected: str = ""
    said: str = ""
    """The whole text, as the model wrote it."""


def read_answer(prediction: dspy.Prediction, targets: Sequence[str]) -> Answer:
    """Convert a prediction of the actor. `targets` are the offered subgoals."""
    said = str(prediction.get("subgoal") or "").strip()
    subgoal = choose_target(said, targets)
    rejected = "" if subgoal is not None or _NO_SUBGOAL.fullmatch(said) else said[:LONGEST_REJECTED]
    thought, text = prediction.get("thought") or "", prediction.get("said") or ""
    return Answer(first_line(prediction.action), thought, subgoal, rejected, text)


LONGEST_REJECTED = 500
"""Maximum characters kept of a subgoal that was not offered."""

_NO_SUBGOAL = re.compile(r"\W*(?:none|null|nil|n/?a|no(?: current)? subgoal|not applicable|nothing)?\W*", re.I)
_NUMBERED = re.compile(r"(?:(?:current )?subgoal|option|skill)? ?(\d+)(?: (.*))?")


def choose_target(text: str, targets: Sequence[str]) -> str | None:
    """Return the target that the text names; None if it names none.

    The text may be a copy of the target, apart from case, punctuation and spacing, with or without `Subgoal n:`, or the
    target's number alone.
    """

    def normalize_words(value: str) -> str:
        return " ".join(re.findall(r"[^\W_]+", value.lower()))

    wanted = normalize_words(text)
    copied = next((target for target in targets if normalize_words(target) == wanted), None)
    numbered = _NUMBERED.fullmatch(wanted)
    if copied is not None or numbered is None:
        return copied
    number, said = numbered.groups()
    if said is None:
        return targets[int(number) - 1] if 1 <= int(number) <= len(targets) else None
    return next((target for target in targets if normalize_words(target) == said), None)


def first_line(text: Any) -> str:
    """Return the first line that is not empty, without quotes, marks of lists and code, and a final period."""
    lines = (re.sub(r"^\s*(?:[-*>•]\s+|\d+[.)]\s+)*", "", line) for line in str(text or "").splitlines())
    return next(filter(None, (line.strip("`\"'*_“” \t").rstrip(".!").strip() for line in lines)), "")
