"""What the errors of models mean: whether a request is sent again, a trial is an error, or the run stops.

    lookup_policy(LMRateLimitError)             # "retry"
    normalize_error(error, response)            # with the server's own words, and what helps

Errors are those of DSPy, whichever client raised them.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from dspy.utils import exceptions
from dspy.utils.exceptions import LMError, LMInvalidRequestError, LMRateLimitError, LMTimeoutError, LMTransportError

from rsso_dspy.errors import BackendFailure, BackendUnreachable, MissingKey, find_shortage, list_causes
from rsso_dspy.records import Failure
from rsso_dspy.redact import redact
from rsso_dspy.replies import ErrorResponse, MissingAnswer, make_writable

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
RATE_LIMIT = ("rate_limit", "rate limit", "tokens per minute", "requests per minute")
REFUSED_SETTING = ("unsupported_value", "unsupported_parameter")  # codes of settings that a model does not take

SAMPLING = ("temperature", "top_p", "top_k", "repetition_penalty", "seed")
LENGTHS = ("max_tokens", "max_completion_tokens")
REFUSES = re.compile(r"(?i)deprecated|unsupported|not support|not allowed|not permitted|unrecognized|unknown")
BOUNDS = re.compile(r"(?i)must be|only the default|out of range|invalid value")
"""How servers say that they take no such setting, and that they do not take its value."""

REFUSES_SYSTEM = re.compile(
    r"(?i)system (?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b|\broles? .?system.? .{0,20}\bnot\b"
    r"|roles must alternate|only (?:supports? )?(?:the )?.?user.? and .?assistant|developer instruction is not enabled"
)
"""How servers say that the model takes no system message, or no second role at the beginning."""


def find_refused_setting(words: str) -> str:
    """Return the setting of decoding that a server does not take, by its words; an empty text if it speaks of none.
    That a prompt leaves no room for an answer is not the setting's fault."""
    for name in SAMPLING:
        if re.search(rf"\b{name}\b", words) and (REFUSES.search(words) or BOUNDS.search(words)):
            return name
    for name in LENGTHS:
        if words.startswith(f"{name}: ") or (re.search(rf"\b{name}\b", words) and REFUSES.search(words)):
            return name
    return ""


def classify(error: LMError, words: str = "", has_system: bool = False) -> type[LMError]:
    """Return the class of an error, or a narrower one by its status and by the server's words. A missing model or path,
    an empty account, an unsupported setting and an unsupported role affect every request, however they are reported."""
    text = f"{error.provider_code} {words or error.message}"
    lowered = text.lower()
    if error.status == 413 and any(sign in lowered for sign in RATE_LIMIT):
        return LMRateLimitError
    if isinstance(error, LMInvalidRequestError | LMRateLimitError) and any(sign in lowered for sign in NO_CREDIT):
        return exceptions.LMBillingError
    if isinstance(error, LMInvalidRequestError):
        if error.status == 404:
            return exceptions.LMUnsupportedModelError
        if error.provider_code in REFUSED_SETTING or find_refused_setting(words or error.message):
            return exceptions.LMUnsupportedFeatureError
    is_refusal = isinstance(error, LMInvalidRequestError | exceptions.LMServerError)  # llama.cpp sends 500
    if is_refusal and has_system and REFUSES_SYSTEM.search(text):
        return exceptions.LMUnsupportedFeatureError
    if isinstance(error, LMTransportError) and "timed out" in lowered:
        return LMTimeoutError
    return type(error)


Form = Literal["system", "max_completion_tokens"]
"""Another form of a request that asks the same: instructions in the first user message in place of a system message,
and the limit of tokens under its new name."""


def find_other_form(words: str) -> Form | None:
    """Return the form in which a server may take a request that it refused with these words; None if none is known."""
    if find_refused_setting(words) in LENGTHS and "max_completion_tokens" in words:
        return "max_completion_tokens"
    return "system" if REFUSES_SYSTEM.search(words) else None


def advise(words: str, model: str, has_system: bool) -> str:
    """Return what helps against a server's refusal; an empty text where nothing is known."""
    setting = find_refused_setting(words)
    if setting in SAMPLING:
        return (
            f'Leave it out: {setting} = "none" in the backend\'s table, or --set backends.NAME.{setting}=none (NAME is '
            "model where --model names it)"
        )
    if setting == "max_tokens" and model.startswith("azure/"):
        return f"Say so in the name: azure/gpt5_series/{model.removeprefix('azure/')}"
    if setting in LENGTHS:
        return 'Send no limit: max_tokens = "none" in the backend\'s table, or --set backends.NAME.max_tokens=none'
    if has_system and REFUSES_SYSTEM.search(words):
        return (
            'If the model takes no system message: system = "user" in the backend\'s table, or --set '
            "backends.NAME.system=user (NAME is model where --model names it), puts it into the first user message"
        )
    return ""


def lookup_policy(error: type[BaseException]) -> Policy | None:
    """Return the policy of an error; None if the error does not come from the model's side."""
    return next((POLICIES[kind] for kind in error.__mro__ if kind in POLICIES), None)


def lookup_recorded_policy(failure: Failure | None) -> Policy | None:
    """Return the policy of a recorded failure; None if it did not come from the model's side."""
    own_kinds = {kind.__name__: kind for kind in (BackendFailure, MissingKey, BackendUnreachable)}
    kind = own_kinds.get(failure.kind) or getattr(exceptions, failure.kind, None) if failure else None
    return lookup_policy(kind) if isinstance(kind, type) else None


ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")  # kept besides the message
ADVICE = re.compile(r"\n\n +(?:credential came from|To fix):.*", re.S)
"""Advice that DSPy's client appends to a provider's message, about settings that do not exist here."""


def normalize_error(
    error: LMError, response: ErrorResponse | None = None, model: str = "", has_system: bool = False
) -> Exception:
    """Return the error with its narrower class, in the server's own words with what helps, without keys, which
    providers quote. A shortage on this machine is returned as itself: it is not the provider's fault, and retrying does
    not help.

    `response` is what the server sent; `has_system` says whether the request held a system message."""
    if shortage := find_shortage(error):
        return shortage
    fields = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    for below in list_causes(error) if fields["retry_after"] is None else ():
        with suppress(ValueError):  # LiteLLM keeps the headers in a cause of the error
            retry_after = (getattr(below, "litellm_response_headers", None) or {}).get("retry-after", "")
            fields["retry_after"] = max(0.0, float(retry_after))
            break

    message = ADVICE.sub("", error.message)
    if response is not None and not isinstance(error, LMTransportError | LMTimeoutError):
        fields["status"] = error.status = response.status
        message = _quote_response(error, response)
    message = redact(make_writable(message))
    kind = classify(error, message, has_system)
    advice = advise(message, model, has_system) if kind is exceptions.LMUnsupportedFeatureError else ""
    if advice:
        message = f"{message.rstrip('.')}. {advice}"
    return kind(message=message, **make_writable(fields))


def _quote_response(error: LMError, response: ErrorResponse) -> str:
    """Return a server's words, with its status and the code of the error where they do not say it."""
    words = response.words or "the server said nothing"
    codes = [str(response.status)]
    if error.provider_code and error.provider_code not in (words, *codes):
        codes.append(error.provider_code)
    unsaid = [code for code in codes if code not in words]
    return f"{words} ({', '.join(unsaid)})" if unsaid else words


LASTING = (LMRateLimitError, exceptions.ContextWindowExceededError)
"""Errors that keep their class although they come with a status of 200: their code says what they are."""


def explain_missing_answer(error: LMError | None, missing: MissingAnswer, model: str) -> LMError:
    """Return the error of a response that holds no answer. A filter that withheld it would do so again. Anything else
    is the server's, and is retried, unless the client knows from a code in it that it is another."""
    if missing.is_filtered:
        return LMInvalidRequestError(message=missing.words, model=model, provider_code="content_filter")
    message = f"the server sent no answer: {missing.words}"
    if error is None or not (lookup_policy(classify(error)) == "stop" or isinstance(error, LASTING)):
        return exceptions.LMServerError(message=message, model=model)
    if missing.words not in error.message:
        error.message = message
    return error


def dump_error(error: LMError) -> dict[str, Any]:
    fields = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    return {"kind": type(error).__name__, "message": error.message, **fields}


def restore_error(record: Mapping[str, Any]) -> LMError:
    kind = getattr(exceptions, str(record.get("kind")), LMError)
    kind = kind if isinstance(kind, type) and issubclass(kind, LMError) else LMError
    fields = {name: value for name, value in record.items() if name not in ("kind", "message") and value is not None}
    return kind(message=str(record.get("message")), **fields)
