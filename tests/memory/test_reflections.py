"""Reflection memory: written after failures only, first in first out, read once per trial."""

import json

import pytest

from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.reflections import ReflectionMemory
from tests.memory.memory_cases import plain, walk

FAILED = "a b c+10"
SOLVED = "a b c+100"


class Reflector:
    """Writes ``plan after <trial>``, and notes which earlier plans it was shown."""

    def __init__(self, malformed=()):
        self.shown = []
        self.malformed = malformed

    def __call__(self, trajectory, earlier):
        self.shown.append(earlier)
        return None if trajectory.trial in self.malformed else f"plan after {trajectory.trial}"


def test_a_fresh_memory_is_absent_from_the_prompt():
    memory = ReflectionMemory(Reflector())
    assert memory.region == "plans_from_past_attempts"
    assert memory.preamble() == NOTHING
    assert memory.recall([plain("a")], []) == NOTHING


def test_a_failed_trial_writes_one_plan_under_its_own_number():
    memory = ReflectionMemory(Reflector())
    assert memory.learn(walk(FAILED, trial=2)) == {"calls": 1, "written": 1, "malformed": 0, "held": 1}
    assert memory.preamble().text == "Attempt 2: plan after 2"


def test_nothing_is_written_after_success():
    reflector = Reflector()
    memory = ReflectionMemory(reflector)
    assert memory.learn(walk(SOLVED)) == {"calls": 0, "written": 0, "malformed": 0, "held": 0}
    assert reflector.shown == []
    assert memory.preamble() == NOTHING


def test_a_trial_that_ended_below_zero_after_gains_is_a_failure():
    """The trigger is the environment's score, not the accumulator."""
    memory = ReflectionMemory(Reflector())
    memory.learn(walk("a b+60 c+60 d+-200"))
    assert memory.preamble().text == "Attempt 1: plan after 1"


def test_the_oldest_plan_goes_first_and_numbers_stay_true():
    reflector = Reflector()
    memory = ReflectionMemory(reflector, size=3)
    for trial in range(1, 6):
        memory.learn(walk(FAILED, trial))
    assert memory.preamble().text == ("Attempt 3: plan after 3\n\nAttempt 4: plan after 4\n\nAttempt 5: plan after 5")
    assert memory.preamble().ids == ("attempt-3", "attempt-4", "attempt-5")
    assert reflector.shown[-1] == ("plan after 2", "plan after 3", "plan after 4")


@pytest.mark.parametrize("answer", [None, "", "  \n"])
def test_a_malformed_answer_is_counted_and_displaces_nothing(answer):
    memory = ReflectionMemory(Reflector(malformed=(2,)), size=1)
    memory.learn(walk(FAILED, 1))
    blank = ReflectionMemory(lambda *_: answer)
    assert blank.learn(walk(FAILED))["malformed"] == 1
    assert memory.learn(walk(FAILED, 2)) == {"calls": 1, "written": 0, "malformed": 1, "held": 1}
    assert memory.preamble().text == "Attempt 1: plan after 1"


def test_an_error_of_the_model_passes_through():
    def unreachable(*_):
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError):
        ReflectionMemory(unreachable).learn(walk(FAILED))


def test_a_restored_memory_continues_as_if_never_stored():
    whole, first = ReflectionMemory(Reflector(), size=2), ReflectionMemory(Reflector(), size=2)
    for trial in (1, 2):
        whole.learn(walk(FAILED, trial))
        first.learn(walk(FAILED, trial))
    second = ReflectionMemory(Reflector(), size=2)
    second.restore(json.loads(json.dumps(first.snapshot())))
    for memory in (whole, second):
        memory.learn(walk(FAILED, 3))
    assert second.snapshot() == whole.snapshot()
    assert second.preamble() == whole.preamble()


def test_a_memory_for_no_plans_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        ReflectionMemory(Reflector(), size=0)
