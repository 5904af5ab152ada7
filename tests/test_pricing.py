from dataclasses import replace
from threading import Event

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import UsageError
from rsso_dspy.executor import EventStream, SpendLimit, UsageSpent
from rsso_dspy.pricing import (
    FREE,
    Price,
    compute_cost,
    format_dollars,
    itemize_costs,
    make_price_lookup,
    price_usage,
    sum_amounts,
)
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Usage, Variant
from rsso_dspy.report.analysis import RunRecords, analyze, build_cost_report
from rsso_dspy.report.tables import build_tokens_table
from rsso_dspy.store.run_folder import Arm, Unit
from tests.records import record

PRICE = Price(input=3.0, output=15.0, cached=0.5, cache_write=4.0)


def test_every_class_of_token_has_its_own_price_and_none_is_counted_twice():
    usage = Usage(calls=1, input=100, output=10, cached=60, cache_write=20, reasoning=5)
    assert compute_cost(usage, PRICE) == 20 * 3.0 + 60 * 0.5 + 20 * 4.0 + 10 * 15.0
    assert price_usage("rsso", "actor", "m", usage, lambda _: PRICE).without_cache == 100 * 3.0 + 10 * 15.0


def test_listed_models_have_a_price_and_unknown_ones_none():
    price_of = make_price_lookup({})
    listed = price_of("anthropic/claude-sonnet-4-6")
    assert listed is not None
    assert 0 < listed.cached < listed.input < listed.cache_write < listed.output
    assert price_of("openai/gpt-4.1-mini") is not None
    assert price_of("hosted_vllm/served-model") is None
    assert price_of("openai/claude-sonnet-4-6") is None, "another provider's model of that name"
    assert price_of("no-such/model") is None
    assert price_of("embedded/explorer") == FREE


def test_a_configured_price_goes_before_the_list():
    config = load_config(overrides=['prices."openai/gpt-4.1-mini".input=1', 'prices."openai/gpt-4.1-mini".output=2'])
    assert make_price_lookup(config.prices)("openai/gpt-4.1-mini") == Price(1e-6, 2e-6, 1e-6, 1e-6)
    assert config.hash() == load_config().hash(), "a price changes no result"


def test_a_bill_is_by_arm_role_and_model_and_an_unknown_price_is_never_zero():
    units = [record("rsso", "boil", index, [[10], [20]]) for index in (22, 27)]
    units = [replace(unit, models={"actor": "a/known", "reflector": "a/other"}) for unit in units]
    (entry,) = itemize_costs(units, {"a/known": PRICE}.get)
    assert (entry.arm, entry.role, entry.model) == ("rsso", "actor", "a/known")
    assert entry.usage.input == 40
    assert entry.billed == compute_cost(entry.usage, PRICE)
    (entry,) = itemize_costs(units, {}.get)
    assert entry.billed is None
    assert sum_amounts([1.0, entry.billed]) is None
    assert format_dollars(entry.billed) == "unpriced"
    assert (format_dollars(0.0), format_dollars(0.00123), format_dollars(1234.5)) == ("$0.00", "$0.0012", "$1,234.50")


def test_a_purse_stops_the_run_once_a_limit_is_passed():
    stop, events = Event(), EventStream()
    purse = SpendLimit(1.0, None, {"actor": "m"}, {"m": Price(0.1, 0.1, 0.1, 0.1)}.get)
    purse.follow(events, stop)
    unit = Unit(Arm(get_method("react")), Variant("boil", 22), 0, 9)
    purse.add_usage("actor", Usage(calls=1, input=4, output=4))
    assert not stop.is_set()
    events.emit(UsageSpent(unit, "actor", Usage(calls=1, input=2)))
    assert not stop.is_set(), "at the limit is not past it"
    events.emit(UsageSpent(unit, "actor", Usage(calls=1, output=1)))
    assert stop.is_set()
    assert "$1.10 of $1.00" in purse.exceeded_limit


def test_answers_without_counts_are_no_free_answers():
    unit = record("rsso", "boil", 22, [[10]])
    trial = replace(unit.trials[0], usage={"actor": Usage(calls=2, unmetered=2)})
    (entry,) = itemize_costs([replace(unit, trials=(trial,))], lambda _: PRICE)
    assert entry.billed is None
    for limits in ((1.0, None), (None, 100)):
        purse = SpendLimit(*limits, {"actor": "m"}, {"m": PRICE}.get)
        purse.add_usage("actor", Usage(calls=1, unmetered=1))
        assert "does not report token counts" in purse.exceeded_limit
    purse = SpendLimit(None, None, {"actor": "m"}, {"m": PRICE}.get)
    purse.add_usage("actor", Usage(calls=1, unmetered=1))
    assert not purse.exceeded_limit


def test_a_bill_adds_interrupted_trials_to_the_records():
    own = replace(record("rsso", "boil", 22, [[10]]), models={"actor": "m"})
    interrupted = ("rsso", "actor", Usage(calls=1, input=3))
    bill = build_cost_report(RunRecords([own, own], abandoned=[interrupted]), {"m": PRICE}.get)
    (entry,) = bill.entries
    assert bill.billed == entry.billed > 0
    assert bill.spent == pytest.approx(entry.billed + compute_cost(interrupted[2], PRICE))
    assert bill.answered == entry.usage + interrupted[2]
    begun = replace(record("rsso", "boil", 23, [[10]]), models={"actor": "m"})
    table = build_tokens_table(analyze(RunRecords([own], begun=[begun]), {"m": PRICE}.get))
    (one, all_) = (dict(zip(table.columns, (cell.value for cell in row), strict=True)) for row in table.rows)
    assert (one["arm"], one["billed"], one["uncached"]) == ("rsso", entry.billed / 2, entry.without_cache / 2)
    assert (all_["arm"], all_["billed"]) == ("all", entry.billed), "unfinished units are paid for too"


def test_tokens_can_be_limited_where_no_price_is_known():
    purse = SpendLimit(None, 10, {"actor": "m"}, {}.get)
    purse.add_usage("actor", Usage(calls=1, input=6, output=5))
    assert "11 of 10 tokens" in purse.exceeded_limit
    with pytest.raises(UsageError, match=r'set \[prices."m"\]'):
        SpendLimit(1.0, None, {"actor": "m"}, {}.get)
