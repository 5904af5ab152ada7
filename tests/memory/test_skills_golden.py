"""The ``release`` preset computes what the published code computes, from pieces to retrieval."""

import json
from pathlib import Path

import pytest

from rsso_dspy.memory.skill_windows import SkillSettings
from rsso_dspy.memory.texts import BILLION
from rsso_dspy.records import Trajectory
from tests.memory.memory_cases import plain, skill_memory, trajectory

CASES = json.loads((Path(__file__).parent / "data" / "sso_golden.json").read_text())["cases"]


def played(states: list[dict]) -> Trajectory:
    return trajectory(
        [state["description"] for state in states],
        [state["action"] for state in states[1:]],
        [round(100 * state["reward"]) for state in states[1:]],
    )


def bounds(spans) -> list[list[int]]:
    return [list(span) for span in spans]


@pytest.mark.parametrize("case", CASES, ids=["three-trials", "two-trials"])
def test_release_preset_reproduces_the_published_code(case):
    memory = skill_memory(SkillSettings.sso_release())
    for states, expected in zip(case["trajectories"], case["after_each"], strict=True):
        memory.learn(played(states))
        found = memory.held
        assert [len(piece) for piece in found.pieces] == expected["pieces"]
        assert [bounds(item.spans) for item in found.candidates] == [item["windows"] for item in expected["candidates"]]
        for item, known in zip(found.candidates, expected["candidates"], strict=True):
            found_here = (item.state / BILLION, item.action / BILLION)
            assert found_here == pytest.approx((known["state_similarity"], known["action_similarity"]), abs=5e-9)
        assert [bounds(item.spans) for item, _ in found.pool] == [item["windows"] for item in expected["pool"]]
        scores = [score for _, score in found.pool]
        assert scores == pytest.approx([item["score"] for item in expected["pool"]], abs=1e-7)
        assert [bounds(item.spans) for item, _ in found.selected] == [item["windows"] for item in expected["selected"]]
        totals = [scores.total for _, scores in found.selected]
        assert totals == pytest.approx([item["score"] for item in expected["selected"]], abs=1e-7)
    for query in case["retrieval"]:
        ranked = memory.rank_skills(plain(query["description"]))
        windows = [bounds(skill.spans) for skill, _ in ranked]
        assert windows == [item["windows"] for item in query["ranked"]]
        nearness = [similarity / BILLION for _, similarity in ranked]
        assert nearness == pytest.approx([item["similarity"] for item in query["ranked"]], abs=5e-9)
