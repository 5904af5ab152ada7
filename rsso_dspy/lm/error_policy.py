"""Policies for failed requests, in one table. The errors are DSPy's, whatever the provider.

    retry      temporary: the request is repeated after a wait; after the last attempt the trial is an error
    suspect    the trial is an error, and the backend may be down
    fail       the trial is an error because of this request; other requests may succeed
    stop       the error would affect every unit: the run stops at once

An unreadable answer is not a failed request: it is a step that does nothing, counted as malformed.
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
    LMError: "suspect",  # anything else, also a response of unknown form
    BackendFailure: "suspect",
}
"""Error to policy; a subclass that is not listed has the policy of its nearest base class."""


NO_CREDIT = ("insufficient_quota", "exceeded_current_quota", "credit balance is too low")
"""Words by which providers report an empty account under the status of a rate limit or a bad request."""

REFUSED_SETTING = ("unsupported_value", "unsupported_parameter")
"""Codes of bad requests with settings that a model does not support; some messages begin with the setting instead."""


def classify(error: LMError) -> type[LMError]:
    """Return the class of an error, or a narrower one by its message or status. A missing model or path, an empty
    account and an unsupported setting affect every request, however the provider reports them."""
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
    """Return the policy of an error; None if the error does not come from the model's side."""
    return next((POLICIES[kind] for kind in error.__mro__ if kind in POLICIES), None)


def lookup_recorded_policy(failure: Failure | None) -> Policy | None:
    """Return the policy of a recorded failure; None if it did not come from the model's side."""
    return _BY_NAME.get(failure.kind) if failure else None


def _collect_subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_collect_subclasses(sub) for sub in kind.__subclasses__()))


_BY_NAME = {
    kind.__name__: lookup_policy(kind) for base in (LMError, BackendFailure) for kind in _collect_subclasses(base)
}
