"""The contract of an environment, checked where an environment is called: what its code returns is looked at before
anything is made of it, and an exception of its code is an error of the trial, not the end of the run.

    environment = CheckedEnvironment(Cave())
    environment.reset(variant)
    environment.step("look around")
    # ContractViolation: Cave returned score = 450 (int) at step 1 of fetch-lamp::6 (action 'look around'); expected:
    # a whole number from -100 to 100

Pools lend no other environments.
"""

import reprlib
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from rsso_dspy.environments import EnvironmentWrapper, Transition, name_environment
from rsso_dspy.errors import ContractViolation, EnvironmentFault, RssoError, find_shortage
from rsso_dspy.records import SOLVED_SCORE, State, Variant
from rsso_dspy.replies import make_encodable

THIS_PACKAGE = Path(__file__).parents[1]
LONGEST = 80  # characters of an action that a message quotes


@dataclass(frozen=True, slots=True)
class Moment:
    """A reset of a variant, or a step after it."""

    variant: Variant | None = None  # None before the first reset
    step: int = 0  # number of the step; 0 for the reset
    action: str = ""

    def __str__(self) -> str:
        if self.variant is None:
            return "before the first reset"
        if not self.step:
            return f"at the reset of {self.variant.key}"
        return f"at step {self.step} of {self.variant.key} (action {self.action[:LONGEST]!r})"


# What may be returned.


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value has to be."""

    expected: str
    allows: Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Whether a value is a text that a file can hold."""
    return isinstance(value, str) and make_encodable(value) == value


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


TEXT = Kind("a text, without halves of characters", is_text)
FILLED = Kind("a text that is not empty", lambda value: is_text(value) and bool(value.strip()))
FLAG = Kind("True or False", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", is_whole)
POINTS = Kind(
    f"a whole number from -{SOLVED_SCORE} to {SOLVED_SCORE}",
    lambda value: is_whole(value) and abs(value) <= SOLVED_SCORE,
)
STATE = Kind("a State", lambda value: isinstance(value, State))
TRANSITION = Kind("a Transition", lambda value: isinstance(value, Transition))
LIST = Kind("a list of texts", lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes))

OF_STATE = {"observation": TEXT, "look": TEXT, "inventory": TEXT}
OF_TRANSITION = {
    "state": STATE,
    "action": TEXT,
    "score": POINTS,
    "reward": WHOLE,
    "understood": FLAG,
    "done": FLAG,
    "stalled": FLAG,
    "ticks": WHOLE,
    "asked_back": FLAG,
    "no_effect": FLAG,
}
OF_ENVIRONMENT = {"task": TEXT, "action_templates": TEXT, "points_at_reset": POINTS}


class CheckedEnvironment(EnvironmentWrapper):
    """An environment whose code is checked. Raises `ContractViolation` for what it returns against the contract, and
    `EnvironmentFault` for an exception of its own. Errors of this project, such as `SimulatorDied`, and shortages of
    this machine pass as they are."""

    UNCHECKED = ("lessons", "goal_progress", "choose_interface", "name_place")  # methods whose results pass as they are

    def __init__(self, environment: Any):
        super().__init__(environment)
        self._moment = Moment()
        self._last_score = 0

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if name == "admissible_actions":
            return self._list_actions
        if name in self.UNCHECKED:
            return partial(self._call, name)
        return member

    def reset(self, variant: Variant) -> State:
        self._moment = Moment(variant)

        state: State = self._call("reset", variant)
        self._check("", state, STATE)
        self._check_fields("state", state, OF_STATE)
        self._check_own_texts()

        self._last_score = self.environment.points_at_reset
        return state

    def step(self, action: str) -> Transition:
        self._moment = Moment(self._moment.variant, self._moment.step + 1, action)

        transition: Transition = self._call("step", action)
        self._check("", transition, TRANSITION)
        self._check_fields("", transition, OF_TRANSITION)
        self._check_fields("state", transition.state, OF_STATE)
        self._check_reward(transition)
        self._check_own_texts()

        self._last_score = transition.score
        return transition

    def render(self, states: Sequence[State]) -> list[str]:
        texts = self._list_texts("render", TEXT, states)
        if len(texts) != len(states):
            raise self._make_violation("render", texts, f"a text for each of the {len(states)} states")
        return texts

    def _list_actions(self) -> Sequence[str]:
        return self._list_texts("admissible_actions", FILLED)

    def _list_texts(self, method: str, kind: Kind, *arguments: Any) -> list[str]:
        """Return the texts that a method lists."""
        result = self._call(method, *arguments)
        self._check(method, result, LIST)
        with blame_code_of(self.environment, self._moment):
            texts: list[str] = [*result]  # a generator runs here
        for number, text in enumerate(texts):
            self._check(f"{method}[{number}]", text, kind)
        return texts

    def _call(self, method: str, *arguments: Any) -> Any:
        with blame_code_of(self.environment, self._moment):
            return getattr(self.environment, method)(*arguments)

    def _check_own_texts(self) -> None:
        """Check the attributes that tell the actor what it plays."""
        for name, kind in OF_ENVIRONMENT.items():
            with blame_code_of(self.environment, self._moment):
                value = getattr(self.environment, name, None)
            self._check(name, value, kind)

    def _check_reward(self, transition: Transition) -> None:
        change = transition.score - self._last_score
        if transition.reward != change:
            expected = f"{change}, the change of the score from {self._last_score} to {transition.score}"
            raise self._make_violation("reward", transition.reward, expected)

    def _check_fields(self, name: str, value: Any, fields: Mapping[str, Kind]) -> None:
        for field, kind in fields.items():
            self._check(f"{name}.{field}" if name else field, getattr(value, field), kind)

    def _check(self, name: str, value: Any, kind: Kind) -> None:
        if not kind.allows(value):
            raise self._make_violation(name, value, kind.expected)

    def _make_violation(self, name: str, value: Any, expected: str) -> ContractViolation:
        returned = describe_value(value)
        if name:
            returned = f"{name} = {returned}"
        message = f"{name_environment(self)} returned {returned} {self._moment}; expected: {expected}"
        return ContractViolation(make_encodable(message))


def require_environment(made: Any) -> CheckedEnvironment:
    """Return what a benchmark made, checked from now on. Raises `ContractViolation` if it is no environment."""
    if missing := [name for name in ("alive", "close") if not hasattr(made, name)]:
        why = f"make_environment returned {describe_value(made)}, which has no {' and no '.join(missing)}"
        raise ContractViolation(make_encodable(f"{why}; expected: an Environment"))
    return CheckedEnvironment(made)


def describe_value(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{reprlib.repr(value)} ({module}{kind.__qualname__})"


# Whose code raised an exception.


@contextmanager
def blame_code_of(owner: Any, moment: object) -> Iterator[None]:
    """Make an `EnvironmentFault` of an exception of a user's code inside the block. `owner` is the environment or the
    function that is called, `moment` says in words when."""
    try:
        yield
    except (RssoError, MemoryError):
        raise
    except Exception as error:
        if find_shortage(error):
            raise

        name = getattr(owner, "__name__", None) or name_environment(owner)
        message = f"{name} raised an exception {moment}:\n{describe_exception(error, owner)}"
        raise EnvironmentFault(make_encodable(message)) from error


def describe_exception(error: Exception, owner: Any) -> str:
    """Return type and message of an exception in one line, with file and line of the code that raised it."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    line = find_own_line(error.__traceback__, owner)
    return f"{text} ({line})" if line else text


class CodeLine(NamedTuple):
    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


def find_own_line(trace: TracebackType | None, owner: Any) -> CodeLine | None:
    """Return the innermost line of an exception that lies in the owner's package or in no library; the innermost of all
    where there is no such line."""
    while isinstance(owner, EnvironmentWrapper):
        owner = owner.environment
    package = str(owner.__module__).partition(".")[0]

    innermost = None
    own_line = None
    for frame, number in traceback.walk_tb(trace):
        name = str(frame.f_globals.get("__name__", ""))
        innermost = CodeLine(frame.f_code.co_filename, number)
        if name.partition(".")[0] == package or not is_of_library(innermost.file):
            own_line = innermost
    return own_line or innermost


def is_of_library(file: str) -> bool:
    """Whether a file is Python's, of an installed package, or of this one."""
    path = Path(file)
    if file.startswith("<") or {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    folders = (THIS_PACKAGE, Path(sysconfig.get_path("stdlib")))
    return any(path.is_relative_to(folder) for folder in folders)
