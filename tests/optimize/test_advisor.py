"""The constitution's two roles can be compiled like any other: the words that make rules useful are found."""

from dataclasses import replace

from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.student import resolve_predictors
from rsso_dspy.programs.agent import Agent
from tests.live import says
from tests.optimize.scripted import ADVICE, GO, LONGEST, SHORTEST, STAY, Keep, Models, advised, proposer, wanted

METHOD = "omnireflect-neural"


def follows_rules(prompt: str) -> str:
    """A flat actor that goes outside when a rule says so."""
    last = prompt.rpartition("<user>")[2]
    action = GO if ADVICE in last.partition("[[ ## task ## ]]")[0] and GO not in last else STAY
    return says(thought="", action=action)


def advisor(prompt: str) -> str:
    """Writes the useful rule when its instruction says so, and keeps in a summary what it is given."""
    gathered = "gathered_abstract_rules" in prompt
    known = ADVICE in prompt.rpartition("<user>")[2]
    rules = f'["{ADVICE}"]' if (known if gathered else advised(prompt)) else "[]"
    return says(abstract_rules=rules, error_rules="[]", **({} if gathered else {"progress_rules": "[]"}))


def test_gepa_finds_the_better_instruction_of_the_rule_writer(live):
    models = Models(actor=follows_rules, advisor=advisor, proposer=proposer([ADVICE]))
    book = ConstitutionSettings(r_freq=1, s_freq=1)
    session = models.within(replace(live, runtime=replace(live.runtime, constitution=book)))
    request = wanted("gepa", LONGEST[:2], SHORTEST[:1], rollouts=12, method_name=METHOD, trials=2, steps=3)
    observed = Keep()
    compiled = compile_agent(
        Agent(METHOD), session, replace(request, tuned=resolve_predictors(["advisor"])), events=observed
    )
    assert compiled.candidate is not None
    assert compiled.changes == ("instruction of constitution_writer.write",)
    assert compiled.before.mean == 0
    assert compiled.after.mean == 50
    called = {name for _, rollout in observed.told for name, _, _ in rollout.calls}
    assert {"constitution_writer.write", "constitution_writer.summarize"} <= called
    assert compiled.usage["advisor"].calls > 0


def test_the_forecast_counts_the_advisor(live):
    request = wanted("gepa", method_name=METHOD, trials=2, steps=21)
    preset = replace(live.protocol, constitution=ConstitutionSettings(r_freq=5, s_freq=1))
    forecast = request.forecast(preset).calls
    assert forecast["advisor"] == request.max_rollouts * (2 * 4 + 1)
