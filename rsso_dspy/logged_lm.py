"""Language models whose calls are logged, limited, retried and booked.

with dspy.context(adapter=Listening(dspy.ChatAdapter())):
    dspy.Predict("question -> answer")(question="...")      # whatever model answers here, its calls are logged
"""

import contextvars
import functools
import json
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Literal, TypeVar

import dspy
from dspy.utils import exceptions
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import LMError, LMInvalidRequestError, LMRateLimitError, LMTimeoutError, LMTransportError

from rsso_dspy.calls import Call, Place, make_plain
from rsso_dspy.errors import (
    BackendFailure,
    BackendUnreachable,
    MissingKey,
    Stopped,
    UsageError,
    find_shortage,
    list_causes,
)
from rsso_dspy.playing import get_playing
from rsso_dspy.records import Failure
from rsso_dspy.redact import redact

T = TypeVar("T")

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise LiteLLM downloads prices

# Asking through the log.

WAYS = {
    "api_key", "api_base", "base_url", "timeout", "num_retries", "prompt_cache", "engine", "headers", "extra_headers",
    "rollout_id",
}  # fmt: skip
"""Options that only say how the model is reached: no answer depends on them, and some are secret."""


def describe_request(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as data: model, messages and all parameters that answers depend on."""
    settings = sorted({**lm.kwargs, **kwargs}.items())
    known = {name: value for name, value in settings if name not in WAYS and value is not None}
    return {
        "model": lm.model,
        "messages": messages if messages is not None else [{"role": "user", "content": prompt}],
        "parameters": json.loads(json.dumps(known, default=make_plain)),
    }


# Limits of a request.

LONGEST_ANSWER = 100_000  # maximum characters of an answer; longer ones would fill records and later prompts


def call_with_timeout(seconds: float, request: Callable[[], T], model: str) -> T:
    """Return the result of `request`; raises `LMTimeoutError` after `seconds`. Clients limit only the wait for the next
    byte; the thread of a server that drips is abandoned, and never keeps the process alive."""
    answer: Future[T] = Future()
    context = contextvars.copy_context()

    def run_request() -> None:
        try:
            answer.set_result(context.run(request))
        except BaseException as error:  # of any kind: the waiting thread raises it
            answer.set_exception(error)

    threading.Thread(target=run_request, name="request", daemon=True).start()
    if not wait([answer], seconds).done:
        raise LMTimeoutError(f"no complete answer within {seconds:g} s (setting timeout)", model=model)
    return answer.result()


@functools.cache
def import_litellm() -> Any:
    """Import LiteLLM, which takes seconds, and make the clients that it creates from now on follow no redirect, as
    DSPy's own follows none: clients send most headers with keys along to the other host."""
    import litellm
    from litellm.llms.custom_httpx.http_handler import HTTPHandler
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    litellm.suppress_debug_info = True
    handler: Any = HTTPHandler
    handler.follow_redirects = property(lambda _: False, lambda *_: None)
    base: Any = BaseOpenAILLM
    create_client = base._get_sync_http_client

    def create_without_redirects() -> Any:
        client = create_client()
        client.follow_redirects = False
        return client

    base._get_sync_http_client = staticmethod(create_without_redirects)
    return litellm


# Failures.

Policy = Literal["retry", "suspect", "fail", "stop"]

POLICIES: dict[type[Exception], Policy] = {
    LMRateLimitError: "retry",  # 429
    exceptions.LMServerError: "retry",  # 5xx, overloaded
    LMTimeoutError: "retry",
    LMTransportError: "retry",  # refused, reset or dropped connection
    exceptions.LMLockTimeoutError: "retry",
    exceptions.LMAuthError: "stop",  # 401, 403
    exceptions.LMBillingError: "stop",  # 402, no credit
    exceptions.LMConfigurationError: "stop",
    exceptions.LMUnsupportedModelError: "stop",  # 404, model not found
    exceptions.LMUnsupportedFeatureError: "stop",
    MissingKey: "stop",
    LMInvalidRequestError: "fail",  # 400: context overflow, refused content
    LMError: "suspect",  # anything else, also a response of unknown form
    BackendFailure: "suspect",
}
"""Error to policy; a subclass that is not listed has the policy of its nearest base class.

    retry      temporary: the request is repeated after a wait; after the last attempt the trial is an error
    suspect    the trial is an error, and the backend may be down
    fail       the trial is an error because of this request; other requests may succeed
    stop       the error would affect every unit: the run stops at once
"""

NO_CREDIT = ("insufficient_quota", "exceeded_current_quota", "credit balance is too low")  # of an empty account
REFUSED_SETTING = ("unsupported_value", "unsupported_parameter")  # codes of settings that a model does not take


def classify(error: LMError) -> type[LMError]:
    """Return the class of an error, or a narrower one by its message or status. A missing model or path, an empty
    account and an unsupported setting affect every request, however the provider reports them."""
    said = f"{error.provider_code} {error.message}".lower()
    if isinstance(error, LMInvalidRequestError | LMRateLimitError) and any(words in said for words in NO_CREDIT):
        return exceptions.LMBillingError
    if isinstance(error, LMInvalidRequestError):
        setting = error.message.lstrip("`").startswith(("temperature", "max_tokens:"))
        if error.status == 404:
            return exceptions.LMUnsupportedModelError
        if setting or error.provider_code in REFUSED_SETTING:
            return exceptions.LMUnsupportedFeatureError
    if isinstance(error, LMTransportError) and "timed out" in said:
        return LMTimeoutError
    return type(error)


def lookup_policy(error: type[BaseException]) -> Policy | None:
    """Return the policy of an error; None if the error does not come from the model's side."""
    return next((POLICIES[kind] for kind in error.__mro__ if kind in POLICIES), None)


def lookup_recorded_policy(failure: Failure | None) -> Policy | None:
    """Return the policy of a recorded failure; None if it did not come from the model's side."""
    own = {kind.__name__: kind for kind in (BackendFailure, MissingKey, BackendUnreachable)}
    kind = own.get(failure.kind) or getattr(exceptions, failure.kind, None) if failure else None
    return lookup_policy(kind) if isinstance(kind, type) else None


ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")  # kept besides the message
ADVICE = re.compile(r"\n\n +(?:credential came from|To fix):.*", re.S)
"""Advice that DSPy's client appends to a provider's message, about settings that do not exist here."""


def normalize_error(error: LMError) -> Exception:
    """Return the error with its narrower class and only the provider's message, without keys, which providers quote. A
    shortage on this machine is returned as itself: it is not the provider's fault, and retrying does not help."""
    if shortage := find_shortage(error):
        return shortage
    known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    for below in list_causes(error) if known["retry_after"] is None else ():
        with suppress(ValueError):  # LiteLLM keeps the headers in a cause of the error
            asked = (getattr(below, "litellm_response_headers", None) or {}).get("retry-after", "")
            known["retry_after"] = max(0.0, float(asked))
            break
    return classify(error)(message=redact(ADVICE.sub("", error.message)), **known)


def dump_error(error: LMError) -> dict[str, Any]:
    known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    return {"kind": type(error).__name__, "message": error.message, **known}


def restore_error(said: Mapping[str, Any]) -> LMError:
    kind = getattr(exceptions, str(said.get("kind")), LMError)
    kind = kind if isinstance(kind, type) and issubclass(kind, LMError) else LMError
    about = {name: value for name, value in said.items() if name not in ("kind", "message") and value is not None}
    return kind(message=str(said.get("message")), **about)


# Retries.

TICK = 0.2  # seconds between a waiting thread's checks whether it should stop


class RequestRetrier:
    """Retries of one backend, shared by its threads. The wait is the server's Retry-After, up to `longest` seconds,
    otherwise it doubles from one second, with jitter. A rate limit makes every thread wait. Waiting threads call
    `stopped` and raise `Stopped` when it returns True."""

    def __init__(self, retries: int, longest: float, stopped: Callable[[], bool] = lambda: False):
        self.retries = retries
        self.longest = longest
        self.stopped = stopped
        self._until = 0.0  # when the last rate limit ends, on the monotonic clock

    def send_with_retries(self, request: Callable[[], T]) -> T:
        """Return the answer. Raises the last error if all attempts fail, and any lasting error at once."""
        for attempt in range(self.retries + 1):
            self._sleep_unless_stopped(0.0)
            try:
                return request()
            except BaseException as error:
                wait = self.wait_after(error, attempt)
                ledger = get_playing().ledger
                if ledger is not None and isinstance(error, LMError):
                    ledger.count_failure(type(error).__name__)
                if wait is None:
                    raise
                if isinstance(error, LMRateLimitError):
                    self._until = max(self._until, time.monotonic() + wait)
            self._sleep_unless_stopped(wait)
        raise AssertionError("unreachable")

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        if lookup_policy(type(error)) != "retry" or attempt == self.retries:
            return None
        asked = getattr(error, "retry_after", None)
        if asked is not None and asked > self.longest:
            return None
        return (min(2.0**attempt, self.longest) if asked is None else asked) * random.uniform(1.0, 1.25)

    def _sleep_unless_stopped(self, seconds: float) -> None:
        """Sleep, and as long as a rate limit lasts."""
        end = time.monotonic() + seconds
        while (left := max(end, self._until) - time.monotonic()) > 0:
            if self.stopped():
                raise Stopped
            time.sleep(min(TICK, left))


# Models.

DECODING = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "max_completion_tokens", "seed")
"""Options of a request that control decoding."""

LONGEST_WAIT = 60.0  # longest wait in seconds that a server may ask for where no configuration says it
LONGEST_NAME = 200  # maximum characters kept of a model name that a server reports


class RequestTracker:
    """What the client reports about one request. It replaces DSPy's usage tracker during the request, so that an
    abandoned request adds no usage to the trial that continued without it."""

    def __init__(self) -> None:
        self.usage: list[dict[str, Any]] = []
        self.name = ""  # of the model, as the server reported it
        self.changed = ""  # decoding settings that the client omitted or changed, in words
        self.cut = False  # whether the server reported that it truncated the answer
        self.kept = not dspy.settings.disable_history

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.usage.append(usage)


class Logged:
    """A mixin before a class of models: calls go through the log of the unit that is played."""

    model: str
    kwargs: dict[str, Any]
    patience: RequestRetrier  # in place of DSPy's own retries, which wait as long as a server asks
    seeds: int | None = None  # a rollout number, for each request to have its own seed
    replays = False  # whether nothing is sent
    asks_again = True  # whether adapters may ask a second time

    @property
    def is_player(self) -> bool:
        """Whether no model answers, but the offline player, which has no decoding settings and no name to report."""
        return self.model.startswith("embedded/")

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Return the answer: from the unit's log, or from the log that is replayed, if they have it, else from the
        model. Raises errors of the model, live or recorded, and `Stopped` if the replayed log lacks the request."""
        at, calls, number = get_playing().ledger, get_playing().calls, 0
        if at is not None:
            if self.seeds is not None:
                kwargs = {"seed": at.draw_seed(self.seeds), **kwargs}
            settings = {**self.kwargs, **kwargs}
            if not self.is_player:
                at.note_settings({name: settings[name] for name in DECODING if settings.get(name) is not None})
        if calls is not None:
            place = Place(at.trial, at.attempt, at.step, at.speaker) if at else Place(0, 0, 0, "")
            request = describe_request(self, prompt, messages, kwargs)
            if (found := calls.find(place, request)) is not None:
                call, is_own = found
                if not is_own:
                    calls.copy(call)
                return self._give_again(call, is_own, prompt, messages, kwargs)
            number = calls.begin(place, request)
        if self.replays:
            raise UsageError(
                f"{self.model} is not called: its backend answers from the log of a run, which only runs, compiles "
                "and builds read; leave replay out of the backend's table to call the model"
            )
        if at is not None:
            at.is_paid = False
        try:
            return self.patience.send_with_retries(lambda: self._attempt(number, prompt, messages, kwargs))
        except LMError as error:
            if calls is not None:
                calls.end(number, error=dump_error(error))
            raise

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        return await dspy.asyncify(self.__call__)(prompt, messages=messages, **kwargs)

    def _attempt(self, number: int, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Ask the model once; write and book what comes of it."""
        heard, begun = RequestTracker(), time.perf_counter()
        ledger, calls = get_playing().ledger, get_playing().calls
        try:
            answer = self.send(heard, prompt, messages, kwargs)
            if heard.changed:
                raise exceptions.LMUnsupportedFeatureError(
                    f"{heard.changed} on the way to {self.model}, which does not support it: change the setting of "
                    "the backend, or leave it out",
                    model=self.model,
                )
            if answer == []:
                raise exceptions.LMProviderError("a response without any choice", model=self.model)
        except LMError as error:
            failure = normalize_error(error)
        else:
            answer, is_overlong = _drop_overlong_texts(answer)
            cut = is_overlong or heard.cut or (ledger is not None and ledger.is_cut(heard.usage))
            if calls is not None:
                seconds = round(time.perf_counter() - begun, 3)
                calls.end(number, answer=answer, usage=heard.usage, served=heard.name, cut=cut, seconds=seconds)
            self._book(heard.usage, heard.name, cut)
            return answer
        if calls is not None:
            calls.fail(number, type(failure).__name__ if isinstance(failure, LMError) else "", heard.usage)
        self._book(heard.usage, heard.name, heard.cut)
        raise failure  # outside the handler: otherwise its cause would be printed too, with keys

    def _book(self, usage: Iterable[dict[str, Any]], served: str = "", cut: bool = False) -> None:
        """Tell the ledger and DSPy's usage tracker what a request came to."""
        ledger = get_playing().ledger
        if cut and ledger is not None:
            ledger.note_truncated()  # of the usage that follows
        for entry in usage if dspy.settings.usage_tracker else ():
            dspy.settings.usage_tracker.add_usage(self.model, dict(entry))
        if served and ledger is not None:
            ledger.note_model(served)

    def _give_again(self, call: Call, is_paid: bool, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Return the answer of a recorded call or raise its error. Notifies the same listeners as a live request."""

        def request(instance: dspy.BaseLM, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
            """A stand-in for a request, with the signature that DSPy's callbacks expect."""

        ledger = get_playing().ledger
        if ledger is not None:
            ledger.is_paid = is_paid
        for kind, usage in call.failed:
            with_callbacks(request)(self, prompt, messages=messages, **kwargs)
            self._book(usage)
            if kind and ledger is not None:
                ledger.count_failure(kind)
        if call.error is not None:
            raise restore_error(call.error)
        with_callbacks(request)(self, prompt, messages=messages, **kwargs)
        self._book(call.usage, call.served, call.cut)
        return list(call.answer or [])

    def update_history(self, entry: dict[str, Any]) -> None:
        """Take the model's name and changed settings from DSPy's entry of a request."""
        heard = dspy.settings.get("usage_tracker")
        if isinstance(heard, RequestTracker):
            heard.name = "" if self.is_player else str(entry.get("response_model") or "")[:LONGEST_NAME]
            notes = [note for note in entry.get("adaptations") or () if note.field.removeprefix("config.") in DECODING]
            heard.changed = ", ".join(f"{note.field.removeprefix('config.')} is {note.action}" for note in notes)
        if not isinstance(heard, RequestTracker) or heard.kept:
            super().update_history(entry)  # type: ignore[misc]

    def send(self, heard: RequestTracker, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Ask the model itself, once and within its timeout."""

        def send_tracked() -> Any:
            with dspy.context(usage_tracker=heard, disable_history=False):
                return super(Logged, self).__call__(prompt, messages=messages, **kwargs)  # type: ignore[misc]

        seconds = self.kwargs.get("timeout")
        streamed = dspy.settings.send_stream is not None  # chunks come from the thread that was asked
        return send_tracked() if seconds is None or streamed else call_with_timeout(seconds, send_tracked, self.model)


class LoggedLM(Logged, dspy.LM):
    """A model of a backend."""


@functools.cache
def _add_logging(kind: type[dspy.BaseLM]) -> type[dspy.BaseLM]:
    return type(kind.__name__, (Logged, kind), {"__module__": kind.__module__})


def make_logged(lm: dspy.BaseLM) -> dspy.BaseLM:
    """Return a copy of a model whose calls are logged, with all that is set on it; they go into its own history."""
    if isinstance(lm, Logged):
        return lm
    logged: Any = lm.copy()
    kind: Any = type(lm)
    logged.__class__ = _add_logging(kind)
    logged.history = lm.history
    runtime = get_playing().runtime
    logged.patience = RequestRetrier(lm.num_retries, LONGEST_WAIT, runtime.stopped if runtime else lambda: False)
    logged.num_retries = 0
    return logged


class Listening:
    """An adapter that lets a logged copy of the model answer that DSPy has chosen."""

    def __init__(self, adapter: dspy.Adapter):
        self.adapter = adapter

    def __getattr__(self, name: str) -> Any:
        if name == "adapter":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.adapter, name)

    __class__: Any = property(lambda self: type(self.adapter))  # streaming knows adapters by their class

    def __call__(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> Any:
        return self.adapter(make_logged(lm), *asked, **named)

    async def acall(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> Any:
        return await self.adapter.acall(make_logged(lm), *asked, **named)


def _drop_overlong_texts(answer: Any) -> tuple[Any, bool]:
    """Return the answer's texts, with overlong ones emptied, and whether any was overlong."""
    texts = [text["text"] if isinstance(text, dict) else text for text in answer]
    if not any(isinstance(text, str) and len(text) > LONGEST_ANSWER for text in texts):
        return answer, False
    return [text if len(text or "") <= LONGEST_ANSWER else "" for text in texts], True


class _CutOff(logging.Filter):
    """Counts DSPy's warnings of truncated answers instead of printing each."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = dspy.settings.get("usage_tracker")
        if not isinstance(heard, RequestTracker) or "truncated" not in record.msg:
            return True
        heard.cut = True
        return False


logging.getLogger("dspy.clients.lm").addFilter(_CutOff())
