"""What a run would play and may cost, in words: `--dry-run` says no more, and every run says it first."""

from typing import TYPE_CHECKING

from rsso_dspy.cli.options import count, say

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.protocol.forecast import Estimate
    from rsso_dspy.protocol.held_out import HeldOut
    from rsso_dspy.protocol.plan import Forecast


def describe(planned: "HeldOut", jobs: int = 1) -> None:
    """Print what will be played, by which model, and what it may cost, in time too when so many units are played at
    once."""
    from rsso_dspy.backends import Backend
    from rsso_dspy.protocol.retries import unvarying
    from rsso_dspy.protocol.units import Unit

    plan, settings = planned.plan, planned.config
    variants = len({unit.variant for unit in plan.units})
    forecast = planned.forecast()
    units = sum(isinstance(work, Unit) for work in planned.left)
    episodes = sum(len(training.episodes) for training in plan.trainings)
    say(
        f"plan: {count(plan.arms, 'arm')} x {count(range(variants), 'variant')} = {count(plan.units, 'unit')}, "
        f"{count(range(plan.rules.trials), 'trial')} each, protocol {plan.protocol}, into {planned.store.folder}\n"
        f"      {answering(settings, {'actor', *forecast.calls})}"
    )
    for arm, stream in plan.streams.items():
        trials = count(range(plan.stream_trials), "trial")
        say(f"      {arm.name}: one stream of {count(stream, 'unit')}, {trials} each; each starts from the rules left")
    if plan.trainings:
        left = len(planned.left) - units
        say(f"      {count(plan.trainings, 'training')} of {count(range(episodes), 'episode')} before, {left} to play")
    say(f"      {count(range(len(plan.units) - units), 'unit')} finished, {units} to play\n      {cost(forecast)}")
    if estimate := planned.estimate():
        say(f"      {expected(estimate)}")
        if time := describe_time(planned, estimate, jobs):
            say(f"      {time}")
    if planned.left:
        for warning in unvarying(plan, Backend(settings.active_backend)):
            say(f"      {warning}")
    for line in proxied(settings):
        say(f"      {line}")


def describe_time(planned: "HeldOut", estimate: "Estimate", jobs: int) -> str:
    """How long it takes, by what was played into the folder; empty for the offline player alone."""
    from rsso_dspy.config import EMBEDDED
    from rsso_dspy.protocol.pace import measured, range_in_words

    if set(planned.asked.values()) == {EMBEDDED}:
        return ""
    pace = measured(planned.store)
    if pace is None:
        return "time: measured from the first answers on; `rsso-dspy doctor --model ...` measures it before"
    at_once = f", {jobs} at once" if jobs > 1 else ""
    return (
        f"time: {range_in_words(pace.take(estimate.calls, jobs))} at {pace.per_call:.1f} s a call{at_once}, as the "
        f"{pace.calls:,} calls of this run so far"
    )


def answering(settings: "Config", roles: set[str]) -> str:
    """Which models answer in these roles."""
    from rsso_dspy.backends import Backend
    from rsso_dspy.config import EMBEDDED

    models = Backend(settings.active_backend).models
    names = ", ".join(dict.fromkeys(model for role, model in models.items() if role in roles))
    return f"backend {settings.backend}: {names}" + (" (rule-based, offline, no cost)" if names == EMBEDDED else "")


def proxied(settings: "Config") -> list[str]:
    """Which proxies see the requests, a line each."""
    from rsso_dspy.backends import proxies

    return [
        f"requests for {address} go through {proxy}, a proxy of the environment"
        for address, proxy in proxies(settings).items()
    ]


def cost(forecast: "Forecast") -> str:
    """A forecast in words."""
    from rsso_dspy.money import tokens

    if not forecast.calls:
        return "no model calls are left"
    sent, answered = map(tokens, forecast.tokens)
    per_role = ", ".join(f"{role} {count:,}" for role, count in forecast.calls.items())
    return (
        f"at most {forecast.total_calls:,} model calls ({per_role}) while every answer can be read; "
        f"about {sent} tokens in and {answered} out if every trial uses all its steps"
    )


def expected(estimate: "Estimate") -> str:
    """An estimate in words."""
    from rsso_dspy.money import dollars, tokens

    calls, sent, answered, price = estimate.calls, estimate.tokens_in, estimate.tokens_out, estimate.dollars
    parts = [
        f"expected: {calls.mean:,.0f} calls ({calls.low:,.0f} to {calls.high:,.0f})",
        f"{tokens(sent.mean)} tokens in ({tokens(sent.low)} to {tokens(sent.high)})",
        f"{tokens(answered.mean)} out ({tokens(answered.low)} to {tokens(answered.high)})",
    ]
    if price is None:
        parts.append("unpriced")
    elif price.high:
        parts.append(f"{dollars(price.mean)} ({dollars(price.low)} to {dollars(price.high)}) uncached")
    judges = [f"{estimate.own} units of this run"] if estimate.own else []
    judges += [f"{estimate.shipped} units played on the embedded backend"] if estimate.shipped else []
    return f"{', '.join(parts)}; judged by {' and '.join(judges)}"
