from collections import defaultdict
from dataclasses import replace
from typing import get_args

import pytest

from rsso_dspy.config import load_config, make_price_lookup
from rsso_dspy.environments import Interface
from rsso_dspy.environments.benchmark import DEFAULT
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.experiment import cost_estimate
from rsso_dspy.experiment.cost_estimate import (
    ObservedUnit,
    dump_observed_units,
    estimate_cost,
    load_shipped_units,
    make_observed_unit,
)
from rsso_dspy.experiment.forecast import choose_sizes, load_token_sizes
from rsso_dspy.experiment.plan import Plan, plan_held_out
from rsso_dspy.pricing import Price
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage, Variant
from rsso_dspy.store.units import Arm, Unit
from tests.live import acting
from tests.records import record

INTERFACES = get_args(Interface)
FREE = make_price_lookup({})
MODELS = dict.fromkeys(("actor", "reflector", "verbalizer", "advisor"), "embedded/explorer")


def planned(method: str, budgets, trials: int = 3, place: tuple[str, Interface] = (DEFAULT, "complete")) -> Plan:
    units = [
        Unit(Arm(METHODS[method]), Variant("boil", 22 + number), 0, budget) for number, budget in enumerate(budgets)
    ]
    return Plan("p", TrialRules(trials=trials, interface=place[1]), tuple(units), benchmark=place[0])


def group_shipped_units() -> dict[tuple[str, Interface], list[ObservedUnit]]:
    found = defaultdict(list)
    for unit in load_shipped_units():
        found[unit.benchmark, unit.interface].append(unit)
    return found


def test_ledgers_of_units_that_were_played_lie_within_forecasts_made_from_others(monkeypatch):
    inside = []
    groups = [(place, method, units) for place, units in group_shipped_units().items() for method in METHODS]
    for place, method, known in groups:
        units = [unit for unit in known if unit.method == method]
        for judged_by in (0, 1) if units else ():
            judges, later = units[judged_by::2], units[1 - judged_by :: 2]
            trials = 1 if METHODS[method].writing else 3
            plan = planned(method, [unit.allowed // trials for unit in later], trials, place)
            with monkeypatch.context() as patch:
                patch.setattr(cost_estimate, "load_shipped_units", lambda judges=judges: tuple(judges))
                found = estimate_cost(plan, plan.units, [], MODELS, FREE)
            spent = sum((usage for unit in later for usage in unit.usage.values()), Usage())
            for spread, number in zip(
                (found.calls, found.tokens_in, found.tokens_out), (spent.calls, spent.input, spent.output), strict=True
            ):
                inside.append(spread.low <= number <= spread.high)
            assert found.calls.high <= plan.forecast_calls().total_calls
            assert (found.own, found.shipped) == (0, len(judges))
    assert sum(inside) / len(inside) >= cost_estimate.LEVEL


def test_an_offline_run_of_a_few_units_takes_what_was_forecast_within_a_factor_of_two(live):
    budgets = {"find-plant::228": 18, "find-living-thing::228": 18, "identify-life-stages-2::6": 18,
               "use-thermometer::428": 27}  # fmt: skip
    units = [Unit(Arm(METHODS["rsso"]), tasks.parse(key), 0, steps) for key, steps in budgets.items()]
    plan = replace(planned("rsso", [], 2), units=tuple(units))
    found = estimate_cost(plan, plan.units, [], MODELS, FREE)
    took = Usage()
    for unit in units:
        with acting(live, live.backend.lm, rules=plan.rules, budget=lambda _, unit=unit: unit.budget):
            trials = Agent("rsso")(variant=unit.variant.key, trials=2).trials
        took += sum((usage for trial in trials for usage in trial.usage.values()), Usage())
    for expected, spent in ((found.calls, took.calls), (found.tokens_in, took.input), (found.tokens_out, took.output)):
        assert 1 / 2 < spent / expected.mean < 2
        assert expected.low < spent < expected.high


def test_average_calls_are_those_of_the_shipped_units_of_each_benchmark_and_interface():
    groups = group_shipped_units()
    assert set(load_token_sizes()) == {"complete", "sso", "pddl", "babyai", "alfworld"}
    assert len(groups) == len(load_token_sizes())
    for (benchmark, interface), units in groups.items():
        sizes = choose_sizes(benchmark, interface)
        assert sizes == (interface if benchmark == DEFAULT else benchmark)
        totals: dict[str, Usage] = defaultdict(Usage)
        for unit in units:
            for role, usage in unit.usage.items():
                totals[role] += usage
        assert totals.keys() == load_token_sizes()[sizes].keys() - {"proposer"}
        for role, usage in totals.items():
            found = (usage.input / usage.calls, usage.output / usage.calls)
            assert found == pytest.approx(load_token_sizes()[sizes][role], rel=0.05), (sizes, role)


def test_a_forecast_goes_by_units_of_the_benchmark_and_names_it():
    def forecast(benchmark, tasks=None):
        plan = plan_held_out(load_config(overrides=[f"benchmark={benchmark}"]), ["react"], tasks, per_task=2)
        return plan.forecast_calls().sizes, estimate_cost(plan, plan.units, [], MODELS, FREE)

    sizes, alone = forecast("pddl")
    assert sizes == "pddl"
    assert alone.shipped == sum(
        (unit.benchmark, unit.method) == ("pddl", "react") for unit in cost_estimate.load_shipped_units()
    )
    assert choose_sizes("mine", "sso") == "sso"


def test_nothing_is_estimated_of_a_benchmark_without_units_until_the_run_has_its_own():
    other = replace(planned("react", [20]), benchmark="mine")
    own = [ObservedUnit("react", "react", 30, {"actor": Usage(calls=3, input=300, output=30)})] * cost_estimate.ENOUGH
    assert estimate_cost(other, other.units, own[1:], MODELS, FREE) is None
    assert estimate_cost(other, other.units, own, MODELS, FREE).calls.mean == pytest.approx(6)


def test_units_of_the_run_itself_are_the_better_judges_once_there_are_enough():
    plan = planned("react", [10, 10])
    own = [ObservedUnit("react", "react", 30, {"actor": Usage(calls=3, input=300, output=30)})] * cost_estimate.ENOUGH
    found = estimate_cost(plan, plan.units, own, MODELS, FREE)
    assert (found.calls.mean, found.calls.low, found.calls.high) == (6, 6, 6)
    assert (found.tokens_in.mean, found.own, found.shipped) == (600, cost_estimate.ENOUGH, 0)
    fewer = estimate_cost(plan, plan.units, own[1:], MODELS, FREE)
    assert (fewer.own, fewer.shipped) == (0, 36)


def test_dollars_follow_the_price_of_each_role_and_an_unknown_one_leaves_them_out():
    plan = planned("reflexion", [10])
    usage = {"actor": Usage(calls=3, input=300, output=30), "reflector": Usage(calls=1, input=60, output=6)}
    own = [ObservedUnit("reflexion", "reflexion", 30, usage)] * cost_estimate.ENOUGH
    models = {"actor": "a", "reflector": "b"}
    price_of = {"a": Price(1.0, 2.0, 1.0, 1.0), "b": Price(10.0, 20.0, 10.0, 10.0)}.get
    found = estimate_cost(plan, plan.units, own, models, price_of)
    assert found.dollars.mean == pytest.approx(300 + 60 + 600 + 120)
    assert estimate_cost(plan, plan.units, own, {**models, "reflector": "unknown"}, price_of).dollars is None


@pytest.mark.parametrize(("method", "rules"), [("sso", {"trials": 1}), ("rsso", {"trials": 2, "frozen": True})])
def test_only_roles_that_can_be_asked_are_expected_to_be(method, rules):
    plan = replace(planned(method, [20, 40]), rules=TrialRules(**rules))
    most = plan.forecast_calls()
    assert set(most.calls) == {"actor"}
    found = estimate_cost(plan, plan.units, [], MODELS, FREE)
    assert found.calls.high <= most.total_calls
    other = Usage(calls=9, input=900, output=90)
    own = [ObservedUnit(method, method, 30, {"actor": Usage(calls=3, input=300, output=30), "verbalizer": other})]
    found = estimate_cost(plan, plan.units, own * cost_estimate.ENOUGH, MODELS, FREE)
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


def test_the_table_is_what_was_observed():
    unit = make_observed_unit(record("sso", "boil", 22, [[10], [20]]), trials=3)
    assert unit.allowed == 27
    assert unit.usage == {"actor": Usage(calls=4, input=20, output=6)}
    assert '"usage": {"actor": [4, 20, 6]}' in dump_observed_units([unit])
    assert {unit.method for unit in load_shipped_units()} <= set(METHODS)
