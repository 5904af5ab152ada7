"""Java that does not come, does not go, or has no room on this machine."""

import os
import re
import signal
import subprocess
import sys
import tracemalloc  # noqa: F401 - pytest imports it where no more files can be opened
from pathlib import Path

import pytest

from tests.chaos.process import python, until
from tests.environments.test_jvm import is_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

SAYS_NOTHING = "echo $$ >> PIDS\nexec /bin/cat > /dev/null"
DEAF_WITH_A_CHILD = "trap '' TERM INT HUP\nexec 3<&0\n/bin/cat <&3 > /dev/null &\necho $$ $! >> PIDS\nwait\nwait"
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


QUICK = ("--tasks", "lifespan-longest-lived", "--set", "embedder.model=hash")
PLAYED = ("run", "--methods", "react", "--per-task", "1", *QUICK, "--out", "run")
VERBS = {
    "run": (*PLAYED, "--set", "environment.simplification=openDoors"),
    "compile": ("compile", "--method", "react", "--jobs", "2", *QUICK),
}


@pytest.mark.parametrize(
    ("verb", "does", "sent", "code"),
    [("run", SAYS_NOTHING, signal.SIGTERM, 143), ("compile", DEAF_WITH_A_CHILD, signal.SIGINT, 130)],
)
def test_who_ends_a_command_while_java_starts_leaves_no_process(verb, does, sent, code, tmp_path, pids):
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
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert until(lambda: not any(map(is_running, there)), 60), "Java was left"
    assert process.returncode == code, said
    assert "Traceback" not in said


LIMITED = "ulimit -n {files}; exec {python} -c '{program}' {words}"
MAIN = "import threading; threading.stack_size({stack}); from rsso_dspy.cli import main; main()"


@pytest.mark.parametrize(
    ("files", "stack", "fix"), [(8, 0, "ulimit -n 4096"), (400, 1 << 46, "ulimit -u")], ids=["files", "threads"]
)
def test_what_this_machine_has_too_little_of_is_named_with_its_limit_and_the_fix(files, stack, fix):
    words = " ".join((*VERBS["run"], "--dry-run"))
    command = LIMITED.format(files=files, python=sys.executable, program=MAIN.format(stack=stack), words=words)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(fix, done.stderr), done.stderr
