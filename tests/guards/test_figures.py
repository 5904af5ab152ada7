"""What the report says of runs stays equal: of those that version 0.1.0 played (`golden/`), with the tables that it
printed of them, and of the recorded ones."""

import csv
from pathlib import Path

import pytest

from tests.guards import house
from tests.guards.recordings import list_difference, list_recordings, read_lines

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
NO_LONGER = ("strata",)  # by the first arm's own luck; now of units that failed a shared first trial
HELD_NOW = {
    "solved": {"learning": ("to 50%", "to 75%"), "measures": ("steps/solved", "tokens/solved", "USD/solved")},
    "differences": {"differences": ("pairs", "points", "units +/-", "asks")},
    "tests": {},  # p was that of the signed-rank test, which is compared in the figures
    "tokens": {"tokens": ("role", "calls", "in", "out", "malformed", "invalid")},
}
"""Table that version 0.1.0 printed to those that hold its columns now; the figures hold the other ones."""


@pytest.mark.parametrize("name", list_recordings(GOLDEN))
def test_the_report_of_a_golden_run_is_the_same(name):
    lines = read_lines(name, GOLDEN)
    facts, recorded = lines[0]["facts"], lines[-1]["figures"]
    figures, tables = house.compute_figures([line for line in lines if "unit" in line], facts)
    check_same(recorded, figures)
    for table in (line for line in lines if "table" in line):
        (first, *others), rows = table["rows"][0], table["rows"]
        if table["table"] in NO_LONGER:
            continue
        for held, columns in HELD_NOW.get(table["table"], {table["table"]: others}).items():
            now = list(csv.DictReader(tables[held].splitlines()))
            for row in rows:
                wanted = {name: row[name] for name in (first, *columns)}
                assert any(wanted.items() <= each.items() for each in now), f"{held} has no row {wanted}; it has {now}"


@pytest.mark.parametrize("row", read_lines("figures", HERE), ids=lambda row: row["recording"])
def test_the_report_of_a_recorded_run_is_the_same(row):
    results = [line for line in read_lines(row["recording"]) if "trial" in line]
    figures, _ = house.compute_figures(results, {})
    if row["figures"] != figures:
        pytest.fail("\n".join(list_difference(row["figures"], figures)), pytrace=False)


NEWER = ("course", "doses", "flips", "gains", "holm", "interval", "noise", "room", "unplayed", "verdict")
"""What a comparison says by newer rules: intervals where few task types differ, tests, strata, words, noise, rounds."""


def check_same(recorded, figures):
    gone = recorded.pop("stream_tests", [])  # of streams that tested forgetting
    for row in recorded["measures"].values():
        row.pop("grounding_repeated", None)  # by AgentBoard's count of steps without effect, which is no longer named
        row.pop("solved_by_own_rule", None)  # the report says one success
        row.pop("judged_by_own_rule", None)
    for comparison in recorded["comparisons"]:  # no arm is compared a second time, by the trials of its compile
        comparison.pop("same_program", None)
        comparison.pop("mcnemar", None)  # no table showed it
        if len(comparison["by_task"]) < 2:  # of one task type there is no test any more
            comparison["holm"] = comparison["wilcoxon"]["p"] = comparison["sign"]["p"] = None
    for name in ("as_compiled", "compile_trials"):
        recorded.pop(name, None)
    assert not gone
    for part in (bill := recorded["bill"], *bill["entries"]):  # no run takes over units of another any more
        for name in ("taken_over", "taken_over_billed"):
            part.pop(name, None)
    # What these recordings are older than: the second headline of rSSO, names of scaffolds, prompts that a server cut.
    figures = drop_count(figures, "undercounted")
    figures["comparisons"] = [row for row in figures["comparisons"] if row["asks"] != "skills beside reflections"]
    for comparison in figures["comparisons"]:
        assert comparison.pop("unlike") in ("", "scaffolds flat and sso", "scaffolds sso and flat")
        for name in NEWER:
            comparison.pop(name)
    for comparison in recorded["comparisons"]:
        for name in ("gains", "holm", "interval"):
            comparison.pop(name)
    for name in ("advice", "question", "family"):
        figures.pop(name)
    for arm in figures["arms"]:
        for part, names in (
            (arm, ("scaffold", "gain", "later_trials", "shown", "repeat_success", "dependence")),
            (arm["learning"], ("written", "repeats")),
        ):
            for name in names:
                part.pop(name)
    if recorded != figures:
        pytest.fail("\n".join(list_difference(recorded, figures)), pytrace=False)


def drop_count(figures, name):
    """The figures without a count, which has to be 0, at any depth."""
    if isinstance(figures, dict):
        assert not figures.get(name)
        return {key: drop_count(value, name) for key, value in figures.items() if key != name}
    if isinstance(figures, list):
        return [drop_count(value, name) for value in figures]
    return figures
