"""The HTTP server of `rsso-dspy view`: read-only, on this machine alone, and only for who knows its token.

with open_server(pages, port=0) as (server, url):
    server.serve_forever()
"""

import hmac
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from rsso_dspy.cli.view_pages import RunPages
from rsso_dspy.errors import RssoError, UsageError

HOST = "127.0.0.1"
SECONDS = 30
"""Maximum seconds in which a client must have sent its request, or read the answer."""
PATIENCE = 0.3
"""Seconds that a browser waits for the first page of a run before it is shown one that asks again."""
MOST_FIELDS = 50
"""Maximum number of fields in a query."""
HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Query = Mapping[str, list[str]]
Answer = tuple[str, str | bytes] | None
"""Content type and content; None if there is nothing of that name."""


class ViewServer(ThreadingHTTPServer):
    """Serves the pages of runs under a token."""

    daemon_threads = True

    def __init__(self, pages: RunPages, port: int):
        self.pages = pages
        self.token = secrets.token_urlsafe(24)
        super().__init__((HOST, port), ViewHandler)

    @property
    def url(self) -> str:
        """The address of the list of runs, or of the only run."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that went away."""


class ViewHandler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: ViewServer
    server_version, sys_version = "rsso-dspy", ""
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer a request."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer a request without the content."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses hold the token."""

    def _answer(self, with_body: bool) -> None:
        status, kind, content = self._choose()
        body = content.encode("utf-8", "replace") if isinstance(content, str) else content
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _choose(self) -> tuple[HTTPStatus, str, str | bytes]:
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            return HTTPStatus.MISDIRECTED_REQUEST, TEXT, "This server answers under its own address alone.\n"
        try:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query, max_num_fields=MOST_FIELDS, errors="strict")
        except ValueError:
            return HTTPStatus.BAD_REQUEST, TEXT, "The address cannot be read.\n"
        token, slash, name = parts.path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode())
        if not (known and slash and name in VIEWS):
            return (
                HTTPStatus.NOT_FOUND,
                TEXT,
                "There is nothing here. Open the address that `rsso-dspy view` printed.\n",
            )
        try:
            answer = VIEWS[name](self.server.pages, query)
        except UsageError as error:
            return HTTPStatus.CONFLICT, TEXT, f"{error}\n"
        except (RssoError, OSError, ValueError) as error:
            return HTTPStatus.INTERNAL_SERVER_ERROR, TEXT, f"{type(error).__name__}: {error}\n"
        if answer is None:
            return HTTPStatus.NOT_FOUND, TEXT, "There is no such run or unit.\n"
        return HTTPStatus.OK, *answer


def _show_start(pages: RunPages, query: Query) -> Answer:
    runs = pages.find_runs()
    if list(runs.values()) == [pages.root]:
        return _show_run(pages, {"dir": list(runs)})
    return _show_list(pages, query)


def _show_list(pages: RunPages, query: Query) -> Answer:
    return HTML, pages.render_list(" ".join(query.get("q", ())))


def _show_run(pages: RunPages, query: Query) -> Answer:
    page = pages.render_page(query.get("dir", []), PATIENCE)
    return None if page is None else (HTML, page)


def _show_state(pages: RunPages, query: Query) -> Answer:
    state = pages.read_state(query.get("dir", []))
    return None if state is None else (JSON, json.dumps(state))


def _show_unit(pages: RunPages, query: Query) -> Answer:
    first = {name: values[0] for name, values in query.items()}
    seed = first.get("seed", "")
    if not (seed.isascii() and seed.isdigit() and len(seed) < 20):
        return None
    names, training = query.get("dir", []), bool(first.get("training"))
    data = pages.read_unit(names, first.get("arm", ""), first.get("key", ""), int(seed), training)
    return None if data is None else (JSON, data)


VIEWS: dict[str, Callable[[RunPages, Query], Answer]] = {
    "": _show_start,
    "runs": _show_list,
    "run": _show_run,
    "state": _show_state,
    "unit": _show_unit,
}
"""Name in the address to what it shows."""


@contextmanager
def open_server(pages: RunPages, port: int) -> Iterator[ViewServer]:
    """Open a server on this machine's own address; port 0 takes a free one. Raises `UsageError` for a port in use."""
    try:
        server = ViewServer(pages, port)
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}); choose another --port, or 0") from None
    with server:
        yield server
