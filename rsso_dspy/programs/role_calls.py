"""How a program's modules are asked during a trial: which model answers, and what each answer cost.

The model that answers is the predictor's own (`agent.set_lm`), else the user's (`dspy.context(lm=...)`,
`dspy.configure(lm=...)`), else that of the role in the configured backend.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.dsp.utils.settings import main_thread_config
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.programs.tracing import open_span
from rsso_dspy.records import Usage
from rsso_dspy.signatures.conversation import WHOLE
from rsso_dspy.signatures.layouts import Layout

LONGEST_KEPT = 2000
"""Characters that are kept of an answer that could not be read."""

AGAIN = "\n[asked again]\n"
"""Between two answers to one question that could not be read."""

SEEDS = 2**31
"""How many seeds there are for requests."""


class TrialLedger:
    """Calls and tokens per role, of one trial. As ``dspy.settings.ledger`` it hears of failed requests, repaired
    answers, the settings sent and the model that answered. `spend` is told of each entry at once. `place` names the
    unit, for seeds. `trial` is which one; its step, and which attempt at it, are set as it is played."""

    def __init__(self, spend: Callable[[str, Usage], None], place: str = "", trial: int = 0) -> None:
        self.trial = trial
        self.step = 0
        """The actor's step under way, or the last one."""
        self.attempt = 0
        """1 when it is played again because its simulator died."""
        self.failures: Counter[str] = Counter()
        """Failed requests by kind."""
        self.place = place
        self._sent: dict[str, dict[str, float]] = {}
        self._answered: dict[str, set[str]] = {}
        self._draws: Counter[str] = Counter()
        self._refused = False
        self._unread: list[str] = []
        self.kept: dict[str, list[str]] = {}
        """Answers that could not be read, by role."""
        self._usage: dict[str, Usage] = {}
        self._role = ""
        self._longest: int | None = None
        self._spend = spend

    def add_usage(self, usage: dict[str, Any]) -> None:
        """Count an answer that was paid for, from what the provider said it took."""
        said = usage.get("completion_tokens") or 0
        read, written = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        self._add_entry(
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

    @property
    def speaker(self) -> str:
        """The role that is asked now."""
        return self._role

    def note_truncated(self) -> None:
        """The answer that is booked next was too long to be read."""
        self._refused = True

    def note_settings(self, settings: Mapping[str, float]) -> None:
        """A request went out with these decoding settings; those of a role's first request are kept."""
        self._sent.setdefault(self._role, dict(settings))

    def note_model(self, name: str) -> None:
        """The server called the model that answered so."""
        self._answered.setdefault(self._role, set()).add(name)

    def draw_seed(self, rollout: int) -> int:
        """The seed of the next request: drawn for rollout, unit and role, and one higher with every request of it."""
        drawn = hashlib.sha256(f"{rollout} {self.place} {self._role}".encode()).digest()
        number = self._draws[self._role]
        self._draws[self._role] += 1
        return (int.from_bytes(drawn[:4], "big") + number) % SEEDS

    def count_failure(self, kind: str) -> None:
        """A request failed, whether or not it was asked again."""
        self.failures[kind] += 1
        self._add_entry(Usage(failed=1))

    def count_repaired(self) -> None:
        """An answer was read that did not keep to the format."""
        self._add_entry(Usage(repaired=1))

    def unread(self, text: str) -> None:
        """An answer to the call under way could not be read; it may be asked for once more."""
        if text and text not in self._unread:
            self._unread.append(text)

    def count_malformed(self, role: str, said: str = "") -> None:
        """Nothing could be read of what a call was answered, `said` or what `unread` was told since it began."""
        if texts := [said] if said else self._unread:
            self.kept.setdefault(role, []).append(AGAIN.join(text[:LONGEST_KEPT] for text in texts))
        self._unread = []
        self._role = role
        self._add_entry(Usage(malformed=1))

    def last_unread(self, role: str) -> str:
        """What the role said last that could not be read."""
        return (self.kept.get(role) or [""])[-1]

    def _add_entry(self, entry: Usage) -> None:
        self._usage[self._role] = self._usage.get(self._role, Usage()) + entry
        self._spend(self._role, entry)

    def usage_by_role(self) -> dict[str, Usage]:
        """Role to usage, roles in alphabetical order."""
        return dict(sorted(self._usage.items()))

    def to_result_fields(self) -> dict[str, Any]:
        """What a trial's result says of requests: the failed ones, the settings sent, the names of who answered."""
        return {
            "failures": dict(sorted(self.failures.items())),
            "sent": dict(sorted(self._sent.items())),
            "answered": {role: tuple(sorted(names)) for role, names in sorted(self._answered.items())},
            "unread": {role: tuple(texts) for role, texts in sorted(self.kept.items()) if role != "actor"},
        }

    @contextmanager
    def book_under_role(self, role: str, longest: int | None = None, growing: str = "") -> Iterator[None]:
        """Book what comes under `book_under_role`; an answer of `longest` tokens was cut off. `growing` is what the
        prompt holds
        that the next one repeats and adds to, with all before it: providers whose cache takes marks are told."""
        self._role, self._longest, self._unread = role, longest, []
        tracker = _LedgerTracker(self, dspy.settings.usage_tracker)
        with dspy.context(usage_tracker=tracker, ledger=self, growing=growing):
            yield


class _LedgerTracker(UsageTracker):
    """DSPy's usage tracker that tells the ledger, and whoever tracked usage around it."""

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
    """Asks the modules of an agent for one trial: with the model of their role, under the trial's rollout number, on
    its ledger."""

    runtime: Runtime
    rollout: int
    ledger: TrialLedger
    retry: bool = False
    """Whether the variant was played before."""

    def ask(
        self, role: str, module: dspy.Module, call: Callable[..., dspy.Prediction], /, **inputs: Any
    ) -> dspy.Prediction | None:
        """What a call of the module answers, or None when an answer could not be parsed (counted). `call` is the module
        itself, or a method of it."""
        lm = self._find_model(role)
        growing = find_growing(inputs.get("history", ""), self.runtime.rules.layout)
        with (
            self.ledger.book_under_role(role, _find_max_tokens(module, lm), growing),
            dspy.context(lm=lm, rollout=self.rollout),
            open_span(role),
        ):
            try:
                return _replace_surrogates(call(**inputs))
            except AdapterParseError as error:
                self.ledger.unread(str(error.lm_response or ""))
                self.ledger.count_malformed(role)
                return None

    def _find_model(self, role: str) -> dspy.BaseLM:
        """The model of a role; that of a retrying actor at the temperature that the protocol gives retries."""
        users, warmer = find_users_lm(), self.runtime.rules.retry_temperature
        if role != "actor" or not self.retry or warmer is None:
            return users or self.runtime.lm(role, self.rollout)
        return users.copy(temperature=warmer) if users else self.runtime.lm(role, self.rollout, warmer)


def find_growing(history: str, layout: Layout) -> str:
    """What a prompt with this history holds that the next one repeats and adds to."""
    if layout == "append" and dspy.settings.get("conversation"):
        return WHOLE
    return history if layout == "cache" else ""


def find_users_lm() -> dspy.BaseLM | None:
    """The model that DSPy is set to, also by a `dspy.configure` since the session was opened, which DSPy's contexts
    hide; None where only the session's models may answer."""
    if dspy.settings.get("session_models_only"):
        return None
    return dspy.settings.lm or main_thread_config.get("lm")


def _find_max_tokens(module: dspy.Module, lm: dspy.BaseLM) -> int | None:
    """Tokens that an answer may take at most, of the model that answers."""
    own = next((predictor.lm for predictor in module.predictors() if predictor.lm is not None), None)
    settings = getattr(own or lm, "kwargs", {})
    return settings.get("max_tokens") or settings.get("max_completion_tokens")


def _replace_surrogates(answer: dspy.Prediction) -> dspy.Prediction:
    """The answer with characters replaced that no file and no later prompt can hold (lone surrogates)."""
    for name, value in answer.items():
        if isinstance(value, str):
            answer[name] = value.encode("utf-8", "replace").decode()
        elif isinstance(value, list):
            answer[name] = [v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in value]
    return answer
