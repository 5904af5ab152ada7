"""A constitution as a file that a person can read, edit and give to another agent.

    kind, schema     what the file is
    rules            in order: id, category, text, solution of an error, task, source, count
    provenance       writer, variants, models
    edits            history of the rules
    examples         examples of play with rules drawn by patterns, for neuro-symbolic writers

Plain JSON: a foreign file can only put words into prompts. A handwritten rule needs only category and text (an error
rule also a solution).
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory import clean_text
from rsso_dspy.memory.constitution.constitution import HEADINGS, LASTING, Constitution

KIND = "rsso-dspy constitution"

SCHEMA = 1
"""Schema version of the file; others are refused."""

LONGEST_ID = 10
"""Maximum length of an id: a letter and a number."""

BY_HAND = "written by hand"


@dataclass(frozen=True, slots=True)
class ConstitutionFile:
    """The content of one file."""

    constitution: Constitution
    provenance: dict[str, Any] = field(default_factory=dict)
    examples: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        """Keys of the variants it was learned on."""
        return tuple(str(key) for key in self.provenance.get("variants", ()))

    def to_json(self) -> str:
        dumped = self.constitution.dump()
        data = {"kind": KIND, "schema": SCHEMA, "rules": dumped["rules"], "numbered": dumped["numbered"]}
        data |= {"provenance": self.provenance, "edits": dumped["edits"], "examples": list(self.examples)}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_constitution(path: Path) -> ConstitutionFile:
    """Read a file. Raises `UsageError` that names the file, the fault and its place."""
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(f"cannot read the constitution {path}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{path} is not JSON ({error.why}); fix it or build it again") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(f"{path} is not a constitution; `rsso-dspy constitution build -o FILE` makes one")
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {data.get('schema')}, but this program reads schema {SCHEMA}; "
            "use the version of rsso-dspy that wrote it, or build it again"
        )
    rows, provenance = data.get("rules"), data.get("provenance", {})
    examples = data.get("examples", [])
    if not isinstance(rows, list) or not isinstance(provenance, dict) or not isinstance(examples, list):
        raise UsageError(f"{path} is damaged: rules and examples must be lists, provenance an object")
    variants = provenance.get("variants", [])
    if not isinstance(variants, list) or not all(isinstance(key, str) and "::" in key for key in variants):
        raise UsageError(f'{path}: variants in provenance must be a list of keys, e.g. ["boil::3"]')
    try:
        _check_edits(data.get("edits", []))
        last = max([data.get("numbered", 0), *(int(edit["id"][1:]) for edit in data.get("edits", ()))])
        rules = _assign_rule_ids([_check_rule(row, number, path) for number, row in enumerate(rows, start=1)], last)
        book = Constitution.load({**data, "rules": rules, "numbered": last})
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{path} is damaged ({type(error).__name__}: {error}); build it again") from None
    if len({rule.id for rule in book.rules}) < len(book.rules):
        raise UsageError(f"{path} gives two rules the same id; remove one of the ids")
    highest = max((int(rule.id[1:]) for rule in book.rules), default=0)
    book = replace(book, numbered=max(book.numbered, highest))
    return ConstitutionFile(book, provenance, tuple(str(each) for each in examples))


def format_examples(path: Path | None, usual: Sequence[str] = ()) -> str:
    """Render the examples of a constitution file, or the default ones, for a neuro-symbolic writer.

    Raises what `read_constitution` raises, and `UsageError` for a file without examples.
    """
    found = tuple(usual) if path is None else read_constitution(path).examples
    if path is not None and not found:
        raise UsageError(f"{path} holds no examples; `rsso-dspy constitution build` writes files with examples")
    return "\n\n".join(f"Example {number}\n{example}" for number, example in enumerate(found, start=1))


def _check_edits(edits: Any) -> None:
    """Raise `ValueError` unless all fields of every edit are texts."""
    for edit in edits:
        texts = [
            edit["what"],
            edit["id"],
            *(edit.get(key, "") for key in ("source", "text", "why")),
            *edit.get("of", ()),
        ]
        if not all(isinstance(text, str) for text in texts) or len(edit["id"]) > LONGEST_ID:
            raise ValueError(f"an edit that is no text: {str(edit)[:80]}")


def _check_rule(row: Any, number: int, path: Path) -> dict[str, Any]:
    where = f"{path}: rule {number}"
    if not isinstance(row, dict):
        raise UsageError(f"{where} must be an object with category and text")
    category, name, times = row.get("category"), row.get("id", ""), row.get("count", 1)
    letter = str(category)[:1].upper()
    texts = {key: clean_text(row[key]) for key in ("text", "solution") if isinstance(row.get(key), str)}
    faults = {
        f" has category {category!r}; expected {' or '.join(LASTING)}": category not in LASTING,
        " has no text": not texts.get("text"),
        " has no solution; an error rule needs one": category == "error" and not texts.get("solution"),
        **{f": {key} must be text": not isinstance(row.get(key, ""), str) for key in ("task", "source")},
        f" has id {name!r}; expected {letter} and a number, or none": name
        and not re.fullmatch(rf"{re.escape(letter)}\d{{1,9}}", str(name)),
        f" has count {times!r}; expected a number from 1 up": not isinstance(times, int) or times < 1,
    }
    if fault := next((fault for fault, found in faults.items() if found), ""):
        raise UsageError(f"{where}{fault}")
    return {"source": BY_HAND, **row, **texts}


def _assign_rule_ids(rows: Sequence[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """Give every rule an id; numbers up to `last` are taken."""
    numbers = count(max([last, *(int(row["id"][1:]) for row in rows if row.get("id"))]) + 1)
    return [row if row.get("id") else {**row, "id": f"{row['category'][0].upper()}{next(numbers)}"} for row in rows]


# A marked block in AGENTS.md, CLAUDE.md or another Markdown file, which says which variants its rules were learned on.

BEGIN, END = "<!-- rsso-dspy constitution: begin -->", "<!-- rsso-dspy constitution: end -->"
TITLE = "## Rules learned in play"

_BLOCK = re.compile(rf"{re.escape(BEGIN)}\n(.*?){re.escape(END)}\n?", re.S)


def render_block(book: ConstitutionFile) -> str:
    said = json.dumps(book.provenance, ensure_ascii=False, sort_keys=True).replace("-->", "--\\u003e")
    lines = [BEGIN, TITLE, f"<!-- provenance: {said} -->"]
    for category in LASTING:
        if rules := book.constitution.select_rules(category):
            lines += ["", f"### {HEADINGS[category]}", ""]
            for rule in rules:
                lines.append(f"- {_hide_marks(rule.lesson.text)}")
                lines += [f"  Instead: {_hide_marks(rule.lesson.solution)}"] if category == "error" else []
    return "\n".join([*lines, END, ""])


def replace_block(text: str, block: str) -> str:
    """The text with its block replaced, or with the block at its end. Raises `UsageError` for marks that do not
    match."""
    if text.count(BEGIN) > 1 or text.count(BEGIN) != text.count(END) or (BEGIN in text and not _BLOCK.search(text)):
        raise UsageError(f"the marks {BEGIN} and {END} do not match; mend or remove them")
    if BEGIN in text:
        return _BLOCK.sub(lambda _: block, text)
    return f"{text.rstrip()}\n\n{block}" if text.strip() else block


def _hide_marks(text: str) -> str:
    """One line in which no comment begins or ends."""
    line = " ".join(text.split())
    return re.sub(r"(--)(\\*)>", r"\1\2\\>", re.sub(r"<(\\*)!--", r"<\1\\!--", line))
