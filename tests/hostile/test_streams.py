"""Standard streams that are closed, full or left by their reader."""

import subprocess
import sys

import pytest

NOT_A_TASK = "run --tasks nope"
CASES = [
    # words, streams, exit code, what stdout and stderr hold
    ("tasks", "<&- >&- 2>&-", 0, "", ""),
    (NOT_A_TASK, ">&- 2>&-", 2, "", ""),
    ("tasks", "> >(exec true)", 1, "", ""),
    ("tasks", "> /dev/full", 1, "", "No space left"),
]


@pytest.mark.skipif(sys.platform != "linux", reason="has /dev/full, and a shell that closes streams")
@pytest.mark.parametrize(("words", "streams", "code", "out", "err"), CASES)
def test_a_stream_that_is_gone_is_no_failure_of_another(words, streams, code, out, err):
    # A reader that is to be gone is gone before the command writes.
    command = f"{sys.executable} -c 'import time; time.sleep(0.1); from rsso_dspy.cli import main; main()' {words}"
    done = subprocess.run(
        ["bash", "-c", f"{command} {streams}"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    for said, wanted in ((done.stdout, out), (done.stderr, err)):
        assert wanted in said
        assert wanted or not said
    assert "Traceback" not in done.stderr
