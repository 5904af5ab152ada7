"""The README does what it says."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs_as_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) < 15
    exec(code, {})
    result, score, points, outcome, compiled = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"Compiled\(rsso, gepa, not better: .* plays the program that it started from", compiled)
    (shown,) = re.findall(r"print\(result\)  # (AgentPrediction\(.*) \.\.\.\)", code)
    assert result.startswith(shown)
    assert (tmp_path / "compiled.json").exists()
    assert 0 <= float(score) <= 1
    assert 0 <= int(points) <= 100
    assert outcome in {"solved", "failed", "budget"}


def commands() -> list[str]:
    blocks = re.findall(r"```\n(.*?)```", README, re.S)
    lines = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("rsso-dspy ")]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_spelled_as_the_program_spells_it(line):
    verb, *words = shlex.split(line)[1:]
    group = verb in {entry.name for entry in app.registered_groups}
    verbs = [verb, words[0]] if group else [verb]
    done = CliRunner().invoke(app, [*verbs, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    shown = done.output
    assert done.exit_code == 0
    assert "Usage" in shown
    assert all(word.partition("=")[0] in shown for word in words if word.startswith("--"))


def test_every_file_it_names_exists():
    for name in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / name).exists(), name
    for room in re.findall(r"^  (\w+(?:\.py|/))", README, re.M):
        assert (ROOT / "rsso_dspy" / room).exists(), room


def test_it_is_short_and_its_result_is_the_measured_one():
    assert len(README.splitlines()) <= 150
    measured = (ROOT / "docs/BENCHMARKS.md").read_text(encoding="utf-8").partition("under `adapt/2`")[2]
    (row,) = re.findall(r"^\| rsso - react-sso \| \+([\d.]+) \| \+([\d.]+) to \+([\d.]+) \|", measured[:2500], re.M)
    gain, low, high = (f"{float(number):.1f}" for number in row)
    assert f"gains {gain} points of 100" in README
    assert f"95% interval +{low} to +{high}" in " ".join(README.split())


def test_it_names_the_commands_that_ci_runs():
    assert "make test" in README
    assert "make test" in (ROOT / ".ci/run").read_text()
