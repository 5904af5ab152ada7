"""Language models whose calls are logged, retried and booked.

lm = LoggedLM("openai/gpt-4.1-mini", RequestRetrier(retries=4, longest=60.0), temperature=0.0)      # a dspy.LM
with dspy.context(adapter=Listening(dspy.ChatAdapter())):
    dspy.Predict("question -> answer")(question="...")              # whatever model answers here, its calls are logged
"""

import functools
import logging
import re
from collections.abc import Callable
from typing import Any

import dspy
from dspy.utils.exceptions import (
    LMError,
    LMProviderError,
    LMTimeoutError,
    LMUnsupportedFeatureError,
    LMUnsupportedModelError,
)

from rsso_dspy.errors import UsageError, find_shortage
from rsso_dspy.lm.error_policy import classify
from rsso_dspy.lm.recording import ERROR_FIELDS, Attempts, ask_logged
from rsso_dspy.lm.request_limits import LONGEST_ANSWER, RequestTimeout, call_with_timeout
from rsso_dspy.lm.retry import RequestRetrier, read_retry_after
from rsso_dspy.lm.served import LONGEST_NAME, describe_models, list_models
from rsso_dspy.playing import get_playing
from rsso_dspy.redact import redact, register_secret

ADVICE = re.compile(r"\n\n +(?:credential came from|To fix):.*", re.S)
"""Advice that DSPy's client appends to a provider's message, about settings that do not exist here."""

DECODING = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "max_completion_tokens", "seed")
"""Options of a request that control decoding."""

LONGEST_WAIT = 60.0
"""Longest wait in seconds that a server may ask for where no configuration says it."""

UNREAD = ""
"""Replaces an answer that is too long to read."""


class RequestTracker:
    """What the client reports about one request. It replaces DSPy's usage tracker during the request, so that an
    abandoned request adds no usage to the trial that continued without it."""

    def __init__(self) -> None:
        self.usage: list[dict[str, Any]] = []
        self.name = ""
        """Model name that the server reported."""
        self.changed = ""
        """Description of decoding settings that the client omitted or changed."""
        self.cut = False
        """Whether the server reported that it truncated the answer."""
        self.kept = not dspy.settings.disable_history
        """Whether the request goes into DSPy's histories."""

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.usage.append(usage)


class Logged:
    """What a model does whose calls go through the log of the unit that is played: a mixin before a class of models.

    It retries through `patience`; DSPy's own retries are off, because they wait as long as a server asks. Its errors
    contain no keys. With a rollout number as `seeds`, each request has its own seed. With `replays` it sends nothing
    and a log answers. `asks_again` tells adapters whether to ask a second time, in another format, after an unreadable
    answer.
    """

    model: str
    kwargs: dict[str, Any]
    patience: RequestRetrier
    seeds: int | None = None
    replays = False
    asks_again = True

    @property
    def is_player(self) -> bool:
        """Whether no model answers, but the offline player, which has no decoding settings and no name to report."""
        return self.model.startswith("embedded/")

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        ledger = get_playing().ledger
        if ledger is not None:
            if self.seeds is not None:
                kwargs = {"seed": ledger.draw_seed(self.seeds), **kwargs}
            settings = {**self.kwargs, **kwargs}
            if not self.is_player:
                ledger.note_settings({name: settings[name] for name in DECODING if settings.get(name) is not None})

        def send(attempts: Attempts) -> Any:
            if self.replays:
                raise UsageError(
                    f"{self.model} is not called: its backend answers from the log of a run, which only runs, compiles "
                    "and builds read; leave replay out of the backend's table to call the model"
                )
            if ledger is not None:
                ledger.is_paid = False
            return self.patience.send_with_retries(
                lambda: self._request_once(prompt, messages, kwargs, ledger, attempts)
            )

        return ask_logged(self, prompt, messages, kwargs, send)

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        return await dspy.asyncify(self.__call__)(prompt, messages=messages, **kwargs)

    def update_history(self, entry: dict[str, Any]) -> None:
        """Take the model name and changed settings from DSPy's entry of a request, and pass it on to the history if
        that is wanted."""
        heard = dspy.settings.get("usage_tracker")
        if isinstance(heard, RequestTracker):
            heard.name = "" if self.is_player else str(entry.get("response_model") or "")
            notes = [note for note in entry.get("adaptations") or () if note.field.removeprefix("config.") in DECODING]
            heard.changed = ", ".join(f"{note.field.removeprefix('config.')} is {note.action}" for note in notes)
            if heard.kept:
                super().update_history(entry)  # type: ignore[misc]
        else:
            super().update_history(entry)  # type: ignore[misc]

    def _request_once(self, prompt: Any, messages: Any, kwargs: dict[str, Any], ledger: Any, attempts: Attempts) -> Any:
        heard = RequestTracker()
        attempts.begin()
        try:
            answer = self._request_with_timeout(prompt, messages, kwargs, heard)
        except RequestTimeout as error:
            failure: Exception = LMTimeoutError(str(error), model=self.model)
        except LMError as error:
            # A shortage on this machine is not the provider's fault, and retrying does not help.
            failure = find_shortage(error) or self._name_models(_normalize_error(error))
        else:
            if heard.changed:
                failure = LMUnsupportedFeatureError(
                    f"{heard.changed} on the way to {self.model}, which does not support it: change the setting of the "
                    "backend, or leave it out",
                    model=self.model,
                )
            elif answer != []:
                answer, is_overlong = _drop_overlong_texts(answer)
                cut = is_overlong or heard.cut or (ledger is not None and ledger.is_cut(heard.usage))
                attempts.end(answer, heard.usage, heard.name[:LONGEST_NAME], cut)
                self._report_request_usage(heard, ledger, cut)
                return answer
            else:
                failure = LMProviderError("a response without any choice", model=self.model)
        attempts.fail(type(failure).__name__ if isinstance(failure, LMError) else "", heard.usage)
        self._report_request_usage(heard, ledger, heard.cut)
        raise failure  # outside the handler: otherwise its cause would be printed too, with keys

    def _name_models(self, error: LMError) -> LMError:
        """Add the server's models to the error of a missing model; return other errors unchanged."""
        if not isinstance(error, LMUnsupportedModelError):
            return error
        served = describe_models(list_models(self.kwargs.get("api_base"), self.kwargs.get("api_key")))
        if not served:
            return error
        known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
        return type(error)(message=redact(f"{error.message} ({served})"), **known)

    def _request_with_timeout(self, prompt: Any, messages: Any, kwargs: dict[str, Any], heard: RequestTracker) -> Any:
        def send_tracked() -> Any:
            with dspy.context(usage_tracker=heard, disable_history=False):
                return super(Logged, self).__call__(prompt, messages=messages, **kwargs)  # type: ignore[misc]

        seconds = self.kwargs.get("timeout")
        streamed = dspy.settings.send_stream is not None  # chunks come from the thread that was asked
        return send_tracked() if seconds is None or streamed else call_with_timeout(seconds, send_tracked)

    def _report_request_usage(self, heard: RequestTracker, ledger: Any, cut: bool) -> None:
        if cut and ledger is not None:
            ledger.note_truncated()
        if tracker := dspy.settings.usage_tracker:
            for usage in heard.usage:
                tracker.add_usage(self.model, usage)
        if heard.name and ledger is not None:
            ledger.note_model(heard.name[:LONGEST_NAME])


class LoggedLM(Logged, dspy.LM):
    """A model of a backend."""

    def __init__(
        self,
        model: str,
        patience: RequestRetrier,
        seeds: int | None = None,
        replays: bool = False,
        asks_again: bool = True,
        **options: Any,
    ):
        register_secret(options.get("api_key"))
        super().__init__(model, num_retries=0, **options)
        self.patience, self.seeds, self.replays, self.asks_again = patience, seeds, replays, asks_again


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
    logged.patience = RequestRetrier(lm.num_retries, LONGEST_WAIT, get_stop())
    logged.num_retries = 0
    return logged


def get_stop() -> Callable[[], bool]:
    runtime = get_playing().runtime
    return runtime.stopped if runtime is not None else lambda: False


class Listening:
    """An adapter that lets a logged copy of the model at hand answer. It is the one place that sees the model that
    DSPy has chosen."""

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
    return [text if len(text or "") <= LONGEST_ANSWER else UNREAD for text in texts], True


class _CutOff(logging.Filter):
    """Counts DSPy's warnings of truncated answers instead of printing each."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = dspy.settings.get("usage_tracker")
        if not isinstance(heard, RequestTracker) or "truncated" not in record.msg:
            return True
        heard.cut = True
        return False


logging.getLogger("dspy.clients.lm").addFilter(_CutOff())


def _normalize_error(error: LMError) -> LMError:
    """Return the error with its narrower class and only the provider's message, without keys: providers quote the keys
    that they refuse, and messages end up in records."""
    text = redact(ADVICE.sub("", error.message))
    known = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    if known["retry_after"] is None:
        known["retry_after"] = read_retry_after(error)
    return classify(error)(message=text, **known)
