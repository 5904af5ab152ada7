"""A run on one page of Markdown: what was played and how, the results with their intervals, and what they cost.

A card says what it knows from the records, and says so where a run lacks something that a reader would ask for.
"""

from collections.abc import Iterator

from rsso_dspy.atomic import make_marked_kind
from rsso_dspy.pricing import format_dollars
from rsso_dspy.report import cells
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost_report import describe_unreported_costs
from rsso_dspy.report.exported_run import POINTS, ExportedRun, ExportFormat, clean_text, list_scores
from rsso_dspy.report.headline import write_headline
from rsso_dspy.report.statistical_tests import BootstrapInterval, bootstrap_scores
from rsso_dspy.report.table_data import Sheet, to_markdown
from rsso_dspy.report.tables import describe_uneven_trials

NO_MEMORY = ("react", "react-sso")
NOT_PLAYED = "not played; `rsso-dspy export` with `--references` plays {} on these variants"
MARK = "<!-- results card of rsso-dspy -->"


def build_card(run: ExportedRun) -> Iterator[tuple[str, bytes]]:
    """Yield the card."""
    yield "", clean_text("\n".join(_write_card(run))).encode()


def _write_card(run: ExportedRun) -> Iterator[str]:
    found = run.analysis
    yield f"{MARK}\n# {run.name}: results card\n"
    if found.rule_based_note:
        yield f"> **{found.rule_based_note}**\n"
    yield f"{write_headline(found)}\n"
    yield "## What was played\n"
    for name, text in _list_facts(run):
        yield f"- **{name}**: {text}"
    yield "\n## Results\n"
    yield to_markdown(_build_results_table(run))
    if found.findings:
        yield to_markdown(_build_differences_table(found))
    yield "## Cost\n"
    yield from _describe_cost(found)
    yield "\n## Limits\n"
    yield from (f"- {line}" for line in _list_limits(run))
    yield ""


def _list_facts(run: ExportedRun) -> Iterator[tuple[str, str]]:
    facts = {name: ", ".join(values) for name, values in run.analysis.facts.items()}
    yield "benchmark", f"{run.benchmark} {facts.get(run.benchmark, '')}".strip()
    yield "protocol", facts.get("protocol", "n/a")
    yield "actor", facts.get("actor", "n/a")
    if "other roles" in facts:
        yield "other roles", facts["other roles"]
    records = run.played.records
    variants, tasks = {record.key for record in records}, {record.variant.task for record in records}
    seeds = {record.seed for record in records}
    many = f"{len(seeds)} seed{'s' if len(seeds) > 1 else ''} ({', '.join(map(str, sorted(seeds)))})"
    yield (
        "n",
        f"{len(records)} units = variants x seeds x arms: {len(variants)} variants of {len(tasks)} task types, {many}, "
        f"{len(run.arms)} arms",
    )
    splits = sorted({record.variant.split for record in records})
    yield "split", ", ".join(splits)
    trials = ", ".join(f"{arm} {count}" for arm, count in run.analysis.plays.items())
    budgets = sorted({record.budget for record in records})
    yield "allowed", f"trials of a unit: {trials}; steps of a trial: {budgets[0]} to {budgets[-1]}"
    yield "trivial-agent baseline", _describe_baseline(run)
    yield "oracle", run.references.describe_oracle() if run.references else NOT_PLAYED.format("gold paths")
    yield "isolation", _describe_isolation(run)
    for name in ("configuration", "prompts", "rsso-dspy", "dspy", "python", "commit", "played"):
        if name in facts:
            yield name, facts[name]


def _describe_baseline(run: ExportedRun) -> str:
    """Describe the lowest bars: random actions, and first trials of the arms without a memory."""
    first = {row.arm: row.trial_1 for row in run.analysis.arms}
    alone = [arm for arm, units in run.arms.items() if units[0].method in NO_MEMORY]
    floors = [f"{arm}, no memory, first trial: {_round(first[arm])} points" for arm in alone]
    random = run.references.describe_random() if run.references else NOT_PLAYED.format("random actions")
    return "; ".join([random, *floors])


def _describe_isolation(run: ExportedRun) -> str:
    starts = {
        arm: tuple(sorted({source.kind for record in records for source in record.sources}))
        for arm, records in run.arms.items()
    }
    said = []
    for start in dict.fromkeys(starts.values()):
        of = "" if len(set(starts.values())) == 1 else ", ".join(arm for arm in starts if starts[arm] == start) + ": "
        said.append(of + _describe_start(start))
    between = "; ".join(said)
    apart = [record for arm, records in run.arms.items() for record in records if "stream" not in starts[arm]]
    seen = {key for record in apart for key in record.learnt_on} & {record.key for record in apart}
    overlap = f"; {len(seen)} played variants were also learned on" if seen else ""
    return f"one simulator per unit at a time, reset before every trial; {between}{overlap}"


def _describe_start(kinds: tuple[str, ...]) -> str:
    if not kinds:
        return "no memory passes from one unit to another"
    if kinds == ("stream",):
        return "units of an arm form a stream, in which memories pass on"
    return f"units start from memories of: {', '.join(kinds)}"


def _build_results_table(run: ExportedRun) -> Sheet:
    rows = []
    for row in run.analysis.arms:
        interval = bootstrap_scores(list_scores(run.arms[row.arm], POINTS))
        rows.append(
            (
                cells.format_text(row.arm),
                cells.format_count(row.units),
                cells.format_count(row.errored),
                cells.format_points(row.mean),
                cells.format_text(_write_interval(interval)),
                cells.format_points(row.trial_1),
                cells.format_text(f"{row.solve} of {row.units}"),
                cells.format_text(format_dollars(run.analysis.bill.sum_arm(row.arm))),
            )
        )
    columns = ("arm", "n", "errored", "mean", "95% interval", "trial 1", "solved", "US dollars")
    note = "Mean: best accumulator of a unit's trials, in points of 100. Intervals are bootstrapped over task types."
    dollars = "US dollars: what this run paid for an arm's units and trainings."
    plays = run.analysis.plays
    uneven = [describe_uneven_trials(plays)] if len(set(plays.values())) > 1 else []
    return Sheet("card", "", columns, tuple(rows), (note, dollars, *uneven))


def _build_differences_table(found: Analysis) -> Sheet:
    rows = []
    for each in (*found.findings, *found.as_compiled):
        pair = each.comparison
        label = f"{pair.second} - {pair.first}" + (f", {each.question.asks}" if each in found.as_compiled else "")
        rows.append(
            (
                cells.format_text(label),
                cells.format_count(pair.pairs),
                cells.format_text("n/a" if pair.difference is None else f"{pair.difference:+.2f}"),
                cells.format_text(_write_interval(pair.interval, "+")),
                cells.format_text(_round(pair.wilcoxon.p, 3)),
                cells.format_text(_round(each.holm, 3)),
            )
        )
    columns = ("paired difference", "n", "points", "95% interval", "p", "p (Holm)")
    note = "P values are of exact signed-rank tests over task types; Holm corrects for the number of comparisons."
    return Sheet("differences", "", columns, tuple(rows), (note,))


def _write_interval(interval: BootstrapInterval | None, sign: str = "") -> str:
    if interval is None:
        return "n/a"
    over = "" if interval.over == "task types" else " (one task type)"
    return f"{interval.low:{sign}.1f} to {interval.high:{sign}.1f}{over}"


def _round(value: float | None, digits: int = 2) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"


def _describe_cost(found: Analysis) -> Iterator[str]:
    bill = found.bill
    usage = [entry.usage for entry in bill.paid]
    calls, tokens_in, tokens_out = (sum(getattr(each, name) for each in usage) for name in ("calls", "input", "output"))
    yield (
        f"{format_dollars(bill.billed)} billed, {format_dollars(bill.without_cache)} without the provider's cache: "
        f"{calls:,} calls, {tokens_in:,} tokens in, {tokens_out:,} tokens out."
    )
    yield from describe_unreported_costs(bill)


def _list_limits(run: ExportedRun) -> Iterator[str]:
    found = run.analysis
    if found.rule_based_note:
        yield "The offline player acted: compare programs and tools by these numbers, not models."
    if found.missing:
        yield f"{found.missing} planned units are not finished."
    if found.missing_shards:
        yield f"This is without {found.name_missing_shards()} of the run."
    yield from found.describe_errored()
    if not found.alike:
        yield "Arms finished different units: compare them by paired differences only."
    if any(row.stalled for row in found.arms):
        yield f"{sum(row.stalled for row in found.arms)} trials stalled and count with the score they had."
    yield from found.mixed
    yield "Scores are the benchmark's; a run of few task types says little about others."


CARD = ExportFormat("card", build_card, make_marked_kind("results card", MARK.encode()), ".md")
