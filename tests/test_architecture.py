"""The arrows of the house, read off the imports: they point down and make no circle."""

import ast
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rsso_dspy"
BASE = {"trajectory", "errors", "whole", "redaction", "reading", "bounds", "scarcity"}
ALLOWED = {
    "trajectory": set(),
    "errors": set(),
    "bounds": set(),
    "scarcity": set(),
    "cache": set(),
    "redaction": set(),
    "addresses": set(),
    "whole": {"errors", "redaction"},
    "reading": {"errors"},
    "money": {"trajectory"},
    "config": BASE | {"money", "environments"},
    "signatures": set(),
    "memory": BASE,
    "environments": BASE | {"cache"},
    "programs": BASE | {"signatures", "memory", "environments"},
    "backends": BASE | {"config", "cache", "addresses", "signatures", "environments"},
    "report": BASE | {"money"},
    "optimize": BASE | {"money", "config", "programs", "environments", "backends", "report", "protocol"},
    "protocol": BASE
    | {"money", "config", "addresses", "programs", "environments", "backends", "memory", "report", "__init__"},
    "cli": BASE
    | {"money", "config", "protocol", "optimize", "report", "programs", "environments", "backends", "__init__"},
}


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rsso_dspy"):
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem != "__init__")


@pytest.mark.parametrize("file", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(file):
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imports(file):
        if name == "rsso_dspy":
            assert "__init__" in ALLOWED[room], f"{file} imports the package's root"
        elif name.startswith("rsso_dspy."):
            target = name.split(".")[1]
            assert target == room or target in ALLOWED[room], f"{room} may not import {target} ({file})"


def test_memory_and_report_know_no_language_model_and_no_simulator():
    for room in ("memory", "report"):
        for file in (PACKAGE / room).rglob("*.py"):
            heavy = {name.split(".")[0] for name in imports(file)} & {"dspy", "litellm", "torch", "scienceworld"}
            assert not heavy, f"{file} imports {heavy}"


NAMES_THE_BENCHMARK = {
    "environments/benchmark.py": "the registry: the name of the default benchmark",
    "environments/pool.py": "the example in its docstring",
    "report/columns.py": "key of the version in records and exports, as older versions wrote it",
    "report/analysis.py": "the same key, and what it is called in a table",
}
"""Modules outside the benchmark's folder that may name it, with the reason."""


def test_nothing_names_the_benchmark_but_its_folder_and_the_registry():
    """The offline player is a player of that benchmark, and may know it."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        if name.startswith(("environments/scienceworld/", "backends/embedded/")):
            continue
        if "scienceworld" in file.read_text(encoding="utf-8").lower():
            found.add(name)
    assert found == NAMES_THE_BENCHMARK.keys()


def test_nothing_but_the_backends_knows_the_offline_player():
    for file in files():
        if file.relative_to(PACKAGE).parts[0] != "backends":
            player = {name for name in imports(file) if name.startswith("rsso_dspy.backends.embedded")}
            assert not player, f"{file} imports {player}"


def test_programs_know_only_the_protocol_of_environments():
    for file in (PACKAGE / "programs").rglob("*.py"):
        assert not any(name.startswith("rsso_dspy.environments.") for name in imports(file)), file


@pytest.mark.parametrize("module", ["rsso_dspy", "rsso_dspy.cli.app"])
def test_importing_does_no_work(module):
    heavy = ["dspy", "litellm", "torch", "sentence_transformers", "scipy", "numpy", "scienceworld", "py4j"]
    code = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_resolve():
    import rsso_dspy

    for name in rsso_dspy.__all__:
        assert getattr(rsso_dspy, name) is not None
    with pytest.raises(AttributeError, match="it offers"):
        _ = rsso_dspy.Agnt


def test_what_is_public_is_typed_and_says_so():
    """mypy holds it to its strict flags, and `py.typed` has the type checkers of users read it."""
    import rsso_dspy

    settings = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    (strict,) = [table["module"] for table in settings["overrides"] if table.get("disallow_untyped_defs")]
    loose = [name for name in rsso_dspy._PUBLIC.values() if not any(fnmatch(name, pattern) for pattern in strict)]
    assert not loose
    assert (PACKAGE / "py.typed").is_file()


def test_public_names_are_the_same_to_a_type_checker():
    import rsso_dspy

    (block,) = [node for node in ast.parse((PACKAGE / "__init__.py").read_text()).body if isinstance(node, ast.If)]
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == rsso_dspy._PUBLIC
