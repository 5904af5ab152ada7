"""What the skill memory asks of a model: counted by the memory, on the ledger, and within the forecast."""

from dataclasses import replace

import pytest

from rsso_dspy.forecast import forecast_calls
from rsso_dspy.plan import Plan
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import get_method
from rsso_dspy.store.run_folder import Arm, Unit
from tests.live import REWARDED, acting, walks

TRIALS = 4


@pytest.fixture(scope="module")
def played(live):
    lm, _ = walks(live)
    with acting(live, lm, rules=replace(live.runtime.rules, trials=TRIALS)):
        return Agent("sso")(variant=REWARDED).trials


def test_every_new_skill_costs_three_calls_and_every_question_one(played):
    for trial in played[:-1]:
        learnt = trial.learnt["skills"]
        asked = trial.usage["verbalizer"].calls if "verbalizer" in trial.usage else 0
        assert asked == 3 * learnt["verbalize_calls"] + learnt["equivalent_calls"]
    assert sum(trial.learnt["skills"]["verbalize_calls"] for trial in played[:-1]) > 0


def test_the_forecast_bounds_the_ledger_role_by_role(live, played):
    variant = live.runtime.variant(REWARDED)
    rules = replace(live.runtime.rules, trials=TRIALS)
    unit = Unit(Arm(get_method("sso")), variant, 0, live.runtime.budget(variant))
    forecast = forecast_calls(Plan("", rules, (unit,))).calls
    for role in ("actor", "verbalizer"):
        spent = sum(trial.usage[role].calls for trial in played if role in trial.usage)
        assert 0 < spent <= forecast[role]
