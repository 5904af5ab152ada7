"""The tables of a test of memories in a stream, within 80 columns for the longest names of phases."""

from collections.abc import Sequence

from rsso_dspy.report import cells
from rsso_dspy.report.cells import Cell
from rsso_dspy.report.stream_tests import PHASES, MeanChange, StreamTest
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
        "of all of these (corrected), and took back so many items that the trials had written; n/a: they cannot tell "
        "them from others. during - and after -: minus before. A memory recovers if after - is near 0 where during - "
        "is below. Scores are always true.",
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
    wrong = ("told wrong", "corrected", "taken back") if name == "repair" else ()
    return Sheet(
        name, TITLES[name], (*columns, *wrong), tuple(_build_row(each, bool(wrong)) for each in found), NOTES[name]
    )


def build_beside_retries_table(found: Sequence[StreamTest]) -> Sheet:
    """Each arm's change from phase to phase minus that of its equal retries; no rows where these were not played."""
    rows = [
        (
            cells.format_text(test.arm),
            cells.format_text(test.control or ""),
            cells.format_text(change.phase),
            *_build_change_cells(change.beside_retries),
        )
        for test in found
        for change in test.changes
        if test.in_stream and change.beside_retries
    ]
    return Sheet(
        "beside_retries",
        "Changes beside those of equal retries",
        ("arm", "retries", "phase", "difference", "95% interval", "n"),
        tuple(rows),
        (
            "difference: the arm's change from the first phase to this one, minus that of its equal retries over the "
            "same pairs, so that how hard the variants are cancels out. Below 0 with an interval that leaves out 0, "
            "the memory lost something, or had no room left: an arm near 100 points cannot change as its retries do.",
        ),
    )


def _build_row(test: StreamTest, wrong: bool) -> tuple[Cell, ...]:
    made = [cells.format_text(test.arm if test.in_stream else f"{test.arm} (no stream)")]
    made += [cells.format_points(mean, 1) for mean in test.means.values()]
    for change in test.changes:
        made += _build_change_cells(change)
    told = (test.told_wrong, test.corrected, test.taken_back if test.corrected else 0)
    return (*made, *(map(cells.format_count, told) if wrong else ()))


def _build_change_cells(change: MeanChange | None) -> list[Cell]:
    around = change.interval if change else None
    return [
        cells.format_difference(change.difference if change else None, 1),
        cells.format_text(f"{around.low:+.1f} to {around.high:+.1f}" if around else "none"),
        cells.format_count(change.pairs if change else 0),
    ]
