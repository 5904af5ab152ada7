"""Texts that were written on held-out variants reach nothing that learns, whichever setting names their file. A file
that does not say what it was learned on is called so in plan, file and report."""

import json
from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store

HELD_OUT = ("Unlock::1234", "Unlock::1235")
TRAINING = "Unlock::26"
FAST = ("--benchmark", "babyai", "--set", "embedder.model=lexical", "--set", "protocol.steps=4")
RETRIEVAL = ("--set", 'memory.reflections.improvements=["retrieval"]')
COMPILE = ("compile", *FAST, "--method", "reflexion", "--tasks", "Unlock", "--calib", "1-per-task")
BUILD = ("constitution", "build", *FAST, "--set", "protocol.steps=12", "--tasks", "GoToDoor,Pickup,Open")
BUILD += ("--calib", "1-per-task", "--writer", "neuro-symbolic")


def read(text: str) -> str:
    """Printed text in one line, whatever its wrapping."""
    return " ".join(text.split())


def name_index(folder: str) -> tuple[str, ...]:
    return (*RETRIEVAL, "--set", f"memory.reflections.index={folder}")


def name_examples(memory: str, file: str) -> tuple[str, ...]:
    return ("--set", f"memory.{memory}.examples={file}")


@pytest.fixture
def index(rsso) -> str:
    """A run that wrote reflections on held-out variants."""
    play = ("run", *FAST, "--variants", ",".join(HELD_OUT), "--methods", "reflexion", "--trials", "2")
    assert rsso(*play, "--out", "index")[0] == 0
    return "index"


def write_constitution(name: str, **changes: object) -> str:
    book = {
        "kind": "rsso-dspy constitution",
        "schema": 1,
        "rules": [{"category": "abstract", "text": "Look around."}],
        "provenance": {"variants": [HELD_OUT[0]], "made_by": {"benchmark": "babyai 3.2.0"}},
        "examples": ["Task: open the door\n> open door\nDone.\nAbstract rules:\n- Open doors.\nError rules:\n- none"],
    }
    Path(name).write_text(json.dumps({**book, **changes}))
    return name


def write_reflection_examples(name: str, provenance: str = "") -> str:
    example = '[[example]]\ntranscript = "Step 1. > turn left"\nplan = "Go to the door."\n'
    Path(name).write_text(f"{provenance}\n{example}")
    return name


REFUSED = r"{file} ({setting}) was learned on {variants}, which are held out"


def test_a_compile_refuses_the_reflections_of_a_held_out_run(rsso, index):
    code, _, err = rsso(*COMPILE, *name_index(index), "-o", "compiled.json")

    expected = REFUSED.format(file="index", setting="memory.reflections.index", variants=", ".join(HELD_OUT))
    assert (code, expected in read(err)) == (2, True), err
    assert not Path("compiled.json").exists()
    assert not Path("compiled.json.rollouts").exists()


def test_a_compile_refuses_examples_for_the_reflector_from_held_out_variants(rsso):
    file = write_reflection_examples("examples.toml", f'[provenance]\nvariants = ["{HELD_OUT[0]}"]')

    code, _, err = rsso(*COMPILE, *name_examples("reflections", file), "-o", "compiled.json")

    expected = REFUSED.format(file=file, setting="memory.reflections.examples", variants=HELD_OUT[0])
    assert (code, expected in read(err)) == (2, True), err


def test_a_constitution_is_not_built_with_examples_from_held_out_variants(rsso):
    file = write_constitution("examples.json")

    code, _, err = rsso(*BUILD, *name_examples("constitution", file), "-o", "built.json")

    expected = REFUSED.format(file=file, setting="memory.constitution.examples", variants=HELD_OUT[0])
    assert (code, expected in read(err)) == (2, True), err
    assert not Path("built.json").exists()


def test_a_list_of_variants_that_was_emptied_hides_nothing_that_the_rules_say(rsso):
    rule = {"category": "abstract", "text": "Look around.", "source": f"Unlock::27 + {HELD_OUT[1]}"}
    provenance = {"variants": [], "made_by": {"benchmark": "babyai 3.2.0"}}
    file = write_constitution("examples.json", rules=[rule], provenance=provenance)

    code, _, err = rsso(*BUILD, *name_examples("constitution", file), "-o", "built.json")

    expected = REFUSED.format(file=file, setting="memory.constitution.examples", variants=HELD_OUT[1])
    assert (code, expected in read(err)) == (2, True), err


def test_a_built_constitution_names_the_variants_behind_its_examples(rsso):
    provenance = {"variants": ["Unlock::3"], "made_by": {"benchmark": "babyai 3.2.0"}}
    rule = {"category": "abstract", "text": "Look around.", "source": "Unlock::3"}
    file = write_constitution("examples.json", rules=[rule], provenance=provenance)

    assert rsso(*BUILD, *name_examples("constitution", file), "-o", "built.json")[0] == 0

    built = json.loads(Path("built.json").read_text())["provenance"]
    assert "Unlock::3" in built["variants"]
    assert len(built["variants"]) == 1 + 3, "and those that it was built on"
    assert "source_unknown" not in built


def test_a_compiled_program_names_the_variants_behind_its_examples(rsso):
    file = write_reflection_examples("examples.toml", f'[provenance]\nvariants = ["{TRAINING}"]')
    none = ("--optimizer", "none")

    assert rsso(*COMPILE, *none, *name_examples("reflections", file), "-o", "compiled.json")[0] == 0

    compiled = json.loads(Path("compiled.json").read_text())
    assert (compiled["learned_on"], compiled["source_unknown"]) == ([TRAINING], [])


def test_what_does_not_say_its_source_is_called_unknown_in_plan_file_and_report(rsso):
    file = write_reflection_examples("examples.toml")
    unknown = f"source unknown: {file} (memory.reflections.examples) does not say on which variants it was learned"

    code, _, err = rsso(*COMPILE, "--optimizer", "none", *name_examples("reflections", file), "-o", "compiled.json")
    assert (code, unknown in read(err)) == (0, True), err
    assert json.loads(Path("compiled.json").read_text())["source_unknown"] == [file]

    play = ("run", *FAST, "--variants", HELD_OUT[0], "--methods", "reflexion", "--trials", "2")
    code, _, err = rsso(*play, *name_examples("reflections", file), "--out", "run")
    assert (code, unknown in read(err)) == (0, True), err
    assert f"source unknown {file}" in read(rsso("report", "run")[1])


def test_a_constitution_that_somebody_edited_is_of_unknown_source(rsso):
    assert rsso(*BUILD, "-o", "built.json")[0] == 0
    play = ("run", *FAST, "--variants", HELD_OUT[0], "--methods", "react", "--trials", "1", "--constitution")
    code, _, err = rsso(*play, "built.json", "--out", "as-it-was")
    assert (code, "source unknown" in err) == (0, False), err

    built = json.loads(Path("built.json").read_text())
    built["rules"][0]["text"] += " The red ball is in the left corner."
    Path("edited.json").write_text(json.dumps(built))

    code, _, err = rsso(*play, "edited.json", "--out", "edited")
    assert (code, "source unknown: edited.json (--constitution)" in read(err)) == (0, True), err
    assert "source unknown edited.json" in read(rsso("report", "edited")[1])


def test_an_unknown_source_stays_known_through_what_was_built_with_it(rsso):
    file = write_constitution("examples.json", provenance={})
    assert rsso(*BUILD, *name_examples("constitution", file), "-o", "built.json")[0] == 0
    assert json.loads(Path("built.json").read_text())["provenance"]["source_unknown"] == [file]

    play = ("run", *FAST, "--variants", HELD_OUT[0], "--methods", "react", "--trials", "1")
    code, _, err = rsso(*play, "--constitution", "built.json", "--out", "run")

    expected = f"source unknown: built.json (--constitution) rests on {file}, which does not say"
    assert (code, expected in read(err)) == (0, True), err
    assert f"source unknown {file}" in read(rsso("report", "run")[1])


def test_a_run_reads_reflections_of_its_variants_where_nothing_brings_them_back(rsso, index):
    """A variant is never shown its own. A training that reads them hands them on to all, its own variant too."""
    play = ("run", *FAST, "--variants", HELD_OUT[0], "--methods", "reflexion", *name_index(index), "--out", "run")

    code, _, err = rsso(*play, "--trials", "2")
    assert (code, f"was learned on {', '.join(HELD_OUT)} of the test split" in read(err)) == (0, True), err
    (unit,) = Store(Path("run")).units()
    assert set(unit.learnt_on) == set(HELD_OUT)

    code, _, err = rsso(*play[:-1], "transfer", "--set", "protocol.setting=transfer")
    assert (code, f"learned on {HELD_OUT[0]}, which this run holds out" in read(err)) == (2, True), err


def test_reflections_of_another_benchmark_are_refused(rsso, index):
    pddl = ("run", "--benchmark", "pddl", "--methods", "reflexion", "--tasks", "gripper", "--per-task", "1")
    code, _, err = rsso(*pddl, "--set", "embedder.model=lexical", *name_index(index), "--out", "run")
    assert (code, "index was made on the benchmark babyai, not on pddl" in read(err)) == (2, True), err


@pytest.mark.parametrize("variants", ['"Unlock::1234"', "[7]", '["Unlock"]'])
def test_a_source_that_cannot_be_read_is_refused_and_not_taken_for_unknown(rsso, variants):
    file = write_reflection_examples("examples.toml", f"[provenance]\nvariants = {variants}")
    code, _, err = rsso(*COMPILE, *name_examples("reflections", file), "-o", "compiled.json")
    assert (code, "[provenance] of examples.toml has variants that are no list of keys" in read(err)) == (2, True), err
