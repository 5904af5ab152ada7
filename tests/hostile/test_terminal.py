"""What a record, a file or a log says is shown, and does nothing else, whichever verb shows it."""

import json
import re
from pathlib import Path

import pytest

from tests.hostile.conftest import ORDER

ATTACK = (
    "\x1b]0;owned\x07\x1b[2J\x1b[8m\x9b31m\x9d0;x\x9c\u202eevil\u2066[red]red[/red][/][link=file:///x]x[/link]\r\x08"
)
ACTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")

KEPT = {"protocol", "arm", "method", "program", "backend", "task", "split", "simplification", "outcome", "provenance"}
"""Texts that say where a record belongs, or one of a few words."""

BOOK = {
    "kind": "rsso-dspy constitution",
    "schema": 1,
    "rules": [{"category": "error", "text": f"a {ATTACK}", "solution": f"b {ATTACK}", "source": f"c {ATTACK}"}],
    "provenance": {"variants": [f"boil::3{ATTACK}"], "writer": f"w {ATTACK}", "backend": ATTACK},
    "edits": [{"what": "add", "id": "E1", "source": ATTACK, "text": ATTACK, "why": ATTACK, "of": [ATTACK]}],
}


def poisoned(data, key=""):
    """The data with the attack in every text and every key that is free."""
    if isinstance(data, dict):
        free = key in ("learnt", "shown", "failures", "usage", "counts")
        inner = "counts" if key == "learnt" else ""
        named = {name: poisoned(value, inner or name) for name, value in data.items() if name not in KEPT}
        kept = {name: value for name, value in data.items() if name in KEPT}
        extra = {f"x{ATTACK}": next(iter(named.values()))} if free and named else {}
        return {**named, **kept, **extra}
    if isinstance(data, list):
        return [poisoned(each, key) for each in data]
    return f"{data}{ATTACK}" if isinstance(data, str) and key not in KEPT else data


def poison_line(line):
    """A line of a log with the attack; what says where a call belongs, and which lines of text it has, stays."""
    kept = {name: line[name] for name in ("time", "role", "parameters", "messages", "usage") if name in line}
    return poisoned(line) | kept


@pytest.fixture
def hostile(run, unit) -> Path:
    """The run with the attack wherever a text stands, and an arm that is called so."""
    arm = f"react{ATTACK.replace('/', '|')}"
    lines = [poison_line(json.loads(line)) for line in unit.read_text().splitlines()]
    last = max((line for line in lines if "result" in line), key=lambda line: line["trial"])
    last["result"] |= {"trajectory": None, "failure": {"kind": "Error", "message": ATTACK}}
    head = lines[0]["unit"]
    head["model"] = head["models"]["actor"] = f"m/{ATTACK}"
    about = json.loads((run / "run.json").read_text())
    about["arms"][arm] = "1"
    (run / "run.json").write_text(json.dumps(about))
    named = run / "units" / arm / head["variant"]["task"] / unit.name
    named.parent.mkdir(parents=True)
    for path, who in ((unit, {}), (named, {"arm": arm, "provenance": {}})):
        path.write_text("".join(f"{json.dumps(line)}\n" for line in ({"unit": {**head, **who}}, *lines[1:])))
    (named.parent / "99-s0.jsonl").write_text("{\n")
    (run.parent / "book.json").write_text(json.dumps(BOOK))
    (run.parent / "bad.json").write_text(f"{{{json.dumps(ATTACK)}: 1, {json.dumps(ATTACK)}: 2}}")
    (run.parent / "bad.toml").write_text(f'methods = ["{ATTACK.encode().decode("ascii", "ignore")}')
    (run.parent / "odd.toml").write_text(f"{json.dumps(ATTACK)} = 1\n")
    return run


UNIT = "lifespan-longest-lived::{index}"
VERBS = [
    ("report", "run"),
    ("report", "run", "--json"),
    ("show", "run", UNIT, "--prompts"),
    ("show", "run", ATTACK.replace("\x00", "")),
    ("run", "--replay", "run", "--dry-run"),
    ("export", "run", "-o", "x.parquet"),
    ("skills", "export", "run", UNIT, "-o", "skills.json"),
    ("constitution", "show", "book.json"),
    ("show", "bad.json"),
    ("run", "--config", "bad.toml"),
    ("config", "show", "--config", "odd.toml"),
    (*ORDER, "--out", "run", "--dry-run"),
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:3]).replace(ATTACK, "ATTACK"))
def test_no_verb_hands_on_what_a_terminal_acts_on(rsso, hostile, words):
    (index,) = {path.stem.partition("-")[0] for path in hostile.rglob("units/rsso/*/*.jsonl")}
    code, out, err = rsso(*(word.format(index=index) if word == UNIT else word for word in words))
    assert code in (0, 1, 2)
    assert out + err
    assert "evil" in out + err or words[0] in ("export", "skills", "run") or "bad.toml" in words, "it is shown"
    assert not (found := ACTS.search(out + err)), repr((out + err)[max(found.start() - 200, 0) : found.end() + 50])


def test_every_verb_prints_through_the_one_exit():
    """`options.echo`, or a console that shows texts as it does."""
    for file in (Path(__file__).parents[2] / "rsso_dspy/cli").glob("*.py"):
        text = file.read_text()
        if file.name not in ("options.py", "__init__.py"):
            assert not re.search(r"typer\.s?echo\(|(?<![\w.])print\(|(?<!Safe)Console\(", text), file
