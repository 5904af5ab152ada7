"""What may not be scored is refused where a run is planned: in Python and on the command line, with the same words."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.memory.constitution import Constitution, Rule
from rsso_dspy.memory.formats import ConstitutionFile, SkillLibraryFile
from rsso_dspy.optimize.program_file import Compiled
from rsso_dspy.records import ZERO_SHOT, Lesson
from rsso_dspy.runs import plan_run
from rsso_dspy.store.commands import RunSpec, Shard
from tests.memory.memory_cases import skill_memory
from tests.optimize.test_compiled import a_program
from tests.toy_package import installed

PLAYED = "find-plant::228"
ELSEWHERE = ("find-plant::0",)
FAST = ("embedder.model=hash", "protocol.preset=sso-adapt/2-cap60")
OF_TOY = {"made_by": {"benchmark": "toy 1.0", "dspy": "3"}}

Edit = Callable[[Compiled], Compiled]


@dataclass(frozen=True)
class Case:
    """What is asked for that may not be, and what is said of it."""

    said: str
    methods: tuple[str, ...] = ("rsso",)
    program: Edit | None = None
    library: dict | None = None
    """Provenance of a skill library."""
    constitution: dict | None = None
    examples: dict | None = None
    settings: tuple[str, ...] = ()
    benchmark: str = DEFAULT
    error: type[UsageError] = UsageError
    typed: bool = True
    """Whether a command line can ask for it: `load` refuses some programs before."""
    more: dict = field(default_factory=dict)


def describe_environment(**changes: str) -> Edit:
    return lambda program: replace(program, environment=replace(program.environment, **changes))


CASES = {
    "a program compiled on a played variant": Case(
        rf"compiled on {PLAYED}: a score there is not held out",
        program=lambda program: replace(program, train=(PLAYED,)), error=SplitError, typed=False,
    ),
    "a program of another method": Case(
        r"mine was compiled for the method rsso, not for sso: use --methods rsso", ("rsso", "sso"), lambda each: each,
    ),
    "a program of another version": Case(
        rf"mine\.json was compiled in another environment \({DEFAULT} 1\.1\.3, simplification easy\)",
        program=describe_environment(version="1.1.3"),
    ),
    "a program of another benchmark": Case(
        rf"mine\.json was made on the benchmark toy, not on {DEFAULT}.*--benchmark toy",
        program=lambda each: replace(
            each, environment=replace(each.environment, name="toy"), train=("up::0",), val=("up::1",)
        ),
    ),
    "a library learnt on a played variant": Case(
        rf"library\.json was learned on {PLAYED}, which this run holds out",
        library={"variants": [*ELSEWHERE, PLAYED]}, error=SplitError,
    ),
    "a library of another benchmark": Case(
        rf"library\.json was made on the benchmark toy, not on {DEFAULT}.*--benchmark toy",
        library={**OF_TOY, "variants": ["up::0"]},
    ),
    "a library that does not say of which benchmark it is": Case(
        rf"library\.json was learned on variants that {DEFAULT} does not have \(unknown task 'up'.*--benchmark",
        library={"variants": ["up::0"]},
    ),
    "a constitution learnt on a played variant": Case(
        rf"book\.json was learned on {PLAYED}, which this run holds out",
        ("rsso+constitution",), constitution={"variants": [PLAYED]}, error=SplitError,
    ),
    "examples of a played variant": Case(
        rf"examples\.json was learned on {PLAYED}, which this run holds out",
        ("omnireflect-neuro-symbolic",), examples={"variants": [PLAYED]}, error=SplitError,
    ),
    "a method that would read a constitution, and none": Case(
        r"rsso\+constitution would have nothing to read: add --constitution FILE", ("rsso+constitution",)
    ),
    "a program that is not given": Case(
        r"unknown program 'other'.*Pass every compiled program by its name", error=UnknownName, typed=False,
        more={"programs": (ZERO_SHOT, "other")},
    ),
    "a program that nobody named": Case(
        r"mine would not be played", program=lambda each: each, typed=False, more={"programs": (ZERO_SHOT,)},
    ),
}  # fmt: skip


def book(provenance: dict) -> str:
    rule = Rule("A1", Lesson("abstract", "Doors open."), "", "an episode")
    return ConstitutionFile(Constitution((rule,), 1), provenance, ("You are in a hall.",)).to_json()


def written(case: Case, folder: Path) -> RunSpec:
    """The files of a case, and the run that is asked for with them."""
    texts = {
        "library.json": case.library is not None
        and SkillLibraryFile(case.library, skill_memory().snapshot()).to_json(),
        "book.json": case.constitution is not None and book(case.constitution),
        "examples.json": case.examples is not None and book(case.examples),
    }
    for name, text in texts.items():
        if text:
            (folder / name).write_text(text)
    if case.program:
        case.program(a_program()).save(folder / "mine.json")
    variant = PLAYED if case.benchmark == DEFAULT else "up::9"
    spec = RunSpec(
        methods=case.methods,
        programs=("mine",) if case.program else (ZERO_SHOT,),
        compiled=(Path("mine.json"),) if case.program else (),
        variants=(variant,),
        out=Path("run"),
        skills=Path("library.json") if case.library is not None else None,
        constitution=Path("book.json") if case.constitution is not None else None,
    )
    return replace(spec, **case.more)


def settings_of(case: Case) -> list[str]:
    settings = [*FAST, *case.settings, f"benchmark={case.benchmark}"]
    return [*settings, "memory.constitution.examples=examples.json"] if case.examples is not None else settings


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory, tmp_path) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site")))
    monkeypatch.chdir(tmp_path)
    get_benchmark.cache_clear()


@pytest.mark.parametrize("name", CASES)
def test_what_may_not_be_scored_is_refused_before_anything_is_written(rsso, name, tmp_path):
    case = CASES[name]
    spec = written(case, tmp_path)
    if case.typed:
        words = ["run", "--methods", ",".join(spec.methods), "--variants", *spec.variants, "--out", "run"]
        words += ["--programs", "mine.json"] if case.program else []
        words += ["--skills", spec.skills] if spec.skills else []
        words += ["--constitution", spec.constitution] if spec.constitution else []
        code, out, err = rsso(*words, *(word for each in settings_of(case) for word in ("--set", each)))
        assert (code, out) == (2, "")
        assert re.search(case.said, " ".join(err.split())), err
    else:
        programs = {"mine": case.program(a_program())} if case.program else {}
        with pytest.raises(case.error, match=case.said):
            plan_run(load_config(overrides=settings_of(case)), spec, programs)
    assert not (tmp_path / "run").exists()


def test_all_variants_of_a_run_are_held_out_and_not_only_those_of_a_shard():
    config = load_config(overrides=FAST)
    spec = RunSpec(methods=("rsso",), programs=("mine",), variants=(PLAYED, "find-plant::229"), out=Path("run"))
    program = replace(a_program(), train=("find-plant::229",))
    with pytest.raises(SplitError, match="compiled on find-plant::229"):
        plan_run(config, replace(spec, shard=Shard(1, 2)), {"mine": program})
