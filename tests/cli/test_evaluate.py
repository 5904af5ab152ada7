"""`rsso-dspy evaluate` and `run --programs` as a person types them: compiled against zero-shot on held-out variants."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rsso_dspy
from rsso_dspy.cli.app import app
from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.program_file import KeptCandidate, ProgramScores, load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST, mark_confirmed

SMALL = ("--per-task", "1", "--trials", "2", *FAST)


@pytest.fixture(scope="module")
def changed(compiled, tmp_path_factory) -> Path:
    """The compiled program with one more sentence in the actor's instruction, so that it differs from the zero-shot one
    whatever the search found."""
    there = load(compiled.file)
    agent = there.agent()
    words = f"{agent.actor.signature.instructions} Be thorough."
    agent.actor.signature = agent.actor.signature.with_instructions(words)
    file = tmp_path_factory.mktemp("programs") / "first.json"
    replace(there, candidate=KeptCandidate(fingerprint_program(agent), agent.dump_state())).save(file)
    mark_confirmed(file)
    return file


def test_both_programs_play_the_same_units_and_their_difference_is_printed(changed, tmp_path):
    folder = tmp_path / "run"
    words = ["evaluate", str(changed), *SMALL, "--jobs", "2", "--out", str(folder)]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    assert done.exit_code == 0, done.output
    out = " ".join(done.stdout.split())
    for text in ("rsso+first - rsso", "tokens", "say nothing about language models", f"rsso-dspy report {folder}"):
        assert text in out
    assert done.stdout.splitlines()[-1] == f"program: {changed}"
    records = list(Store(folder).units())
    programs = {record.arm: record.provenance["program"] for record in records}
    assert programs["rsso+first"] == load(changed).program != programs["rsso"]
    assert {record.program for record in records if record.arm == "rsso+first"} == {"first"}
    of = {arm: {(r.variant, r.seed) for r in records if r.arm == arm} for arm in programs}
    assert of["rsso"] == of["rsso+first"]
    assert not any(record.variant.key in load(changed).calibration for record in records)


def unconfirmed(program):
    """The file as it is when the candidate was better on val and not confirmed."""
    kept = KeptCandidate(program.program, program.state)
    start = Agent(program.method)
    verdict = replace(program.confirmation, verdict="unconfirmed", why="p is not below 0.05")
    state = {"state": start.dump_state(), "program": fingerprint_program(start), "candidate": kept}
    return replace(program, confirmation=verdict, after=ProgramScores(1.0, 100.0), **state)


def nothing_tried(program):
    """The file as it is when the optimizer proposed nothing."""
    return replace(unconfirmed(program), candidate=None, after=program.before)


@pytest.mark.parametrize(
    ("made", "words", "said"),
    [
        (lambda each: each, (), ""),
        (unconfirmed, ("--candidate",), "mine plays its candidate, which is unconfirmed"),
        (lambda each: each, ("--set", "protocol.preset=sso-adapt/3"), "was compiled under sso-adapt/3-cap60 "),
        (lambda each: replace(each, model="openai/m"), (), "was confirmed by openai/m, but plays by"),
        (lambda each: replace(each, trials=3), (), "compiled by the best of 3 trials; here it is the best of 2"),
        (lambda each: replace(each, trials=0), (), ""),
    ],
)
def test_a_line_says_which_program_of_a_file_is_played(rsso, changed, made, words, said):
    made(load(changed)).save("mine.json")
    for verb in (["evaluate", "mine.json"], ["run", "--methods", "rsso", "--programs", "mine.json"]):
        if verb[0] == "evaluate" or "--candidate" not in words:
            code, _, err = rsso(*verb, *SMALL, *words, "--dry-run")
            assert (code, said in " ".join(err.split())) == (0, True), err
            assert said or not [words for words in ("mine holds", "verdict", "best of") if words in err]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        (
            unconfirmed,
            False,
            "`rsso-dspy evaluate mine.json --candidate` (in Python unconfirmed=True) plays its candidate",
        ),
        (nothing_tried, False, "it holds no candidate; compile again"),
        (nothing_tried, True, "it holds no candidate; compile again"),
    ],
)
def test_nothing_is_played_of_a_file_that_holds_nothing_confirmed(rsso, changed, tmp_path, made, asked, said, more):
    made(load(changed)).save("mine.json")
    candidate = ["--candidate"] if asked else []
    for verb in (["evaluate", "mine.json", *candidate], ["run", "--programs", "zero-shot,mine.json"]):
        code, out, err = rsso(*verb, *SMALL, *more, "--out", "out")
        assert (code, out) == (2, "")
        assert f"mine.json: verdict: {load('mine.json').confirmation}. Nothing is played" in " ".join(err.split())
        assert f"started from: {said}" in " ".join(err.split())
    with pytest.raises(UsageError, match="verdict: unconfirmed"):
        rsso_dspy.run(programs="zero-shot,mine.json", unconfirmed=asked, out="out", progress=False)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.json"]


def test_a_compile_that_finds_nothing_better_leaves_a_candidate_that_plays_when_it_is_asked_for(
    rsso, compiled, tmp_path
):
    """Its file alone plays nothing, and the error names the option that plays what it keeps."""
    there = load(compiled.file)
    assert (there.confirmation.verdict, there.improved) == ("not better", False)
    words = ("evaluate", compiled.file, "--variants", "lifespan-longest-lived::98", "--trials", "1", *FAST)
    code, _, err = rsso(*words, "--out", "out")
    assert (code, f"evaluate {compiled.file} --candidate" in err, list(tmp_path.iterdir())) == (2, True, [])
    code, out, err = rsso(*words, "--candidate", "--out", "out")
    assert (code, "rsso+first - rsso" in " ".join(out.split())) == (0, True), err
    programs = {record.arm: record.provenance["program"] for record in Store(tmp_path / "out").units()}
    assert programs == {"rsso": there.program, "rsso+first": there.candidate.program}
    assert there.candidate.program != there.program


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--methods", "sso", "--programs", "a.json"], "a was compiled for the method rsso, not for sso"),
        (["--methods", "sso,rsso", "--programs", "zero-shot,a.json"], "use --methods rsso, or compile one for each"),
        (["--programs", "zero-shot,a.json,deep/a.json"], "--programs names 'a' twice"),
        (["--programs", "zeroshot"], "cannot read the compiled program zeroshot"),
        (["--programs", "zero-shot.json"], "'zero-shot' is not a name"),
        (["--programs", "my prompts.json"], "'my prompts' is not a name of letters, digits"),
        (["--programs", "a.json", "--set", "environment.simplification=openDoors"], "another environment"),
        (["--programs", "held-out.json"], "test split: lifespan-longest-lived::98; take train or dev"),
        (["--programs", "old.json"], "compiled in another environment (scienceworld 1.1.3, simplification easy)"),
        (["--programs", "half.json"], "half.json is damaged"),
    ],
)
def test_programs_that_cannot_play_are_refused_and_nothing_is_left(rsso, changed, tmp_path, words, said):
    content = json.loads(changed.read_text())
    (tmp_path / "deep").mkdir()
    for name in ("a.json", "deep/a.json", "zero-shot.json", "my prompts.json"):
        shutil.copy(changed, tmp_path / name)
    (tmp_path / "half.json").write_text(changed.read_text()[:1000])
    (tmp_path / "held-out.json").write_text(json.dumps({**content, "train": ["lifespan-longest-lived::98"]}))
    old = {**content["environment"], "version": "1.1.3"}
    (tmp_path / "old.json").write_text(json.dumps({**content, "environment": old}))
    methods = [] if "--methods" in words else ["--methods", "rsso"]
    code, out, err = rsso("run", *methods, *words, *SMALL, "--out", "out")
    assert (code, out, (tmp_path / "out").exists()) == (2, "", False)
    assert said in err
    assert "Traceback" not in err
