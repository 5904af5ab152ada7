"""Limits of a request: its total time, the length of its answer, and its host.

    answer = call_with_timeout(120.0, lambda: client.complete(request))
    import_litellm().embedding(...)             # follows no redirect

Clients limit only the wait for the next byte, so a server that sends a byte now and then could hold them for ever. The
request therefore runs in its own thread, which is abandoned after the timeout. The thread ends with the next byte or
with the client's own limit, and never keeps the process alive.

No request follows a redirect, because clients send most headers with keys along to the other host. DSPy's own client
follows none; LiteLLM's are told not to.
"""

import contextvars
import ctypes
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST_ANSWER = 100_000
"""Maximum characters of an answer. Longer ones are not read, because they would fill records and later prompts."""


class RequestTimeout(Exception):
    """A request exceeded its total time."""

    status_code = 408
    """The HTTP status that a server would use."""


class _RequestAbandoned(BaseException):
    """Ends the thread of an abandoned request."""


def call_with_timeout(seconds: float, request: Callable[[], T]) -> T:
    """Return the result of `request` or raise its error; raises `RequestTimeout` after `seconds`."""
    answer: Future[T] = Future()
    context = contextvars.copy_context()

    def run_request() -> None:
        try:
            answer.set_result(context.run(request))
        except BaseException as error:  # of any kind: the waiting thread raises it
            answer.set_exception(error)

    thread = threading.Thread(target=run_request, name="request", daemon=True)
    thread.start()
    try:
        if not wait([answer], seconds).done:
            raise RequestTimeout(f"no complete answer within {seconds:g} s (setting timeout)")
    finally:
        if not answer.done():
            _interrupt_thread(thread)
    return answer.result()


def _interrupt_thread(thread: threading.Thread) -> None:
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_RequestAbandoned))


@cache
def import_litellm() -> Any:
    """Import LiteLLM, which takes seconds, and make the clients that it creates from now on follow no redirect."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
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
