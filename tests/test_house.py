"""What stands around the code says the same as the code: commit hooks, continuous integration, citation, addresses."""

import re
import subprocess
import tomllib
from pathlib import Path

import yaml

import rsso_dspy

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(name: str) -> dict:
    data = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    assert isinstance(data, dict)
    return data


def test_hooks_run_what_lint_runs():
    (repo,) = read_yaml(".pre-commit-config.yaml")["repos"]
    assert repo["repo"] == "local"
    hooks = {hook["entry"].replace(" --force-exclude", "") for hook in repo["hooks"]}
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert hooks == {f".venv/bin/{line}".removesuffix(" .") for line in re.findall(r"\$\(BIN\)/(.+)", lint)}


def test_ci_runs_the_file_that_anybody_can_run():
    workflow = read_yaml(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]
    (python,) = [step["with"]["python-version"] for step in job["steps"] if "with" in step]
    assert PROJECT["requires-python"] == f">={python}"
    assert workflow["permissions"] == {"contents": "read"}


def test_the_citation_is_whole_and_of_this_version():
    citation = read_yaml("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["cff-version"] == "1.2.0"
    assert (str(citation["version"]), citation["license"]) == (rsso_dspy.__version__, PROJECT["license"])
    assert all({"type", "title", "authors"} <= reference.keys() for reference in citation["references"])


def test_the_address_of_the_project_stands_in_one_place():
    (address,) = PROJECT["urls"].values()
    said = subprocess.run(["git", "grep", "-lF", address], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert set(said) <= {"pyproject.toml"}
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        assert "address in [`pyproject.toml`]" in " ".join((ROOT / name).read_text(encoding="utf-8").split())
