"""What a user of the skill memory would notice: what trials leave in it, how often a model is asked, what the prompt
holds, what is counted, what survives."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import BackendFailure
from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.skill_windows import SkillSettings
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import State
from tests.memory.memory_cases import FOUR, NOISY, PLATEAU, Writer, plain, skill_memory, taught, trajectory, walk

PAPER, RELEASE = SkillSettings(), SkillSettings.sso_release()

# What is written, and how often a language model is asked.


def test_counts_of_one_update_and_words_are_written_once_per_skill():
    writer = Writer()
    memory = skill_memory(writer=writer)
    memory.learn(walk(PLATEAU, 1))
    counts = dict.fromkeys(("retrieved", "targeted", "duplicates", "malformed"), 0)
    counts |= {"pieces": 1, "candidates": 4, "written": 2, "verbalize_calls": 2, "equivalent_calls": 1}
    assert memory.learn(walk(PLATEAU, 2)) == counts | {"pool": 4, "selected": 2, "library": 2}
    counts = memory.learn(walk(PLATEAU, 3))
    assert (counts["candidates"], counts["pool"], counts["library"]) == (8, 4, 2), "those that say the same are one"
    assert (counts["verbalize_calls"], counts["equivalent_calls"], counts["written"]) == (0, 0, 0)
    assert [[window.piece for window in examples] for examples in writer.asked] == [[0, 1]] * 2
    with pytest.raises(BackendFailure, match=r"shape \(\d+,\); expected \(\d+, d\)"):
        taught(PLATEAU, embed=lambda texts: np.ones(len(texts)))


@pytest.mark.parametrize(
    ("trials", "actions", "beyond"),
    [
        (["a b c+10 d+10", "a b c+10 d+10"], ("act b", "act c", "act d"), 1),
        (["a b c+10 d e+10", "a b c+10 d e+10"], ("act b", "act c", "act d"), 1),
        (["a b c+10 d+10", "a b c+10 e+10"], ("act b", "act c"), 0),
        (["a b c+10 d+10", "a b c+10"], ("act b", "act c"), 0),
        (["a b c+10 0+10", "a b c+10 0+10"], ("act b", "act c"), 0),
        (["a b c+10 d+-20 e+10", "a b c+10 d+-20 e+10"], ("act b", "act c"), 0),
    ],
    ids=["rewarded", "on the way", "another action", "at the end", "a number", "a loss"],
)
def test_the_words_go_one_action_past_the_reward_where_both_examples_do(trials, actions, beyond):
    """The action that leads to state 0 is the number of an option alone."""
    walks = [walk(text, trial) for trial, text in enumerate(trials, start=1)]
    walks = [
        replace(each, steps=tuple(replace(s, action=s.action.replace("act 0", "0")) for s in each.steps))
        for each in walks
    ]
    for settings in (SkillSettings.adapt(), PAPER):
        on, writer = settings.past_reward, Writer()
        memory = skill_memory(settings, writer)
        for each in walks:
            memory.learn(each)
        assert [window.actions for window in writer.asked[0]] == [actions if on else ("act b", "act c")] * 2
        best = memory.library[0]
        assert best.beyond == (beyond if on else 0)
        assert [memory.held.pieces[at].actions[start:end] for at, start, end in best.spans] == [
            ("", "act b", "act c")
        ] * 2
        again = skill_memory(SkillSettings(past_reward=not on))
        again.restore(json.loads(json.dumps(memory.snapshot())))
        assert again.library == memory.library


def test_a_malformed_answer_is_counted_and_asked_again_at_the_next_update():
    memory = skill_memory(writer=Writer(malformed=(0,)))
    memory.learn(walk(PLATEAU, 1))
    counts = memory.learn(walk(PLATEAU, 2))
    assert (counts["malformed"], counts["written"], counts["library"]) == (1, 1, 1)
    counts = memory.learn(walk("x y z", 3))
    assert counts["verbalize_calls"] == 0, "a trial without candidates is no update"
    counts = memory.learn(walk(PLATEAU, 4))
    assert (counts["malformed"], counts["verbalize_calls"], counts["library"]) == (0, 1, 2)


@pytest.mark.parametrize(("writer", "questions"), [(Writer(equal_words=True), 0), (Writer(same=True), 1)])
def test_equal_words_and_equivalent_skills_are_left_out_and_no_question_is_repeated(writer, questions):
    memory = taught(PLATEAU, writer)
    assert len(memory.library) == 1
    counts = memory.learn(walk(PLATEAU, 3))
    assert (counts["duplicates"], counts["equivalent_calls"]) == (1, 0)
    assert writer.questions == questions


def list_windows(memory):
    """The windows of all candidates, as the steps that they begin and end with."""
    spans = {(span.start, span.end) for candidate in memory.held.candidates for span in candidate.spans}
    return sorted((start + 1, end - 1) for start, end in spans)


def test_windows_of_the_papers_setting_have_3_to_6_steps_and_end_at_the_next_reward():
    """rSSO, section 2.2: candidates are stretches of 3 to 6 steps, split where a reward is positive."""
    papers = SkillSettings(min_window=4, max_window=7)

    lone = taught("a b c d e f g h i+10", settings=papers)
    assert list_windows(lone) == [(3, 8), (4, 8), (5, 8), (6, 8)], "6, 5, 4 and 3 steps before the reward of step 8"

    split = taught("a b c d+10 e f g+10 h i+10", settings=papers)
    assert list_windows(split) == [(1, 3), (4, 6)], "none reaches over a reward, and two steps are too few"


# What the prompt gets.


def test_skills_come_by_nearness_of_their_start_at_most_three_and_equals_in_the_order_of_the_library():
    memory = taught(FOUR)
    assert skill_memory().recall([plain("room a")], []) == memory.preamble() == NOTHING
    assert len(memory.library) == 4
    for skill, start in zip(memory.library, memory.held.list_first_states()[::2], strict=True):
        recall = memory.recall([start], [])
        assert (recall.ids[0], recall.targets[0]) == (skill.id, skill.target)
        assert recall.text.startswith(
            f"- Subgoal 1: {skill.target}\n  1. {skill.instructions[0]}\n  2. wait\n- Subgoal 2"
        )
        assert len(recall.ids) == 3
    left_out = next(skill for skill in memory.library if skill.id not in recall.ids)
    memory.learn(trajectory(["x", "y"], ["go"], [0], 3, {0: (left_out.target, (left_out.id,))}))
    assert memory.recall([start], []) == recall, "one that was targeted is not added beyond three"
    memory = taught(FOUR, embed=lambda texts: np.ones((len(texts), 1)))
    assert memory.recall([plain("anywhere")], []).ids == tuple(skill.id for skill in memory.library[:3])


# Use of skills, and feedback.


def pursue(memory, rewards, trial=3):
    """A trial whose first step has the best skill in its prompt and names its target, in other letters."""
    best = memory.library[0]
    names = [f"room {trial} {index}" for index in range(len(rewards) + 1)]
    actions = [f"act {trial} {index}" for index in range(len(rewards))]
    shown = {0: (best.target.upper() + ".", (best.id,)), 1: (None, (best.id,))}
    return trajectory(names, actions, rewards, trial, shown)


def test_a_skill_knows_how_often_it_was_shown_and_pursued():
    memory = taught(PLATEAU)
    best, other = memory.library
    counts = memory.learn(pursue(memory, [0, 0]))
    assert (counts["retrieved"], counts["targeted"]) == (2, 1)
    assert [(skill.retrieved, skill.targeted) for skill in memory.library] == [(2, 1), (0, 0)]
    counts = memory.learn(trajectory(["x", "y"], ["go"], [0], 3, {0: (best.target, (other.id,))}))
    assert (counts["retrieved"], counts["targeted"]) == (1, 0), "a subgoal that was not offered is nobody's"


@pytest.mark.parametrize(
    ("text", "rewards", "term"),
    [
        (PLATEAU, [0, 0, 10], 2.0),
        (PLATEAU, [0, 0, 0], -2.0),
        (PLATEAU, [0, 0, -100], -2.0),
        ("a b c+5 d e f g+15", [0, 0, 10], (8.1 - 10) / (150 / 7) ** 0.5 + 2),
    ],
)
def test_feedback_is_for_a_pursuit_that_paid_and_against_one_that_did_not(text, rewards, term):
    """Where all positive rewards are 10, any return counts 2, as an average one; the last return is 0.81 * 10 points,
    and the seven rewards have mean 10 and variance 150 / 7."""
    for on in (True, False):
        memory = taught(text, settings=SkillSettings(feedback=on))
        before = memory.library[0]
        memory.learn(pursue(memory, rewards))
        memory.learn(walk(text, 4))
        after = next(skill for skill in memory.library if skill.id == before.id)
        assert (before.scores.feedback, after.scores.feedback) == (0.0, pytest.approx(term) if on else 0.0)


@pytest.mark.parametrize(("preset", "is_on"), [("sso-adapt/3", False), ("adapt/4", False), ("release/2", True)])
def test_scores_learn_no_feedback_but_in_the_released_code(preset, is_on):
    """rSSO, sections 4 and 6: the loop that scores skills by what their use earned is left out."""
    skills = resolve_protocol(load_config(overrides=[f"protocol.preset={preset}"])).skills
    assert skills.feedback == is_on

    memory = taught(PLATEAU, settings=replace(PAPER, feedback=skills.feedback))
    before = {skill.id: skill.scores.feedback for skill in memory.library}
    memory.learn(pursue(memory, [0, 0, -100]))
    memory.learn(walk(PLATEAU, 4))
    after = {skill.id: skill.scores.feedback for skill in memory.library}
    assert set(before.values()) == {0}
    assert (after == before) != is_on


# What survives, and what doesn't.


@pytest.mark.parametrize("settings", [SkillSettings(feedback=True), RELEASE], ids=["paper", "release"])
@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_restored_memory_continues_byte_for_byte(settings, stop):
    whole, first = skill_memory(settings), skill_memory(settings)
    for trial, text in enumerate(NOISY[:stop], start=1):
        assert whole.learn(walk(text, trial)) == first.learn(walk(text, trial))
    second = skill_memory(settings)
    stored = json.dumps(first.snapshot())
    assert stored.count('"room a"') == 1, "every text stands there once"
    second.restore(json.loads(stored))
    assert json.dumps(second.snapshot()) == stored
    for trial, text in enumerate(NOISY[stop:], start=stop + 1):
        assert second.recall([plain("room a")], []).ids == whole.recall([plain("room a")], []).ids
        assert second.learn(walk(text, trial)) == whole.learn(walk(text, trial))
        assert [skill.id for skill in second.library] == [skill.id for skill in whole.library]
        for part in ("pieces", "candidates", "pool", "selected"):
            assert getattr(second.held, part) == getattr(whole.held, part)


# What stands for a state.


def test_the_inventory_may_stand_in_front_of_what_is_embedded_and_nowhere_else():
    state = State("You move.", "This room is the kitchen.", "You carry a cup")
    told = [SkillSettings(inventory_first=first).describe(state) for first in (True, False)]
    assert [text.startswith("You carry a cup") for text in told] == [True, False]
    assert [text.count("cup") for text in told] == [1, 1]
    assert state.description.endswith("a cup")
