from dataclasses import replace
from itertools import pairwise

import dspy
import pytest

from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.layouts import CACHE_ORDER, arrange_fields, find_first_state
from tests.live import REWARDED, acting, region, walks


def test_the_paper_shows_the_last_ten_states_and_cache_drops_ten_at_once():
    assert [find_first_state(n, "paper") for n in (1, 10, 11, 25)] == [0, 0, 1, 15]
    assert [find_first_state(n, "cache") for n in (1, 10, 11, 19, 20, 29, 30)] == [0, 0, 0, 0, 10, 10, 20]


@pytest.mark.parametrize("actor", [FlatActor, SkillActor])
def test_a_layout_changes_the_order_of_regions_and_nothing_else(actor):
    paper, cache = (arrange_fields(actor, ("constitution",), layout) for layout in ("paper", "cache"))
    assert list(paper.input_fields) == [name for name in actor.input_fields if name != "constitution"]
    assert list(cache.input_fields) == [name for name in CACHE_ORDER if name in paper.input_fields]
    assert list(cache.output_fields) == list(paper.output_fields)
    assert cache.instructions == paper.instructions
    for name, field in paper.input_fields.items():
        assert cache.input_fields[name].annotation == field.annotation
        assert cache.input_fields[name].json_schema_extra["desc"] == field.json_schema_extra["desc"]


@pytest.mark.parametrize("layout", ["paper", "cache"])
def test_both_layouts_hold_the_same_regions(live, layout):
    lm, actors = walks(live)
    with acting(live, lm, rules=TrialRules(3, stop_on_success=False, layout=layout)):
        Agent("rsso")(variant=REWARDED)
    full = next(prompt for prompt in reversed(actors[3].prompts) if region(prompt, "skills"))
    places = [full.rindex(f"[[ ## {name} ## ]]\n") for name in CACHE_ORDER if region(full, name)]
    assert len(places) == 5
    assert (places == sorted(places)) == (layout == "cache")


def test_prompts_share_a_longer_beginning_under_cache(live):
    shared = {}
    for layout in ("paper", "cache"):
        lm, actors = walks(live)
        rules = replace(live.runtime.rules, trials=3, stop_on_success=False, layout=layout)
        with acting(live, lm, rules=rules):
            Agent("rsso")(variant=REWARDED)
        prompts = actors[3].prompts
        shared[layout] = sum(map(beginning, pairwise(prompts))) / sum(map(len, prompts[1:]))
    assert shared["cache"] > shared["paper"]


def beginning(pair: tuple[str, str]) -> int:
    """How many characters two prompts have in common from the start."""
    same = (a == b for a, b in zip(*pair, strict=False))
    return next((at for at, equal in enumerate(same) if not equal), min(map(len, pair)))


def test_an_instruction_that_was_changed_in_place_is_the_one_that_is_sent():
    changed = SkillActor.append("extra", dspy.OutputField(desc="more"), str)
    assert arrange_fields(changed, ("skills",), "paper").instructions == SkillActor.instructions
    changed.instructions = "Do something else."
    assert arrange_fields(changed, ("skills",), "paper").instructions == "Do something else."
