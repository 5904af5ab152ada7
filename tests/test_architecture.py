"""The arrows of the house, read off the imports: they point down and make no circle."""

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rsso_dspy"
GROUND = {
    "records", "errors", "files", "redact", "bounds", "version", "calls", "playing", "loops",
}  # fmt: skip
RUNS = GROUND | {
    "config", "embed", "environments", "executor", "lm", "logged_lm", "memory", "memory_files", "plan", "programs",
    "protocol", "sessions", "store",
}  # fmt: skip
ALLOWED = {
    "records": set(),
    "errors": set(),
    "loops": {"records"},
    "bounds": {"errors"},
    "version": set(),
    "redact": set(),
    "addresses": set(),
    "files": {"errors", "redact"},
    "calls": {"errors", "files", "records", "redact"},
    "playing": set(),
    "pricing": {"config", "errors", "files", "records"},
    "regions": set(),
    "signatures": {"regions"},
    "adapter": {"signatures", "playing"},
    "memory": GROUND,
    "environments": GROUND,
    "config": GROUND | {"environments", "addresses"},
    "programs": GROUND | {"regions", "signatures", "memory", "environments"},
    "offline": {"environments"},
    "logged_lm": GROUND,
    "lm": GROUND | {"config", "addresses", "adapter", "offline", "logged_lm"},
    "embed": GROUND | {"config", "addresses", "lm", "logged_lm"},
    "report": GROUND | {"pricing", "programs"},
    "store": GROUND | {"config", "addresses", "memory", "environments", "programs"},
    "protocol": GROUND | {"config", "environments", "lm", "memory", "programs", "signatures"},
    "plan": GROUND | {"config", "environments", "lm", "memory", "programs", "protocol", "store"},
    "memory_files": GROUND | {"config", "environments", "memory", "plan", "programs", "protocol", "store"},
    "sessions": GROUND
    | {"config", "embed", "environments", "lm", "logged_lm", "memory", "programs", "protocol", "store"},
    "executor": GROUND
    | {"environments", "lm", "logged_lm", "memory", "memory_files", "plan", "programs", "sessions", "store"},
    "forecast": GROUND | {"config", "executor", "lm", "plan", "pricing", "programs", "store"},
    "ray": RUNS,
    "runs": RUNS | {"forecast", "pricing", "ray"},
    "optimize": RUNS | {"adapter", "forecast", "pricing", "runs", "signatures"},
    "reproduce": GROUND | {"store"},
    "api": RUNS | {"forecast", "optimize", "pricing", "report", "runs"},
    "cli": RUNS | {"api", "forecast", "optimize", "pricing", "regions", "report", "reproduce", "runs"},
}
"""Room to the rooms that it may import. A room that imports another stands below nothing that imports it."""


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
        assert name != "rsso_dspy", f"{file} imports the package's root"
        if name.startswith("rsso_dspy."):
            target = name.split(".")[1]
            assert target == room or target in ALLOWED[room], f"{room} may not import {target} ({file})"


def test_memory_and_report_know_no_language_model_and_no_simulator():
    for room in ("memory", "report"):
        for file in (PACKAGE / room).rglob("*.py"):
            heavy = {name.split(".")[0] for name in imports(file)} & {"dspy", "litellm", "torch", "scienceworld"}
            assert not heavy, f"{file} imports {heavy}"


def import_graph(package: Path) -> dict[str, set[str]]:
    """Every module of a package to those that it imports: at the top, inside functions, for type checkers only."""
    modules = {}
    for file in sorted(package.rglob("*.py")):
        parts = (package.name, *file.relative_to(package).with_suffix("").parts)
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    graph = {}
    for module, file in modules.items():
        named = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{file} imports by dots: name the module in full"
                inside = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                named |= {full if full in modules else node.module for full in inside.values()}
        graph[module] = (named & modules.keys()) - {module}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """One circle for every group of modules that reach each other."""
    found, done = [], set()
    for start in sorted(graph):
        ways = {start: [start]}
        left = [start]
        while left and start not in done:
            here = left.pop(0)
            for there in sorted(graph[here]):
                if there == start:
                    found.append([*ways[here], start])
                    done |= set(ways[here])
                    left = []
                    break
                if there not in ways:
                    ways[there] = [*ways[here], there]
                    left.append(there)
    return found


def test_no_files_import_each_other_in_a_circle():
    assert not [" -> ".join(circle) for circle in circles(import_graph(PACKAGE))]


def test_the_executor_is_handed_its_engine():
    graph, known, left = import_graph(PACKAGE), set(), ["rsso_dspy.executor"]
    while left:
        new = graph[left.pop()] - known
        known |= new
        left += new
    assert not [name for name in known if name.startswith(("rsso_dspy.ray", "rsso_dspy.optimize"))]


@pytest.mark.parametrize(
    "imported",
    [
        "from house.b import thing",
        "from house import b",
        "import house.b",
        "def late():\n    from house.b import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.b import thing",
    ],
)
def test_a_circle_is_seen_wherever_it_is_closed(tmp_path, imported):
    house = tmp_path / "house"
    house.mkdir()
    for name, text in {"__init__": "", "a": imported, "b": "from house.c import x", "c": "import house.a"}.items():
        (house / f"{name}.py").write_text(text)
    assert circles(import_graph(house)) == [["house.a", "house.b", "house.c", "house.a"]]
    (house / "c.py").write_text("from house import x")
    assert circles(import_graph(house)) == []


NAMES_THE_BENCHMARK = {
    "environments/benchmark.py": "the registry: the name of the default benchmark",
    "environments/pool.py": "the example in its docstring",
    "report/frame.py": "key of the version in records and exports, as older versions wrote it",
    "report/analysis.py": "the same key, and what it is called in a table",
}
"""Modules outside the benchmark's folder that may name it, with the reason."""


def test_nothing_names_the_benchmark_but_its_folder_and_the_registry():
    """The offline player is a player of that benchmark, and may know it."""
    found = set()
    for file in PACKAGE.rglob("*.py"):
        name = file.relative_to(PACKAGE).as_posix()
        if name.startswith(("environments/scienceworld/", "offline/")):
            continue
        if "scienceworld" in file.read_text(encoding="utf-8").lower():
            found.add(name)
    assert found == NAMES_THE_BENCHMARK.keys()


@pytest.mark.parametrize("name", ["pddl", "babyai", "alfworld"])
def test_nothing_names_the_other_benchmarks_but_their_folders_and_the_registry(name):
    own = (f"environments/{name}/", *(["environments/alfworld/"] if name == "pddl" else []))  # its games are PDDL too
    found = {
        path
        for file in PACKAGE.rglob("*.py")
        if not (path := file.relative_to(PACKAGE).as_posix()).startswith(own)
        and name in file.read_text(encoding="utf-8").lower()
    }
    assert found == {"environments/benchmark.py"}


WORDS = {
    "scienceworld": r"substance|teleport|hatchling|juvenile|(?:room|location) is called|door to|containing nothing"
    r"|living thing|inclined plane|greenhouse|thermometer|celsius|life ?span|find-plant|boil|freeze|melt|stove"
    r"|wrong focus|focus on",
    "babyai": r"minigrid|red ball|locked door|turn left|move forward",
    "pddl": r"gripper|blockworld|barman|tyreworld|robby|shaker|cocktail|unstack|putdown|jack-up",
    "alfworld": r"desklamp|sinkbasin|countertop|microwave|garbagecan|receptacle|pick_and_place|in/on",
}
"""Benchmark to words that only its own texts have."""
SPEAKS_OF = {
    "cli/options.py": "boil freeze",
    "cli/show.py": "find-plant",
    "cli/skills.py": "find-plant",
    "memory/constitution/file.py": "boil",
    "report/data/rsso.json": "boil find-plant freeze lifespan substance thermometer",
}
"""Files outside of the folders that may say such words: the others help with an example of a key, the last one holds a
published table."""


def read_texts(file: Path) -> list[str]:
    """The texts that a file holds for its program: literals without docstrings; a file that is no code, whole."""
    whole = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        return [whole]
    nodes = list(ast.walk(ast.parse(whole)))
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in told]
    return [node.value for node in texts if isinstance(node.value, str)]


def find_words(package: Path) -> dict[str, str]:
    """File to the words of benchmarks that it says outside of their folders. The offline player may say them all."""
    found: dict[str, set[str]] = {}
    for file in package.rglob("*"):
        name = file.relative_to(package).as_posix()
        if file.suffix in {".py", ".js", ".css", ".j2", ".json", ".toml", ".tsv"} and not name.startswith("offline/"):
            said = "\n".join(read_texts(file))
            for benchmark, words in WORDS.items():
                if not name.startswith(f"environments/{benchmark}/"):
                    found.setdefault(name, set()).update(re.findall(rf"\b(?:{words})\b", said.lower()))
    return {name: " ".join(sorted(words)) for name, words in found.items() if words}


def test_nothing_speaks_as_a_benchmark_does_but_its_folder():
    assert find_words(PACKAGE) == SPEAKS_OF


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("loops.py", "PLACE = r'room is called (.+)'", "room is called"),
        ("optimize/deep/names.py", "def f():\n    return f'the {x} Substance'", "substance"),
        ("environments/babyai/view.py", "A = 'the microwave'", "microwave"),
        ("report/page.js", "say('Hatchling')", "hatchling"),
        ("environments/alfworld/view.py", "A = 'the microwave'", ""),
        ("offline/actor.py", "A = 'the microwave'", ""),
        ("loops.py", '"""As in a microwave."""\nX = 1\n"""Or on a stove."""', ""),
        ("loops.py", "A = 'meltdown, boilerplate'", ""),
    ],
)
def test_a_word_of_a_benchmark_is_found_wherever_it_stands(tmp_path, name, text, said):
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert find_words(tmp_path) == ({name: said} if said else {})


def test_nothing_but_the_models_know_the_offline_player():
    for file in files():
        if file.relative_to(PACKAGE).parts[0] not in {"lm.py", "offline"}:
            player = {name for name in imports(file) if name.startswith("rsso_dspy.offline")}
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
