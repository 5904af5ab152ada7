"""`rsso-dspy program` on a file that a compile left, and on copies of it that people or disks have changed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program

ADVICE = "\n\nAdvice from earlier attempts:\n- Visit another room first.\n- Do not focus on the rock."
DEMO = {
    "task": "Find a plant. " * 30,
    "history": "A hall.",
    "reasoning": "I look.",
    "current_subgoal": "none",
    "next_action": "look around",
    "augmented": True,
}


@pytest.fixture
def edited(compiled, tmp_path) -> Callable[..., Path]:
    """A copy of the compiled file after an edit of its content, with the fingerprint of what it then says."""

    def write(edit: Callable[[dict[str, Any]], Any], name: str = "edited.json", stamped: bool = True) -> Path:
        content = compiled.content
        edit(content)
        if stamped:
            agent = Agent(content["method"])
            agent.load_state(content["state"])
            content["program"] = fingerprint_program(agent)
        (tmp_path / name).write_text(json.dumps(content))
        return Path(name)

    return write


def advised(content: dict[str, Any]) -> None:
    content["state"]["actor"]["signature"]["instructions"] += ADVICE
    content["state"]["actor"]["demos"] = [DEMO]


def scored(content: dict[str, Any]) -> None:
    """Twelve candidates with a score on every calibration variant but one each."""
    keys = [*content["val"], *content["train"]]
    scores = {"metric": 0.5, "mean": 50.0}
    content["tried"] = [
        {"program": f"{number:012x}", "scores": scores, "per_variant": dict.fromkeys(keys[number % 2 :], number / 12)}
        for number in range(12)
    ]


# show


def test_show_tells_where_a_program_came_from_and_what_it_says(rsso, compiled):
    code, out, err = rsso("program", "show", compiled.file)
    there, said = load(compiled.file), " ".join(out.split())
    assert (code, err) == (0, "")
    for text in (*there.calibration, there.model, f"rollouts: {there.rollouts} of 8, each 2 trials of 60 steps"):
        assert text in said
    assert f"model calls: {there.lm_calls}" in said
    assert "say nothing about language models" in said
    assert [line for line in out.splitlines() if line.endswith("zero-shot") or "zero-shot, chosen" in line]
    for name, state in there.state.items():
        assert f"\n{name}: " in out
        assert state["signature"]["instructions"].split(".")[0].split("\n")[0][:60] in said


def test_show_marks_what_was_changed_and_abridges_demonstrations(rsso, edited):
    out = rsso("program", "show", edited(advised))[1]
    assert "\nactor: changed\n" in out
    assert "\nreflector: the zero-shot instruction\n" in out
    assert "- Do not focus on the rock." in out
    assert "demonstration 1 of 1" in out
    assert f"({len(DEMO['task'])} characters)" in out
    assert out.count("Find a plant.") < 30
    assert "augmented" not in out


def test_the_zero_shot_instruction_stands_above_or_beside_the_compiled_one(rsso, edited, monkeypatch):
    file = edited(advised)
    beside = rsso("program", "show", file)[1]
    assert re.search(r"^ +zero-shot +compiled$", beside, re.M)
    assert re.search(r"You are playing .+ You are playing", beside)
    monkeypatch.setenv("COLUMNS", "80")
    above = rsso("program", "show", file)[1]
    assert above.index("  zero-shot:\n") < above.index("  compiled:\n") < above.index("- Do not focus on the rock.")
    assert not re.search(r"You are playing .+ You are playing", above)


def test_scores_per_calibration_variant_are_a_table(rsso, edited, compiled):
    content = compiled.content
    data = json.loads(rsso("program", "show", edited(scored), "--json")[1])
    assert data["candidates"][3]["per_variant"][content["train"][0]] == 0.25
    out = rsso("program", "show", edited(scored))[1]
    assert "Metric per calibration variant" in out
    (first,) = [line for line in out.splitlines() if line.startswith(f"*{content['val'][0]}  ")][:1]
    assert first.split()[1:4] == ["0.000", "-", "0.167"]
    assert all(f"#{number}" in out for number in range(12))
    (other,) = [line for line in out.splitlines() if line.startswith(f" {content['train'][0]}  ")][:1]
    assert other.split()[1:3] == ["0.000", "0.083"]


@pytest.mark.parametrize("columns", [40, 80, 160])
@pytest.mark.parametrize("verb", ["show", "diff", "validate"])
def test_nothing_is_wider_than_the_terminal(rsso, edited, compiled, monkeypatch, columns, verb):
    monkeypatch.setenv("COLUMNS", str(columns))

    def both(content):
        advised(content)
        scored(content)
        content["train"] = ["inclined-plane-friction-named-surfaces::25", *content["train"]]
        content["tried"][0]["per_variant"]["inclined-plane-friction-named-surfaces::25"] = 1.0

    words = [compiled.file.name, edited(both)] if verb == "diff" else [edited(both)]
    Path(compiled.file.name).write_bytes(compiled.file.read_bytes())
    code, out, err = rsso("program", verb, *words)
    assert (code, err) == (0, ""), out
    assert max(map(len, out.splitlines())) <= columns


def test_what_would_steer_a_terminal_is_shown_as_a_mark(rsso, edited):
    def hostile(content):
        content["state"]["actor"]["signature"]["instructions"] += " \x1b[2J\x07Trust me."
        content["notes"] = ["\x1b]0;title\x07"]

    for words in (["show"], ["diff", "zero-shot"]):
        out = rsso("program", *words, edited(hostile))[1]
        assert "\x1b" not in out + "".join(words)
        assert "\x07" not in out
        assert "Trust me." in out


def test_a_program_made_from_an_agent_is_shown_as_that_and_not_as_a_compile(rsso, tmp_path):
    agent = Agent("react-sso")
    agent.actor.signature = agent.actor.signature.with_instructions("Look twice.")
    Compiled.from_agent(agent, trainset=["find-plant::0"]).save(tmp_path / "mine.json")
    code, out, err = rsso("program", "show", "mine.json")
    said = " ".join(out.split())
    assert (code, err) == (0, "")
    for text in (
        "mine.json: react-sso, made from an agent",
        "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
        "rsso-dspy evaluate mine.json",
        "differs from the zero-shot program in: instruction of actor",
        "train, 1 variant: find-plant::0",
        "actor: changed",
    ):
        assert text in said
    for text in ("ended before", "holds the zero-shot program", "optimizer finished", "rollouts", "compared, on"):
        assert text not in said
    assert json.loads(rsso("program", "show", "mine.json", "--json")[1])["improved"] is False
    assert rsso("program", "validate", "mine.json")[0] == 0


# diff


def test_diff_shows_sentences_that_came_and_went(rsso, edited):
    file = edited(advised)
    code, out, _ = rsso("program", "diff", "zero-shot", file)
    assert code == 0
    assert "  + - Do not focus on the rock.\n" in out
    assert re.search(r"\.\.\. \d+ unchanged sentences", out)
    assert "  + demonstration\n" in out
    assert "unchanged roles: reflector, skill_verbalizer.summary" in out
    back = rsso("program", "diff", file, "zero-shot")[1]
    assert "  - - Do not focus on the rock.\n" in back
    assert "  - demonstration\n" in back


def test_diff_in_a_wide_terminal_is_side_by_side_and_word_by_word(rsso, edited, monkeypatch):
    def reworded(content):
        words = content["state"]["actor"]["signature"]
        words["instructions"] = words["instructions"].replace("You may be offered", "At times you are offered")

    file = edited(reworded)
    monkeypatch.setenv("COLUMNS", "160")
    piped = rsso("program", "diff", "zero-shot", file)[1]
    assert "  - You may be offered subgoals" in piped
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    wide = rsso("program", "diff", "zero-shot", file)[1]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", wide)
    assert re.search(r"You may be offered subgoals .+ At times you are offered subgoals", plain)
    marked = re.findall(r"\x1b\[([0-9;]+)m([^\x1b]*)", wide)
    assert [text for style, text in marked if style.endswith("31")] == ["You may be"]
    assert [text for style, text in marked if style.endswith("32")] == ["At times you are"]
    assert max(map(len, plain.splitlines())) <= 160
    monkeypatch.setenv("COLUMNS", "80")
    assert "  - You may be offered" in rsso("program", "diff", "zero-shot", file)[1]


def test_diff_as_data(rsso, edited, compiled):
    data = json.loads(rsso("program", "diff", "zero-shot", edited(advised), "--json")[1])
    assert (data["a"], data["b"]) == (
        {"program": "zero-shot", "method": "rsso"},
        {"program": "edited.json", "method": "rsso"},
    )
    actor = data["roles"][0]
    assert [row["b"] for row in actor["rows"] if row["op"] == "added"][-1] == "- Do not focus on the rock."
    assert actor["added"][0]["next_action"] == "look around"
    assert not data["same"]
    assert json.loads(rsso("program", "diff", compiled.file, compiled.file, "--json")[1])["same"]


def test_two_times_zero_shot_and_a_missing_file_are_wrong_calls(rsso, compiled):
    code, out, err = rsso("program", "diff", "zero-shot", "zero-shot")
    assert (code, out) == (2, "")
    assert "give a compiled file as one of the two" in err
    for words in (["show"], ["validate"], ["diff", compiled.file]):
        code, out, err = rsso("program", *words, "nowhere.json")
        assert (code, out) == (2, "")
        assert "cannot read the compiled program nowhere.json: No such file" in err


# validate


def test_a_compiled_file_is_sound_and_every_check_is_named(rsso, compiled):
    code, out, err = rsso("program", "validate", compiled.file)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert said.count("ok: ") == 6
    assert "is valid" in said
    for check in ("is complete", "is held-out", "no instruction is empty", "demonstrations have the fields"):
        assert check in said
    data = json.loads(rsso("program", "validate", compiled.file, "--json")[1])
    assert data["valid"]
    assert all(check["ok"] for check in data["checks"])


def _held_out(content):
    content["train"].append("lifespan-longest-lived::98")


def _no_words(content):
    content["state"]["reflector"]["signature"]["instructions"] = "\n"


def _half_a_demo(content):
    content["state"]["actor"]["demos"] = [{"task": "t", "next_action": "look"}]


def _other_version(content):
    content["environment"]["version"] = "1.1.3"


def _impossible(content):
    content["tried"][0]["scores"]["metric"] = 7


@pytest.mark.parametrize(
    ("edit", "said", "fix"),
    [
        (_held_out, "lifespan-longest-lived::98", "take train or dev variants"),
        (_no_words, "reflector has none", "write one, or compile again"),
        (_half_a_demo, "demonstration 1 of actor lacks reasoning, current_subgoal", "take it out, or compile again"),
        (_other_version, "compiled in scienceworld 1.1.3", "install that version, or compile again"),
        (_impossible, "a metric outside of 0 to 1", "restore the file, or compile again"),
    ],
)
def test_what_is_wrong_is_named_with_the_fix_and_the_exit_code_is_1(rsso, edited, edit, said, fix):
    file = edited(edit)
    code, out, err = rsso("program", "validate", file)
    assert (code, err) == (1, "")
    flat = " ".join(out.split())
    assert said in flat
    assert fix in flat
    assert "wrong: " in out
    assert "is not valid" in out
    code, out, _ = rsso("program", "validate", file, "--json")
    data = json.loads(out)
    assert (code, data["valid"]) == (1, False)
    assert [check["problem"] for check in data["checks"] if check["ok"] is False]


def test_an_edit_by_hand_that_was_owned_up_to_is_sound_with_a_note(rsso, edited):
    code, out, _ = rsso("program", "validate", edited(advised))
    assert code == 0
    assert "as after an edit by hand" in " ".join(out.split())
    code, out, _ = rsso("program", "validate", edited(advised, stamped=False))
    assert code == 1
    assert "its prompts were changed after compiling" in " ".join(out.split())
    assert out.count("not checked: ") == 5


VALUES = [None, "", "text", 5, -1.5, [], {}, [[]], [None], {"x": None}, True, "\ud800", 10**30]


def _places(content: Any, path: tuple = ()) -> list[tuple]:
    """Every place of a JSON document, as keys and indices; of lists the first entry."""
    inside = (
        content.items() if isinstance(content, dict) else enumerate(content[:1]) if isinstance(content, list) else ()
    )
    return [path, *(place for key, part in inside for place in _places(part, (*path, key)))]


def test_no_damage_makes_a_traceback(rsso, edited, tmp_path, monkeypatch):
    """Every value of the file exchanged for others: `load` refuses it in words, or it is shown."""
    monkeypatch.setenv("COLUMNS", "40")
    whole = json.loads(edited(lambda content: (advised(content), scored(content))).read_text())
    places = [place for place in _places(whole) if place and place[:2] != ("identity", "config")]
    for number, place in enumerate(places):
        content = json.loads(json.dumps(whole))
        holder = content
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = VALUES[number % len(VALUES)]
        (tmp_path / "odd.json").write_text(json.dumps(content))
        verb = ("show", "validate", "diff")[number % 3]
        code, _, err = rsso("program", verb, *(["zero-shot"] if verb == "diff" else []), "odd.json")
        assert code in (0, 1, 2), place
        assert "Traceback" not in err, place


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"NaN", b'{"kind": 5}'])
def test_files_that_are_something_else_are_refused_by_every_verb(rsso, tmp_path, content):
    (tmp_path / "odd.json").write_bytes(content)
    for words, expected in ((["show"], 2), (["validate"], 1), (["diff", "zero-shot"], 2)):
        code, out, err = rsso("program", *words, "odd.json")
        assert code == expected
        assert "compiled program" in " ".join((out + err).split())
    (tmp_path / "folder").mkdir()
    assert rsso("program", "validate", "folder")[0] == 2
