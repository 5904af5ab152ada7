"""A local HTTP server that speaks the providers' formats, answers and fails as it is told to, and keeps what arrived.

    with provider(lambda body: Said("hello"), faults={2: "overloaded"}) as served:
        ...                       # the second request is answered by 529 in Anthropic's words, or 503 in others'
    served.requests, served.headers, served.paths

What a request is, it sees by the path. One that the format does not allow is answered by 400 and says why.
"""

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.provider_faults import DRIPPING, FAULTS, Fault
from tests.provider_formats import CHAT, FORMATS, Format, Said

Reply = tuple[int, dict[str, Any]]

Answer = Callable[[dict[str, Any]], Reply | Said]

LONGEST_HANG = 120.0
"""Seconds after which a request that hangs is let go in any case; the end of the block lets go of all."""
DRIP = 0.3
"""Seconds between two bytes of an answer that drips: fewer than any client waits for the next."""
PATIENCE = 60.0
"""Seconds that requests may take to be read and answered once the block ends."""


@dataclass
class Provider:
    """The running server."""

    url: str
    """Its `base_url` for most providers."""
    _counting: threading.Condition = field(repr=False)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)
    """What was wrong with requests."""
    inflicted: list[int] = field(default_factory=list)
    """Numbers of the requests that met a fault."""
    given: int = 0
    """Whole answers that were sent, without those to requests that met a fault."""

    def heard(self, requests: int) -> int:
        """How many requests came, once these have: one that its sender gave up may be read a moment later."""
        with self._counting:
            self._counting.wait_for(lambda: len(self.requests) >= requests, PATIENCE)
            return len(self.requests)

    @property
    def root(self) -> str:
        """The address without a path."""
        return self.url.removesuffix("/v1")


def completion(text: str, prompt_tokens: int = 11, completion_tokens: int = 7) -> Reply:
    """A chat completion."""
    return 200, CHAT.answer(Said(text, prompt_tokens, completion_tokens))


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], kind: type[ThreadingHTTPServer] = ThreadingHTTPServer
) -> Iterator[str]:
    """Serve on 127.0.0.1 for the time of the block; gives the address."""
    handler.log_message = lambda *_: None  # type: ignore[method-assign]
    with kind(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def replying(reply: Callable[[str, Message, bytes], tuple[int, Mapping[str, object], bytes]]) -> Iterator[str]:
    """Serve likewise: path, headers and body of any request to status, headers and body of what is replied."""

    class Handler(BaseHTTPRequestHandler):
        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, data = reply(self.path, self.headers, body)
            self.send_response(status)
            for name, value in {"Content-Length": len(data), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_CONNECT = _reply

    with serving(Handler) as url:
        yield url


@contextmanager
def provider(answer: Answer, faults: Mapping[int, str] | None = None, wire: str = "openai") -> Iterator[Provider]:
    """Serve on 127.0.0.1 for the time of the block. `answer` maps a request body to what is said, or to a status and a
    body. `faults` maps the numbers of requests, from 1, to names of faults; 0 stands for every request. `wire` is the
    provider whose words are used for them."""
    released, counting = threading.Event(), threading.Condition()
    under_way = 0

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # the client is gone
                super().handle_error(request, client_address)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            nonlocal under_way
            with counting:
                under_way += 1
            try:
                self._answer()
            finally:
                with counting:
                    under_way -= 1
                    counting.notify_all()

        def do_GET(self) -> None:
            if "/models/" in self.path:  # every model that it is asked for is there
                self._send_json(200, {"id": self.path.rpartition("/")[2]})
            else:
                self._send(404, b"404 page not found", "text/plain")

        def _answer(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            number, form = self._keep(body), FORMATS.get(self.path)
            name = (faults or {}).get(number) or (faults or {}).get(0)
            if form is None:
                self._send(404, b"404 page not found", "text/plain")
            elif flaw := form.flaw(_lower(self.headers), body):
                served.flaws.append(flaw)
                self._send_json(400, {"error": {"type": "invalid_request_error", "message": flaw}})
            elif name:
                served.inflicted.append(number)
                self._fail((FAULTS | DRIPPING)[name], form, body)
            else:
                said = answer(body)
                self._send_json(*_in_form(said, form))
                with counting:
                    served.given += 1

        def _keep(self, body: dict[str, Any]) -> int:
            with counting:
                served.requests.append(body)
                served.headers.append(dict(self.headers.items()))
                served.paths.append(self.path)
                counting.notify_all()
                return len(served.requests)

        def _fail(self, fault: Fault, form: Format, body: dict[str, Any]) -> None:
            if fault.how in ("length", "refused", "filtered"):
                cut = {"text": _said(answer(body)).text[:10], "output": form.longest(body)}
                what = {"ending": fault.how, **(cut if fault.how == "length" else {})}
                self._send_json(200, form.answer(replace(_said(answer(body)), **what)))
            elif fault.how == "answer":
                self._send_json(*fault.reply(wire, form.key(_lower(self.headers))), fault.headers)
            elif fault.how == "raw":
                status, text = fault.raw
                self._send(status, text.encode(), "text/html" if "<" in text else "application/json", fault.headers)
            else:
                self._break_off(fault, json.dumps(form.answer(_said(answer(body)))).encode())

        def _break_off(self, fault: Fault, answer: bytes) -> None:
            if fault.how == "hang":
                released.wait(LONGEST_HANG)
            elif fault.how == "drip":
                self._drip(answer)
            elif fault.how in ("drop after headers", "cut"):
                self._start(200, len(answer), "application/json")
                self.wfile.write(answer[:40] if fault.how == "cut" else b"")
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def _drip(self, answer: bytes) -> None:
            """Send a byte now and then, until nobody reads them any more."""
            self._start(200, len(answer), "application/json")
            for byte in answer:
                if released.wait(DRIP):
                    return
                self.wfile.write(bytes([byte]))

        def _send_json(self, status: int, reply: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
            self._send(status, json.dumps(reply).encode(), "application/json", headers)

        def _send(self, status: int, data: bytes, kind: str, headers: Mapping[str, str] | None = None) -> None:
            self._start(status, len(data), kind, headers)
            self.wfile.write(data)

        def _start(self, status: int, length: int, kind: str, headers: Mapping[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": kind, "Content-Length": str(length), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()

    with serving(Handler, Server) as url:
        served = Provider(f"{url}/v1", counting)
        try:
            yield served
        finally:
            released.set()
            with counting:
                counting.wait_for(lambda: not under_way, PATIENCE)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _in_form(answer: Reply | Said, form: Format) -> Reply:
    return (200, form.answer(answer)) if isinstance(answer, Said) else answer


def _said(answer: Reply | Said) -> Said:
    assert isinstance(answer, Said), "a fault of this kind needs an answer in no format"
    return answer
