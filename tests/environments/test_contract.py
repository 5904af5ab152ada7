"""What an environment of a user's may return, and whose fault an exception is."""

import errno
from dataclasses import replace

import numpy as np
import pytest

from rsso_dspy.environments import Environment, Transition
from rsso_dspy.environments.contract import CheckedEnvironment
from rsso_dspy.environments.pool import EnvironmentPool
from rsso_dspy.environments.wrappers import DemonstratingEnvironment
from rsso_dspy.errors import (
    ContractViolation,
    EnvironmentFailure,
    EnvironmentFault,
    SimulatorDied,
    SplitError,
    Stopped,
    UsageError,
)
from rsso_dspy.records import State, Variant
from tests.toy_benchmark import BENCHMARK

VARIANT = Variant("up", 9)
START = State("You begin.", "A room.", "")
MOVE = Transition(START, "wait", 10, 10, understood=True, done=False)


class Scripted(Environment):
    """Returns what a test wants it to, or raises it."""

    task = "Wait."
    action_templates = "Templates:\nwait"

    def __init__(self, start=START, moves=(MOVE,), **members):
        self.start, self.moves = start, list(moves)
        vars(self).update(members)

    def reset(self, variant):  # noqa: ARG002
        return give(self.start)

    def step(self, action):  # noqa: ARG002
        return give(self.moves.pop(0))


def give(value):
    if isinstance(value, BaseException):
        raise value
    return value


def play(environment: Scripted) -> None:
    """Reset, then take all steps, and ask for the texts and actions that prompts show."""
    checked = CheckedEnvironment(environment)
    states = [checked.reset(VARIANT)]
    while environment.moves:
        states.append(checked.step("wait").state)
    checked.render(states)
    getattr(checked, "admissible_actions", list)()


@pytest.mark.parametrize(
    ("start", "moves", "members"),
    [
        (START, [], {}),
        (START, [MOVE, replace(MOVE, reward=0)], {}),
        (START, [replace(MOVE, reward=-100, score=-100, done=True)], {}),
        (START, [replace(MOVE, reward=100, score=100, done=True)], {}),
        (START, [replace(MOVE, reward=0, score=3)], {"points_at_reset": 3}),
        (START, [replace(MOVE, reward=-10, score=0)], {"points_at_reset": 10}),
        (START, [replace(MOVE, action="", ticks=7, stalled=True, asked_back=True, no_effect=True)], {}),
        (State("", "", ""), [], {"task": "", "action_templates": ""}),
        (START, [], {"admissible_actions": lambda: ["wait"]}),
        (START, [], {"admissible_actions": lambda: ("wait", "go")}),
        (START, [], {"admissible_actions": dict}),
        (START, [], {"admissible_actions": lambda: (text for text in ("wait", "go"))}),
    ],
)
def test_what_the_contract_allows_passes(start, moves, members):
    play(Scripted(start, moves, **members))


POINTS = "a whole number from -100 to 100"
TEXT = "a text, without halves of characters"
FLAG = "True or False"


@pytest.mark.parametrize(
    ("change", "returned", "expected"),
    [
        ({"score": 450, "reward": 450}, "score = 450 (int)", POINTS),
        ({"score": -101, "reward": -101}, "score = -101 (int)", POINTS),
        ({"score": 10.0}, "score = 10.0 (float)", POINTS),
        ({"score": np.int64(10)}, f"score = {np.int64(10)!r} (numpy.int64)", POINTS),
        ({"score": np.float32(10)}, f"score = {np.float32(10)!r} (numpy.float32)", POINTS),
        ({"score": float("nan")}, "score = nan (float)", POINTS),
        ({"score": True, "reward": 1}, "score = True (bool)", POINTS),
        ({"score": "5"}, "score = '5' (str)", POINTS),
        ({"score": None}, "score = None (NoneType)", POINTS),
        ({"reward": 10.0}, "reward = 10.0 (float)", "a whole number"),
        ({"reward": np.int64(10)}, f"reward = {np.int64(10)!r} (numpy.int64)", "a whole number"),
        ({"reward": float("inf")}, "reward = inf (float)", "a whole number"),
        ({"reward": True, "score": 1}, "reward = True (bool)", "a whole number"),
        ({"reward": "10"}, "reward = '10' (str)", "a whole number"),
        ({"reward": None}, "reward = None (NoneType)", "a whole number"),
        ({"reward": 0}, "reward = 0 (int)", "10, the change of the score from 0 to 10"),
        ({"reward": 150, "score": 100}, "reward = 150 (int)", "100, the change of the score from 0 to 100"),
        ({"understood": 1}, "understood = 1 (int)", FLAG),
        ({"understood": None}, "understood = None (NoneType)", FLAG),
        ({"done": np.bool_(True)}, f"done = {np.bool_(True)!r} (numpy.{np.bool_.__name__})", FLAG),
        ({"done": "no"}, "done = 'no' (str)", FLAG),
        ({"stalled": 0}, "stalled = 0 (int)", FLAG),
        ({"asked_back": 0}, "asked_back = 0 (int)", FLAG),
        ({"no_effect": 0}, "no_effect = 0 (int)", FLAG),
        ({"ticks": 0.5}, "ticks = 0.5 (float)", "a whole number"),
        ({"action": None}, "action = None (NoneType)", TEXT),
        ({"action": b"wait"}, "action = b'wait' (bytes)", TEXT),
        ({"state": "You wait."}, "state = 'You wait.' (str)", "a State"),
        ({"state": replace(START, observation=None)}, "state.observation = None (NoneType)", TEXT),
        ({"state": replace(START, look=["A room."])}, "state.look = ['A room.'] (list)", TEXT),
        ({"state": replace(START, inventory=0)}, "state.inventory = 0 (int)", TEXT),
        ({"state": replace(START, observation="half \ud83d")}, r"state.observation = 'half \ud83d' (str)", TEXT),
    ],
)
def test_a_transition_against_the_contract_is_refused_by_name(change, returned, expected):
    with pytest.raises(ContractViolation) as refused:
        play(Scripted(moves=[replace(MOVE, **change)]))
    where = "at step 1 of up::9 (action 'wait')"
    assert str(refused.value) == f"Scripted returned {returned} {where}; expected: {expected}"


@pytest.mark.parametrize("move", [None, START, (START, 0, False), "You wait."])
def test_a_step_without_a_transition_is_refused(move):
    with pytest.raises(
        ContractViolation, match=r"^Scripted returned .* at step 2 of up::9 .*; expected: a Transition$"
    ):
        play(Scripted(moves=[MOVE, move]))


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        (Scripted(None), "None (NoneType) at the reset of up::9; expected: a State"),
        (Scripted("You begin."), "'You begin.' (str) at the reset of up::9; expected: a State"),
        (Scripted((START, {})), " (tuple) at the reset of up::9; expected: a State"),
        (Scripted(MOVE), " (rsso_dspy.environments.Transition) at the reset of up::9; expected: a State"),
        (Scripted(State(None, "", "")), "state.observation = None (NoneType) at the reset of up::9; expected: " + TEXT),
        (Scripted(task=None), "task = None (NoneType) at the reset of up::9; expected: " + TEXT),
        (Scripted(task=["Wait."]), "task = ['Wait.'] (list) at the reset of up::9; expected: " + TEXT),
        (Scripted(action_templates=("wait",)), "action_templates = ('wait',) (tuple) at the reset of up::9; expected"),
        (Scripted(points_at_reset=0.0), "points_at_reset = 0.0 (float) at the reset of up::9; expected: " + POINTS),
        (Scripted(points_at_reset=300), "points_at_reset = 300 (int) at the reset of up::9; expected: " + POINTS),
        (Scripted(admissible_actions=lambda: [""]), "admissible_actions[0] = '' (str) at step 1 of up::9 (act"),
        (Scripted(admissible_actions=lambda: ["go", " \n"]), r"admissible_actions[1] = ' \n' (str)"),
        (Scripted(admissible_actions=lambda: ["go", None]), "admissible_actions[1] = None (NoneType)"),
        (Scripted(admissible_actions=lambda: "go"), "admissible_actions = 'go' (str)"),
        (Scripted(admissible_actions=lambda: None), "admissible_actions = None (NoneType)"),
        (Scripted(render=lambda _: ["one"]), "render = ['one'] (list)"),
        (Scripted(render=lambda _: "texts"), "render = 'texts' (str)"),
        (Scripted(render=lambda states: [None for _ in states]), "render[0] = None (NoneType)"),
    ],
)  # fmt: skip
def test_what_else_is_against_the_contract_is_refused_by_name(environment, said):
    with pytest.raises(ContractViolation) as refused:
        play(environment)
    assert str(refused.value).startswith("Scripted returned ")
    assert said in str(refused.value)


def test_an_environment_that_never_set_its_task_is_told():
    class Bare(Scripted):
        task = property(lambda self: self._task)

    with pytest.raises(ContractViolation, match="Scripted returned task = None"):
        play(Scripted(task=None))
    with pytest.raises(ContractViolation, match="Bare returned task = None"):
        play(Bare())


def test_a_reset_begins_the_score_anew():
    checked = CheckedEnvironment(Scripted(moves=[MOVE, MOVE]))
    for _ in range(2):
        checked.reset(VARIANT)
        assert checked.step("wait").score == 10


class Odd(Exception):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("boom"), "ValueError: boom ("),
        (KeyError("door"), "KeyError: 'door' ("),
        (ValueError("two\nlines"), "ValueError: two lines ("),
        (NotImplementedError(), "NotImplementedError ("),
        (ZeroDivisionError("half \ud83d"), "ZeroDivisionError: half ? ("),
        (StopIteration(), "StopIteration ("),
        (FileNotFoundError(errno.ENOENT, "No such file"), "FileNotFoundError: [Errno 2] No such file ("),
        (Odd(), "Odd: <exception str() failed> ("),
    ],
)
@pytest.mark.parametrize("at_reset", [True, False])
def test_an_exception_of_the_environment_is_its_fault_with_its_line_last(error, said, at_reset):
    environment = Scripted(error) if at_reset else Scripted(moves=[MOVE, error])
    with pytest.raises(EnvironmentFault) as fault:
        play(environment)
    first, last = str(fault.value).splitlines()
    where = "at the reset of up::9" if at_reset else "at step 2 of up::9 (action 'wait')"
    assert first == f"Scripted raised an exception {where}:"
    number = give.__code__.co_firstlineno + 2
    assert said in last
    assert last.endswith(f"({__file__}, line {number})")
    assert fault.value.__cause__ is error


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("render", ([START],)),
        ("lessons", ([START], [])),
        ("goal_progress", ()),
        ("admissible_actions", ()),
        ("choose_interface", ("sso",)),
        ("name_place", (START,)),
    ],
)
def test_an_exception_of_any_other_method_is_its_fault_too(name, arguments):
    def fail(*_):
        raise ValueError(name)

    checked = CheckedEnvironment(Scripted(**{name: fail}))
    checked.reset(VARIANT)
    with pytest.raises(EnvironmentFault, match=rf"(?s)Scripted raised an exception at the reset of up::9:.*{name} \("):
        getattr(checked, name)(*arguments)


def test_an_exception_of_a_generator_is_a_fault():
    with pytest.raises(EnvironmentFault, match=r"(?s)raised an exception at step 1 of up::9.*ZeroDivisionError"):
        play(Scripted(admissible_actions=lambda: (str(1 // number) for number in (1, 0))))


def test_the_line_is_the_users_where_a_library_raised_it():
    class Parsing(Scripted):
        def step(self, action):
            return np.zeros(3).reshape(len(action), 7)

    with pytest.raises(EnvironmentFault) as fault:
        play(Parsing())
    assert str(fault.value).endswith(f"({__file__}, line {Parsing.step.__code__.co_firstlineno + 1})")


@pytest.mark.parametrize(
    "error",
    [
        SimulatorDied("gone"),
        EnvironmentFailure("cannot load it"),
        UsageError("no such data"),
        SplitError("held out"),
        MemoryError(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
        Stopped(),
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("at_reset", [True, False])
def test_errors_with_a_meaning_of_their_own_keep_it(error, at_reset):
    with pytest.raises(type(error)) as raised:
        play(Scripted(error) if at_reset else Scripted(moves=[error]))
    assert raised.value is error


def test_pools_lend_checked_environments_and_refuse_what_is_none():
    with EnvironmentPool(lambda: Scripted(None)) as pool, pool.lease() as environment:
        assert environment.alive
        with pytest.raises(ContractViolation):
            environment.reset(VARIANT)
    said = r"make_environment returned None \(NoneType\), which has no alive and no close; expected: an Environment"
    with EnvironmentPool(lambda: None) as pool, pytest.raises(ContractViolation, match=said), pool.lease():
        pass

    def fail():
        raise ValueError("no board")

    with EnvironmentPool(fail) as pool, pytest.raises(EnvironmentFault, match=r"ValueError: no board \("), pool.lease():
        pass


def test_a_solved_example_is_checked_as_play_is():
    made = BENCHMARK.make_environment(None, lambda: False)
    made.step = lambda _: replace(MOVE, reward=1.0)
    environment = CheckedEnvironment(DemonstratingEnvironment(made, BENCHMARK, 1, {}))
    with pytest.raises(ContractViolation, match=r"Counting returned reward = 1.0 \(float\) at step 1 of up::0"):
        environment.reset(VARIANT)
