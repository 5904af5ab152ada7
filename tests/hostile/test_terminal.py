"""What a record, a file or a log says is shown, and does nothing else, whichever verb shows it."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.conftest import ORDER
from tests.log_lines import edit_lines

ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\x9d0;x\x9c\u202eevil\u2066[red]red[/red][/][link=file:///x]x[/link]\r\x08"
ACTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
BOOK = {
    "kind": "rsso-dspy constitution",
    "schema": 1,
    "rules": [{"category": "error", "text": f"a {ATTACK}", "solution": f"b {ATTACK}", "source": f"c {ATTACK}"}],
    "provenance": {"variants": [f"boil::3{ATTACK}"], "writer": f"w {ATTACK}", "backend": ATTACK},
}


def poison(data, *names: str):
    """Put the attack into every text under one of these names, at any depth."""
    for name, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if isinstance(value, str) and name in names:
            data[name] = value + ATTACK
        poison(value, *names)


@pytest.fixture
def hostile(run, unit) -> Path:
    """The run with the attack in what a model and an environment say, and an arm that is called so."""
    shown = ("observation", "look", "inventory", "proposed", "action", "reasoning", "subgoal", "unread")
    edit_lines(unit, "unit", lambda line: poison(line, "model", "actor"))
    edit_lines(unit, "text", lambda line: line.update({"is": [f"{text}{ATTACK}" for text in line["is"]]}))
    edit_lines(unit, "call", lambda line: line.get("answer") and line.update(answer=[ATTACK]))
    edit_lines(unit, "trial", lambda line: poison(line["result"], *shown))
    edit_lines(unit, "trial", lambda line: poison(line["memories"], "text", "target", "instructions"))
    about = json.loads((run / "run.json").read_text())
    arm = f"react{ATTACK.replace('/', '|')}"
    about["arms"][arm] = "1"
    (run / "run.json").write_text(json.dumps(about))
    (named := run / "units" / arm / "boil").mkdir(parents=True)
    (named / "99-s0.jsonl").write_text("{\n")
    (run.parent / "book.json").write_text(json.dumps(BOOK))
    (run.parent / "odd.toml").write_text(f"{json.dumps(ATTACK)} = 1\n")
    return run


UNIT = "lifespan-longest-lived::{index}"
VERBS = [
    ("report", "run"),
    ("report", "run", "--json"),
    ("show", "run", UNIT, "--prompts"),
    ("show", "run", ATTACK.replace("\x00", "")),
    ("run", "--replay", "run", "--dry-run"),
    ("constitution", "show", "book.json"),
    ("config", "show", "--config", "odd.toml"),
    (*ORDER, "--out", "run", "--dry-run"),
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:3]).replace(ATTACK, "ATTACK"))
def test_no_verb_hands_on_what_a_terminal_acts_on(rsso, hostile, words):
    (index,) = {path.stem.partition("-")[0] for path in hostile.rglob("units/rsso/*/*.jsonl")}
    code, out, err = rsso(*(word.format(index=index) if word == UNIT else word for word in words))
    assert code in (0, 1, 2)
    assert "evil" in out + err or words[0] == "run", "it is shown"
    assert not (found := ACTS.search(out + err)), repr((out + err)[max(found.start() - 200, 0) : found.end() + 50])


def test_every_verb_prints_through_the_one_exit():
    """`options.echo`, or a console that shows texts as it does."""
    for file in (Path(__file__).parents[2] / "rsso_dspy/cli").glob("*.py"):
        text = file.read_text()
        if file.name not in ("options.py", "__init__.py"):
            assert not re.search(r"typer\.s?echo\(|(?<![\w.])print\(|\bConsole\(", text), file


@pytest.mark.skipif(sys.platform != "linux", reason="has /dev/full, and a shell that closes streams")
@pytest.mark.parametrize(
    ("words", "streams", "code", "err"),
    [
        ("tasks", "<&- >&- 2>&-", 0, ""),
        ("run --tasks nope", ">&- 2>&-", 2, ""),
        ("tasks", "> >(exec true)", 1, ""),
        ("tasks", "> /dev/full", 1, "No space left"),
    ],
)
def test_a_stream_that_is_gone_is_no_failure_of_another(words, streams, code, err):
    # A reader that is to be gone is gone before the command writes.
    command = f"{sys.executable} -c 'import time; time.sleep(0.1); from rsso_dspy.cli import main; main()' {words}"
    shell = ["bash", "-c", f"{command} {streams}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert err in done.stderr
    assert bool(err) == bool(done.stderr)
    assert "Traceback" not in done.stderr
