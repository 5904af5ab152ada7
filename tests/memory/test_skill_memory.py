"""What a user of the skill memory would notice: when it speaks, what it says, what it counts, what it survives."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rsso_dspy.errors import RunMismatch
from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.memory.memory_cases import FOUR, PLATEAU, hash_embed, plain, skill_memory, taught, trajectory, walk

# What the prompt gets.


def test_a_fresh_memory_is_absent_from_the_prompt():
    memory = skill_memory()
    assert memory.region == "skills"
    assert memory.preamble() == NOTHING
    assert memory.recall([plain("room a")], []) == NOTHING


def test_the_region_lists_targets_with_numbered_instructions():
    memory = taught(PLATEAU)
    recall = memory.recall([plain("room z"), plain("room a")], [])
    first, second = memory.library
    assert recall.text == (
        f"Subgoal 1: {first.target}\n  1. {first.instructions[0]}\n  2. wait\n"
        f"Subgoal 2: {second.target}\n  1. {second.instructions[0]}\n  2. wait"
    )
    assert recall.ids == (first.id, second.id)
    assert recall.targets == (first.target, second.target)


def test_skills_come_by_nearness_of_their_start_and_at_most_three():
    memory = taught(FOUR)
    assert len(memory.library) == 4
    for skill in memory.library:
        recall = memory.recall([skill.windows[0].states[0]], [])
        assert recall.ids[0] == skill.id
        assert len(recall.ids) == 3


def test_equally_near_skills_keep_the_order_of_the_library():
    memory = taught(FOUR, embed=lambda texts: np.ones((len(texts), 1)))
    assert memory.recall([plain("anywhere")], []).ids == tuple(skill.id for skill in memory.library[:3])


def test_a_skill_targeted_earlier_is_not_added_beyond_three():
    memory = taught(FOUR)
    start = memory.library[0].windows[0].states[0]
    before = memory.recall([start], [])
    left_out = next(skill for skill in memory.library if skill.id not in before.ids)
    use = {0: (left_out.target, (left_out.id,))}
    memory.learn(trajectory(["room x", "room y"], ["act y"], [0], 3, use))
    assert memory.recall([start], []) == before


# Use of skills, and feedback.


def pursue(memory, rewards, trial=3):
    """A trial whose first step has the best skill in its prompt and names its target, in other letters."""
    best = memory.library[0]
    names = [f"room {trial} {index}" for index in range(len(rewards) + 1)]
    actions = [f"act {trial} {index}" for index in range(len(rewards))]
    return trajectory(
        names, actions, rewards, trial, {0: (best.target.upper() + ".", (best.id,)), 1: (None, (best.id,))}
    )


def test_a_skill_knows_how_often_it_was_shown_and_pursued():
    memory = taught(PLATEAU)
    counts = memory.learn(pursue(memory, [0, 0]))
    assert (counts["retrieved"], counts["targeted"]) == (2, 1)
    assert (memory.library[0].retrieved, memory.library[0].targeted) == (2, 1)
    assert (memory.library[1].retrieved, memory.library[1].targeted) == (0, 0)


def test_a_subgoal_that_was_not_offered_is_nobody_s():
    memory = taught(PLATEAU)
    best, other = memory.library
    counts = memory.learn(trajectory(["x", "y"], ["go"], [0], 3, {0: (best.target, (other.id,))}))
    assert (counts["retrieved"], counts["targeted"]) == (1, 0)


@pytest.mark.parametrize(("rewards", "term"), [([0, 0, 10], 2.0), ([0, 0, 0], -2.0), ([0, 0, -100], -2.0)])
def test_feedback_is_for_a_pursuit_that_paid_and_against_one_that_did_not(rewards, term):
    """All positive rewards are 10: they do not vary, so that any return counts 2, as an average one."""
    memory = taught(PLATEAU, settings=SkillSettings(feedback=True))
    before = memory.library[0]
    memory.learn(pursue(memory, rewards))
    memory.learn(walk(PLATEAU, 4))
    after = next(skill for skill in memory.library if skill.id == before.id)
    assert (before.scores.feedback, after.scores.feedback) == (0.0, term)


def test_the_return_of_a_pursuit_is_discounted_and_judged_against_the_rewards():
    """Return 0.81 * 10 = 8.1 points; the seven rewards have mean 10 and variance 150 / 7."""
    memory = taught("a b c+5 d e f g+15", settings=SkillSettings(feedback=True))
    name = memory.library[0].id
    memory.learn(pursue(memory, [0, 0, 10]))
    memory.learn(walk("a b c+5 d e f g+15", 4))
    skill = next(skill for skill in memory.library if skill.id == name)
    assert skill.scores.feedback == pytest.approx((8.1 - 10) / (150 / 7) ** 0.5 + 2)


def test_without_the_flag_feedback_changes_nothing():
    plainly, used = taught(PLATEAU), taught(PLATEAU)
    plainly.learn(walk("x y z", 3))
    used.learn(pursue(used, [0, 0]))
    for memory in (plainly, used):
        memory.learn(walk(PLATEAU, 4))
    assert used.held.selected == plainly.held.selected
    assert used.snapshot()["feedback"] == []


# What survives, and what doesn't.


def test_nothing_of_one_unit_reaches_the_next():
    first = taught(FOUR)
    assert first.library
    second = skill_memory()
    assert second.snapshot() == skill_memory().snapshot()
    for trial in (1, 2):
        second.learn(walk(PLATEAU, trial))
    assert second.snapshot() == taught(PLATEAU).snapshot()


NOISY = [
    "a b c+10 d e f g+10 h i j+3",
    "a x c+10 d e f g+10 h k j+3 l",
    "b a c+10 y d e g+10 h i j+3",
    "a b c+10 d f e g+10 i h j+3 z+1",
]


@pytest.mark.parametrize(
    "settings", [SkillSettings(feedback=True), SkillSettings.sso_release()], ids=["paper", "release"]
)
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_restored_memory_continues_byte_for_byte(settings, stop):
    whole, first = skill_memory(settings), skill_memory(settings)
    for trial, text in enumerate(NOISY[:stop], start=1):
        assert whole.learn(walk(text, trial)) == first.learn(walk(text, trial))
    second = skill_memory(settings)
    stored = json.dumps(first.snapshot())
    second.restore(json.loads(stored))
    assert json.dumps(second.snapshot()) == stored
    for trial, text in enumerate(NOISY[stop:], start=stop + 1):
        assert second.recall([plain("room a")], []).ids == whole.recall([plain("room a")], []).ids
        assert {**second.learn(walk(text, trial))} == {**whole.learn(walk(text, trial))}
        assert [skill.id for skill in second.library] == [skill.id for skill in whole.library]
        for part in ("pieces", "candidates", "pool", "selected"):
            assert getattr(second.held, part) == getattr(whole.held, part)


def test_a_snapshot_holds_every_text_once():
    memory = taught(PLATEAU)
    stored = json.dumps(memory.snapshot())
    for name in "abcdefg":
        assert stored.count(f'"room {name}"') == 1


def test_a_snapshot_of_other_settings_is_refused():
    stored = taught(PLATEAU).snapshot()
    with pytest.raises(RunMismatch, match="max_window 6 \\(now 5\\)"):
        skill_memory(SkillSettings(max_window=5)).restore(stored)
    with pytest.raises(RunMismatch, match="schema 99"):
        skill_memory().restore({**stored, "schema": 99})


SCRIPT = """
import json
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.memory.memory_cases import skill_memory, walk, plain
from test_skill_memory import NOISY
memory = skill_memory()
counts = [memory.learn(walk(text, trial)) for trial, text in enumerate(NOISY, start=1)]
print(json.dumps([counts, memory.snapshot(), memory.recall([plain("room c")], []).text]))
"""


def test_the_same_bytes_under_any_hash_seed():
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent.parent)])
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert outputs[0] == outputs[1]
    assert b"Subgoal 1" in outputs[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_window": 7}, "min_window <= max_window"),
        ({"windows_per_skill": 3}, "must be 2"),
        ({"extraction": "slide"}, "reward-boundary"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        SkillSettings(**wrong)


# What stands for a state.


@pytest.mark.parametrize("first", [False, True])
def test_the_inventory_may_stand_in_front_of_what_is_embedded_and_nowhere_else(first):
    state = State("You move.", "This room is the kitchen. In it, you see: a sink", "In your inventory, you see: a cup")
    settings = replace(SkillSettings(), inventory_first=first)
    asked = []
    memory = skill_memory(settings, embed=lambda texts: asked.extend(texts) or hash_embed(texts))
    steps = [Step("wait", "wait", replace(state, observation=f"{n}."), 5 * (n == 3), 0, True) for n in (1, 2, 3)]
    for trial in (1, 2):
        memory.learn(Trajectory(Variant("boil", 22), trial, "task", state, 0, tuple(steps), "budget"))
    memory.recall([state], [])
    described = [text for text in asked if "kitchen" in text]
    assert described
    assert all(text.startswith("In your inventory") == first for text in described)
    assert all(text.count("a cup") == text.count("a sink") == 1 for text in described)
    assert state.description.endswith("a cup")


@pytest.mark.parametrize(
    "state",
    [
        State("You see a cup in your inventory.", "You see a room", "you see a cup"),
        State("", "A room", ""),
        State("In your inventory, you see: a cup", "A room", "In your inventory, you see: a cup"),
    ],
)
def test_an_inventory_that_does_not_stand_last_stays_where_it_is(state):
    assert state.inventory_first == state.description
