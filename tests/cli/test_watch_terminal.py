"""`rsso-dspy watch` as a reader sees it: a run followed on terminals of several sizes and on none."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

import pytest

from rsso_dspy.store.unit_store import Store
from tests.cli.begun import LEFT, begun
from tests.records import record

COMMAND = (sys.executable, "-c", "from rsso_dspy.cli import main; main()")
PRICES = 'prices."embedded/explorer".input=3', 'prices."embedded/explorer".output=15'
CODES = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Terminal:
    """A command on a terminal of its own, that ends with the block."""

    def __init__(self, width: int, height: int, *words: str):
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        self._master = master
        self.process = subprocess.Popen(
            [*COMMAND, *words], stdin=slave, stdout=slave, stderr=slave, env={**environment, "TERM": "xterm"}
        )
        os.close(slave)
        self._said = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()  # nothing, once it has ended
        self.process.wait()
        os.close(self._master)

    def until(self, words: str) -> None:
        """Read until these words were shown, however they were wrapped."""
        while words.replace(" ", "") not in "".join(CODES.sub("", self.text).split()):
            assert self._read(), f"it ended before it said {words!r}: {self.text}"

    def end(self) -> int:
        """Its exit code, after everything it says."""
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        assert select.select([self._master], [], [], 60)[0], f"nothing more came after {self.text}"
        try:
            more = os.read(self._master, 65536)
        except OSError:  # the other end is closed
            return False
        self._said += more
        return bool(more)

    @property
    def text(self) -> str:
        return self._said.decode(errors="replace")

    @property
    def picture(self) -> list[str]:
        """The last picture, line by line."""
        last = re.split(r"(?:\r?\x1b\[2K(?:\x1b\[1A)?|\x1b\[1A)+", self.text)[-1]
        return [line for line in CODES.sub("", last).replace("\r", "").split("\n") if line.strip()]


@pytest.mark.parametrize("terminal", [False, True])
def test_the_name_of_an_arm_is_no_markup(rsso, tmp_path, terminal):
    store = Store(tmp_path / "run")
    store.open({}, {"rsso+a[/b]": "1", "rsso+[v2]": "2"})
    if terminal:
        shown = Terminal(100, 24, "watch", str(store.folder))
        shown.end()
        out = shown.text
    else:
        _, out, _ = rsso("watch", "run")
    assert "Traceback" not in out
    assert "rsso+a[/b]" in out
    assert "rsso+[v2]" in out


def test_on_a_terminal_nothing_is_cut_off_and_the_picture_follows_the_run(tmp_path):
    store = begun(tmp_path / "run")
    store.open(store.read_identity()[0], {"a-compiled-program+of-a-long-name": "1"})
    store.save(replace(record("rsso", "boil", 27, [[100]]), arm="a-compiled-program+of-a-long-name"))
    priced = [word for price in PRICES for word in ("--set", price)]
    sizes = ((48, 12), (100, 24))
    command = ("watch", str(store.folder), "--every", "0.1", *priced)
    with ExitStack() as stack:
        with store.lock():
            terminals = [stack.enter_context(Terminal(width, height, *command)) for width, height in sizes]
            for terminal in terminals:
                terminal.until("plays: 2 of 5 units")
            store.save(record("rsso", "boil", 22, [[100]]))
            store.note_event("unit", {"unit": LEFT[1], "trials": 1, "best": 100, "error": None})
            for terminal in terminals:
                terminal.until("plays: 3 of 5 units")
            store.note_event("ended", {"played": 3, "errored": 0, "untrained": 0})
        for terminal, (width, height) in zip(terminals, sizes, strict=True):
            assert terminal.end() == 1, "units of it are missing"
            assert len(terminal.picture) <= height
            assert all(len(line) <= width for line in terminal.picture)
            shown = "".join("".join(terminal.picture).split())
            for words in (
                "a-compiled-program+of-a-long-name",
                "40.0",
                "100.0",
                "ended:3of5units",
                "$",
                "ended:3played",
            ):
                assert words in shown, words
            assert "\N{HORIZONTAL ELLIPSIS}" not in shown


def test_ctrl_c_leaves_at_once_and_touches_nothing(tmp_path):
    store = begun(tmp_path / "run")
    with store.lock(), Terminal(80, 24, "watch", str(store.folder), "--every", "600") as terminal:
        before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}
        terminal.until("plays: 1 of 4 units")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 130
        assert {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")} == before
    assert terminal.text.endswith("\x1b[?25h") or "\x1b[?25h" in terminal.text[-40:], "the cursor is there again"


@pytest.mark.usefixtures("at_hand")
def test_a_run_is_followed_to_its_end(rsso, tmp_path):
    follow = [*COMMAND, "watch", str(tmp_path / "run"), "--every", "0.1", "--wait"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr is not None
        assert "waiting for a run" in watch.stderr.readline()
        variants = ("--variants", "lifespan-longest-lived::98,lifespan-longest-lived::111", "--trials", "1")
        fast = ("--protocol", "sso-adapt/1-cap60", "--set", "embedder.model=hash")
        assert rsso("run", "--methods", "react", *variants, *fast, "--out", "run")[0] == 0
        seen, said = watch.communicate()
    assert watch.returncode == 0, said
    assert "ended: 2 of 2 units" in seen
    assert "\x1b" not in seen
    assert re.search(r"^react +2/2 ", seen, re.M)
