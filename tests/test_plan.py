"""Plans: which variants, under which protocol, with how many steps, and what they can cost."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.plan import (
    TOKENS_PER_CALL,
    Forecast,
    choose_variants,
    forecast_calls,
    make_plan,
    plan_held_out,
    price_forecast,
)
from rsso_dspy.pricing import Price
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import PRESETS, apply_decoding, hash_prompts, resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.sessions import session
from rsso_dspy.signatures.layouts import ARRANGEMENTS, PAPER
from rsso_dspy.store.run_folder import Arm

VARIANTS_OF_TABLE_2 = {
    "boil": 9,
    "chemistry-mix": 8,
    "chemistry-mix-paint-secondary-color": 9,
    "find-living-thing": 10,
    "find-plant": 10,
    "freeze": 9,
    "grow-fruit": 10,
    "grow-plant": 10,
    "identify-life-stages-1": 5,
    "identify-life-stages-2": 4,
    "inclined-plane-determine-angle": 10,
    "inclined-plane-friction-named-surfaces": 10,
    "lifespan-longest-lived": 10,
    "lifespan-shortest-lived": 10,
    "measure-melting-point-known-substance": 10,
    "mendelian-genetics-known-plant": 10,
    "mendelian-genetics-unknown-plant": 10,
    "use-thermometer": 10,
}
"""Task type to its N in Table 2 of the rSSO paper (Appendix A)."""


def test_the_papers_sample_has_as_many_variants_of_each_type_as_its_table_2():
    chosen = choose_variants(None, ["sso"])

    assert Counter(variant.task for variant in chosen) == VARIANTS_OF_TABLE_2


def test_the_papers_sample_has_164_variants_of_18_tasks():
    chosen = choose_variants(None, ["sso"])
    assert len(chosen) == len(set(chosen)) == 164
    assert len({variant.task for variant in chosen}) == 18
    assert {variant.split for variant in chosen} == {"test"}
    assert [v for v in chosen if v.task == "boil"][:2] == choose_variants(["boil"], ["sso"], 2)


@pytest.mark.parametrize(
    ("tasks", "variants", "per_task", "chosen"),
    [
        (["boil"], ["first"], 2, "boil::21 boil::22"),
        (None, ["boil::22", "freeze::21"], None, "boil::22 freeze::21"),
        (["boil"], ["boil::3"], None, (SplitError, "train")),
        (["boil"], ["boil::999"], None, (SplitError, "0 to 29")),
        (None, ["abc"], None, (UnknownName, r"known: first, sso\. Or list variants, such as find-plant::229")),
        (["boil"], ["frist"], None, (UnknownName, "first")),
        (["boll"], ["sso"], None, (UnknownName, "boil")),
        (["boil"], ["freeze::21"], None, (UsageError, "freeze::21")),
    ],
)
def test_variants_are_chosen_by_selection_or_by_name_and_what_cannot_be_is_told(tasks, variants, per_task, chosen):
    if isinstance(chosen, str):
        assert " ".join(variant.key for variant in choose_variants(tasks, variants, per_task)) == chosen
        return
    kind, words = chosen
    with pytest.raises(kind, match=words):
        choose_variants(tasks, variants, per_task)


@pytest.mark.parametrize(
    ("preset", "gold", "steps"),
    [("sso-adapt/3", 17, 25), ("sso-adapt/3", 738, 1107), ("sso-adapt/3-cap60", 738, 60), ("release/2", 17, 25)],
)
def test_budgets_follow_the_gold_length_rounded_down(preset, gold, steps):
    assert PRESETS[preset].compute_budget(gold) == steps


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ([], "adapt/4"),
        (["protocol.trials=3", "memory.reflections.size=1"], "adapt/4 trials=3 reflections=1"),
        (["protocol.preset=sso-adapt/3", "protocol.trials=3"], "sso-adapt/3 trials=3"),
        (["memory.skills.retrieved=4"], "adapt/4 skills.retrieved=4"),
        (
            ["memory.skills.min_window=4", "memory.skills.max_window=7"],
            "adapt/4 skills.min_window=4 skills.max_window=7",
        ),
        (["protocol.layout=released"], "adapt/4 layout=released"),
        (["memory.reflections.successes=true"], "adapt/4 reflections.successes=True"),
        (["memory.constitution.samples=3"], "adapt/4 constitution.samples=3"),
        (["memory.constitution.relevant=9"], "adapt/4 constitution.relevant=9"),
        (
            [
                f"memory.constitution.{each}"
                for each in ("summaries=separate", "agreement=consistent", "priorities=true")
            ],
            "adapt/4 constitution.summaries=separate constitution.agreement=consistent constitution.priorities=True",
        ),
    ],
)
def test_departures_stand_in_the_protocols_name(settings, name):
    assert resolve_protocol(load_config(overrides=settings)).id == name


def test_the_forecast_counts_calls_by_role():
    budgets = {Variant("boil", 22): 60, Variant("freeze", 21): 40}

    def forecast(method: str) -> Forecast:
        return forecast_calls(make_plan("p", TrialRules(trials=3), [Arm(METHODS[method])], budgets, 0))

    assert forecast("react").calls == {"actor": 300}
    assert forecast("reflexion").calls == {"actor": 300, "reflector": 4}
    assert forecast("rsso").calls["verbalizer"] > 0
    assert forecast("react").tokens[0] > forecast("react").tokens[1] > 0


@pytest.mark.parametrize(
    ("settings", "advisor"),
    [([], 2 * 6 + 1), (["samples=3"], 3 * 2 * 6 + 1), (["summaries=separate"], 2 * 6 + 2), (["categories=[]"], 0)],
)
def test_the_forecast_counts_every_sample_and_every_summary(settings, advisor):
    config = load_config(overrides=["protocol.steps=60", *(f"memory.constitution.{each}" for each in settings)])
    plan = plan_held_out(config, ["omnireflect-neural"], variants=["boil::22", "freeze::21"])
    assert forecast_calls(plan).calls.get("advisor", 0) == advisor


LOCAL = ["backend=vllm", "backends.vllm.model=hosted_vllm/small"]


def choose(protocol: str, *more: str):
    return load_config(overrides=["benchmark=pddl", f"protocol.preset={protocol}", *more])


@pytest.mark.parametrize(
    ("protocol", "steps", "trials", "calls"),
    [("omnireflect/3", 50, 1, 50), ("agentboard/3", 30, 1, 30), ("reflexion/3", 49, 15, 735)],
)
def test_trials_and_steps_are_the_protocols_own_whatever_the_gold_length(protocol, steps, trials, calls):
    plan = plan_held_out(choose(protocol), ["react"], ["gripper"], ["gripper::50", "gripper::69"])
    assert (plan.protocol, plan.rules.trials, plan.rules.stop_on_success) == (protocol, trials, True)
    assert {unit.budget for unit in plan.units} == {steps}
    assert forecast_calls(plan, plan.units[:1]).calls == {"actor": calls}


@pytest.mark.parametrize(
    ("settings", "sent", "protocol"),
    [
        (LOCAL, (0.0, 0.7, 50), "omnireflect/3"),
        ([*LOCAL, "backends.vllm.top_p=0.9"], (0.0, 0.9, 50), "omnireflect/3 top_p=0.9"),
        ([*LOCAL, "backends.vllm.roles.advisor.top_p=1"], (0.0, 0.7, 50), "omnireflect/3 advisor.top_p=1.0"),
        (["backend=openai"], (0.0, 0.7, None), "omnireflect/3 top_k=unset"),
        (["protocol.steps=9", "protocol.demonstrations=2"], (.5, None, None), "omnireflect/3 demonstrations=2 steps=9"),
    ],
)  # fmt: skip
def test_decoding_is_the_protocols_and_what_departs_from_it_is_named(settings, sent, protocol):
    config = choose("omnireflect/3", *settings)
    backend = apply_decoding(config).active_backend
    assert (backend.temperature, backend.top_p, backend.top_k) == sent
    assert resolve_protocol(config).id == resolve_protocol(apply_decoding(config)).id == protocol


def test_a_benchmark_without_solutions_is_played_without_demonstrations_and_the_id_says_so(tmp_path, monkeypatch):
    from tests.toy_package import installed

    monkeypatch.syspath_prepend(installed(tmp_path, goldless="tests.toy_package:WITHOUT_GOLD"))
    config = load_config(overrides=["benchmark=goldless", "protocol.preset=agentboard/3"])
    assert resolve_protocol(config).id == "agentboard/3 demonstrations=0"
    wanted = load_config(overrides=["benchmark=goldless", "protocol.demonstrations=2"])
    assert (resolve_protocol(wanted).id, resolve_protocol(wanted).rules.demonstrations) == ("adapt/4", 0)


@pytest.mark.parametrize(
    ("benchmark", "package", "held_out"),
    [
        ("pddl", "json", "gripper::50"),
        ("babyai", "minigrid", "GoToRedBall::1234"),
        ("textworld-express", "textworld_express", "coin::20001"),
        ("alfworld", "textworld", "pick_heat_then_place_in_recep::475"),
    ],
)
def test_solved_examples_are_training_variants_that_were_won_in_the_form_that_is_asked_for(
    benchmark, package, held_out
):
    pytest.importorskip(package, reason=f"the extra {benchmark} is not installed")
    chosen = [f"benchmark={benchmark}", "protocol.preset=omnireflect/3"]
    config = load_config(overrides=chosen)
    assert resolve_protocol(config).id == "omnireflect/3"
    bare = load_config(overrides=[*chosen, "protocol.demonstration_thoughts=false"])
    assert resolve_protocol(bare).id == "omnireflect/3 demonstration_thoughts=False"
    with pytest.raises(UsageError, match="there are no demonstrations to hold thoughts"):
        resolve_protocol(load_config(overrides=["protocol.demonstration_thoughts=true"]))
    with session(config) as live, live.runtime.environments.lease() as env:
        variant = live.runtime.variant(held_out)
        first = env.reset(variant)
        (shown,) = env.solved_examples
        assert shown not in env.action_templates
        assert shown.startswith("Task: ")
        answers = re.findall(r"^Thought: (.+)\nAction: (.+)\nObservation: ", shown, re.M)
        assert len(answers) == shown.count("\nAction: ") > 0, "each answer has the form that is asked for"
        assert answers[0][0].endswith(f"{answers[-1][1]}.")
        assert benchmark != "alfworld" or "\nAction: move " not in shown, "`sso` says put"
        assert env.reset(variant) == first, "playing a demonstration leaves no trace"
        table = config.active_benchmark.tasks
        for index in table.indices(variant.task, "train")[:3]:
            played = env.reset(table.variant(variant.task, index))
            start = f"Task: {env.task}\nObservation: {env.render([played])[0]}"  # rooms alone may look alike
            assert not any(start in text for text in env.solved_examples), "no variant sees its own solution"


def test_the_hash_of_prompts_knows_how_layouts_arrange_them(monkeypatch):
    before = hash_prompts(get_benchmark())
    moved = replace(PAPER, order=PAPER.order[::-1])
    monkeypatch.setitem(ARRANGEMENTS, ("paper", "sso"), moved)
    assert hash_prompts(get_benchmark()) != before, "a run would go on under other prompts without a word"


def test_a_call_takes_the_assumed_tokens_and_dollars_follow_the_price_of_each_role():
    assert TOKENS_PER_CALL.keys() == {"actor", "reflector", "verbalizer", "advisor", "proposer"}
    assert Forecast({"actor": 2, "teacher-actor": 1, "advisor": 3}).tokens == (3 * 4500 + 3 * 2170, 3 * 80 + 3 * 30)
    most = Forecast({"actor": 2, "reflector": 1})
    prices = {"a": Price(1e6, 2e6, 1.0, 1.0), "b": Price(1e7, 2e7, 1.0, 1.0)}
    models = {"actor": "a", "reflector": "b"}
    dollars = price_forecast(most, models, prices.get)
    assert dollars == pytest.approx(1e6 * (2 * 4500 + 2 * 2 * 80 + 10 * 3270 + 20 * 110))
    assert price_forecast(most, {**models, "reflector": "unknown"}, prices.get) is None
    assert price_forecast(Forecast({}), models, prices.get) == 0
    assert Forecast({"actor": 2, "advisor": 1}, {"actor": (1300, 10)}).tokens == (2 * 1300 + 2170, 2 * 10 + 30)
