"""What TUTORIAL and EXTENDING show works as it stands: each block of code is run, each command typed."""

import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

import rsso_dspy
from rsso_dspy.cli import main
from rsso_dspy.environments.benchmark import ADDED, get_benchmark
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import UsageError
from rsso_dspy.memory.formats import SkillLibraryFile
from rsso_dspy.memory.reflections import ReflectionMemory
from rsso_dspy.optimize.optimizers import OPTIMIZERS
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import MEMORIES, METHODS, Method, add_method
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session
from rsso_dspy.store.run_folder import Store
from tests.chaos.setup import scripted as answering
from tests.docs.blocks import DOCS, blocks, commands, differs, follow, page, section
from tests.hostile.test_guards import book
from tests.live import acting, model, scripted
from tests.memory.memory_cases import lend, skill_memory
from tests.optimize.test_compiled import a_program
from tests.provider_server import provider
from tests.records import record, save, trajectory
from tests.toy_package import installed

QUICK = "lifespan-longest-lived::98"

Typed = Callable[[str], str]


@pytest.fixture(autouse=True)
def _tables():
    """Methods, memories and benchmarks that a test adds are gone after it."""
    before = _copy_tables()
    yield
    _put_back(before)


TABLES: tuple[dict, ...] = (METHODS, MEMORIES, ADDED)


def _copy_tables() -> list[dict]:
    return [dict(table) for table in TABLES]


def _put_back(before: list[dict]) -> None:
    for table, kept in zip(TABLES, before, strict=True):
        table.clear()
        table.update(kept)
    get_benchmark.cache_clear()


@pytest.fixture
def typed(tmp_path, monkeypatch, capsys, env: ScienceWorld) -> Typed:
    """Type a command in an empty folder; gives what it prints. A simulator runs already."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)

    def typed(line: str) -> str:
        program, *words = shlex.split(line)
        before = _copy_tables()
        monkeypatch.setattr(sys, "argv", words if program == "python" else [program, *words])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main() if program == "rsso-dspy" else runpy.run_path(words[0], run_name="__main__")
        _put_back(before)  # as when a process ends
        said = capsys.readouterr()
        assert not ended.value.code, said.err + said.out
        return said.err + said.out

    return typed


def test_the_tutorial_says_what_happens_from_its_first_block_to_its_last(typed, capsys):
    follow(page("TUTORIAL.md"), typed, capsys)


MANY = r"--tasks \S+ --per-task \d+(?: --trials \d+)?(?: --jobs \d+)?"
SHORT = " --set protocol.steps=5 --set embedder.model=hash"
PLANNED = " --dry-run --set protocol.preset=sso-adapt/3-cap60 --set embedder.model=hash"


@pytest.mark.parametrize("name", ["../README.md", "TUTORIAL.md"])
def test_every_other_command_works(typed, monkeypatch, name):
    """The first run is played on one variant; what else would play is planned, and leaves a file as if it had."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    Path("examples").symlink_to(DOCS.parent / "examples")
    shutil.copy("examples/house_rules/my-rules.toml", "my-rules.toml")
    Path("AGENTS.md").write_text("# Rules\n\n- Use pnpm.\n")
    library = skill_memory().snapshot()
    made = {
        "rsso.json": lambda file: a_program().save(file),
        "constitution.json": lambda file: file.write_text(book({"variants": ["find-plant::0"]})),
        "boil.json": lambda file: file.write_text(SkillLibraryFile({"variants": ["boil::0"]}, library).to_json()),
    }
    text = "\n".join(block.text for block in blocks(page(name)) if not block.language).replace("\\\n", "")
    lines = [line.partition(" #")[0].strip() for line in text.splitlines() if line.startswith("rsso-dspy ")]
    assert sum("--out runs/first" in line for line in lines) == 1
    for line in lines:
        if "--out runs/first" in line:
            typed(re.sub(MANY, "--variants find-plant::229 --trials 1", line) + SHORT)
        elif re.match(r"rsso-dspy (run (?!--replay)|compile|evaluate|constitution build)", line):
            if "run.engine=ray" not in line or find_spec("ray"):
                typed(line.replace(" --dry-run", "") + PLANNED)
        elif line.startswith("rsso-dspy skills export runs/transfer boil "):
            (store := Store(Path("runs/transfer"))).open({"protocol": "sso-adapt/3"}, {"sso": "1"})
            save(store, replace(record("sso", "boil", 22, [[10], [60]]), memories={"skills": library}))
            typed(line.replace(" boil ", " boil::22 "))
        elif line != "rsso-dspy doctor":  # which tests/cli has
            typed(line.replace("runs/part-*", "runs/first"))
        if write := made.get(line.rpartition(" -o ")[2]):
            write(Path(line.rpartition(" -o ")[2]))


def test_the_memory_of_the_page_is_kept_shown_and_recorded(typed):
    (code, console, _) = blocks(section("EXTENDING.md", "A memory"), "python", "console")
    Path(code.file).write_text(code.text)
    for line, shown in commands(console):
        assert not differs(shown, said := typed(line)), said
    unit = next(unit for unit in Store(Path("runs/dead-ends")).units() if unit.arm == "dead-ends")
    assert unit.memories["dead_ends"]["found"]
    assert unit.trials[0].learnt["dead_ends"]["held"] > 0


def test_the_memory_of_the_page_speaks_where_an_action_changed_nothing(typed, live: Session, tmp_path):  # noqa: ARG001
    (code, _) = blocks(section("EXTENDING.md", "A memory"), "python")
    exec(compile(code.text, code.file, "exec"), {"__name__": "dead_ends"})
    prompts = {}
    for name in ("react-sso", "dead-ends"):
        engine = scripted(["look around", "teleport to hallway", "look around"])
        with acting(live, lambda _role, _rollout, engine=engine: model(engine), budget=lambda _: 4):
            Agent(name)(variant=QUICK, trials=1)
        prompts[name] = engine.prompts
    assert prompts["dead-ends"][0] == prompts["react-sso"][0]
    said = [
        prompt.rpartition("<user>")[2].count("look around: changes nothing here") for prompt in prompts["dead-ends"]
    ]
    assert said == [0, 1, 0, 1]
    assert "actions that were tried right here" in prompts["dead-ends"][1]


def test_the_list_of_texts_of_the_page_learns_what_earned_points():
    (_, code) = blocks(section("EXTENDING.md", "A memory"), "python")
    names: dict = {}
    exec(code.text, names)
    memory = names["Gains"](lend())
    memory.learn(trajectory(Variant("boil", 0), 1, [0, 10]))
    assert [(entry.id, entry.text) for entry in memory.held] == [("G1", "look earned 10 points")]


def speaking_in(region: str, about: str = "how it is outside", asks: tuple[str, ...] = ()) -> type[ReflectionMemory]:
    """The class of a memory with a region of its own."""
    return type("Weather", (ReflectionMemory,), {"region": region, "about": about, "asks": asks})


@pytest.mark.parametrize(
    ("row", "memory", "error"),
    [
        (Method("rsso", "sso", (), ""), None, "rsso is taken"),
        (Method("my+own", "sso", (), ""), None, "small letters"),
        (Method("mine", "sso", ("dreams",), ""), None, "unknown memory 'dreams'"),
        (Method("mine", "flat", ("new",), ""), speaking_in("two words"), "cannot be played"),
        (Method("mine", "sso", ("new",), ""), speaking_in("weather", ""), "lacks `about`, what it holds"),
        (Method("mine", "sso", ("new",), ""), speaking_in("weather", asks=("seer",)), "unknown module 'seer'"),
        *(
            (Method("mine", "sso", ("new",), ""), speaking_in(name), "the method mine cannot be played")
            for name in ("instructions", "_x", "fields", "model_config", "input_fields", "copy", "self", "completions")
        ),
        *((Method(name, "sso", (), ""), None, f"{name} is taken") for name in ("zero-shot", "constitution", "neural")),
    ],
)
def test_a_method_that_cannot_be_is_refused(row, memory, error):
    before = dict(METHODS)
    with pytest.raises(UsageError, match=error):
        add_method(row, **({"new": memory} if memory else {}))
    assert before == METHODS


def test_a_folder_is_bound_to_what_a_region_tells_the_actor():
    for name, told in (("cold", "how cold it is"), ("mild", "how mild it is")):
        add_method(Method(name, "flat", (f"{name}-weather",), ""), **{f"{name}-weather": speaking_in("weather", told)})
    add_method(Method("plain", "flat", ("reflections",), ""))
    cold, mild, plain, known = (fingerprint_program(Agent(name)) for name in ("cold", "mild", "plain", "reflexion"))
    assert len({cold, mild, plain}) == 3
    assert plain == known
    assert fingerprint_program(Agent("cold+constitution")) == fingerprint_program(Agent("cold").deepcopy()) == cold


def test_the_benchmark_of_the_page_is_played_compiled_and_reported(typed, capsys, monkeypatch, tmp_path):
    def none(**_):
        raise AssertionError("a game of one's own needs no simulator")

    monkeypatch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", none)
    pytest.importorskip("minigrid", reason="the extra babyai is not installed")
    text = section("EXTENDING.md", "A benchmark")
    (package,) = [block.text for block in blocks(text, "toml") if block.file == "pyproject.toml"]
    points = tomllib.loads(package)["project"]["entry-points"]["rsso_dspy.benchmarks"]
    monkeypatch.syspath_prepend(installed(tmp_path, **points))
    follow(text, typed, capsys)
    assert {unit.key for unit in Store(Path("runs/walks")).units()} == {
        f"{task}::{index}" for task in ("empty", "crossing") for index in (30, 31)
    }
    assert {unit.key for unit in Store(Path("runs/doors")).units()} == {f"treasure::{index}" for index in (9, 10, 11)}
    units = list(Store(Path("runs/cave")).units())
    assert [(unit.arm, unit.key) for unit in units] == [
        (arm, f"fetch-lamp::{index}") for arm in ("react-sso", "rsso") for index in range(6, 10)
    ]
    assert all(unit.trajectories[-1].solved for unit in units)


def test_the_backends_and_the_embedder_of_the_page_answer(typed, capsys):
    with provider(answering) as served:
        text = section("EXTENDING.md", "A backend")
        follow(text, typed, capsys, lambda toml: toml.replace("http://127.0.0.1:8000/v1", served.url))
    (unit,) = Store(Path("runs/mine")).units()
    assert unit.model == "hosted_vllm/served-model"
    assert len(served.requests) == sum(len(trajectory.steps) for trajectory in unit.trajectories)
    assert not served.flaws


def test_the_optimizer_of_the_page_makes_a_program_that_is_tested(typed, capsys, monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "lines", None)  # gone after the test
    follow(section("EXTENDING.md", "An optimizer"), typed, capsys)
    assert len(rsso_dspy.load("lines.json").tried) > 2, "the agent as it is, the placebo and a line"


def test_the_hello_example_is_short_and_its_memory_is_read(live: Session, capsys):
    file = Path(__file__).parents[2] / "examples/hello_agent.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) < 40
    with live.activate_for_user():
        runpy.run_path(str(file), run_name="__main__")
    retries, remembering = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"AgentPrediction\(react-sso on .*: score 0\.10, points 10, .*\)", retries)
    assert re.fullmatch(r"AgentPrediction\(hello on .*: score 0\.\d\d, points 100, .* solved\)", remembering)


def test_any_two_programs_are_compared_as_the_page_says(typed, capsys):
    follow(section("COMPILING.md", "Any two programs"), typed, capsys)
