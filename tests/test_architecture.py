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
    "records", "errors", "failures", "files", "redact", "replies", "bounds", "version", "log_lines", "calls", "playing",
    "loops", "usage_forms", "power", "sign_flips", "constitutions",
}  # fmt: skip
RUNS = GROUND | {
    "config", "embed", "environments", "executor", "experience", "lm", "memory", "memory_files", "plan", "programs",
    "protocol", "rounds", "sessions", "store",
}  # fmt: skip
ALLOWED = {
    "usage_forms": set(),
    "records": {"usage_forms"},
    "errors": set(),
    "loops": {"records"},
    "bounds": {"errors"},
    "constitutions": {"bounds", "errors"},
    "power": set(),
    "sign_flips": set(),
    "version": set(),
    "redact": set(),
    "replies": {"records", "redact", "usage_forms"},
    "failures": {"errors", "records", "redact", "replies"},
    "files": {"bounds", "errors", "redact"},
    "log_lines": {"bounds", "files"},
    "calls": {"errors", "files", "log_lines", "records", "redact"},
    "playing": set(),
    "pricing": {"config", "errors", "files", "records"},
    "regions": set(),
    "signatures": {"regions"},
    "answers": set(),
    "adapter": {"answers", "playing", "regions", "signatures"},
    "memory": GROUND | {"regions"},
    "environments": GROUND | {"answers"},
    "config": GROUND | {"environments"},
    "programs": GROUND | {"answers", "regions", "signatures", "memory", "environments"},
    "offline": {"environments", "records", "regions", "signatures"},
    "lm": GROUND | {"config", "adapter", "offline", "signatures"},
    "embed": GROUND | {"config", "lm"},
    "report": GROUND | {"pricing", "programs", "regions"},
    "store": GROUND | {"config", "memory", "environments", "programs"},
    "protocol": GROUND | {"config", "environments", "lm", "memory", "programs", "signatures"},
    "experience": GROUND | {"config", "environments", "memory", "programs", "store"},
    "rounds": {"errors", "programs", "records", "store"},
    "plan": GROUND | {"config", "environments", "lm", "memory", "pricing", "programs", "protocol", "rounds", "store"},
    "memory_files": GROUND
    | {"config", "environments", "experience", "memory", "plan", "programs", "protocol", "store"},
    "sessions": GROUND
    | {"config", "embed", "environments", "experience", "lm", "memory", "programs", "protocol", "store"},
    "executor": GROUND
    | {"config", "environments", "lm", "memory", "memory_files", "plan", "pricing", "programs", "sessions", "store"},
    "ray": RUNS,
    "runs": RUNS | {"pricing", "ray"},
    "optimize": RUNS | {"adapter", "pricing", "regions", "runs", "signatures"},
    "api": RUNS | {"optimize", "pricing", "report", "runs"},
    "__main__": {"cli"},
    "cli": RUNS | {"api", "optimize", "pricing", "regions", "report", "runs"},
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


NAMED_ONCE = ("pddl", "babyai", "house-rules", "alfworld", "tau2", "textworld-express")
NAMES = {
    "scienceworld": {"environments/benchmark.py", "report/analysis.py"},
    **{name: {"environments/benchmark.py"} for name in NAMED_ONCE},
}
"""Benchmark to the modules outside of its folder that may name it: the registry, and the key
of the version in records."""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_names_a_benchmark_but_its_folder_and_the_registry(name):
    """The offline player is a player of ScienceWorld, and ALFWorld's games are PDDL too."""
    own = (
        f"environments/{name.replace('-', '_')}/",
        *{"scienceworld": ["offline/"], "pddl": ["environments/alfworld/"]}.get(name, []),
    )
    texts = {file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")}
    assert {path for path, text in texts.items() if name in text.lower() and not path.startswith(own)} == NAMES[name]


WORDS = {
    "scienceworld": r"substance|teleport|hatchling|juvenile|(?:room|location) is called|door to|containing nothing"
    r"|living thing|inclined plane|greenhouse|thermometer|celsius|life ?span|find-plant|boil|freeze|melt|stove"
    r"|wrong focus|focus on",
    "babyai": r"minigrid|red ball|locked door|turn left|move forward",
    "pddl": r"gripper|blockworld|barman|tyreworld|robby|shaker|cocktail|unstack|putdown|jack-up",
    "textworld-express": r"cookingworld|mapreader|peckingorder|simonsays|cookbook|math problem|instructions book",
    "alfworld": r"desklamp|sinkbasin|countertop|microwave|garbagecan|receptacle|pick_and_place|in/on",
    "tau2": r"roaming|sim card|mobile data|mms|airplane|apn|refuel|telecom|customer",
}
"""Benchmark to words that only its own texts have."""
SPEAKS_OF = {
    "environments/textworld_express/data/examples.json": "door to stove",
    "environments/textworld_express/data/reflections.toml": "door to stove",
    "environments/textworld_express/data/texts.toml": "door to stove",
    "environments/textworld_express/solutions.py": "door to",
    "cli/options.py": "boil freeze",
    "report/data/rsso.json": "boil find-plant freeze lifespan substance thermometer",
}
"""Files outside of the folders that may say such words: games in a kitchen too, an example of a key, and a published
table."""


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
                if not name.startswith(f"environments/{benchmark.replace('-', '_')}/"):
                    found.setdefault(name, set()).update(re.findall(rf"\b(?:{words})\b", said.lower()))
    return {name: " ".join(sorted(words)) for name, words in found.items() if words}


def test_nothing_speaks_as_a_benchmark_does_but_its_folder():
    assert find_words(PACKAGE) == SPEAKS_OF


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
