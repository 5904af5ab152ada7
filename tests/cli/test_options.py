"""Options in groups, and what a shell completes."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.cli.options import GROUPS


@pytest.mark.parametrize("verb", ["run", "compile", "evaluate"])
def test_a_command_with_many_options_shows_them_in_groups(verb):
    said = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "100", "TERM": "dumb"}).output
    assert all(f"─ {title} ─" in said for title in GROUPS)
    rest = said.partition("─ Options ─")[2].partition("╰")[0]
    assert [line.split()[1] for line in rest.splitlines() if "│ --" in line] == ["--help"]


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("run --methods react,rss", ["react,rsso"]),
        ("run --methods rsso,react,reac", ["rsso,react,react-sso"]),
        ("run --tasks boil,find-p", ["boil,find-plant"]),
        ("run --benchmark babyai --tasks GoToDo", ["GoToDoor"]),
        ("compile --protocol sso", ["sso-adapt/1", "sso-adapt/1-cap60"]),
        ("run --set protocol.tria", ["protocol.trials="]),
        ("compile --optimizer ge", ["gepa"]),
        ("compile --set compile.st", ["compile.steps=", "compile.start="]),
        ("run --backend oll", ["ollama"]),
        ("run --benchmark sci", ["scienceworld"]),
        ("export --rows s", ["steps"]),
        ("run --methods react,rsso+c", ["react,rsso+constitution"]),
        ("constitution build --writer neuro", ["neuro-symbolic"]),
        ("paper omni", ["omnireflect"]),
        ("show run find", ["find-plant::2", "find-plant::30"]),
        ("show run m", ["melt"]),
        ("show other find", []),
        ("skills show run find", ["find-plant::2", "find-plant::30"]),
        ("skills export run m", ["melt"]),
    ],
)
def test_a_shell_completes_values(line, completed, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in (
        "units/rsso/find-plant/2-s0",
        "units/sso/find-plant/30-s1",
        "units/sso/boil/1-s0",
        "trainings/a/melt/s0",
    ):
        file = Path("run", f"{name}.jsonl")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    words = ["rsso-dspy", *line.split()]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    env = {**os.environ, **asked, "_RSSO_DSPY_COMPLETE": "complete_bash"}
    said = CliRunner().invoke(app, [], prog_name="rsso-dspy", env=env)
    assert said.output.split() == completed
