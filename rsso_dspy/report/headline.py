"""What a run found, in a few plain sentences that hold whatever its numbers are."""

from collections.abc import Iterator

from rsso_dspy.pricing import format_dollars, format_tokens
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.compare import Comparison
from rsso_dspy.report.metrics import describe_repeated_units
from rsso_dspy.report.sheets import format_difference

MOST = 3  # maximum number of comparisons that are told
UNCERTAIN, TOO_FEW, EQUAL = "Too uncertain to call", "No result, too few task types", "No unit differs"
OWN_MODEL = "Your own model plays with --model PROVIDER/NAME; --dry-run says first what it may cost."


def write_headline(found: Analysis) -> str:
    """Write the result of a run: which arm scored highest, which comparisons it decides, what is missing, what it took,
    and how to play a language model if none played."""
    scored = [arm for arm in found.arms if arm.mean is not None]
    if not scored:
        return "No unit has a score yet."
    said = [_describe_best(found), *_describe_comparisons(found)]
    repeated = {arm: (equal, units) for arm, (equal, units) in found.repeated.items() if 2 * equal > units}
    said += [*describe_repeated_units(repeated), *found.describe_gaps(), *_describe_unscored(found)]
    said += _describe_spending(found)
    return " ".join([*said, *([OWN_MODEL] if found.rule_based else [])])


def _describe_best(found: Analysis) -> str:
    means = [(f"{arm.mean:.2f}", arm) for arm in found.arms if arm.mean is not None]
    top = max((mean for mean, _ in means), key=float)
    best = [arm for mean, arm in means if mean == top]
    names, of = " and ".join(arm.arm for arm in best), f"{best[0].solve} of {best[0].units}"
    if len(means) == 1:
        return f"{names} scored {top} of 100 points on average and solved {of} units; no other arm has a score."
    if len(best) == len(means):
        return f"{'Both' if len(best) == 2 else f'All {len(best)}'} arms scored {top} of 100 points on average."
    solved = f", {of} units solved" if len(best) == 1 else ""
    unlike = "" if found.alike else " (the arms finished different units)"
    return f"Highest mean: {names} with {top} of 100 points{solved}{unlike}."


def _describe_comparisons(found: Analysis) -> list[str]:
    pairs = [pair for pair in found.comparisons if pair.difference is not None]
    if not pairs:
        return ["No two arms share a finished unit, so nothing is compared."] if len(found.arms) > 1 else []
    pairs.sort(key=lambda pair: pair is not found.main_result)
    decided = [pair for pair in pairs if pair.interval and pair.interval.is_decided]
    open_ = [pair for pair in pairs if pair not in decided]
    kept = open_[: max(1, MOST - len(decided))]
    said = list(map(_describe_winner, decided[:MOST]))
    for verdict in (UNCERTAIN, TOO_FEW, EQUAL):
        told = [
            f"{pair.name} {format_difference(pair.difference).text} points ({_describe_pairs(pair)})"
            for pair in kept
            if _judge_open(pair) == verdict
        ]
        said += [f"{verdict}: {', '.join(told)}."] if told else []
    if left := len(decided[MOST:]) + len(open_) - len(kept):
        said.append(f"{left} more comparison{'s are' if left > 1 else ' is'} in the tables.")
    if decided and len(pairs) > 1:
        said.append(f"Intervals are not corrected for the {len(pairs)} comparisons; Holm's p in the tables is.")
    return said


def _judge_open(pair: Comparison) -> str:
    """Why a comparison is not decided: no pair differs, a run over this few task types could decide no difference, or
    the interval includes 0."""
    if pair.pairs > 1 and not pair.higher and not pair.lower:
        return EQUAL
    hopeless = pair.interval is not None and pair.interval.over == "task types" and pair.interval.is_hopeless
    return TOO_FEW if hopeless else UNCERTAIN


def _describe_winner(pair: Comparison) -> str:
    assert pair.difference is not None
    better, worse = (pair.second, pair.first) if pair.difference > 0 else (pair.first, pair.second)
    return f"{better} beats {worse} by {abs(pair.difference):.2f} points ({_describe_pairs(pair, best_first=True)})."


def _describe_pairs(pair: Comparison, best_first: bool = False) -> str:
    """Write the number of pairs and the interval: of ``second - first``, or of the better arm minus the worse one."""
    units = f"{pair.pairs} unit{'s' if pair.pairs != 1 else ''}"
    if pair.interval is None:
        return units
    low, high = pair.interval.low, pair.interval.high
    if best_first and high < 0:
        low, high = -high, -low
    alone = "" if pair.interval.over == "task types" else " of one task type"
    return f"{units}{alone}, 95% interval {low:+.1f} to {high:+.1f}"


def _describe_spending(found: Analysis) -> list[str]:
    """Describe the calls, tokens and dollars that this run took, interrupted trials included."""
    spent, billed = found.bill.answered, found.bill.spent
    price = "at no cost" if found.bill.free else "price unknown" if billed is None else format_dollars(billed)
    calls = f"{spent.calls:,} model call{'s' if spent.calls > 1 else ''}"
    return [f"It took {calls} and {format_tokens(spent.input + spent.output)} tokens, {price}."] if spent.calls else []


def _describe_unscored(found: Analysis) -> Iterator[str]:
    if count := sum(not each.is_skipped for each in found.errored):
        units, count_them = ("unit", "counts") if count == 1 else ("units", "count")
        yield f"{count} {units} ended in an error and {count_them} nowhere."
    if skipped := [f"{each.unit} of {each.arm}" for each in found.errored if each.is_skipped]:
        yield f"Skipped, as the environment refuses them: {', '.join(skipped)}."
