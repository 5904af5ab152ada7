"""A repository's rules and requests, and what a command line comes to under them.

attempt = Attempt(repository, request)
attempt.run("npm install lodash")       # Verdict(answer="npm is not in use here.", is_refused=True, done=0)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from rsso_dspy.environments.house_rules.patterns import Pattern
from rsso_dspy.environments.house_rules.shell import Command, NotUnderstood, parse_line
from rsso_dspy.records import SOLVED_SCORE, Split

Telling = Literal["remedy", "fact", "error"]
"""How much a refusal tells: what to do instead, what is the case here, or only that something failed."""

ALL_DONE = "Done. That is all that was asked for."
DONE_SO_FAR = "Done. The request is not finished yet."
NOT_ASKED = "That is not what was asked for, and nothing of it was done."
TOO_MUCH = "That does more than was asked for. Nothing of it was done."


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks for, and the commands that do it."""

    text: str
    steps: tuple[Pattern, ...]
    """One or two commands, in their order."""
    accepted: tuple[str, ...] = ()
    """Command lines that do what is asked."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with a command line to the line."""

    @property
    def gold(self) -> tuple[str, ...]:
        return tuple(step.solution for step in self.steps)

    @property
    def solutions(self) -> tuple[str, ...]:
        """A line for every command that does a step, the first ones of the other steps around it."""
        lines: dict[str, None] = {}
        for place, step in enumerate(self.steps):
            for solution in step.solutions:
                commands = [*self.gold[:place], solution, *self.gold[place + 1 :]]
                lines[" && ".join(commands)] = None
        return tuple(lines)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, which is a task type: its requests are the variants."""

    name: str
    text: str
    """The rule as a person writes it down. The actor never sees it, unless a memory holds it."""
    governs: tuple[Pattern, ...]
    """Commands that the rule is about."""
    allows: tuple[Pattern, ...]
    """Those of them that keep it."""
    answer: str
    """What is seen when a command breaks it."""
    telling: Telling
    requests: Mapping[Split, tuple[Request, ...]]
    before: Pattern | None = None
    """A command that has to be run in the same trial before any that the rule is about."""
    is_usual: bool = False
    """Whether what the rule asks for is what one would do without it."""
    values: int = 0
    """How many values it was drawn from; 0 if it was not drawn."""

    def is_broken_by(self, command: Command, earlier: Sequence[Command]) -> bool:
        if not any(pattern.matches(command) for pattern in self.governs):
            return False
        if self.before is not None:
            return not any(self.before.matches(command) for command in earlier)
        return not any(pattern.matches(command) for pattern in self.allows)


@dataclass(frozen=True, eq=False)
class Repository:
    """Rules that hold together: each of them for every request."""

    name: str
    rules: Mapping[str, Rule]
    digest: str
    """Over everything that decides texts and points."""

    @property
    def programs(self) -> frozenset[str]:
        """Programs of all commands that its rules and requests name."""
        return list_programs(self)


@lru_cache(maxsize=16)
def list_programs(repository: Repository) -> frozenset[str]:
    patterns = []
    for rule in repository.rules.values():
        patterns += [*rule.governs, *rule.allows]
        for requests in rule.requests.values():
            for request in requests:
                patterns += request.steps
    return frozenset(pattern.program for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a command line came to. `done` counts the steps of the request that are done after it."""

    answer: str
    done: int
    is_refused: bool = False
    is_understood: bool = True
    broken: str = ""
    """The name of the rule that refused it."""


class Attempt:
    """One trial at a request. Steps are done in their order, several in a line if it holds nothing else."""

    def __init__(self, repository: Repository, request: Request):
        self.repository = repository
        self.request = request
        self.done = 0
        self._earlier: list[Command] = []

    @property
    def score(self) -> int:
        """Points of 100."""
        return SOLVED_SCORE * self.done // len(self.request.steps)

    @property
    def is_done(self) -> bool:
        return self.done == len(self.request.steps)

    def run(self, line: str) -> Verdict:
        try:
            commands = parse_line(line)
        except NotUnderstood as error:
            return Verdict(f"This shell does not understand {error}.", self.done, is_understood=False)
        if not commands:
            return Verdict("No command was run.", self.done, is_understood=False)

        for place, command in enumerate(commands):
            if rule := self._find_broken_rule(command, [*self._earlier, *commands[:place]]):
                return Verdict(rule.answer, self.done, is_refused=True, broken=rule.name)

        steps_left = self.request.steps[self.done :]
        in_order = [step.matches(command) for step, command in zip(steps_left, commands, strict=False)]
        if not all(in_order):
            return Verdict(NOT_ASKED, self.done)
        if len(commands) > len(steps_left):
            return Verdict(TOO_MUCH, self.done, is_refused=True)

        self.done += len(commands)
        self._earlier += commands
        return Verdict(ALL_DONE if self.is_done else DONE_SO_FAR, self.done)

    def _find_broken_rule(self, command: Command, earlier: Sequence[Command]) -> Rule | None:
        for rule in self.repository.rules.values():
            if rule.is_broken_by(command, earlier):
                return rule
        return None
