import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMRateLimitError,
    LMServerError,
    LMTransportError,
    LMUnsupportedModelError,
)

from rsso_dspy.errors import BackendUnreachable, SimulatorDied, Stopped
from rsso_dspy.failures import lookup_policy, lookup_recorded_policy
from rsso_dspy.lm import RequestRetrier
from rsso_dspy.records import Failure


class Flaky:
    """Fails as told, then answers. Keeps when it was asked."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked = []

    def __call__(self):
        self.asked.append(time.monotonic())
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def patience(retries=3, longest=0.3, **more):
    return RequestRetrier(retries, longest, **more)


@pytest.mark.parametrize(
    ("errors", "retries", "asked"),
    [
        ([LMServerError("busy"), LMTransportError("reset"), LMRateLimitError("slow down")], 3, 4),
        ([LMServerError("busy")] * 5, 2, 3),
        ([LMRateLimitError("tomorrow", retry_after=86400.0)], 3, 1),
        ([LMAuthError("key")], 3, 1),
        ([ContextWindowExceededError()], 3, 1),
        ([LMUnsupportedModelError("none")], 3, 1),
        ([ValueError("bug")], 3, 1),
    ],
)
def test_what_may_pass_is_asked_again_and_nothing_else(errors, retries, asked):
    request = Flaky(*errors)
    if asked > len(errors):
        assert patience(retries).send_with_retries(request) == "answer"
    else:
        with pytest.raises(type(errors[0])):
            patience(retries).send_with_retries(request)
    assert len(request.asked) == asked


def test_a_rate_limit_holds_back_every_thread():
    shared, gate, times = patience(longest=1.0), threading.Barrier(4), []

    def work(number):
        firsts = iter([True])

        def request():
            if next(firsts, False):
                gate.wait()
                if number == 0:
                    raise LMRateLimitError("slow down", retry_after=0.3)
                time.sleep(0.1)
                raise LMServerError("busy", retry_after=0.0)
            times.append(time.monotonic())

        shared.send_with_retries(request)

    begun = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert len(times) == 4
    assert min(times) - begun >= 0.3


def test_who_waits_is_told_to_stop():
    stopping = threading.Event()
    shared = patience(longest=60.0, stopped=stopping.is_set)
    threading.Timer(0.1, stopping.set).start()
    with pytest.raises(Stopped):
        shared.send_with_retries(Flaky(LMRateLimitError("slow down", retry_after=50.0)))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LMRateLimitError, "retry"),
        (ContextWindowExceededError, "fail"),
        (LMUnsupportedModelError, "stop"),
        (BackendUnreachable, "suspect"),
        (SimulatorDied, None),
    ],
)
def test_a_recorded_error_has_the_policy_of_the_error(error, expected):
    assert lookup_policy(error) == lookup_recorded_policy(Failure(error.__name__, "whatever: was said")) == expected
