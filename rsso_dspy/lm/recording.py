"""Calls of models through the log of a unit: answered from earlier lines, or sent, and written down either way."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import dspy
from dspy.utils import exceptions
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import LMError

from rsso_dspy.calls import Call, CallLines, Place, make_plain
from rsso_dspy.errors import RssoError, Stopped
from rsso_dspy.playing import get_playing

ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")
"""Attributes of an error that are kept besides its message."""

WAYS = (
    "api_key", "api_base", "base_url", "timeout", "num_retries", "prompt_cache", "engine", "headers", "extra_headers",
    "rollout_id",
)  # fmt: skip
"""Options that only say how the model is reached. No answer depends on them, and some are secret, so they are not
written."""


class Attempts:
    """What one call of a model took, as it comes."""

    def __init__(self, calls: CallLines | None, number: int):
        self._calls = calls
        self._number = number
        self.begun = time.perf_counter()

    def begin(self) -> None:
        self.begun = time.perf_counter()

    def fail(self, kind: str, usage: list[dict[str, Any]]) -> None:
        if self._calls is not None:
            self._calls.fail(self._number, kind, usage)

    def end(self, answer: Any, usage: list[dict[str, Any]], served: str = "", cut: bool = False) -> None:
        if self._calls is not None:
            seconds = round(time.perf_counter() - self.begun, 3)
            self._calls.end(self._number, answer=answer, usage=usage, served=served, cut=cut, seconds=seconds)

    def end_with_error(self, error: LMError) -> None:
        if self._calls is not None:
            said = {name: getattr(error, name, None) for name in ERROR_FIELDS}
            self._calls.end(self._number, error={"kind": type(error).__name__, "message": error.message, **said})


def ask_logged(
    lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], send: Callable[[Attempts], Any]
) -> Any:
    """Return a model's answer: from the unit's log, or from the log that is replayed, if they have it, else from
    `send`, which writes its attempts.

    Raises errors of `send`, live or recorded, and `Stopped` from `NotRecorded` if the replayed log lacks the request.
    """
    at = get_playing()
    if at.calls is None:
        return send(Attempts(None, 0))
    ledger = at.ledger
    place = Place(ledger.trial, ledger.attempt, ledger.step, ledger.speaker) if ledger else Place(0, 0, 0, "")
    request = describe_request(lm, prompt, messages, kwargs)
    try:
        found = at.calls.find(place, request)
    except RssoError as error:  # callers may treat any other error as the model's and ask again
        raise Stopped from error
    if found is not None:
        call, is_own = found
        if not is_own:
            at.calls.copy(call)
        return _give_again(lm, prompt, messages, kwargs, call, is_own)
    attempts = Attempts(at.calls, at.calls.begin(place, request))
    try:
        return send(attempts)
    except LMError as error:
        attempts.end_with_error(error)
        raise


def recall_vectors(model: str, texts: Iterable[str]) -> dict[str, bytes]:
    """Return vectors by text from the log that is replayed; empty if none is or it holds no vectors. Raises `Stopped`
    from `NotRecorded` for a text that it lacks."""
    calls = get_playing().calls
    try:
        return calls.find_vectors(model, texts) if calls is not None else {}
    except RssoError as error:
        raise Stopped from error


def keep_vectors(model: str, vectors: Mapping[str, bytes]) -> None:
    """Write vectors to the log of the unit, if there is one."""
    at = get_playing()
    if at.calls is not None:
        at.calls.keep_vectors(at.ledger.trial if at.ledger else 0, model, vectors)


def is_logged() -> bool:
    return get_playing().calls is not None


def describe_request(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as data: model, messages and all parameters that answers depend on."""
    settings = {name: value for name, value in {**lm.kwargs, **kwargs}.items() if name not in WAYS}
    known = {name: value for name, value in sorted(settings.items()) if value is not None}
    return {
        "model": lm.model,
        "messages": messages if messages is not None else [{"role": "user", "content": prompt}],
        "parameters": json.loads(json.dumps(known, default=make_plain)),
    }


def _give_again(
    lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], call: Call, is_paid: bool
) -> Any:
    """Return the answer of a call or raise its error. Notifies the same listeners as a live request: DSPy's callbacks,
    usage trackers and the ledger, to which it costs nothing more if it was paid in this very trial."""
    ledger = get_playing().ledger
    if ledger is not None:
        ledger.is_paid = is_paid
    for kind, usage in call.failed:
        _notify(lm, prompt, messages, kwargs, usage)
        if kind and ledger is not None:
            ledger.count_failure(kind)
    if call.error is not None:
        raise restore_error(call.error)
    if ledger is not None and call.cut:
        ledger.note_truncated()
    _notify(lm, prompt, messages, kwargs, call.usage)
    if ledger is not None and call.served:
        ledger.note_model(call.served)
    return list(call.answer or [])


def _notify(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], usage: Iterable[Any]) -> None:
    def request(instance: dspy.BaseLM, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """A stand-in for a request, with the signature that DSPy's callbacks expect."""

    with_callbacks(request)(lm, prompt, messages=messages, **kwargs)
    if tracker := dspy.settings.usage_tracker:
        for entry in usage:
            tracker.add_usage(lm.model, dict(entry))


def restore_error(said: Mapping[str, Any]) -> LMError:
    """Restore the recorded error of a model's client."""
    kind = getattr(exceptions, str(said.get("kind")), LMError)
    kind = kind if isinstance(kind, type) and issubclass(kind, LMError) else LMError
    about = {name: value for name, value in said.items() if name not in ("kind", "message") and value is not None}
    error: LMError = kind(message=str(said.get("message")), **about)
    return error
