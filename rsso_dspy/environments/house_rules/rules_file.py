"""A file of one's own rules and requests: what a team's memory file is tried against.

    name = "shop"

    [[rule]]
    name = "node-packages"                         # the task type
    text = "JavaScript packages come and go through pnpm alone."
    governs = ["{npm|yarn|pnpm} {install|add} ..."]     # commands that the rule is about
    allows = ["pnpm {add|install|i} ..."]          # those of them that keep it
    refusal = "This repository has no package-lock.json."

    [[rule.request]]
    split = "train"                                # or dev, or test
    text = "Add the package lodash."
    steps = ["pnpm {add|install|i} lodash"]        # one command or two

A rule may have `before` in place of `allows`: a command that has to be run earlier. `telling` says how much its refusal
tells: remedy, fact or error. `accepted` and `rejected` of a request are command lines that are checked when the file is
read. Patterns are explained in `patterns.py`.
"""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from rsso_dspy.environments.house_rules.patterns import Pattern, PatternError, read_pattern
from rsso_dspy.environments.house_rules.rules import Attempt, Repository, Request, Rule, Telling
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import explain_absence, read_toml
from rsso_dspy.records import SOLVED_SCORE, Split

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel, strict=True, extra="forbid"):
    """A table of the file, without unknown keys."""


class RequestRow(Section):
    text: Text
    split: Split
    steps: list[Text] = Field(min_length=1, max_length=2)
    accepted: list[str] = []
    rejected: list[str] = []

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, value: list[str]) -> list[str]:
        for text in check_patterns(value):
            if read_pattern(text).is_open:
                raise PatternError(f"{text!r} leaves open what is done: a step has no ...")
        return value


class RuleRow(Section):
    name: Name
    text: Text
    governs: list[Text] = Field(min_length=1)
    allows: list[Text] = []
    before: str = ""
    refusal: Text
    telling: Telling = "fact"
    request: list[RequestRow] = Field(min_length=1)

    @field_validator("governs", "allows")
    @classmethod
    def _check_commands(cls, value: list[str]) -> list[str]:
        return check_patterns(value)

    @model_validator(mode="after")
    def _check_remedy(self) -> "RuleRow":
        if bool(self.allows) == bool(self.before):
            raise ValueError("a rule has either allows or before")
        check_patterns([self.before] if self.before else [])
        if not any(request.split == "test" for request in self.request):
            raise ValueError('a rule needs a request with split = "test" at least')
        return self


class RulesFile(Section):
    name: Name = "my-rules"
    rule: list[RuleRow] = Field(min_length=1)


def check_patterns(texts: list[str]) -> list[str]:
    """Return the texts. Raises `PatternError` for one that is no pattern."""
    for text in texts:
        _ = read_pattern(text).forms
    return texts


def read_rules_file(file: str) -> Repository:
    """Return the repository of a file, as it is now. Raises `UsageError` with the file, the place and the fault."""
    path = Path(file).expanduser()
    try:
        content = path.read_bytes()
    except OSError as error:
        why = f"environment.data names no repository that comes along and no file of rules: {file}"
        raise UsageError(f"{why} ({error.strerror}{explain_absence(path)})") from None
    return _parse_rules(str(path), hashlib.sha256(content).hexdigest()[:12])


@lru_cache(maxsize=16)
def _parse_rules(file: str, digest: str) -> Repository:
    try:
        book = RulesFile.model_validate(read_toml(Path(file)))
    except DamagedFile as error:
        raise UsageError(f"{file} is no TOML: {error.why}") from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = " ".join(str(part + 1) if isinstance(part, int) else part for part in fault["loc"])
        raise UsageError(f"{file}: {place}: {fault['msg']}") from None

    rules = {row.name: _make_rule(row) for row in book.rule}
    if len(rules) < len(book.rule):
        names = [row.name for row in book.rule]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{file}: two rules are called {twice}; give one another name")
    repository = Repository(book.name, rules, digest)
    _check_requests(file, repository)
    return repository


def _make_rule(row: RuleRow) -> Rule:
    requests: dict[Split, tuple[Request, ...]] = {"train": (), "dev": (), "test": ()}
    for request in row.request:
        requests[request.split] += (_make_request(request),)
    return Rule(
        name=row.name,
        text=row.text,
        governs=tuple(map(read_pattern, row.governs)),
        allows=tuple(map(read_pattern, row.allows)),
        answer=row.refusal,
        telling=row.telling,
        requests=requests,
        before=read_pattern(row.before) if row.before else None,
    )


def _make_request(row: RequestRow) -> Request:
    rejected = {f"line {place}": line for place, line in enumerate(row.rejected, start=1)}
    steps: tuple[Pattern, ...] = tuple(map(read_pattern, row.steps))
    return Request(row.text, steps, tuple(row.accepted), rejected)


def _check_requests(file: str, repository: Repository) -> None:
    """Raise `UsageError` for a request whose own commands are refused or do not do it, and for one whose examples
    come out otherwise than they should."""
    for rule in repository.rules.values():
        for requests in rule.requests.values():
            for request in requests:
                for line in (*request.solutions, *request.accepted):
                    _check_line(file, repository, rule, request, line, SOLVED_SCORE)
                for line in request.rejected.values():
                    _check_line(file, repository, rule, request, line, 0)


def _check_line(file: str, repository: Repository, rule: Rule, request: Request, line: str, score: int) -> None:
    attempt = Attempt(repository, request)
    verdict = attempt.run(line)
    if attempt.score != score:
        why = f"the rule {verdict.broken} refuses it" if verdict.broken else verdict.answer
        raise UsageError(
            f"{file}: {rule.name}: {line!r} earns {attempt.score} points at the request {request.text!r} and should "
            f"earn {score}: {why}"
        )
