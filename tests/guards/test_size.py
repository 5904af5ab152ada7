"""How large everything is. A bound may be lowered and never raised."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import typer

from rsso_dspy.cli.app import app

BOUNDS = {
    "lines of the package": 24350,
    "files of the package": 120,
    "lines of tests": 18930,
    "lines of reflexion": 2132,
    "lines of reflexion's tests": 1388,
    "functions over 60 lines": 3,
    "functions with over 8 parameters": 6,
    "options of all commands": 104,
    "options of run": 23,
    "words of the documentation": 32796,
    "lines of the page's assets": 1173,
    "modules that the loop imports": 17,
    "lines that the loop imports": 2284,
}
"""The most of each. Lines are those of Python files, blank ones and comments too."""

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "rsso_dspy"
LOOP = PACKAGE / "programs" / "agent.py"
LONG, MANY = 60, 8
SLACK = 0.03
"""How far below its bound a number may be, as a share, before the bound has to follow."""


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    functions = [function for file in python_files(PACKAGE) for function in find_functions(file)]
    options = count_options()
    loop = find_imported(LOOP)
    assets = [file for file in PACKAGE.rglob("*") if file.suffix in (".js", ".css", ".html", ".j2")]
    return {
        "lines of the package": count_lines(python_files(PACKAGE)),
        "files of the package": len(python_files(PACKAGE)),
        "lines of tests": count_lines(python_files(ROOT / "tests")),
        "lines of reflexion": count_lines(python_files(ROOT / "reflexion/src")),
        "lines of reflexion's tests": count_lines(python_files(ROOT / "reflexion/tests")),
        "functions over 60 lines": sum(count_function_lines(each) > LONG for each in functions),
        "functions with over 8 parameters": sum(count_parameters(each) > MANY for each in functions),
        "options of all commands": sum(options.values()),
        "options of run": options["run"],
        "words of the documentation": sum(map(count_words, [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])),
        "lines of the page's assets": count_lines(assets),
        "modules that the loop imports": len(loop),
        "lines that the loop imports": count_lines(loop),
    }


@pytest.mark.parametrize("what", BOUNDS)
def test_nothing_grows_and_a_bound_follows_what_shrank(sizes, what):
    size, bound = sizes[what], BOUNDS[what]
    assert size <= bound, f"{what}: {size}, over the bound of {bound}"
    assert size >= bound * (1 - SLACK), f"{what}: {size}: lower the bound to {size}"


def python_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def count_lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def count_words(file: Path) -> int:
    """Words of a page without the table of the sources' rows, which is as long as the sources ask for, and without what
    a script writes there of recorded runs."""
    text = re.sub(r"(?s)<!-- recorded .*?<!-- end -->", "", file.read_text(encoding="utf-8"))
    return len(text.partition("## The sources, row by row")[0].split())


Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_functions(file: Path) -> Iterator[Function]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def count_function_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def count_parameters(function: Function) -> int:
    told = function.args
    names = [each.arg for each in (*told.posonlyargs, *told.args, *told.kwonlyargs, told.vararg, told.kwarg) if each]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def count_options() -> dict[str, int]:
    """Options of every command, its arguments and --help not counted, by its words."""

    def walk(
        command: typer.core.TyperGroup | typer.core.TyperCommand, words: tuple[str, ...]
    ) -> Iterator[tuple[str, int]]:
        options = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
        yield " ".join(words), len(options)
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))

    return dict(walk(typer.main.get_command(app), ()))


def find_imported(start: Path) -> list[Path]:
    """The file and all files of the package that it loads: by imports at the head of a module, on and on. A module
    loads the packages that it stands in. What is imported inside a function, or only for type checkers, is not counted,
    nor is what is loaded by its name."""
    found: dict[Path, None] = {}
    left = [start]
    while left:
        file = left.pop()
        if file not in found:
            found[file] = None
            folders = [folder for folder in file.parents if folder.is_relative_to(PACKAGE)]
            left += [folder / "__init__.py" for folder in folders if (folder / "__init__.py").is_file()]
            left += [each for name in list_head_imports(file) if (each := find_module(name))]
    return list(found)


def list_head_imports(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def find_module(name: str) -> Path | None:
    first, *parts = name.split(".")
    if first != PACKAGE.name:
        return None
    place = PACKAGE.joinpath(*parts)
    return next((each for each in (place / "__init__.py", place.with_suffix(".py")) if each.is_file()), None)


def test_the_loop_imports_what_is_counted_for_it():
    """Python itself loads no other modules of the package than those."""
    import subprocess
    import sys

    code = "import rsso_dspy.programs.agent, sys; print(*[n for n in sys.modules if re.match(r'rsso_dspy\\b', n)])"
    done = subprocess.run([sys.executable, "-c", f"import re, sys; {code}"], capture_output=True, text=True, check=True)
    loaded = {found for name in done.stdout.split() if (found := find_module(name))}
    assert loaded == set(find_imported(LOOP)), loaded ^ set(find_imported(LOOP))
