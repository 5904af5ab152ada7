"""`rsso-dspy view`: a run while it plays, in a browser; and requests that want more than it gives."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from rsso_dspy.cli.view_pages import RunPages
from rsso_dspy.cli.view_server import ViewServer, open_server
from rsso_dspy.errors import UsageError
from rsso_dspy.report.cost_report import return_no_price
from tests.chaos.process import ROOT, python
from tests.hostile.test_pooling import folder
from tests.records import record
from tests.report.conftest import browser

__all__ = ["browser"]

WAITING = '<meta http-equiv="refresh" content="1">'
SECRET = "a file outside of every run"


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[ViewServer]:
    """Two runs in a folder, a link out of it, and a file that nobody may read."""
    root = tmp_path_factory.mktemp("view")
    folder(root / "runs/first", record("rsso", "boil", 1, [[10], [100]]), record("sso", "boil", 1, [[20]]))
    folder(root / "runs/deep/second <b>", record("rsso", "boil", 1, [[30]]))
    folder(root / "outside", record("rsso", "boil", 9, [[30]]))
    (root / "runs/linked").symlink_to(root / "outside")
    (root / "secret.json").write_text(SECRET)
    with open_server(RunPages(root / "runs", return_no_price), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: ViewServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    """The answer; a page that asks again is asked again, as a browser does."""
    while WAITING in (answer := ask_once(server, path, method, **headers))[1]:
        time.sleep(0.1)
    return answer


def ask_once(server: ViewServer, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace"), answer.headers
    finally:
        connection.close()


def under(server: ViewServer, name: str) -> str:
    return f"/{server.token}/{name}"


HOSTILE = {
    "no token": "/",
    "another token": "/AAAA/",
    "a longer token": "/{token}x/",
    "no slash": "/{token}",
    "a path above": "/{token}/../secret.json",
    "an escaped path above": "/{token}/%2e%2e/secret.json",
    "a run above": "/{token}/run?dir=..",
    "an absolute run": "/{token}/run?dir=%2Fetc",
    "a run through a link": "/{token}/run?dir=linked",
    "a run and one above": "/{token}/run?dir=first&dir=..%2Foutside",
    "a file as a run": "/{token}/run?dir=..%2Fsecret.json",
    "a null": "/{token}/run?dir=first%00",
    "an arm above": "/{token}/unit?dir=first&arm=..%2F..&key=boil::1&seed=0",
    "a key above": "/{token}/unit?dir=first&arm=rsso&key=..%2F..%2Fsecret&seed=0",
    "a seed that is none": "/{token}/unit?dir=first&arm=rsso&key=boil::1&seed=%2B0",
    "a long seed": "/{token}/unit?dir=first&arm=rsso&key=boil::1&seed=" + "9" * 5000,
    "no run": "/{token}/state",
    "an unknown view": "/{token}/page.css",
}


@pytest.mark.parametrize("path", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_listed_is_not_there(served, path):
    status, text, _ = ask(served, path.format(token=served.token))
    assert status == 404
    assert SECRET not in text
    assert served.token not in text


def test_other_hosts_methods_and_fields_are_refused(served):
    for host in ("evil.example", f"127.0.0.1.evil.example:{served.server_port}", f"127.0.0.1:{served.server_port + 1}"):
        assert ask(served, under(served, "runs"), Host=host)[0] == 421
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(served, under(served, "runs"), method)[0] == 501
    assert ask(served, under(served, "runs?" + "&".join(f"q={number}" for number in range(99))))[0] == 400
    assert ask(served, under(served, "runs?q=%ff"))[0] == 400
    assert ask(served, under(served, "x" * 70_000))[0] == 414
    with socket.create_connection(("127.0.0.1", served.server_port)) as silent:
        silent.sendall(b"GET /")  # a client that never ends its request keeps nobody else waiting
        status, _, headers = ask(served, under(served, "runs"))
    assert status == 200
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert "Access-Control-Allow-Origin" not in headers
    assert served.server_address[0] == "127.0.0.1"


def test_runs_are_listed_filtered_and_compared(served):
    _, listed, _ = ask(served, under(served, "runs"))
    assert "deep/second &lt;b&gt;" in listed
    assert "linked" not in listed
    assert re.search(r"rsso <b>100.00</b>,\s*sso <b>20.00</b>", listed)
    assert "second" not in ask(served, under(served, "runs?q=sso+first"))[1]
    assert "No run is like this." in ask(served, under(served, "runs?q=%3Cscript%3E"))[1]
    status, page, _ = ask(served, under(served, f"run?dir=first&dir={quote('deep/second <b>')}"))
    assert status == 200
    assert "beats" in page or "Too uncertain" in page
    head, data = ask(served, under(served, "run?dir=first"), "HEAD"), ask(served, under(served, "state?dir=first"))
    assert head[:2] == (200, "")
    assert json.loads(data[1])["status"] == "2 of 2 units, not playing"


def test_a_page_that_takes_long_is_made_while_the_browser_waits(tmp_path, monkeypatch):
    pages = RunPages(folder(tmp_path / "run", record("sso", "boil", 1, [[20]])), return_no_price)
    go_on, render = threading.Event(), RunPages._render

    def render_slowly(*words: Any) -> None:
        go_on.wait(60)
        render(*words)

    monkeypatch.setattr(RunPages, "_render", render_slowly)
    first, second = pages.render_page(["run"], 0), pages.render_page(["run"], 0)
    assert first == second
    assert WAITING in first
    assert "1 of 1 units, not playing. The page is being made" in first
    go_on.set()
    assert pages.render_page(["run"], 60) == pages.render_page(["run"], 0) == pages.render_page(["run"])

    def refuse(*_: Any) -> None:
        raise UsageError("of two benchmarks")

    monkeypatch.setattr(RunPages, "_render", refuse)
    other = RunPages(pages.root, return_no_price)
    for _ in range(2):  # it is tried again
        with pytest.raises(UsageError, match="of two benchmarks"):
            other.render_page(["run"], 60)


def test_a_browser_follows_a_run_while_it_plays(browser, tmp_path):
    run = folder(tmp_path / "run", record("sso", "boil", 1, [[20]]))
    with open_server(RunPages(run, return_no_price), 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        page = browser.new_page()
        page.set_default_timeout(60_000)
        troubles: list[str] = []
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(server.url)
        page.get_by_text("Step 1 of 1", exact=True).wait_for()
        folder(run, record("sso", "boil", 2, [[20, 30]]))
        slow: list[Any] = []
        page.route(re.compile(r"/unit\?.*key=boil%3A%3A1&"), lambda route: slow.append(route))
        page.get_by_role("button", name="Show news").click()
        page.locator(".units .status", has_text="2").wait_for()
        page.keyboard.press("n")  # while the unit before is still on its way
        page.get_by_text("Step 1 of 2", exact=True).wait_for()
        assert len(slow) == 1
        slow[0].continue_()
        assert page.get_by_text("2 of 2 units").is_visible()
        assert troubles == []
        page.close()
        server.shutdown()
        thread.join()


def test_it_ends_cleanly_on_ctrl_c(tmp_path):
    run = folder(tmp_path / "run", record("sso", "boil", 1, [[20]]))
    command = python("from rsso_dspy.cli import main; main()", "view", str(run))
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        parts = urlsplit(process.stdout.readline().strip())
        assert parts.hostname == "127.0.0.1"
        assert len(parts.path) > 30
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "ended" in err
    assert "Traceback" not in err
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port))
