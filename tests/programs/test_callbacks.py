"""DSPy's own observers record every call of an agent. Each block of the page runs in a process of its own, because what
an observer changes in DSPy stays changed."""

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import blocks, page


@pytest.mark.parametrize(
    ("observer", "root"), [("openinference.instrumentation.dspy", "span.parent"), ("mlflow", "span.parent_id")]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_an_observer_records_every_call_of_a_trial_as_the_page_shows(observer, root, monkeypatch, tmp_path):
    pytest.importorskip(observer)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (code,) = [block.text for block in blocks(page("BACKENDS.md")) if observer in block.text]
    nested = f"assert [span.name for span in spans if not {root}] == ['Agent.forward']"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{nested}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"([1-9]\d*) calls, \1 steps\n", done.stdout)
    assert done.stdout in code
