from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.forecast import (
    ENOUGH,
    TOKENS_PER_CALL,
    ExpectedRange,
    Forecast,
    ObservedUnit,
    estimate_cost,
    forecast_calls,
    load_observed_units,
)
from rsso_dspy.plan import Plan, plan_held_out
from rsso_dspy.pricing import Price, make_price_lookup
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage, Variant
from rsso_dspy.store.run_folder import Arm, Store, Unit
from tests.records import record, save

FREE = make_price_lookup({})
MODELS = dict.fromkeys(("actor", "reflector", "verbalizer", "advisor"), "embedded/explorer")


def planned(method: str, budgets) -> Plan:
    units = [
        Unit(Arm(METHODS[method]), Variant("boil", 22 + number), 0, budget) for number, budget in enumerate(budgets)
    ]
    return Plan("p", TrialRules(trials=3), tuple(units))


def test_before_a_run_has_units_a_call_takes_the_assumed_tokens_and_the_most_is_the_estimate():
    plan = planned("rsso", [10, 20])
    most = forecast_calls(plan)
    assert TOKENS_PER_CALL.keys() == {"actor", "reflector", "verbalizer", "advisor", "proposer"}
    assert Forecast({"actor": 2, "teacher-actor": 1, "advisor": 3}).tokens == (3 * 2760 + 3 * 4200, 3 * 145 + 3 * 65)
    found = estimate_cost(plan, plan.units, [], MODELS, {"embedded/explorer": Price(1.0, 2.0, 1.0, 1.0)}.get)
    sent, answered = most.tokens
    numbers = (most.total_calls, sent, answered, sent + 2 * answered)
    assert (found.calls, found.tokens_in, found.tokens_out, found.dollars) == tuple(
        ExpectedRange(number, number, number) for number in numbers
    )
    assert found.own == 0


def test_units_of_the_run_itself_are_the_better_judges_once_there_are_enough():
    plan = planned("react", [10, 10])
    own = [ObservedUnit("react", 30, {"actor": Usage(calls=3, input=300, output=30)})] * ENOUGH
    found = estimate_cost(plan, plan.units, own, MODELS, FREE)
    assert (found.calls.mean, found.calls.low, found.calls.high) == (6, 6, 6)
    assert (found.tokens_in.mean, found.own) == (600, ENOUGH)
    assert estimate_cost(plan, plan.units, own[1:], MODELS, FREE).own == 0
    both = replace(plan, units=plan.units + planned("reflexion", [10]).units)
    found = estimate_cost(both, both.units, own, MODELS, FREE)
    assert (found.calls.mean, found.own) == (6 + forecast_calls(planned("reflexion", [10])).total_calls, ENOUGH)


def test_dollars_follow_the_price_of_each_role_and_an_unknown_one_leaves_them_out():
    plan = planned("reflexion", [10])
    usage = {"actor": Usage(calls=3, input=300, output=30), "reflector": Usage(calls=1, input=60, output=6)}
    own = [ObservedUnit("reflexion", 30, usage)] * ENOUGH
    models = {"actor": "a", "reflector": "b"}
    price_of = {"a": Price(1.0, 2.0, 1.0, 1.0), "b": Price(10.0, 20.0, 10.0, 10.0)}.get
    found = estimate_cost(plan, plan.units, own, models, price_of)
    assert found.dollars.mean == pytest.approx(300 + 60 + 600 + 120)
    assert estimate_cost(plan, plan.units, own, {**models, "reflector": "unknown"}, price_of).dollars is None


@pytest.mark.parametrize(("method", "rules"), [("sso", {"trials": 1}), ("rsso", {"trials": 2, "frozen": True})])
def test_only_roles_that_can_be_asked_are_expected_to_be(method, rules):
    plan = replace(planned(method, [20, 40]), rules=TrialRules(**rules))
    most = forecast_calls(plan)
    assert set(most.calls) == {"actor"}
    found = estimate_cost(plan, plan.units, [], MODELS, FREE)
    assert found.calls.high <= most.total_calls
    other = Usage(calls=9, input=900, output=90)
    own = [ObservedUnit(method, 30, {"actor": Usage(calls=3, input=300, output=30), "verbalizer": other})]
    found = estimate_cost(plan, plan.units, own * ENOUGH, MODELS, FREE)
    assert found.calls.mean == pytest.approx(60 * rules["trials"] * 3 / 30)


def test_the_same_plan_has_the_same_forecast_and_more_work_costs_more():
    config = load_config(overrides=["protocol.setting=transfer"])
    plan = plan_held_out(config, ["react-sso", "rsso"], ["boil"], per_task=2)
    work = [*plan.trainings, *plan.units]
    assert estimate_cost(plan, work, [], MODELS, FREE) == estimate_cost(plan, work, [], MODELS, FREE)
    assert (
        estimate_cost(plan, work, [], MODELS, FREE).calls.mean
        > estimate_cost(plan, plan.units, [], MODELS, FREE).calls.mean
    )
    assert estimate_cost(plan, [], [], MODELS, FREE) is None


def test_finished_units_of_a_folder_are_judges(tmp_path):
    plan = planned("sso", [9])
    store = Store(tmp_path)
    assert load_observed_units(store, plan) == []
    store.open({})
    save(store, record("sso", "boil", 22, [[10], [20]]))
    assert load_observed_units(store, plan) == [ObservedUnit("sso", 27, {"actor": Usage(calls=4, input=20, output=6)})]
