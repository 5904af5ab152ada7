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

from rsso_dspy.errors import BackendFailure, BackendUnreachable, SimulatorDied, Stopped
from rsso_dspy.logged_lm import RequestRetrier, lookup_policy, lookup_recorded_policy
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


@pytest.mark.parametrize("error", [LMServerError("busy"), LMTransportError("reset"), LMRateLimitError("slow down")])
def test_what_may_pass_is_asked_again(error):
    request = Flaky(error, error)
    assert patience().send_with_retries(request) == "answer"
    assert len(request.asked) == 3


@pytest.mark.parametrize(
    "error", [LMAuthError("key"), ContextWindowExceededError(), LMUnsupportedModelError("none"), ValueError("bug")]
)
def test_what_asking_again_cannot_mend_is_raised_at_once(error):
    request = Flaky(error)
    with pytest.raises(type(error)):
        patience().send_with_retries(request)
    assert len(request.asked) == 1


def test_after_so_many_tries_the_last_error_is_raised():
    request = Flaky(*[LMServerError(str(number)) for number in range(5)])
    with pytest.raises(LMServerError, match="2"):
        patience(retries=2).send_with_retries(request)
    assert len(request.asked) == 3


def test_the_servers_own_wait_is_kept():
    request = Flaky(LMServerError("busy", retry_after=0.4))
    patience(longest=1.0).send_with_retries(request)
    assert request.asked[1] - request.asked[0] >= 0.4


def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for():
    request = Flaky(LMRateLimitError("tomorrow", retry_after=86400.0))
    with pytest.raises(LMRateLimitError):
        patience().send_with_retries(request)


def test_a_rate_limit_holds_back_every_thread_and_halves_what_is_under_way():
    shared = patience(longest=1.0)
    gate, times, active, peak = threading.Barrier(4), [], [0], [0]
    lock = threading.Lock()

    def request(first):
        with lock:
            active[0] += 1
            peak[0] = max(peak[0], active[0])
        try:
            if first:
                gate.wait()
                raise LMRateLimitError("slow down", retry_after=0.3)
            times.append(time.monotonic())
            time.sleep(0.02)
        finally:
            with lock:
                active[0] -= 1

    def work():
        firsts = iter([True])
        shared.send_with_retries(lambda: request(next(firsts, False)))
        peak_before = peak[0]
        for _ in range(5):
            shared.send_with_retries(lambda: request(False))
        return peak_before

    begun = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: work(), range(4)))
    assert min(times) - begun >= 0.3
    assert shared.limit is not None
    assert shared.limit > 1, "successes let more through again"


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


def test_nothing_that_the_model_side_raises_is_without_policy():
    def below(kind):
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    from dspy.utils.exceptions import LMError

    assert all(lookup_policy(kind) for base in (LMError, BackendFailure) for kind in below(base))
