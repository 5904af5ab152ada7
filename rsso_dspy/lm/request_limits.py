"""What a request may take: seconds as a whole, whatever the server does, and characters of its answer.

    answer = call_with_timeout(120.0, lambda: client.complete(request))

Clients bound the wait for the next byte alone, so that a server which sends one now and then holds them for ever. The
request therefore runs in a thread of its own, which is given up when its time is over: it ends with the next byte, or
with the client's own limit, and never keeps the process from ending.
"""

import contextvars
import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")

LONGEST_ANSWER = 100_000
"""Characters. A longer answer is not read: it would stand in records and in the prompts that follow."""


class RequestTimeout(Exception):
    """A request that took longer than it may."""

    status_code = 408
    """As a server would say it."""


class _RequestAbandoned(BaseException):
    """Ends the thread of a request that nobody waits for."""


def call_with_timeout(seconds: float, request: Callable[[], T]) -> T:
    """The answer, or what the request raises; `RequestTimeout` when neither came in so many seconds."""
    answer: Future[T] = Future()
    context = contextvars.copy_context()

    def run_request() -> None:
        try:
            answer.set_result(context.run(request))
        except BaseException as error:  # of any kind: it is raised where the answer is waited for
            answer.set_exception(error)

    thread = threading.Thread(target=run_request, name="request", daemon=True)
    thread.start()
    try:
        if not wait([answer], seconds).done:
            raise RequestTimeout(f"no whole answer within {seconds:g} s (setting timeout)")
    finally:
        if not answer.done():
            _interrupt_thread(thread)
    return answer.result()


def _interrupt_thread(thread: threading.Thread) -> None:
    """Raise in another thread, as soon as it runs again."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_RequestAbandoned))
