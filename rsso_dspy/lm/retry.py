"""Retries of failed requests. Threads that share a backend slow down together.

    patience = RequestRetrier(retries=4, longest=60.0)
    answer = patience.send_with_retries(lambda: client.complete(request))

The wait is the server's Retry-After, otherwise it doubles from one second, with jitter so that threads do not return
together. A rate limit makes every thread wait and halves the number of concurrent requests; each round of successes
allows one more.
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from dspy.utils.exceptions import LMError, LMRateLimitError

from rsso_dspy.errors import Stopped
from rsso_dspy.lm.error_policy import lookup_policy
from rsso_dspy.playing import get_playing

T = TypeVar("T")

TICK = 0.2
"""Seconds between a waiting thread's checks whether it should stop."""


class RequestRetrier:
    """Retries of one backend, shared by its threads. `longest` is the longest wait in seconds: if a server asks for
    more, the request fails. Waiting threads call `stopped` and raise `Stopped` when it returns True."""

    def __init__(self, retries: int, longest: float, stopped: Callable[[], bool] = lambda: False):
        self.retries = retries
        self.longest = longest
        self.stopped = stopped
        self.limit: int | None = None
        """Number of concurrent requests allowed; None until the first rate limit."""
        self._active = 0
        self._passed = 0
        self._until = 0.0
        self._turn = threading.Condition()

    def send_with_retries(self, request: Callable[[], T]) -> T:
        """Return the answer. Raises the last error if all attempts fail, and any lasting error at once."""
        for attempt in range(self.retries + 1):
            self._wait_for_permit()
            try:
                answer = request()
            except BaseException as error:
                wait = self.wait_after(error, attempt)
                throttled = isinstance(error, LMRateLimitError)
                self._release_permit(throttled=wait if throttled else None)
                ledger = get_playing().ledger
                if ledger is not None and isinstance(error, LMError):
                    ledger.count_failure(type(error).__name__)
                if wait is None:
                    raise
            else:
                self._release_permit(passed=True)
                return answer
            self._sleep_unless_stopped(0.0 if throttled else wait)
        raise AssertionError("unreachable")

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        if lookup_policy(type(error)) != "retry" or attempt == self.retries:
            return None
        asked = getattr(error, "retry_after", None)
        if asked is not None:
            return asked if asked <= self.longest else None
        return min(2.0**attempt, self.longest) * random.uniform(0.75, 1.25)

    def _wait_for_permit(self) -> None:
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


def read_retry_after(error: BaseException) -> float | None:
    """Return the wait that a server asked for, from the headers that LiteLLM keeps in a cause of the error."""
    below: BaseException | None = error
    while below is not None:
        headers = getattr(below, "litellm_response_headers", None) or {}
        with suppress(ValueError):
            return max(0.0, float(headers.get("retry-after", "")))
        below = below.__cause__
    return None
