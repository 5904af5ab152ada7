"""The array version agrees with the slow one of ``oracle.py`` on random trials."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsso_dspy.memory.skill_windows import SkillCandidate, SkillSettings, Span
from rsso_dspy.memory.skills import search_skill_set
from tests.memory.memory_cases import hash_embed, plain, skill_memory, trajectory, words_embed
from tests.memory.oracle import Oracle, conflict, search

PRESETS = {
    "paper": SkillSettings(),
    "release": SkillSettings.sso_release(),
    "paper, short pieces": SkillSettings(max_piece=8, max_trajectories=3, pool_size=5),
    "paper, short pieces, pairs within a trial": SkillSettings(max_piece=8, pairs="any"),
    "release, short pieces": replace(SkillSettings.sso_release(), max_piece=7, max_trajectories=3, beams=2),
    "the paper's steps": SkillSettings(min_window=4, max_window=7),
    "sliding, short windows": SkillSettings(extraction="sliding", min_window=2, max_window=3),
}


@cache
def row(text: str, shared_words: bool) -> np.ndarray:
    return (words_embed if shared_words else hash_embed)([text])[0]


@st.composite
def trials(draw, longest: int = 10):
    """Two to four trials in a small world: few texts, so that equal windows and ties are common."""
    rooms = [f"the room {number}" for number in range(draw(st.integers(1, 6)))]
    acts = ["wait", "go to the room", "Go to room.", "open door", ""][: draw(st.integers(1, 5))]
    gains = st.sampled_from([0, 0, 0, 0, 10, 25, -5])
    played = []
    for trial in range(1, draw(st.integers(2, 4)) + 1):
        if played and draw(st.booleans()) and draw(st.booleans()):
            played.append(played[-1])
            continue
        steps = draw(st.integers(0, longest))
        states = draw(st.lists(st.sampled_from(rooms), min_size=steps + 1, max_size=steps + 1))
        actions = draw(st.lists(st.sampled_from(acts), min_size=steps, max_size=steps))
        rewards = draw(st.lists(gains, min_size=steps, max_size=steps))
        played.append(trajectory(states, actions, rewards, trial))
    return played


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=25, deadline=None)
@given(played=trials(), shared_words=st.booleans())
def test_same_candidates_scores_sets_and_retrieval(preset, played, shared_words):
    memory = skill_memory(PRESETS[preset], embed=lambda texts: np.array([row(text, shared_words) for text in texts]))
    slow = Oracle(lambda left, right: float(row(left, shared_words) @ row(right, shared_words)), PRESETS[preset])
    for trial in played:
        memory.learn(trial)
        slow.learn(trial)
        found = memory.held
        assert [(item.spans, item.state, item.action) for item in found.candidates] == slow.candidates
        assert [item.spans for item, _ in found.pool] == [entry[0] for entry in slow.pool]
        assert [score for _, score in found.pool] == pytest.approx([entry[3] for entry in slow.pool], abs=1e-6)
        assert [item.spans for item, _ in found.selected] == slow.selected
    for state in played[-1].states[:3]:
        ranked = [skill.spans for skill, _ in memory.rank_skills(state)]
        assert ranked == slow.rank(state.description)
    assert memory.rank_skills(plain("nowhere")) or not slow.selected


def spans():
    numbers = st.integers(0, 3), st.integers(0, 8), st.integers(1, 4)
    return st.builds(lambda piece, start, length: Span(piece, start, start + length), *numbers)


@settings(max_examples=150, deadline=None)
@given(items=st.lists(st.tuples(spans(), spans(), st.integers(-8, 40)), max_size=14), width=st.integers(1, 5))
def test_beam_search_agrees_and_its_set_has_no_conflict(items, width):
    ordered = sorted(items, key=lambda item: -item[2])
    pool = [SkillCandidate((first, second), 0, 0) for first, second, _ in ordered]
    scores = [points for *_, points in ordered]
    best, used = search_skill_set(pool, scores, width)
    assert (best, used) == search([item.spans for item in pool], scores, width)
    chosen = [pool[position].spans for position in best]
    assert not any(conflict(one, two) for index, one in enumerate(chosen) for two in chosen[:index])
