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
FAST = ("embedder.model=hash", "protocol.preset=sso-adapt/3-cap60")
LIBRARY, BOOK, EXAMPLES = "library.json", "book.json", "examples.json"
ELSEWHERE = rf"was made on the benchmark toy, not on {DEFAULT}.*--benchmark toy"


@dataclass(frozen=True)
class Case:
    """What is asked for that may not be, and what is said of it."""

    said: str
    methods: tuple[str, ...] = ("rsso",)
    program: Callable[[Compiled], Compiled] | None = None
    files: dict[str, dict] = field(default_factory=dict)  # where a library, a constitution or examples come from
    error: type[UsageError] | None = None  # where only Python can ask for it: `load` refuses some programs before
    programs: tuple[str, ...] | None = None


def made(**changes: str) -> Callable[[Compiled], Compiled]:
    """Made in another environment; of the toy, on its variants."""
    known = {"train": ("up::0",), "val": ("up::1",)} if "name" in changes else {}
    return lambda program: replace(program, environment=replace(program.environment, **changes), **known)


def learnt(file: str) -> str:
    return rf"{file} was learned on {PLAYED}, which this run holds out"


CASES = {
    "a program compiled on a played variant": Case(
        rf"compiled on {PLAYED}: a score there is not held out",
        program=lambda program: replace(program, train=(PLAYED,)), error=SplitError,
    ),
    "a program of another method": Case(
        r"mine was compiled for the method rsso, not for sso: use --methods rsso", ("rsso", "sso"), lambda each: each,
    ),
    "a program of another version": Case(
        rf"mine\.json was compiled in another environment \({DEFAULT} 1\.1\.3, simplification easy\)",
        program=made(version="1.1.3"),
    ),
    "a program of another benchmark": Case(rf"mine\.json {ELSEWHERE}", program=made(name="toy")),
    "a library learnt on a played variant": Case(
        learnt(LIBRARY), files={LIBRARY: {"variants": ["find-plant::0", PLAYED]}}
    ),
    "a library of another benchmark": Case(
        rf"{LIBRARY} {ELSEWHERE}",
        files={LIBRARY: {"made_by": {"benchmark": "toy 1.0", "dspy": "3"}, "variants": ["up::0"]}},
    ),
    "a library that does not say of which benchmark it is": Case(
        rf"{LIBRARY} was learned on variants that {DEFAULT} does not have \(unknown task 'up'.*--benchmark",
        files={LIBRARY: {"variants": ["up::0"]}},
    ),
    "a constitution learnt on a played variant": Case(
        learnt(BOOK), ("rsso+constitution",), files={BOOK: {"variants": [PLAYED]}}
    ),
    "examples of a played variant": Case(
        learnt(EXAMPLES), ("omnireflect-neuro-symbolic",), files={EXAMPLES: {"variants": [PLAYED]}}
    ),
    "a method that would read a constitution, and none": Case(
        r"rsso\+constitution would have nothing to read: add --constitution FILE", ("rsso+constitution",)
    ),
    "a program that is not given": Case(
        r"unknown program 'other'.*Pass every compiled program by its name",
        error=UnknownName, programs=(ZERO_SHOT, "other"),
    ),
}  # fmt: skip


def book(provenance: dict) -> str:
    rule = Rule("A1", Lesson("abstract", "Doors open."), "", "an episode")
    return ConstitutionFile(Constitution((rule,), 1), provenance, ("You are in a hall.",)).to_json()


def write_files(case: Case) -> RunSpec:
    """The files of a case, and the run that is asked for with them."""
    for name, known in case.files.items():
        library = SkillLibraryFile(known, skill_memory().snapshot()).to_json()
        Path(name).write_text(library if name == LIBRARY else book(known))
    if case.program:
        case.program(a_program()).save(Path("mine.json"))
    given = {option: Path(name) for option, name in (("skills", LIBRARY), ("constitution", BOOK)) if name in case.files}
    return RunSpec(
        methods=case.methods,
        programs=case.programs or (("mine",) if case.program else (ZERO_SHOT,)),
        compiled=(Path("mine.json"),) if case.program else (),
        variants=(PLAYED,),
        out=Path("run"),
        **given,
    )


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory, tmp_path) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site")))
    monkeypatch.chdir(tmp_path)
    get_benchmark.cache_clear()


@pytest.mark.parametrize("name", CASES)
def test_what_may_not_be_scored_is_refused_before_anything_is_written(rsso, name):
    case = CASES[name]
    spec = write_files(case)
    settings = [*FAST, *([f"memory.constitution.examples={EXAMPLES}"] if EXAMPLES in case.files else [])]
    if case.error:
        programs = {"mine": case.program(a_program())} if case.program else {}
        with pytest.raises(case.error, match=case.said):
            plan_run(load_config(overrides=settings), spec, programs)
    else:
        given = {
            "--programs": case.program and "mine.json",
            "--skills": spec.skills,
            "--constitution": spec.constitution,
        }
        words = ["run", "--methods", ",".join(spec.methods), "--variants", PLAYED, "--out", "run"]
        words += [word for option, file in given.items() if file for word in (option, file)]
        code, out, err = rsso(*words, *(word for each in settings for word in ("--set", each)))
        assert (code, out) == (2, "")
        assert re.search(case.said, " ".join(err.split())), err
    assert not Path("run").exists()


def test_all_variants_of_a_run_are_held_out_and_not_only_those_of_a_shard():
    config = load_config(overrides=FAST)
    spec = RunSpec(methods=("rsso",), programs=("mine",), variants=(PLAYED, "find-plant::229"), out=Path("run"))
    program = replace(a_program(), train=("find-plant::229",))
    with pytest.raises(SplitError, match="compiled on find-plant::229"):
        plan_run(config, replace(spec, shard=Shard(1, 2)), {"mine": program})
