"""What solved trials share becomes a procedure in order, without the particulars of one variant."""

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.scienceworld.actions import GRAMMAR
from rsso_dspy.optimize.proposing.procedures import derive_procedures
from rsso_dspy.optimize.proposing.request import describe_shared_lines
from rsso_dspy.optimize.proposing.shared_lines import find_shared_lines
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.optimize.test_feedback import trial
from tests.optimize.test_proposing import rollout

LONGEST = "Your task is to find the animal with the longest life span. The animals are in the 'outside' location."
MIX = "Your task is to use chemistry to create {}. A recipe can be found near the {}. When you are done, focus on {}."
SEEN = "You see: a jug (containing nothing), a cup (containing red paint)"


def solved(task, *actions, observations=None, look=SEEN):
    """A solved trial of these actions on some training variant."""
    said = observations or {}
    steps = [Step(a, a, State(said.get(a, "Done."), look, ""), 0, 0, True) for a in actions]
    return Trajectory(Variant("boil", 0, "train"), 1, task, State("", look, ""), 0, tuple(steps), "solved")


def find(animal, *ways, look=SEEN):
    return solved(LONGEST, *ways, "teleport to outside", "look around", f"focus on {animal}", "wait1", look=look)


def mix(product, room, one, other, *before):
    texts = {"read recipe in inventory": f"The recipe reads: to make {product}, you need to mix {one}, {other}."}
    acts = (
        *before, f"open door to {room}", f"go to {room}", "pick up recipe", "read recipe in inventory",
        f"pick up {one}", f"move {one} to jug", f"pick up {other}", f"move {other} to jug", "mix jug",
        f"focus on {product}",
    )  # fmt: skip
    return solved(MIX.format(product, room, product), *acts, observations=texts)


CASES = {
    "ways and looks go, answers are listed, the most frequent first": (
        [find("crocodile", "open door to kitchen", "go to kitchen"), find("crocodile"), find("baby brown bear")],
        [("", "Teleport to outside, then focus on a crocodile or a brown bear, then wait.")],
    ),
    "what was preferred to another in sight comes first": (
        [find("ant"), find("ant"), find("bear", look="You see: a bear, an ant"), find("wolf", look="a wolf")],
        [("", "Teleport to outside, then focus on a bear, an ant or a wolf, then wait.")],
    ),
    "things of a text that was read, an empty vessel, what the task names": (
        [mix("salt water", "kitchen", "sodium salt", "deep water"), mix("soap", "workshop", "lye soda", "some oil")],
        [
            (
                "",
                "Teleport to the place named in the task, then pick up the recipe, then read the recipe, then pick up "
                "every ingredient of the recipe, then move every ingredient of the recipe to an empty container, then "
                "mix that container, then focus on the thing named in the task.",
            )
        ],
    ),
    "variants that name the same goal may share more than all do": (
        [
            solved(MIX.format(f"{c} paint", "hall", f"{c} paint"), f"pour {a} dye in jug", f"focus on {c} paint")
            for c, a in (("green", "blue"), ("green", "blue"), ("orange", "red"), ("orange", "red"))
        ],
        [
            ("green paint", "Pour the blue dye in an empty container, then focus on the thing named in the task."),
            ("orange paint", "Pour the red dye in an empty container, then focus on the thing named in the task."),
        ],
    ),
    "one variant shares nothing": ([find("ant")], []),
    "two variants without a common order": (
        [solved(LONGEST, "open box", "wait1"), solved(LONGEST, "activate stove", "mix jug")],
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_shared_is_told_in_order_without_particulars(case):
    trials, told = CASES[case]
    found = [(each.topic, each.text) for each in derive_procedures(trials, GRAMMAR)]
    assert [each for each in found if each[0] or len(told) < 2] == told


def test_a_proposer_is_told_the_procedures_of_its_own_solved_trials():
    acts = [("teleport to outside", 50), ("focus on crocodile", 50)]
    rollouts = [rollout("lifespan-longest-lived", n, LONGEST, trial(*acts, outcome="solved")) for n in (1, 2)]
    shared = find_shared_lines(rollouts, get_benchmark())
    told = describe_shared_lines(shared, {"lifespan-longest-lived": "find the longest life span"})
    assert told == "In tasks about find the longest life span: Teleport to outside, then focus on the crocodile."
    assert not find_shared_lines(rollouts[:1], get_benchmark()).types
