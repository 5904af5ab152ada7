"""Describe the speed of a server and the duration of a run, for `rsso-dspy doctor --model`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.lm.measuring import Measured, Timed

METHOD = "rsso"
"""Method of the estimated run: it uses every role that the others use."""


def describe_server(config: "Config") -> str:
    """Time the server and describe the result in lines. Raises what a request raises."""
    from rsso_dspy.lm import Backend
    from rsso_dspy.lm.measuring import measure

    own, played = config.active_backend, config.active_benchmark
    history = next(iter(played.examples()), "")
    backend = Backend(own.model_copy(update={"retries": 0}))
    backend.check()
    backend.check_connections()
    measured = measure(backend, played.action_templates, history)
    lines = [
        *_describe_speed(measured),
        f"key: {f'the one in {own.key_variable}' if own.key_variable else 'none is configured, and none was needed'}",
        *_name_others(config),
        _describe_run(config, measured),
    ]
    return "\n          ".join(lines)


def _describe_speed(measured: "Measured") -> list[str]:
    first, then = measured.first, measured.next
    share = f"{then.cached:,} of {then.tokens_in:,} tokens" if then.cached else "none reported"
    unread = sum(not each.readable for each in (first, then))
    return [
        f"a step: {_describe_step(first)}; the next {_describe_step(then)}",
        f"read from its cache in the second: {share}",
        *([f"{unread} of 2 answers could not be parsed"] if unread else []),
    ]


def _describe_step(timed: "Timed") -> str:
    return f"{timed.seconds:.1f} s ({timed.tokens_in:,} tokens in, {timed.tokens_out:,} out: {timed.rate:.1f} tokens/s)"


def _name_others(config: "Config") -> list[str]:
    """List the server's models if the configured name is not among them; some servers accept any name."""
    from rsso_dspy.lm.served import describe_models, list_models

    own = config.active_backend
    served = list_models(own.base_url) if own.base_url and not own.key_variable else []
    name = own.model.partition("/")[2]
    return (
        [f"name: {name} is not in the server's list; {describe_models(served)}"]
        if served and name not in served
        else []
    )


def _describe_run(config: "Config", measured: "Measured") -> str:
    from rsso_dspy.config import make_price_lookup
    from rsso_dspy.experiment.cost_estimate import ExpectedRange, estimate_cost
    from rsso_dspy.experiment.pace import Pace, range_in_words
    from rsso_dspy.experiment.plan import plan_held_out
    from rsso_dspy.lm import Backend

    plan = plan_held_out(config, [METHOD], variants=config.active_benchmark.table.selections[:1], per_task=1)
    models = {str(role): model for role, model in Backend(config.active_backend).models.items()}
    found = estimate_cost(plan, plan.units, [], models, make_price_lookup(config.prices))
    pace = Pace(2, measured.first.seconds + measured.next.seconds)
    most = float(plan.forecast_calls().total_calls)
    calls = found.calls if found else ExpectedRange(most, most, most)
    return (
        f"a run of {METHOD} on one variant a task ({len(plan.units)} units of {plan.rules.trials} trials): "
        f"{'about' if found else 'at most'} {calls.mean:,.0f} calls, {range_in_words(pace.take(calls))} one after the "
        "other"
    )
