"""The plan of a run, its estimated cost and its programs as text, printed by `--dry-run` and before every run."""

from typing import TYPE_CHECKING

from rsso_dspy.cli.options import format_plural, print_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rsso_dspy.config import Config
    from rsso_dspy.forecast import Forecast
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.records import Usage
    from rsso_dspy.runs import Run


def print_run_plan(planned: "Run") -> None:
    """Print the plan, the models and the estimated cost."""
    plan = planned.plan
    variants = len({unit.variant for unit in plan.units})
    print_plan(
        f"plan: {format_plural(plan.arms, 'arm')} x {format_plural(range(variants), 'variant')} = "
        f"{format_plural(plan.units, 'unit')}, {format_plural(range(plan.rules.trials), 'trial')} each, protocol "
        f"{plan.protocol}, into {planned.store.folder}",
        *(f"      {line}" for line in _describe_plan(planned)),
    )


def _describe_plan(planned: "Run") -> "Iterator[str]":
    from rsso_dspy.lm import Backend
    from rsso_dspy.plan import list_retry_warnings
    from rsso_dspy.store.run_folder import Unit

    plan, settings = planned.plan, planned.config
    forecast = planned.forecast_calls()
    units = sum(isinstance(work, Unit) for work in planned.left)
    yield describe_models(settings, {"actor", *forecast.calls})
    for arm, stream in plan.streams.items():
        trials = f"{format_plural(range(plan.stream_trials), 'trial')} each"
        if plan.stream_trials != plan.rules.trials:
            trials += " as protocol.stream_trials says"
        yield (
            f"{arm.name}: one stream of {format_plural(stream, 'unit')}, {trials}; each starts from what the one "
            "before it left"
        )
    if plan.trainings:
        episodes = sum(len(training.episodes) for training in plan.trainings)
        yield (
            f"{format_plural(plan.trainings, 'training')} of {format_plural(range(episodes), 'episode')} before, "
            f"{len(planned.left) - units} to play"
        )
    yield f"{format_plural(range(len(plan.units) - units), 'unit')} finished, {units} to play"
    yield describe_forecast(forecast, planned.price_calls())
    if count := planned.units_beside:
        yield (
            f"{planned.store.folder} also holds {format_plural(range(count), 'unit')} of earlier commands, which the "
            "tables count too; name another --out for a table of this command alone"
        )
    if planned.left:
        yield from list_retry_warnings(plan, Backend(settings.active_backend))
    yield from describe_proxies(settings)


def describe_models(settings: "Config", roles: set[str]) -> str:
    """Describe the models of these roles."""
    from rsso_dspy.config import EMBEDDED
    from rsso_dspy.lm import Backend
    from rsso_dspy.pricing import make_price_lookup

    models = Backend(settings.active_backend).models
    names = ", ".join(dict.fromkeys(model for role, model in models.items() if role in roles))
    if names != EMBEDDED:
        return f"backend {settings.backend}: {names}"
    price = make_price_lookup(settings.prices)(EMBEDDED)
    cost = "no cost" if price and price.is_free else "priced as configured"
    return f"backend {settings.backend}: {names} (rule-based, offline, {cost})"


def describe_proxies(settings: "Config") -> list[str]:
    """Describe the proxies of the requests, one line each."""
    from rsso_dspy.lm import list_backend_proxies

    return [
        f"requests to {address} go through {proxy}, a proxy of the environment"
        for address, proxy in list_backend_proxies(settings).items()
    ]


def describe_forecast(forecast: "Forecast", dollars: float | None = 0.0) -> str:
    """Describe a forecast, with the dollars unless it is free; None is an unknown price."""
    from rsso_dspy.pricing import format_dollars, format_tokens

    if not forecast.calls:
        return "no model calls left"
    sent, answered = map(format_tokens, forecast.tokens)
    per_role = ", ".join(f"{role} {count:,}" for role, count in forecast.calls.items())
    return (
        f"at most {forecast.total_calls:,} model calls ({per_role}) if every answer can be parsed; "
        f"about {sent} tokens in and {answered} out if every trial uses all its steps"
        + (f", {format_dollars(dollars)} uncached" if dollars else ", unpriced" if dollars is None else "")
    )


def describe_spending(usage: "Mapping[str, Usage]", amount: float | None = 0.0, calls: int | None = None) -> str:
    """Describe what was used by role, with the dollars unless it was free; None is an unknown price.

    `calls` are the requests sent, where some had no answer.
    """
    from rsso_dspy.pricing import format_dollars, format_tokens
    from rsso_dspy.records import Usage

    spent = sum(usage.values(), Usage())
    sent = spent.calls if calls is None else calls
    per_role = ", ".join(f"{role} {each.calls:,}" for role, each in usage.items())
    dollars = f", {format_dollars(amount)}" if amount is None or amount else ""
    return (
        f"{sent:,} model call{'s' * (sent != 1)} ({per_role}), "
        f"{format_tokens(spent.input)} tokens in, "
        f"{format_tokens(spent.output)} out{dollars}"
    )


def describe_programs(
    programs: "Mapping[str, Compiled | None]", protocol: str, model: str, trials: int
) -> "Iterator[str]":
    """Yield the lines that a file needs: which of its programs is played, whether its verdict applies to this protocol
    and acting model, and whether its compile scored candidates by other trials than the run."""
    for name, compiled in programs.items():
        if compiled is None:
            continue
        confirmation, scored = compiled.confirmation, compiled.trials
        if compiled.is_made_elsewhere:
            pass
        elif confirmation is None:
            yield f"{name} has no verdict: it was compiled by a version without confirmation, so its gain may be luck"
        elif not compiled.improved:
            yield f"{name} plays its candidate, which is {confirmation.verdict} ({confirmation.why})"
        elif (compiled.protocol.split()[0], compiled.model) != (protocol.split()[0], model):
            # other trials or another embedder of one preset are named where the run is planned
            yield (
                f"{name} was confirmed under {compiled.protocol} by {compiled.model}, but plays under {protocol} by "
                f"{model}: its verdict does not apply there"
            )
        if 0 < scored < trials:
            yield (
                f"{name} was compiled by the best of {scored} trial{'s' * (scored > 1)}: the report compares programs "
                f"by the best of {trials}, the protocol's, which is the main comparison, and again by the first "
                f"{scored}"
            )
        elif scored > trials:
            yield (
                f"{name} was compiled by the best of {scored} trials, and a unit plays {trials} here: nothing is "
                f"compared as the compile scored; for that, add --trials {scored} in the adaptation setting"
            )
