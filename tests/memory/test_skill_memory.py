"""What a user of the skill memory would notice: when it speaks, what it says, what it counts, what it survives."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from rsso_dspy.errors import BackendFailure, RunMismatch
from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory.skills.extract import cut, windows
from rsso_dspy.trajectory import State, Step, Trajectory, Variant
from tests.memory.memory_cases import Writer, hash_embed, plain, skill_memory, trajectory, walk

PLATEAU = "a b c+10 d e f g+10 h i"
"""Played twice the same way, it holds two skills: a-b-c and e-f-g."""
FOUR = "a b c+5 d e f g+5 h i j k+5 l m n o+5"
"""Played twice the same way, it holds four."""


def taught(text: str, writer: Writer | None = None, settings: SkillSettings | None = None, **other):
    memory = skill_memory(settings, writer, **other)
    for trial in (1, 2):
        memory.learn(walk(text, trial))
    return memory


# What the prompt gets.


def test_a_fresh_memory_is_absent_from_the_prompt():
    memory = skill_memory()
    assert memory.region == "skills"
    assert memory.preamble() == NOTHING
    assert memory.recall([plain("room a")]) == NOTHING


def test_the_region_lists_targets_with_numbered_instructions():
    memory = taught(PLATEAU)
    recall = memory.recall([plain("room z"), plain("room a")])
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
        recall = memory.recall([skill.windows[0].states[0]])
        assert recall.ids[0] == skill.id
        assert len(recall.ids) == 3


def test_equally_near_skills_keep_the_order_of_the_library():
    memory = taught(FOUR, embed=lambda texts: np.ones((len(texts), 1)))
    assert memory.recall([plain("anywhere")]).ids == tuple(skill.id for skill in memory.library[:3])


def test_a_skill_targeted_earlier_is_not_added_beyond_three():
    memory = taught(FOUR)
    start = memory.library[0].windows[0].states[0]
    before = memory.recall([start])
    left_out = next(skill for skill in memory.library if skill.id not in before.ids)
    use = {0: (left_out.target, (left_out.id,))}
    memory.learn(trajectory(["room x", "room y"], ["act y"], [0], 3, use))
    assert memory.recall([start]) == before


# What is written, and how often a language model is asked.


def test_counts_of_one_update():
    memory = skill_memory()
    memory.learn(walk(PLATEAU, 1))
    assert memory.learn(walk(PLATEAU, 2)) == {
        "retrieved": 0,
        "targeted": 0,
        "pieces": 1,
        "candidates": 4,
        "written": 2,
        "duplicates": 0,
        "malformed": 0,
        "verbalize_calls": 2,
        "equivalent_calls": 1,
        "pool": 4,
        "selected": 2,
        "library": 2,
    }


def test_words_are_written_once_per_skill():
    writer = Writer()
    memory = taught(PLATEAU, writer)
    counts = memory.learn(walk(PLATEAU, 3))
    assert counts["candidates"] == 8
    assert (counts["verbalize_calls"], counts["equivalent_calls"], counts["written"]) == (0, 0, 0)
    assert len(writer.asked) == 2


def test_both_examples_reach_the_writer_with_actions_and_rewards():
    writer = Writer()
    taught("z a b c+10", writer, SkillSettings(min_window=4))
    (examples,) = writer.asked
    assert [window.piece for window in examples] == [0, 1]
    for window in examples:
        assert [state.observation for state in window.states] == ["room z", "room a", "room b", "room c"]
        assert window.actions == ("act a", "act b", "act c")
        assert window.rewards == (0, 0, 0, 10)


def test_a_malformed_answer_is_counted_and_asked_again_at_the_next_update():
    writer = Writer(malformed=(0,))
    memory = skill_memory(writer=writer)
    memory.learn(walk(PLATEAU, 1))
    counts = memory.learn(walk(PLATEAU, 2))
    assert (counts["malformed"], counts["written"], counts["library"]) == (1, 1, 1)
    counts = memory.learn(walk("x y z", 3))
    assert counts["verbalize_calls"] == 0, "a trial without candidates is no update"
    counts = memory.learn(walk(PLATEAU, 4))
    assert (counts["malformed"], counts["verbalize_calls"], counts["library"]) == (0, 1, 2)


def test_equal_words_are_duplicates_without_a_call():
    writer = Writer(equal_words=True)
    memory = taught(PLATEAU, writer)
    assert len(memory.library) == 1
    assert writer.questions == []


def test_an_equivalent_skill_is_left_out_and_the_question_not_repeated():
    writer = Writer(same=True)
    memory = taught(PLATEAU, writer)
    assert len(memory.library) == 1
    counts = memory.learn(walk(PLATEAU, 3))
    assert (counts["duplicates"], counts["equivalent_calls"]) == (1, 0)
    assert len(writer.questions) == 1


@pytest.mark.parametrize("role", ["verbalize", "equivalent"])
def test_an_error_of_the_model_passes_through(role, monkeypatch):
    def unreachable(*_):
        raise ConnectionError("no answer")

    writer = Writer()
    monkeypatch.setattr(writer, role, unreachable)
    memory = skill_memory(writer=writer)
    memory.learn(walk(PLATEAU, 1))
    with pytest.raises(ConnectionError):
        memory.learn(walk(PLATEAU, 2))


def test_each_distinct_text_is_embedded_once():
    asked = []

    def embed(texts):
        asked.extend(texts)
        return hash_embed(texts)

    memory = taught(FOUR, embed=embed)
    for _ in range(2):
        memory.recall([plain("somewhere else")])
    assert len(asked) == len(set(asked))


def test_an_embedder_that_answers_in_another_shape_is_named():
    memory = skill_memory(embed=lambda texts: np.ones(len(texts)))
    memory.learn(walk(PLATEAU, 1))
    with pytest.raises(BackendFailure, match=r"shape \(\d+,\); expected \(\d+, d\)"):
        memory.learn(walk(PLATEAU, 2))


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
    assert used.inspect().selected == plainly.inspect().selected
    assert used.snapshot()["feedback"] == []


# Edges.


@pytest.mark.parametrize("text", ["a", "a b c d e f", "a b c d+-5 e"])
def test_a_trial_without_positive_reward_leaves_nothing(text):
    memory = taught(text)
    assert memory.inspect().pieces == ()
    assert memory.library == ()


def test_a_single_piece_is_no_evidence():
    memory = skill_memory()
    counts = memory.learn(walk(FOUR))
    assert (counts["pieces"], counts["candidates"], counts["library"]) == (1, 0, 0)


def test_what_follows_the_last_reward_is_dropped():
    (piece,) = cut(walk("a b c+10 d e f+-100"), SkillSettings())
    assert [state.observation for state in piece.states] == ["room a", "room b", "room c"]
    assert piece.actions == ("", "act b", "act c")
    assert piece.rewards == (0, 0, 10)


def test_a_reward_after_two_steps_is_a_window_of_the_paper_and_too_short_for_the_release():
    assert len(cut(walk("a b c+10 d"), SkillSettings())) == 1
    assert cut(walk("a b c+10 d"), SkillSettings.release()) == []
    assert cut(walk("a b+10 c d"), SkillSettings()) == []


def test_long_trials_become_pieces_of_at_most_fifty_states():
    names = [f"s{index}" for index in range(130)]
    rewards = [10 if index in (40, 100, 129) else 0 for index in range(1, 130)]
    pieces = cut(trajectory(names, names[1:], rewards), SkillSettings())
    assert [(piece.offset, len(piece)) for piece in pieces] == [(0, 41), (51, 50), (101, 29)]


def test_windows_of_the_paper_end_at_a_reward_and_cross_none():
    rewards = (0, 0, 0, 10, 0, 0, 0, 0, 0, 5, 0, 1)
    assert windows(rewards, SkillSettings()) == [(0, 4), (1, 4), (4, 10), (5, 10), (6, 10), (7, 10), (9, 12)]


def test_windows_of_the_release_slide_and_may_overhang():
    assert windows((0, 0, 0, 10), SkillSettings.release()) == [(0, 3), (0, 4), (0, 5), (1, 4), (1, 5)]


def test_an_exact_repeat_is_evidence_for_the_paper_and_skipped_by_the_release():
    """One example per trial, never the same window twice."""
    paper, release = taught(PLATEAU), taught(PLATEAU, settings=SkillSettings.release())
    for skill in paper.library:
        assert [window.piece for window in skill.windows] == [0, 1]
        assert (skill.scores.state, skill.scores.action) == (2.0, 2.0)
    assert release.inspect().candidates == ()
    assert release.library == ()


def test_no_skill_has_a_single_example():
    """An identical window elsewhere is the second example, also in the release preset."""
    memory = skill_memory(SkillSettings.release())
    memory.learn(walk("a b c+10 d e f g+10", 1))
    memory.learn(walk("x a b c+10 d e f y+10", 2))
    found = memory.inspect()
    assert any(item.state_similarity == item.action_similarity == 1.0 for item in found.candidates)
    assert all(len(item.spans) == 2 for item in found.candidates)


def test_windows_that_say_the_same_make_one_skill():
    """Three equal trials pair up in three ways; the first pair stands for all."""
    memory = taught(PLATEAU)
    counts = memory.learn(walk(PLATEAU, 3))
    assert (counts["candidates"], counts["pool"], counts["library"]) == (8, 4, 2)


@pytest.mark.parametrize("settings", [SkillSettings(), SkillSettings.release()], ids=["paper", "release"])
def test_measures_that_never_vary_count_as_average_and_never_divide(settings):
    """Warnings are errors here, so that a division by zero would show."""
    memory = skill_memory(settings, embed=lambda texts: np.ones((len(texts), 1)))
    memory.learn(walk("a b c d+10", 1))
    memory.learn(walk("e f g h+10", 2))
    for _, scores in memory.inspect().selected:
        assert (scores.reward, scores.state, scores.action) == (2.0, 2.0, 2.0)
    assert bool(memory.library) is settings.keep_when_constant


def test_selected_windows_neither_overlap_nor_touch():
    memory = taught("a b c+5 d e f+5 g h i+5 j k l+5")
    spans = sorted(span for item, _ in memory.inspect().selected for span in item.spans)
    assert spans
    for left, right in pairwise(spans):
        assert left.piece != right.piece or left.end < right.start


def test_only_the_newest_pieces_are_compared():
    memory = taught(PLATEAU, settings=SkillSettings(max_trajectories=2))
    memory.learn(walk(PLATEAU, 3))
    assert {span.piece for item in memory.inspect().candidates for span in item.spans} == {1, 2}


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


@pytest.mark.parametrize("settings", [SkillSettings(feedback=True), SkillSettings.release()], ids=["paper", "release"])
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
        assert second.recall([plain("room a")]).ids == whole.recall([plain("room a")]).ids
        assert {**second.learn(walk(text, trial))} == {**whole.learn(walk(text, trial))}
        assert [skill.id for skill in second.library] == [skill.id for skill in whole.library]
        assert second.inspect() == whole.inspect()


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
from rsso_dspy.trajectory import State, Step, Trajectory, Variant
from tests.memory.memory_cases import skill_memory, walk, plain
from test_skill_memory import NOISY
memory = skill_memory()
counts = [memory.learn(walk(text, trial)) for trial, text in enumerate(NOISY, start=1)]
print(json.dumps([counts, memory.snapshot(), memory.recall([plain("room c")]).text]))
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
    memory.recall([state])
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
