"""What `rsso-dspy doctor --benchmark NAME` finds in a benchmark, right or wrong."""

import random
from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments import Transition
from rsso_dspy.environments.benchmark import Benchmark, Hints, get_benchmark
from rsso_dspy.environments.examination import (
    find_leaked_actions,
    leave_out,
    leave_out_list,
    open_examination,
    quote_difference,
)
from rsso_dspy.errors import EnvironmentFailure, GoldUnknown
from rsso_dspy.records import State
from tests.toy_benchmark import BENCHMARK, TEMPLATES, Counting

# Of training variants 0 to 5 the path of 2, 5 has two actions: add 3, add 1.


class Listed(Counting):
    def admissible_actions(self):
        return [f"add {number}" for number in (1, 2, 3)]


def make(environment: type = Counting, **changes) -> Benchmark:
    return replace(BENCHMARK, make_environment=lambda *_: environment(), **changes)


def examine(benchmark: Benchmark) -> dict[str, str]:
    """Return what each check says, with "failed" ahead where it raises."""
    said = {}
    with open_examination(benchmark, load_config().environment, "sso") as examination:
        for name, check in examination.checks.items():
            try:
                said[name] = check()
            except EnvironmentFailure as error:
                said[name] = f"failed: {error}"
    return said


def test_a_benchmark_that_keeps_its_contract_passes():
    assert examine(BENCHMARK) == {
        "replay": "up::2 played twice by 2 actions gave equal texts and points",
        "points": "the solution of up::2 earns 100 points with 2 actions, and so do those of 1 of 1 other task types",
        "lists": "actions are free, so none are listed",
        "templates": "2 verbs, with those of all actions of a solution",
        "leaks": "no text tells the solution of up::2",
    }


@pytest.mark.parametrize("name", ["babyai", "pddl", "textworld-express"])
def test_those_that_come_along_pass(name):
    if package := {"babyai": "minigrid", "textworld-express": "textworld_express"}.get(name):
        pytest.importorskip(package, reason=f"the extra {name} is not installed")
    said = examine(get_benchmark(name))
    assert not [text for text in said.values() if text.startswith("failed")], said
    assert "possible actions at the start" in said["lists"]


def test_without_a_solution_the_templates_are_played_and_nothing_is_said_of_points():
    said = examine(make(gold_path=None))
    assert said["replay"].endswith("played twice by 3 actions gave equal texts and points")
    assert said["points"] == "no solution is known, so none was played"
    assert said["leaks"] == "no solution is known, so none was looked for"
    assert said["templates"] == "2 verbs"
    listed = examine(make(Listed, gold_path=None, lists_actions=True))
    assert "played twice by" in listed["replay"]


class Random(Counting):
    def step(self, action):
        move = super().step(action)
        return replace(move, state=replace(move.state, observation=f"The clock says {random.random()}."))


class Remembering(Counting):
    resets = 0

    def reset(self, variant):
        Remembering.resets += 1
        return replace(super().reset(variant), inventory=f"{Remembering.resets} coins")


class Drifting(Counting):
    """Ends an episode a step later each time."""

    late = 0

    def reset(self, variant):
        Drifting.late += 1
        return super().reset(variant)

    def step(self, action):
        return replace(super().step(action), ticks=Drifting.late)


class Worse(Counting):
    def step(self, action):
        before = self.score
        move = super().step(action)
        self.score = min(self.score, 60)
        return replace(move, score=self.score, reward=self.score - before, done=False)


class Deaf(Listed):
    def step(self, action):
        before = self.score
        move = super().step(action)
        if action != "add 2":
            return move
        self.score = before
        return Transition(State("What?", "", ""), action, 0, before, understood=False, done=False)


class Mute(Listed):
    def admissible_actions(self):
        return []


class Blank(Counting):
    action_templates = "  "


class Other(Counting):
    action_templates = "Templates:\nplus NUMBER\nminus NUMBER"


class Loud(Counting):
    def reset(self, variant):
        state = super().reset(variant)
        self.task += f" Type {', then '.join(path_of(variant))}."
        return state


class Shown(Counting):
    def reset(self, variant):
        return replace(super().reset(variant), look=f"A note: {' and '.join(path_of(variant)).upper()}")


class Explained(Counting):
    def reset(self, variant):
        state = super().reset(variant)
        self.action_templates = TEMPLATES + "".join(f"\n{action}" for action in path_of(variant))
        return state


def path_of(variant):
    return BENCHMARK.gold_path(variant)


def fail(*_):
    raise KeyError("no path")


def never(*_):
    raise GoldUnknown("none")


def solve_up_alone(variant, *_):
    return BENCHMARK.gold_path(replace(variant, task="up"))


@pytest.mark.parametrize(
    ("benchmark", "check", "said"),
    [
        (make(Random), "replay", "differs first at step 1 ('add "),
        (make(Random), "replay", "it was 'The clock says 0."),
        (make(Remembering), "replay", "differs first at the first state: inventory: it was "),
        (make(Drifting), "replay", "ticks: it was "),
        (make(Worse), "points", "earns 60 points after "),
        (make(gold_path=lambda *_: ["add 9", "sing"]), "points", "not understood: add 9, sing; expected: 100"),
        (make(gold_path=lambda *_: ["add 1", ""]), "points", "[1] = '' (str); expected: a text that is not empty"),
        (make(gold_path=lambda *_: [1]), "points", "[0] = 1 (int); expected: a text that is not empty"),
        (make(gold_path=lambda *_: ["add 1\nadd 1"]), "points", "[0] has several lines, and the environment takes one"),
        (make(gold_path=solve_up_alone), "points", "the solution of down::"),
        (make(gold_path=fail), "points", "fail raised an exception for up::"),
        (make(gold_path=fail), "points", "KeyError: 'no path' ("),
        (make(lists_actions=True), "lists", "the environment has no admissible_actions"),
        (make(Mute, lists_actions=True), "lists", "no action is possible after 0 steps of up::"),
        (make(Deaf, lists_actions=True), "lists", "1 of 3 possible actions are not understood at the start of up::"),
        (make(Blank), "templates", "action_templates is empty"),
        (make(Other), "templates", "begins with no verb of the action templates, which are: minus, plus"),
        (make(Loud), "leaks", "the task of up::"),
        (make(Shown), "leaks", "the first state of up::"),
        (make(Explained), "leaks", "the action templates of up::"),
        (make(hints=Hints(about="Add 1, add 2, add 3 or take 1 away. Add 3! Add 1! Add 2!")), "leaks", "About of up::"),
    ],
)
def test_what_is_wrong_is_told_by_its_check(benchmark, check, said):
    told = examine(benchmark)
    assert told[check].startswith("failed: ")
    assert said in told[check]


def test_a_solution_that_is_not_known_is_no_failure():
    said = examine(make(gold_path=never))
    assert said["points"] == "no solution is known, so none was played"


@pytest.mark.parametrize(
    ("text", "solution", "leaked"),
    [
        ("First add 3, then add 1.", ["add 3", "add 1"], ("add 3", "add 1")),
        ("1. Add  3\n2. ADD 1", ["add 3", "add 1"], ("add 3", "add 1")),
        ("Add 1. Open box, then close box.", ["wait", "open box", "close box"], ("open box", "close box")),
        ("add 1, then add 3", ["add 3", "add 1"], ()),
        ("add 3", ["add 3", "add 1"], ()),
        ("add 3 and add 10", ["add 3", "add 1"], ()),
        ("add 3, once", ["add 3", "add 3"], ()),
        ("add 3, add 3", ["add 3", "add 3"], ("add 3", "add 3")),
        ("You may add 2 here.", ["add 2"], ("add 2",)),
        ("You may add 20 here.", ["add 2"], ()),
        ("padd 2", ["add 2"], ()),
        ("", ["add 2"], ()),
        ("add 2", [], ()),
    ],
)
def test_two_actions_in_a_row_or_the_only_one_are_a_leak(text, solution, leaked):
    assert find_leaked_actions(text, solution) == leaked


@pytest.mark.parametrize(
    ("text", "leaked"),
    [
        ("You are at 0. You can: add 1, add 2, add 3.", ()),
        ("Type add 3, then add 1. You can: add 1, add 2, add 3.", ("add 3", "add 1")),
        ("Type add 3, then add 1.", ("add 3", "add 1")),
    ],
)
def test_the_list_of_possible_actions_is_no_leak(text, leaked):
    left = leave_out_list(text, ["add 3", "add 2", "add 1"])
    assert find_leaked_actions(left, ["add 3", "add 1"]) == leaked


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("x" * 100 + "one", "x" * 100 + "two", (repr("x" * 30 + "one"), repr("x" * 30 + "two"))),
        ("x" * 100, "x" * 100 + "more", (repr("x" * 30), repr("x" * 30 + "more"))),
        ("here", "there", ("'here'", "'there'")),
        ("here", "here", ("'here'", "'here'")),
        ("", "", ("''", "''")),
        (1, 2, ("1", "2")),
        (("wait",), (), ("('wait',)", "()")),
    ],
)
def test_of_two_texts_the_part_that_differs_is_shown(before, after, shown):
    assert quote_difference(before, after) == shown


@pytest.mark.parametrize("action", [";", "wait", "go north; go south"])
def test_what_is_left_out_of_a_text_is_gone(action):
    assert leave_out(f"First {action} then look.", [action]) == "first ; then look."


def test_templates_that_are_actions_themselves_are_no_leak():
    class Plain(Counting):
        action_templates = "Turn left or step ahead.\nTemplates:\nadd 1\nadd 2\nadd 3"

    assert not examine(make(Plain))["leaks"].startswith("failed")
