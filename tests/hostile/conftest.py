"""What tests of hostile surroundings share: one small run, really played once, that they copy and spoil; a command
typed in process; a simulator at hand."""

import shutil
import sys
from pathlib import Path

import pytest

from rsso_dspy.cli import main
from rsso_dspy.environments.scienceworld import ScienceWorld
from tests.cli.conftest import Typed, at_hand, rsso  # noqa: F401 - fixtures
from tests.provider_runs import KEY, VARIABLE

ORDER = (
    *("run", "--methods", "rsso", "--tasks", "lifespan-longest-lived", "--per-task", "1", "--trials", "2"),
    *("--set", "protocol.preset=sso-adapt/3-cap60", "--set", "embedder.model=hash"),
    *("--set", "protocol.stop_on_success=false"),
)


@pytest.fixture(scope="session")
def played(tmp_path_factory, env: ScienceWorld) -> Path:
    """A run of one unit, two trials, with a skill library and reflections."""
    folder = tmp_path_factory.mktemp("played") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)
        patch.setattr(sys, "argv", ["rsso-dspy", *ORDER, "--out", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return folder


@pytest.fixture
def run(played, tmp_path) -> Path:
    """A copy to spoil."""
    shutil.copytree(played, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def unit(run) -> Path:
    """The log of its one unit."""
    (found,) = (run / "units").rglob("*.jsonl")
    return found


@pytest.fixture
def provider_key(monkeypatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)
