"""The rules of OmniReflect, AgentBoard and Reflexion by name: budgets, decoding, repeated actions, solved examples."""

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.forecast import forecast_calls
from rsso_dspy.plan import plan_held_out
from rsso_dspy.protocol import apply_decoding, resolve_protocol
from rsso_dspy.sessions import session

LOCAL = ["backend=vllm", "backends.vllm.model=hosted_vllm/small"]


def choose(protocol: str, *more: str):
    return load_config(overrides=["benchmark=pddl", f"protocol.preset={protocol}", *more])


@pytest.mark.parametrize(
    ("protocol", "steps", "trials", "calls"),
    [("omnireflect/1", 50, 1, 50), ("agentboard/1", 30, 1, 30), ("reflexion/1", 49, 15, 735)],
)
def test_trials_and_steps_are_the_protocols_own_whatever_the_gold_length(protocol, steps, trials, calls):
    plan = plan_held_out(choose(protocol), ["react"], ["gripper"], ["gripper::50", "gripper::69"])
    assert (plan.protocol, plan.rules.trials, plan.rules.stop_on_success) == (protocol, trials, True)
    assert {unit.budget for unit in plan.units} == {steps}
    assert forecast_calls(plan, plan.units[:1]).calls == {"actor": calls}


@pytest.mark.parametrize(
    ("settings", "sent", "protocol"),
    [
        (LOCAL, (0.0, 0.7, 50), "omnireflect/1"),
        ([*LOCAL, "backends.vllm.top_p=0.9"], (0.0, 0.9, 50), "omnireflect/1 top_p=0.9"),
        ([*LOCAL, "backends.vllm.roles.advisor.top_p=1"], (0.0, 0.7, 50), "omnireflect/1 advisor.top_p=1.0"),
        (["backend=openai"], (0.0, 0.7, None), "omnireflect/1 top_k=unset"),
        (["protocol.steps=9", "protocol.demonstrations=2"], (.5, None, None), "omnireflect/1 demonstrations=2 steps=9"),
    ],
)  # fmt: skip
def test_decoding_is_the_protocols_and_what_departs_from_it_is_named(settings, sent, protocol):
    config = choose("omnireflect/1", *settings)
    backend = apply_decoding(config).active_backend
    assert (backend.temperature, backend.top_p, backend.top_k) == sent
    assert resolve_protocol(config).id == resolve_protocol(apply_decoding(config)).id == protocol


def test_a_benchmark_without_solutions_is_played_without_demonstrations_and_the_id_says_so(tmp_path, monkeypatch):
    from tests.toy_package import installed

    monkeypatch.syspath_prepend(installed(tmp_path, goldless="tests.toy_package:WITHOUT_GOLD"))
    config = load_config(overrides=["benchmark=goldless", "protocol.preset=agentboard/1"])
    assert resolve_protocol(config).id == "agentboard/1 demonstrations=0"
    wanted = load_config(overrides=["benchmark=goldless", "protocol.demonstrations=2"])
    assert (resolve_protocol(wanted).id, resolve_protocol(wanted).rules.demonstrations) == ("adapt/2", 0)


@pytest.mark.parametrize("benchmark", ["pddl", "babyai", "alfworld"])
def test_demonstrations_are_training_variants_that_were_won_and_stand_before_the_templates(benchmark):
    package, held_out = {
        "pddl": ("json", "gripper::50"),
        "babyai": ("minigrid", "GoToRedBall::1234"),
        "alfworld": ("textworld", "pick_heat_then_place_in_recep::475"),
    }[benchmark]
    pytest.importorskip(package, reason=f"the extra {benchmark} is not installed")
    config = load_config(overrides=[f"benchmark={benchmark}", "protocol.preset=omnireflect/1"])
    with session(config) as live, live.runtime.environments.lease() as env:
        own = env.action_templates
        variant = live.runtime.variant(held_out)
        first = env.reset(variant)
        shown = env.action_templates
        assert shown.startswith("Below are tasks of this kind that were solved")
        assert shown.count("Example ") == 1
        assert "\n> " in shown
        said = [line for line in shown.splitlines() if line.startswith("> ")]
        assert not [line for line in said if line.startswith("> move ") and benchmark == "alfworld"], "`sso` says put"
        assert env.reset(variant) == first, "playing a demonstration leaves no trace"
        assert len(own) < len(shown)
        table = config.active_benchmark.table
        for index in table.indices(variant.task, "train")[:3]:
            played = env.reset(table.variant(variant.task, index))
            start = f"Task: {env.task}\n{env.render([played])[0]}"  # rooms alone may look alike
            assert start not in env.action_templates, "no variant sees its own solution"
