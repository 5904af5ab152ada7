"""Memories outside of a unit: a skill library and a constitution as files.

    kind, schema     what the file is
    provenance       who learned it, from which variants, with which models
    memory           of a library: the snapshot with its settings, see `skills.SkillMemoryState`; no embeddings
    rules            of a constitution, in order
    examples         of a constitution: examples of play with rules drawn by patterns, for neuro-symbolic writers

A constitution may also be a text of any kind, such as Markdown, which is read as a whole and has no rules.

Plain JSON: a foreign file can only put words into prompts. A rule that a person writes needs only category and text, an
error rule also a solution; a text may begin with the rule's priority, as in `Priority 1: `.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from rsso_dspy.bounds import shorten_text
from rsso_dspy.errors import DamagedFile, RunMismatch, UsageError
from rsso_dspy.files import explain_absence, read_json, read_text
from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.skill_windows import SkillSettings
from rsso_dspy.memory.skills import SkillMemoryState, parse_skill_snapshot
from rsso_dspy.memory.texts import LONGEST_TEXT, clean_document, clean_text
from rsso_dspy.records import Lesson

LIBRARY_KIND, CONSTITUTION_KIND = "rsso-dspy skill library", "rsso-dspy constitution"
BY_HAND = "written by hand"  # source of a rule that a person wrote
SCHEMA = 1  # schema version of both files; others are refused


def _read_kind(path: Path, kind: str, command: str) -> dict[str, Any]:
    """Read a file of a kind. Raises `UsageError` if it is absent, damaged, or of another kind or schema."""
    what = kind.removeprefix("rsso-dspy ")
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(f"cannot read the {what} {path}: {error.strerror}{explain_absence(path)}") from None
    except DamagedFile as error:
        raise UsageError(f"{path} is damaged ({error.why}); make it again with {command}") from None
    if not isinstance(data, dict) or data.get("kind") != kind:
        raise UsageError(f"{path} is not a {what}; {command} makes one")
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {data.get('schema')}, but this program reads schema {SCHEMA}; use the version of "
            f"rsso-dspy that wrote it, or make it again with {command}"
        )
    return data


def _to_json(kind: str, **content: Any) -> str:
    return json.dumps({"kind": kind, "schema": SCHEMA, **content}, indent=1, ensure_ascii=False) + "\n"


# A skill library.


@dataclass(frozen=True, slots=True)
class SkillLibraryFile:
    provenance: dict[str, Any]
    snapshot: dict[str, Any]

    def to_json(self) -> str:
        return _to_json(LIBRARY_KIND, provenance=self.provenance, memory=self.snapshot)

    def check(self, name: str, settings: SkillSettings, embedder: str) -> None:
        """Raise `RunMismatch` unless the library was learned with these settings and this embedder, `UsageError` if its
        memory is damaged."""
        parse_skill_snapshot(self.snapshot, name)
        learnt_with = self.provenance.get("embedder")
        if learnt_with is not None and embedder != learnt_with:
            raise RunMismatch(
                f"{name} was learned with the embedder {learnt_with}, not {embedder}: similarities would not be "
                f"comparable; use embedder.model={learnt_with}"
            )
        try:
            SkillMemoryState.load(self.snapshot, settings)
        except RunMismatch as error:
            raise RunMismatch(f"{name}: {error}") from None


def read_library(path: Path | str) -> SkillLibraryFile:
    command = "`rsso-dspy skills export RUN TASK::VARIANT -o FILE`"
    data = _read_kind(Path(path), LIBRARY_KIND, command)
    if not isinstance(data.get("provenance"), dict) or not isinstance(data.get("memory"), dict):
        raise UsageError(f"{path} is damaged (provenance or memory is missing); make it again with {command}")
    return SkillLibraryFile(data["provenance"], data["memory"])


# A constitution.


def _check_length(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError(
            f"has {len(text)} characters, and a rule has {LONGEST_TEXT} at most; make it shorter, or several"
        )
    return text


Cleaned = Annotated[str, AfterValidator(_check_length), AfterValidator(clean_text)]


class _RuleRow(BaseModel, strict=True):
    category: Literal["abstract", "error"]
    text: Cleaned
    solution: Cleaned = ""
    id: Annotated[str, Field(pattern=r"^([AE]\d{1,9})?$")] = ""  # category and number; empty: to be given
    task: str = ""
    source: str = BY_HAND
    count: int = Field(1, ge=1)

    @model_validator(mode="after")
    def check_whole(self) -> "_RuleRow":
        if not self.text or (self.category == "error" and not self.solution):
            raise ValueError("a rule needs a text, and an error rule a solution")
        if self.id and self.id[0].lower() != self.category[0]:
            raise ValueError(f"the id of a rule is {self.category[0].upper()} and a number, or none")
        return self


class _Provenance(BaseModel, strict=True):
    variants: list[Annotated[str, Field(pattern="::")]] = []


class _Book(BaseModel, strict=True):
    rules: list[_RuleRow]
    numbered: int = 0
    provenance: _Provenance = _Provenance()
    examples: list[str] = []


@dataclass(frozen=True, slots=True)
class ConstitutionFile:
    constitution: Constitution
    provenance: dict[str, Any] = field(default_factory=dict)
    examples: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(str(key) for key in self.provenance.get("variants", ()))

    @property
    def digest(self) -> str:
        """Over rules and examples, as the file was written: it tells whether somebody has edited them since."""
        content = json.dumps([self.constitution.dump()["rules"], list(self.examples)])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @property
    def is_edited(self) -> bool:
        """Whether its rules or examples are others than those that it was written with."""
        stored_digest = self.provenance.get("digest")
        return stored_digest is not None and str(stored_digest) != self.digest

    def to_json(self) -> str:
        rules = self.constitution.dump()
        provenance = {**self.provenance, "digest": self.digest}
        return _to_json(CONSTITUTION_KIND, **rules, provenance=provenance, examples=list(self.examples))


MARKDOWN = (".md", ".markdown")  # endings of files that are never read as JSON


def _read_document(path: Path) -> str | None:
    """Return the text of a file that is to be read as a whole; None for JSON, and for a file that cannot be read as
    text. Raises `UsageError` for an empty one."""
    if path.suffix.lower() == ".json":
        return None
    try:
        text = read_text(path)
    except OSError:
        return None
    except DamagedFile as error:
        raise UsageError(f"cannot read the constitution {path}: {error.why}") from None
    if path.suffix.lower() not in MARKDOWN and text.lstrip().startswith(("{", "[")):
        return None
    document = clean_document(text)
    if not document.strip():
        raise UsageError(f"{path} is empty, so reading it would have no effect; write into it, or drop it")
    return document


def read_constitution(path: Path) -> ConstitutionFile:
    """Read a file: rules, or a document as it is, such as Markdown. Raises `UsageError` that names the file, the fault
    and its place."""
    if (document := _read_document(path)) is not None:
        return ConstitutionFile(Constitution(document=document))
    data = _read_kind(path, CONSTITUTION_KIND, "`rsso-dspy constitution build -o FILE`")
    try:
        book = _Book.model_validate(data)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = " ".join(str(part + 1) if isinstance(part, int) else part for part in fault["loc"])
        raise UsageError(f"{path}: {place}: {fault['msg']}; mend it or build it again") from None
    names = [row.id for row in book.rules if row.id]
    if len(set(names)) < len(names):
        raise UsageError(f"{path} gives two rules the same id; remove one of the ids")
    numbers = count(max([book.numbered, *(int(name[1:]) for name in names)]) + 1)
    for row in book.rules:
        row.id = row.id or f"{row.category[0].upper()}{next(numbers)}"
    rules = [row.model_dump() for row in book.rules]
    constitution = Constitution.load({"rules": rules, "numbered": next(numbers) - 1})
    return ConstitutionFile(constitution, data.get("provenance", {}), tuple(book.examples))


def split_document(path: Path) -> tuple[ConstitutionFile, Sequence[str]]:
    """Return the rules in the lists of a text such as AGENTS.md, and what is left out: the first lines of what stands
    in no list, and items that say nothing, such as *None*. Raises `UsageError` for a file that holds rules already, one
    without rules in lists, and an item that is too long for a rule."""
    from rsso_dspy.memory.markdown_rules import split_rules

    document = _read_document(path)
    if document is None:
        read_constitution(path)  # says what is wrong with a file that is neither
        raise UsageError(f"{path} holds rules already: read it as it is, with --constitution {path}")

    split = split_rules(document)
    if not split.rules:
        raise UsageError(f"{path} holds no list: write each rule on a line of its own that begins with a dash")
    for rule in split.rules:
        if len(rule) > LONGEST_TEXT:
            raise UsageError(
                f"{path}: the list item {shorten_text(rule)!r} has {len(rule)} characters, and a rule has "
                f"{LONGEST_TEXT} at most; make it shorter, or several items"
            )

    texts = [clean_text(rule) for rule in split.rules]
    lessons = [Lesson("abstract", text) for text in texts if text]
    if not lessons:
        raise UsageError(f"{path} holds no list item that says something: write a rule behind each dash")

    empty_items = [rule for rule, text in zip(split.rules, texts, strict=True) if not text]
    book = Constitution().with_lessons(lessons, "", BY_HAND)
    return ConstitutionFile(book), (*split.left_out, *empty_items)


def format_examples(path: Path | None, usual: Sequence[str] = ()) -> str:
    """The examples of a constitution file, or the default ones, as a neuro-symbolic writer reads them. Raises what
    `read_constitution` raises, and `UsageError` for a file without examples."""
    examples = tuple(usual) if path is None else read_constitution(path).examples
    if path is not None and not examples:
        raise UsageError(f"{path} holds no examples; `rsso-dspy constitution build` writes files with examples")
    return "\n\n".join(f"Example {number}\n{example}" for number, example in enumerate(examples, start=1))
