"""Calls of a program's modules during a trial: chooses the model and keeps a ledger of usage.

The model is the predictor's own (`agent.set_lm`), otherwise the user's (`dspy.context(lm=...)`,
`dspy.configure(lm=...)`), otherwise that of the role in the configured backend.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.dsp.utils.settings import main_thread_config
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from rsso_dspy.playing import get_playing, playing
from rsso_dspy.programs.runtime import Runtime, choose_retry_temperature
from rsso_dspy.records import Usage, read_usage

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


@dataclass(frozen=True)
class RoleCalls:
    """Calls the modules of an agent for one trial, with the model of their role, the trial's rollout number and its
    ledger."""

    runtime: Runtime
    rollout: int
    ledger: TrialLedger
    retry: bool = False
    """Whether the variant was played before."""

    def ask(
        self, role: str, module: dspy.Module, call: Callable[..., dspy.Prediction], /, **inputs: Any
    ) -> dspy.Prediction | None:
        """Return the answer of a call, or None, counted as malformed, if it could not be parsed. `call` is the module
        itself or one of its methods."""
        lm = self._find_model(role)
        with (
            self.ledger.book_under_role(role, _find_max_tokens(module, lm)),
            dspy.context(lm=lm),
            playing(rollout=self.rollout),
        ):
            try:
                return _replace_surrogates(call(**inputs))
            except AdapterParseError as error:
                self.ledger.unread(str(error.lm_response or ""))
                self.ledger.count_malformed(role)
                return None

    def _find_model(self, role: str) -> dspy.BaseLM:
        """Return the model of a role; for a retrying actor at the protocol's retry temperature, and without one at
        that of `choose_retry_temperature` for a model that the user set."""
        users, warmer = find_users_lm(), self.runtime.rules.retry_temperature
        if role != "actor" or not self.retry:
            return users or self.runtime.lm(role, self.rollout)
        if users and warmer is None:
            warmer = choose_retry_temperature(users.model, users.kwargs.get("temperature"), users.kwargs.get("top_k"))
        if warmer is None:
            return users or self.runtime.lm(role, self.rollout)
        return users.copy(temperature=warmer) if users else self.runtime.lm(role, self.rollout, warmer)


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
