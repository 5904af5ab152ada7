"""What trials leave in the skill memory: pieces, windows and skills, and how often a language model is asked."""

import json
from dataclasses import replace

import numpy as np
import pytest

from rsso_dspy.errors import BackendFailure
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory.skills.cut import cut_trajectory, list_windows
from tests.memory.memory_cases import FOUR, PLATEAU, Writer, hash_embed, plain, skill_memory, taught, trajectory, walk

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
    assert (counts["candidates"], counts["pool"], counts["library"]) == (8, 4, 2), (
        "windows that say the same are one skill"
    )
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
    for settings in (SkillSettings.adapt_2(), SkillSettings()):
        writer = Writer()
        memory = skill_memory(settings, writer)
        for each in walks:
            memory.learn(each)
        on = settings.past_reward
        assert [window.actions for window in writer.asked[0]] == [actions if on else ("act b", "act c")] * 2
        best = memory.library[0]
        assert best.beyond == (beyond if on else 0)
        assert [window.actions for window in best.windows] == [("act b", "act c")] * 2
        again = skill_memory(settings, writer)
        again.restore(json.loads(json.dumps(memory.snapshot())))
        assert again.library == memory.library
        assert ("past_reward" in memory.snapshot()["settings"]) == on
        skill_memory(SkillSettings(past_reward=not on)).restore(memory.snapshot())


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
        memory.recall([plain("somewhere else")], [])
    assert len(asked) == len(set(asked))


def test_an_embedder_that_answers_in_another_shape_is_named():
    memory = skill_memory(embed=lambda texts: np.ones(len(texts)))
    memory.learn(walk(PLATEAU, 1))
    with pytest.raises(BackendFailure, match=r"shape \(\d+,\); expected \(\d+, d\)"):
        memory.learn(walk(PLATEAU, 2))


# Edges.


@pytest.mark.parametrize("text", ["a", "a b c d e f", "a b c d+-5 e"])
def test_a_trial_without_positive_reward_leaves_nothing(text):
    memory = taught(text)
    assert memory.held.pieces == []
    assert memory.library == ()


def test_what_follows_the_last_reward_is_dropped():
    (piece,) = cut_trajectory(walk("a b c+10 d e f+-100"), SkillSettings())
    assert [state.observation for state in piece.states] == ["room a", "room b", "room c"]
    assert piece.actions == ("", "act b", "act c")
    assert piece.rewards == (0, 0, 10)


def test_a_reward_after_two_steps_is_a_window_of_the_paper_and_too_short_for_the_release():
    assert len(cut_trajectory(walk("a b c+10 d"), SkillSettings())) == 1
    assert cut_trajectory(walk("a b c+10 d"), SkillSettings.sso_release()) == []
    assert cut_trajectory(walk("a b+10 c d"), SkillSettings()) == []


def test_long_trials_become_pieces_of_at_most_fifty_states():
    names = [f"s{index}" for index in range(130)]
    rewards = [10 if index in (40, 100, 129) else 0 for index in range(1, 130)]
    pieces = cut_trajectory(trajectory(names, names[1:], rewards), SkillSettings())
    assert [(piece.offset, len(piece)) for piece in pieces] == [(0, 41), (51, 50), (101, 29)]


def test_windows_of_the_paper_end_at_a_reward_and_cross_none():
    rewards = (0, 0, 0, 10, 0, 0, 0, 0, 0, 5, 0, 1)
    assert list_windows(rewards, SkillSettings()) == [(0, 4), (1, 4), (4, 10), (5, 10), (6, 10), (7, 10), (9, 12)]


def test_windows_of_the_release_slide_and_may_overhang():
    assert list_windows((0, 0, 0, 10), SkillSettings.sso_release()) == [(0, 3), (0, 4), (0, 5), (1, 4), (1, 5)]


def test_an_exact_repeat_is_evidence_for_the_paper_and_skipped_by_the_release():
    """One example per trial, never the same window twice."""
    paper, release = taught(PLATEAU), taught(PLATEAU, settings=SkillSettings.sso_release())
    for skill in paper.library:
        assert [window.piece for window in skill.windows] == [0, 1]
        assert (skill.scores.state, skill.scores.action) == (2.0, 2.0)
    assert release.held.candidates == ()
    assert release.library == ()


@pytest.mark.parametrize("settings", [SkillSettings(), SkillSettings.sso_release()], ids=["paper", "release"])
def test_measures_that_never_vary_count_as_average_and_never_divide(settings):
    """Warnings are errors here, so that a division by zero would show."""
    memory = skill_memory(settings, embed=lambda texts: np.ones((len(texts), 1)))
    memory.learn(walk("a b c d+10", 1))
    memory.learn(walk("e f g h+10", 2))
    for _, scores in memory.held.selected:
        assert (scores.reward, scores.state, scores.action) == (2.0, 2.0, 2.0)
    assert bool(memory.library) is settings.keep_when_constant
