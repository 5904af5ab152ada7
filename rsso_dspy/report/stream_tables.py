"""The table of a test of memories in a stream, within 80 columns for the longest names of phases."""

from collections.abc import Sequence

from rsso_dspy.report import cells
from rsso_dspy.report.cells import Cell
from rsso_dspy.report.stream_tests import PHASES, StreamTest
from rsso_dspy.report.table_data import Sheet

CONTROL = "An arm marked (no stream) hands nothing on: what changes there is how hard the variants are."
PAIRED = "Pairs of variants of a task type; 95% intervals over task types, or over the variants of a single one."
NOTES = {
    "forgetting": (
        "return: other variants of the first task types, after all other types. return -: minus the first visit. Below "
        "0, what was learned in between did harm; above 0, learning went on.",
        PAIRED,
        CONTROL,
    ),
    "repair": (
        "during: memories are told the wrong reward of so many trials (told wrong). after: they were told the true one "
        "of all of these. during - and after -: minus before. A memory recovers if after - is near 0 where during - is "
        "below. Scores are always true.",
        PAIRED,
        CONTROL,
    ),
}
TITLES = {"forgetting": "Forgetting: back at the first task types", "repair": "Repair: wrong rewards, then corrected"}


def build_stream_table(found: Sequence[StreamTest]) -> Sheet:
    """Mean score of each phase, and each later phase minus the first with its interval; no rows without a test."""
    if not found:
        return Sheet("stream_test", "", (), ())
    name = found[0].name
    later = PHASES[name][1:]
    columns = ["arm", *PHASES[name]]
    for phase in later:
        columns += [f"{phase} -", "95% interval" if len(later) == 1 else f"{phase} 95%", "n"]
    wrong = ("told wrong", "corrected") if name == "repair" else ()
    return Sheet(
        name, TITLES[name], (*columns, *wrong), tuple(_build_row(each, bool(wrong)) for each in found), NOTES[name]
    )


def _build_row(test: StreamTest, wrong: bool) -> tuple[Cell, ...]:
    made = [cells.format_text(test.arm if test.in_stream else f"{test.arm} (no stream)")]
    made += [cells.format_points(mean, 1) for mean in test.means.values()]
    for change in test.changes:
        around = change.interval
        made += [
            cells.format_difference(change.difference, 1),
            cells.format_text(f"{around.low:+.1f} to {around.high:+.1f}" if around else "none"),
            cells.format_count(change.pairs),
        ]
    return (*made, *([cells.format_count(test.told_wrong), cells.format_count(test.corrected)] if wrong else []))
