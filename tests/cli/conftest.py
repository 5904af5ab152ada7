"""What the tests of several verbs share: typing a command, and one program compiled by it."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli import main
from rsso_dspy.cli.app import app
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.optimize.program_file import load

FAST = ("--set", "protocol.preset=sso-adapt/3-cap60", "--set", "embedder.model=hash")
TASKS = ("--tasks", "lifespan-longest-lived,lifespan-shortest-lived")
ONE = ("compile", "--tasks", "lifespan-longest-lived", *FAST)
COMPILE = ("compile", "--max-rollouts", "8", "--jobs", "2", *TASKS, *FAST)

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def rsso(monkeypatch, capsys, tmp_path) -> Typed:
    """Type a command in an empty folder; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def typed(*words: str | Path) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["rsso-dspy", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return typed


@pytest.fixture
def at_hand(monkeypatch, env: ScienceWorld) -> None:
    """One simulator that runs already, for commands that play with one."""
    monkeypatch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)


def mark_confirmed(file: Path | str) -> None:
    """Make a compiled file play, whatever its search found."""
    made = load(file)
    verdict = replace(made.confirmation, verdict="confirmed")
    replace(made.select_candidate(), confirmation=verdict).save(file)


@dataclass(frozen=True)
class Compile:
    """A compile that came to its end: its file, and what was printed."""

    file: Path
    out: str
    err: str

    @property
    def content(self) -> dict:
        return json.loads(self.file.read_text())


@pytest.fixture(scope="session")
def compiled(tmp_path_factory) -> Compile:
    """`COMPILE`, played once. Tests that change the file copy it first."""
    file = tmp_path_factory.mktemp("compiled") / "first.json"
    done = CliRunner().invoke(app, [*COMPILE, "-o", str(file)])
    assert done.exit_code == 0, done.output
    return Compile(file, done.stdout, done.stderr)
