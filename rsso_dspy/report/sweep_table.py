"""A sweep as one table: the settings that vary, scores, and usage."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.comparison import compare_arms
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.report.statistical_tests import NO_INTERVAL
from rsso_dspy.report.terminal import create_named_table, to_plain_text

COLUMNS = ("units", "Mean", "Solve", "trial-1", "steps", "calls", "minus first", "95% from", "to")


def build_sweep_table(
    points: Sequence[tuple[Mapping[str, Any], Sequence[UnitRecord]]], units_beside: int = 0
) -> RenderableType:
    """Build the table with a row for every arm of every point, without the `units_beside` finished units of earlier
    commands.

    Calls are those of all roles, per unit (OmniReflect, Figure 3). Differences are paired with the same arm at the
    first point, over as many trials as both may play; intervals are bootstrapped over task types.
    """
    keys = list(points[0][0])
    varied = [key.rpartition(".")[2] for key in keys]
    table = create_named_table("sweep", "arm", *varied, *COLUMNS)
    first, cut, without, apart = group_by_arm(points[0][1]), set(), False, False
    for values, records in points:
        for arm, units in group_by_arm(records).items():
            row = compute_arm_metrics(arm, units)
            said = [_format_setting(values[key]) for key in keys]
            played = [str(row.units), _format_points(row.mean), f"{row.solve}/{row.units}", _format_points(row.trial_1)]
            steps = row.steps / row.units if row.units else None
            per_unit = ["n/a" if number is None else f"{number:.1f}" for number in (steps, row.calls_per_unit)]
            against = ["", "", ""]
            if values is not points[0][0] and arm in first:
                pair = compare_arms(arm, first[arm], arm, units)
                without |= pair.interval is None and pair.pairs > 0
                apart |= not pair.pairs
                cut |= {pair.trials} if pair.trials < max(pair.may_play) else set()
                low, high = (pair.interval.low, pair.interval.high) if pair.interval else (None, None)
                against = [_format_signed(pair.difference), _format_signed(low), _format_signed(high)]
            table.add_row(to_plain_text(arm), *said, *played, *per_unit, *against)
    notes = []
    if cut:
        trials = "trial" if cut == {1} else f"{' or '.join(map(str, sorted(cut)))} trials"
        notes.append(
            f"minus first: if one of the two may play more trials, both are scored by the first {trials}, as many as "
            "both may play; Mean and Solve include all trials."
        )
    if without:
        notes.append(f"n/a: {NO_INTERVAL}.")
    if apart:
        notes.append("Points that share no unit (variant and seed) with the first are not compared with it.")
    if units_beside:
        notes.append(f"Left out: {units_beside} units of earlier commands that this sweep does not ask for.")
    if any(record.rule_based for _, records in points for record in records):
        notes.append(RULE_BASED_NOTE)
    return Group(table, *map(Text, notes))


def _format_setting(value: Any) -> Text:
    return to_plain_text(",".join(map(str, value)) if isinstance(value, list) else str(value))


def _format_points(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"


def _format_signed(value: float | None) -> str:
    return "n/a" if value is None else f"{value:+.1f}"
