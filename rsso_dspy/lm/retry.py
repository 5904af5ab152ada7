"""Asking again: requests that may pass are repeated, and threads that share a backend slow down together.

    patience = RequestRetrier(retries=4, longest=60.0)
    lm = RetryingLM("openai/gpt-4.1-mini", patience, temperature=0.0)      # a dspy.LM

A wait is what the server asks for (Retry-After), else it doubles from a second, with some chance in it so that threads
do not come back in step. A rate limit holds back every thread and halves how many requests are under way at once; each
round of successes lets one more through.
"""

import logging
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import dspy
from dspy.utils.exceptions import (
    LMError,
    LMProviderError,
    LMRateLimitError,
    LMTimeoutError,
    LMUnsupportedFeatureError,
    LMUnsupportedModelError,
)

from rsso_dspy.errors import Stopped, UsageError
from rsso_dspy.lm.error_policy import classify, lookup_policy
from rsso_dspy.lm.prompt_cache import mark_cacheable_prefix
from rsso_dspy.lm.recording import ERROR_FIELDS, Notes, through_tape
from rsso_dspy.lm.request_limits import LONGEST_ANSWER, RequestTimeout, call_with_timeout
from rsso_dspy.lm.served import describe_models, list_models
from rsso_dspy.redaction import redact, register_secret
from rsso_dspy.resource_shortage import find_shortage

T = TypeVar("T")

ADVICE = re.compile(r"\n\n +(?:credential came from|To fix):.*", re.S)
"""What DSPy's engine adds to a provider's message: advice on settings that do not exist here."""

DECODING = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "max_completion_tokens", "seed")
"""Options of a request that say how tokens are drawn."""

UNREAD = ""
"""Stands for an answer that is too long to be read."""

LONGEST_NAME = 200
"""Characters that are kept of the name under which a server answers."""

TICK = 0.2
"""Seconds after which a thread that waits looks whether it is being stopped."""


class RequestRetrier:
    """The waits of one backend, shared by its threads. `longest` is the longest wait in seconds: a server that asks for
    more is not waited for. `stopped` is asked while waiting; when it says yes, `Stopped` is raised."""

    def __init__(self, retries: int, longest: float, stopped: Callable[[], bool] = lambda: False):
        self.retries = retries
        self.longest = longest
        self.stopped = stopped
        self.limit: int | None = None
        """Requests allowed at once; None while no rate limit was met."""
        self._active = 0
        self._passed = 0
        self._until = 0.0
        self._turn = threading.Condition()

    def send_with_retries(self, request: Callable[[], T]) -> T:
        """The answer; raises the last error when none came, and any error that asking again cannot mend."""
        for attempt in range(self.retries + 1):
            self._wait_for_permit()
            try:
                answer = request()
            except BaseException as error:
                wait = self.wait_after(error, attempt)
                throttled = isinstance(error, LMRateLimitError)
                self._release_permit(throttled=wait if throttled else None)
                _count_failed_request(error)
                if wait is None:
                    raise
            else:
                self._release_permit(passed=True)
                return answer
            self._sleep_unless_stopped(0.0 if throttled else wait)
        raise AssertionError("unreachable")

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Seconds until the request is asked again; None when it is not."""
        if lookup_policy(type(error)) != "retry" or attempt == self.retries:
            return None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return asked if asked <= self.longest else None
        return min(2.0**attempt, self.longest) * random.uniform(0.75, 1.25)

    def _wait_for_permit(self) -> None:
        """Wait for a turn."""
        with self._turn:
            while (pause := self._until - time.monotonic()) > 0 or (
                self.limit is not None and self._active >= self.limit
            ):
                self._raise_if_stopped()
                self._turn.wait(min(TICK, pause) if pause > 0 else TICK)
            self._active += 1

    def _release_permit(self, passed: bool = False, throttled: float | None = None) -> None:
        with self._turn:
            if throttled is not None:
                self._until = max(self._until, time.monotonic() + throttled)
                self.limit = max(1, self._active // 2)
                self._passed = 0
            elif passed and self.limit is not None:
                self._passed += 1
                if self._passed >= self.limit:
                    self.limit, self._passed = self.limit + 1, 0
            self._active -= 1
            self._turn.notify_all()

    def _sleep_unless_stopped(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._raise_if_stopped()
            time.sleep(min(TICK, left))

    def _raise_if_stopped(self) -> None:
        if self.stopped():
            raise Stopped


def _count_failed_request(error: BaseException) -> None:
    """Have the ledger of the present trial count the failure."""
    ledger = dspy.settings.get("ledger")
    if ledger is not None and isinstance(error, LMError):
        ledger.count_failure(type(error).__name__)


class RequestTracker:
    """What a client tells of one request. Stands in for DSPy's usage tracker meanwhile, so that a request that was
    given up books nothing on a trial that went on without it."""

    def __init__(self) -> None:
        self.usage: list[dict[str, Any]] = []
        self.name = ""
        """What the server called the model that answered."""
        self.changed = ""
        """Decoding settings that the client left out or changed, in words."""
        self.cut = False
        """Whether the server said that it cut the answer off."""
        self.kept = not dspy.settings.disable_history
        """Whether DSPy's histories are to hold the request."""

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.usage.append(usage)


class RetryingLM(dspy.LM):
    """A `dspy.LM` that asks again with patience. DSPy's own repeats, which no other thread hears of, are off. No error
    it raises holds a key. With `marks`, it tells the provider how far the next prompt will begin alike; with a number
    of a rollout for its `seeds`, each request carries a seed of its own. One that `replays` sends nothing: a tape
    answers. `asks_again` is for adapters: whether an answer that they cannot read is asked for in another format."""

    def __init__(
        self,
        model: str,
        patience: RequestRetrier,
        seeds: int | None = None,
        marks: bool = False,
        replays: bool = False,
        asks_again: bool = True,
        **options: Any,
    ):
        register_secret(options.get("api_key"))
        super().__init__(model, num_retries=0, **options)
        self.patience = patience
        self.seeds = seeds
        self.marks = marks
        self.asks_again = asks_again
        self.seconds: float | None = options.get("timeout")
        self.replays = replays

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        ledger = dspy.settings.get("ledger")
        if ledger is not None:
            if self.seeds is not None:
                kwargs = {"seed": ledger.draw_seed(self.seeds), **kwargs}
            settings = {**self.kwargs, **kwargs}
            ledger.note_settings({name: settings[name] for name in DECODING if settings.get(name) is not None})

        def ask(notes: Notes) -> Any:
            if self.replays:
                raise UsageError(
                    f"{self.model} is not asked: its backend answers from recordings, which runs, compiles and builds "
                    "read; leave replay out of the backend's table to ask it"
                )
            return self.patience.send_with_retries(lambda: self._request_once(prompt, messages, kwargs, ledger, notes))

        return through_tape(self, prompt, messages, kwargs, ask)

    def update_history(self, entry: dict[str, Any]) -> None:
        """Called by DSPy with all it knows of a request, which is kept where somebody may inspect it."""
        heard = dspy.settings.get("usage_tracker")
        if isinstance(heard, RequestTracker):
            heard.name = str(entry.get("response_model") or "")
            notes = [note for note in entry.get("adaptations") or () if note.field.removeprefix("config.") in DECODING]
            heard.changed = ", ".join(f"{note.field.removeprefix('config.')} is {note.action}" for note in notes)
            if heard.kept:
                super().update_history(entry)

    def _request_once(self, prompt: Any, messages: Any, kwargs: dict[str, Any], ledger: Any, notes: Notes) -> Any:
        heard, begun = RequestTracker(), time.perf_counter()
        try:
            answer = self._request_with_timeout(prompt, messages, kwargs, heard)
        except RequestTimeout as error:
            failure: Exception = LMTimeoutError(str(error), model=self.model)
        except LMError as error:
            # A lack of this machine is no fault of the provider's, and asking again mends it no more.
            failure = find_shortage(error) or self._name_models(_normalize_error(error))
        else:
            if heard.changed:
                failure = LMUnsupportedFeatureError(
                    f"{heard.changed} on the way to {self.model}, which does not take it: change the setting of the "
                    "backend, or leave it out",
                    model=self.model,
                )
            elif answer != []:
                answer, notes.refused = self._drop_overlong_texts(answer, ledger)
                self._report_request_usage(heard, ledger)
                notes.usage, notes.model = heard.usage, heard.name[:LONGEST_NAME]
                notes.seconds = round(time.perf_counter() - begun, 3)
                return answer
            else:
                failure = LMProviderError("an answer without any choice", model=self.model)
        self._report_request_usage(heard, ledger)
        notes.failed.append((type(failure).__name__ if isinstance(failure, LMError) else "", heard.usage))
        raise failure  # outside of the handler: what it was made from would be printed with it, keys and all

    def _name_models(self, error: LMError) -> LMError:
        """The error of a model that is not there, with those that the server has."""
        if not isinstance(error, LMUnsupportedModelError):
            return error
        served = describe_models(list_models(self.kwargs.get("api_base"), self.kwargs.get("api_key")))
        if not served:
            return error
        known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
        return type(error)(message=redact(f"{error.message} ({served})"), **known)

    def _request_with_timeout(self, prompt: Any, messages: Any, kwargs: dict[str, Any], heard: RequestTracker) -> Any:
        """The answer of one request."""
        growing = dspy.settings.get("growing") or ""

        def send_tracked() -> Any:
            with dspy.context(usage_tracker=heard, disable_history=False):
                return self._send_request(prompt, messages, kwargs, growing)

        return send_tracked() if self.seconds is None else call_with_timeout(self.seconds, send_tracked)

    def _drop_overlong_texts(self, answer: Any, ledger: Any) -> tuple[Any, bool]:
        """The answer's texts, those left out that are longer than is ever read, and whether there are such."""
        texts = [text["text"] if isinstance(text, dict) else text for text in answer]
        if not any(isinstance(text, str) and len(text) > LONGEST_ANSWER for text in texts):
            return answer, False
        if ledger is not None:
            ledger.note_truncated()
        return [text if len(text or "") <= LONGEST_ANSWER else UNREAD for text in texts], True

    def _report_request_usage(self, heard: RequestTracker, ledger: Any) -> None:
        """Tell whoever tracks usage what the request cost, and the trial's ledger who answered."""
        if heard.cut and ledger is not None:
            ledger.note_truncated()
        if tracker := dspy.settings.usage_tracker:
            for usage in heard.usage:
                tracker.add_usage(self.model, usage)
        if heard.name and ledger is not None:
            ledger.note_model(heard.name[:LONGEST_NAME])

    def _send_request(self, prompt: Any, messages: Any, kwargs: dict[str, Any], growing: str) -> Any:
        """The answer, from the thread that waits for it."""
        if self.marks and messages:
            blocks, mark = mark_cacheable_prefix(messages, growing)
            try:
                return super().__call__(prompt, messages=blocks, **kwargs, **mark)
            except LMUnsupportedFeatureError:
                if not mark:
                    raise
                self.marks = False  # it goes through LiteLLM, which takes no marks
        return super().__call__(prompt, messages=messages, **kwargs)


class _CutOff(logging.Filter):
    """Has what DSPy warns of when an answer was cut off counted, in place of a line of its own for each."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = dspy.settings.get("usage_tracker")
        if not isinstance(heard, RequestTracker) or "truncated" not in record.msg:
            return True
        heard.cut = True
        return False


logging.getLogger("dspy.clients.lm").addFilter(_CutOff())


def _normalize_error(error: LMError) -> LMError:
    """The error as what it means, in the provider's words alone, with every key in them struck out: providers quote
    the key that they refuse, and messages end up in records."""
    text = redact(ADVICE.sub("", error.message))
    known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    if known["retry_after"] is None:
        known["retry_after"] = read_retry_after(error)
    return classify(error)(message=text, **known)


def read_retry_after(error: BaseException) -> float | None:
    """The wait that a server asks for, where LiteLLM keeps it: in the headers of an error further down."""
    below: BaseException | None = error
    while below is not None:
        headers = getattr(below, "litellm_response_headers", None) or {}
        with suppress(ValueError):
            return max(0.0, float(headers.get("retry-after", "")))
        below = below.__cause__
    return None
