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
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory.constitution.constitution import Constitution
from rsso_dspy.memory.constitution.rules import LASTING, clean_rule_text

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
        data = {
            "kind": KIND,
            "schema": SCHEMA,
            "rules": dumped["rules"],
            "numbered": dumped["numbered"],
            "provenance": self.provenance,
            "edits": dumped["edits"],
            "examples": list(self.examples),
        }
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
    if row.get("category") not in LASTING:
        raise UsageError(f"{where} has category {row.get('category')!r}; expected {' or '.join(LASTING)}")
    if not isinstance(row.get("text"), str) or not clean_rule_text(row["text"]):
        raise UsageError(f"{where} has no text")
    if row["category"] == "error" and not (isinstance(row.get("solution"), str) and clean_rule_text(row["solution"])):
        raise UsageError(f"{where} has no solution; an error rule needs one")
    if wrong := [key for key in ("task", "source") if not isinstance(row.get(key, ""), str)]:
        raise UsageError(f"{where}: {wrong[0]} must be text")
    name = row.get("id", "")
    if name and not re.fullmatch(rf"{row['category'][0].upper()}\d{{1,9}}", str(name)):
        raise UsageError(f"{where} has id {name!r}; expected {row['category'][0].upper()} and a number, or none")
    if not isinstance(row.get("count", 1), int) or row.get("count", 1) < 1:
        raise UsageError(f"{where} has count {row['count']!r}; expected a number from 1 up")
    texts = {key: clean_rule_text(row[key]) for key in ("text", "solution") if key in row}
    return {"source": BY_HAND, **row, **texts}


def _assign_rule_ids(rows: Sequence[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """Give every rule an id; numbers up to `last` are taken."""
    last = max([last, *(int(row["id"][1:]) for row in rows if row.get("id"))])
    given = []
    for row in rows:
        if not row.get("id"):
            last += 1
            row = {**row, "id": f"{row['category'][0].upper()}{last}"}
        given.append(row)
    return given
