"""The notebooks and scripts in examples/ run as they stand, and so does the compile of `make demo`."""

import ast
import json
import re
import runpy
import shlex
from pathlib import Path

import dspy
import pytest
from dspy.clients.cache import Cache

import rsso_dspy
from rsso_dspy.sessions import Session
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import at_hand, rsso  # noqa: F401 - fixtures
from tests.docs.test_reference import typed
from tests.provider_server import completion, provider

EXAMPLES = Path(__file__).parents[2] / "examples"


def execute_cells(name: str) -> list[object]:
    """Run the code cells of a notebook in one namespace, as a kernel does; gives the value that each ends with."""
    notebook = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    values = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            *lines, last = ast.parse("".join(cell["source"])).body
            exec(compile(ast.Module(lines, []), name, "exec"), names)
            if isinstance(last, ast.Expr):
                values.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
            else:
                exec(compile(ast.Module([last], []), name, "exec"), names)
    return values


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_folder")
def test_the_notebook_that_compares_methods(capsys, monkeypatch):
    """Its run has short trials here."""
    play = rsso_dspy.run
    monkeypatch.setattr(
        rsso_dspy,
        "run",
        lambda *words, settings, **options: play(*words, settings=[*settings, "protocol.steps=5"], **options),
    )
    result, *_, trials, by_trial, _ = execute_cells("compare_methods.ipynb")
    assert len(repr(result)) < 120
    assert "say nothing about language models" in capsys.readouterr().out
    assert {"arm", "variant", "trial", "outcome"} <= set(trials.columns)
    assert list(by_trial.columns) == [1, 2, 3]
    assert result.scores.keys() == {"react", "reflexion"}
    assert "points" in result.headline


@pytest.mark.usefixtures("empty_folder")
def test_the_notebook_with_a_model_of_ones_own(monkeypatch):
    said = "[[ ## thought ## ]]\nLook.\n\n[[ ## action ## ]]\ncheck valid actions\n\n[[ ## completed ## ]]"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    nothing_kept = Cache(enable_disk_cache=False, enable_memory_cache=False, disk_cache_dir="")
    monkeypatch.setattr(dspy, "cache", nothing_kept)  # an answer kept by another process would be served instead
    with provider(lambda _: completion(said)) as served:
        monkeypatch.setenv("OPENAI_BASE_URL", served.url)
        monkeypatch.setenv("OPENAI_API_BASE", served.url)
        try:
            _, result, frame, predictors = execute_cells("your_model.ipynb")
        finally:
            dspy.configure(lm=None)
    (unit,) = Store(result.folder).units()
    assert not unit.has_errors, unit.trials[-1].failure
    assert unit.trials[0].usage["actor"].calls == len(served.requests) > 0
    assert unit.model == "openai/gpt-4.1-mini"
    assert frame.malformed.tolist() == [0]
    assert "actor" in predictors[0]


def test_the_script_shows_what_was_learned(live: Session, capsys, monkeypatch):
    script = runpy.run_path(str(EXAMPLES / "watch_it_learn.py"))
    split = live.config.active_benchmark.tasks.parse
    assert {split(key).split for key in script["VARIANTS"]} == {"dev"}
    monkeypatch.setitem(script["main"].__globals__, "VARIANTS", script["VARIANTS"][:1])
    script["main"]()
    said = capsys.readouterr().out
    assert re.search(r"\breact +50, 50, 50\n", said)
    assert re.search(r"\breflexion +50, 100 solved\n", said)
    assert (
        said.index("Trial 1, 50 points:")
        < said.index("What it wrote after trial 1")
        < said.index("100 points, solved:")
    )


@pytest.mark.usefixtures("at_hand")
def test_the_compile_of_the_demo_finds_the_instruction_that_helps(rsso):  # noqa: F811
    Path("examples").symlink_to(EXAMPLES)
    (line,) = [line for page, line in typed() if page == "Makefile" and " compile " in line]
    code, out, err = rsso(*shlex.split(line)[1:], "--jobs", "1")
    assert code == 0, err
    assert out.startswith("reflexion, candidates: confirmed: candidate minus start +")
    assert "\nchanged: instruction of actor\n" in out
