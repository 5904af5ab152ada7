"""What becomes of a request that fails. One table; errors are DSPy's, whatever provider they came from.

    retry      it may pass: asked again after a wait, then the trial is an error
    suspect    the trial is an error, and the backend may be dead
    fail       the trial is an error for what this request says; others may pass
    stop       it would hit every unit: the run stops at once

An answer that came and cannot be read is none of these: it is a step that does nothing, counted as malformed.
"""

from typing import Literal

from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMLockTimeoutError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
    LMUnsupportedFeatureError,
    LMUnsupportedModelError,
)

from rsso_dspy.errors import BackendFailure, MissingKey
from rsso_dspy.records import Failure

__all__ = ["POLICIES", "Policy", "classify", "lookup_policy", "lookup_recorded_policy"]

Policy = Literal["retry", "suspect", "fail", "stop"]

POLICIES: dict[type[Exception], Policy] = {
    LMRateLimitError: "retry",  # 429
    LMServerError: "retry",  # 5xx, overloaded
    LMTimeoutError: "retry",
    LMTransportError: "retry",  # refused, reset or dropped connection
    LMLockTimeoutError: "retry",
    LMAuthError: "stop",  # 401, 403
    LMBillingError: "stop",  # 402, no credit
    LMConfigurationError: "stop",
    LMUnsupportedModelError: "stop",  # 404, model not found
    LMUnsupportedFeatureError: "stop",
    MissingKey: "stop",
    LMInvalidRequestError: "fail",  # 400: context overflow, refused content
    LMError: "suspect",  # anything else, an answer of no known form too
    BackendFailure: "suspect",
}
"""Error to policy; a subclass that is not named goes with the nearest class above it."""


NO_CREDIT = ("insufficient_quota", "exceeded_current_quota", "credit balance is too low")
"""How providers say, under the status of a rate limit or of a bad request, that an account is empty."""

REFUSED_SETTING = ("unsupported_value", "unsupported_parameter")
"""Codes of a bad request whose settings a model does not take; some providers begin with the setting instead."""


def classify(error: LMError) -> type[LMError]:
    """The class of an error, or the narrower one that its wording or status asks for: what is not there, be it a model
    or a path, an empty account and a setting that the model does not take hit every request, however reported."""
    said = f"{error.provider_code} {error.message}".lower()
    if isinstance(error, LMInvalidRequestError | LMRateLimitError) and any(words in said for words in NO_CREDIT):
        return LMBillingError
    if isinstance(error, LMInvalidRequestError) and error.status == 404:
        return LMUnsupportedModelError
    setting = error.message.lstrip("`").startswith(("temperature", "max_tokens:"))
    if isinstance(error, LMInvalidRequestError) and (setting or error.provider_code in REFUSED_SETTING):
        return LMUnsupportedFeatureError
    if isinstance(error, LMTransportError) and "timed out" in said:
        return LMTimeoutError
    return type(error)


def lookup_policy(error: type[BaseException]) -> Policy | None:
    """The policy of an error; None for one that is not the model's side."""
    return next((POLICIES[kind] for kind in error.__mro__ if kind in POLICIES), None)


def lookup_recorded_policy(failure: Failure | None) -> Policy | None:
    """The policy of the error that a record tells of; None for one that is not the model's side."""
    return _BY_NAME.get(failure.kind) if failure else None


def _collect_subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_collect_subclasses(sub) for sub in kind.__subclasses__()))


_BY_NAME = {
    kind.__name__: lookup_policy(kind) for base in (LMError, BackendFailure) for kind in _collect_subclasses(base)
}
