import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld.tasks import get_gold_length
from rsso_dspy.errors import UnknownName
from rsso_dspy.forecast import forecast_calls
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.plan import make_plan, plan_held_out
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import PRESETS, get_protocol, resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.store.run_folder import Arm


def arms(names):
    return [Arm(METHODS[name]) for name in names]


BUDGETS = {Variant("boil", 22): 60, Variant("freeze", 21): 40}


def test_budgets_follow_the_gold_length_rounded_down():
    assert PRESETS["sso-adapt/1"].compute_budget(17) == 25
    assert PRESETS["sso-adapt/1"].compute_budget(738) == 1107
    assert PRESETS["sso-adapt/1-cap60"].compute_budget(738) == 60
    assert PRESETS["release"].compute_budget(17) == 25


def test_presets_say_what_the_paper_and_the_release_do():
    paper, release = PRESETS["sso-adapt/1"], PRESETS["release"]
    assert paper.rules == TrialRules(trials=5, stop_on_success=True, max_repeat=None, max_ticks=None)
    assert release.rules == TrialRules(trials=5, stop_on_success=False, max_repeat=10, max_ticks=100)
    assert paper.skills == SkillSettings()
    assert release.skills == SkillSettings.sso_release()


def test_a_departure_changes_what_it_names_and_nothing_else():
    changed = resolve_protocol(load_config(overrides=["protocol.trials=2", "memory.skills.max_window=4"]))
    assert changed.rules.trials == 2
    assert changed.rules.stop_on_success
    assert changed.skills.max_window == 4
    assert changed.skills.extraction == "reward-boundary"


def test_departures_stand_in_the_protocols_name():
    assert resolve_protocol(load_config()).id == "adapt/2"
    changed = load_config(overrides=["protocol.trials=3", "memory.reflections.size=1", "embedder.model=hash"])
    assert resolve_protocol(changed).id == "adapt/2 trials=3 reflections=1 embedder=hash"
    paper = load_config(overrides=["protocol.preset=sso-adapt/1", "protocol.trials=3"])
    assert resolve_protocol(paper).id == "sso-adapt/1 trials=3"


def test_an_unknown_preset_offers_the_nearest():
    with pytest.raises(UnknownName, match="sso-adapt/1"):
        get_protocol("sso-adapt/2")


def test_arms_of_one_variant_are_neighbours_so_that_a_run_cut_short_compares():
    plan = make_plan("sso-adapt/1", TrialRules(), arms(["sso", "rsso"]), BUDGETS, seed=3)
    assert [unit.key for unit in plan.units] == [
        "sso/boil::22/s3",
        "rsso/boil::22/s3",
        "sso/freeze::21/s3",
        "rsso/freeze::21/s3",
    ]


def test_the_forecast_counts_calls_by_role():
    rules = TrialRules(trials=3)
    react = forecast_calls(make_plan("p", rules, arms(["react"]), BUDGETS, 0))
    assert react.calls == {"actor": 300}
    reflexion = forecast_calls(make_plan("p", rules, arms(["reflexion"]), BUDGETS, 0))
    assert reflexion.calls == {"actor": 300, "reflector": 4}
    assert forecast_calls(make_plan("p", rules, arms(["rsso"]), BUDGETS, 0)).calls["verbalizer"] > 0
    assert react.tokens[0] > react.tokens[1] > 0


def test_a_method_named_twice_is_one_arm():
    plan = plan_held_out(load_config(), ["sso", "rsso", "sso"], ["boil"], ["22"])
    assert plan.arms == ("sso", "rsso")


def test_budgets_of_held_out_variants_come_from_the_shipped_gold_lengths():
    plan = plan_held_out(load_config(), ["sso"], ["lifespan-longest-lived"], ["98"])
    assert plan.units[0].budget == int(1.5 * get_gold_length(plan.units[0].variant))
