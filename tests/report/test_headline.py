"""The sentence on top of a page holds whatever the numbers are."""

import csv
from dataclasses import replace

import pytest

from rsso_dspy.report.analysis import RunRecords, analyze, serialize_analysis
from rsso_dspy.report.headline import OWN_MODEL, write_headline
from rsso_dspy.report.tables import build_table_files, build_tables
from tests.records import record

TASKS = [f"task-{number}" for number in range(8)]


def arm(name: str, scores: list[int | None]) -> list:
    return [
        record(name, task, 1, [None if score is None else [score]]) for task, score in zip(TASKS, scores, strict=False)
    ]


LOW, HIGH = [10, 20, 15, 12, 18, 11, 14, 16], [60, 75, 63, 58, 71, 66, 61, 69]
MIXED = [60, 1, 63, 2, 71, 3, 4, 5]

R, S = "react-sso", "sso"
CASES = {
    "nothing": ([], ["No unit has a score yet."], ["beats"]),
    "errors alone": (arm(S, [None]), ["No unit has a score yet."], ["beats"]),
    "one arm": (arm(S, HIGH), ["sso scored 65.38 of 100 points on average", "no other arm"], ["beats", "uncertain"]),
    "better": (
        arm(R, LOW) + arm(S, HIGH),
        ["Highest mean: sso with 65.38", "sso beats react-sso by 50.88 points (8 units, 95% interval +"],
        ["uncertain", "not corrected"],
    ),
    "worse": (
        arm(R, HIGH) + arm(S, LOW),
        ["Highest mean: react-sso", "react-sso beats sso by 50.88 points (8 units, 95% interval +"],
        ["uncertain"],
    ),
    "undecided": (
        arm(R, LOW) + arm(S, MIXED),
        ["mean: sso with 26.12", "Too uncertain to call: sso - react-sso +11.62 points (8 units, 95% interval -"],
        ["beats"],
    ),
    "equal": (
        arm(R, LOW) + arm(S, LOW),
        ["Both arms scored 14.50", "No unit differs: sso - react-sso 0.00 points (8 units"],
        ["beats", "Highest", "uncertain"],
    ),
    "hopeless": (
        arm(R, [50, 50]) + arm(S, [58, 100]),
        ["Highest mean: sso", "No result, too few task types: sso - react-sso +29.00 points (2 units, 95% interval -"],
        ["beats", "uncertain"],
    ),
    "several": (
        arm(R, LOW) + arm(S, HIGH) + arm("rsso", HIGH),
        ["Intervals are not corrected for the 3 comparisons"],
        [],
    ),
    "what it took": (
        arm(R, LOW) + arm(S, HIGH),
        ["It took 32 model calls and 0.2k tokens, price unknown.", OWN_MODEL],
        ["at no cost", "unpriced"],
    ),
    "one pair": (arm(R, LOW[:1]) + arm(S, HIGH[:1]), ["sso - react-sso +50.00 points (1 unit)"], ["beats"]),
    "no pair": (
        arm(R, LOW[:1]) + arm(S, [None, 50]),
        ["nothing is compared", "1 unit ended in an error"],
        ["beats"],
    ),
}


@pytest.mark.parametrize(("records", "said", "unsaid"), CASES.values(), ids=CASES)
def test_it_says_what_the_numbers_hold_and_no_more(records, said, unsaid):
    text = write_headline(analyze(RunRecords(records, missing=3)))
    assert "3 planned units are not finished." in text or not any(record.trajectories for record in records)
    for part in said:
        assert part in text
    for part in unsaid:
        assert part not in text


def compiled_arms(most: int | None = None) -> list:
    """rsso, and a program that is better until the third trial, which levels all; or their first `most` trials."""
    plays = {"rsso": [[10], [20], [60]], "rsso+first": [[10], [45], [60]]}
    units = []
    for (name, trials), (place, task) in ((each, task) for each in plays.items() for task in enumerate(TASKS)):
        played = [[*trials[0]], [trials[1][0] + place], [*trials[2]]][:most]
        unit = record(name, task, 1, played, allowed=most or 3)
        units.append(replace(unit, method="rsso", program=name.partition("+")[2] or "zero-shot"))
    return units


AS_COMPILED = (
    "No unit differs: rsso+first - rsso 0.00 points (8 units, 95% interval +0.0 to +0.0). That is the main "
    "comparison, the protocol's best of 3 trials. By the best of 2, as the compile scored: rsso+first beats rsso by "
    "25.00 points (8 units"
)


@pytest.mark.parametrize(
    ("scored", "again", "said", "unsaid"),
    [
        (None, [], "No unit differs: rsso+first", "as the compile scored"),
        (1, [(1, 0.0)], "By the best of 1, as the compile scored: No unit differs: rsso+first", "beats"),
        (2, [(2, 25.0)], AS_COMPILED, "nothing is compared"),
        (3, [], "No unit differs: rsso+first", "as the compile scored"),
        (5, [], "and its units may play 3: nothing is compared as the compile scored", "That is the main"),
    ],
)
def test_a_compiled_program_is_also_compared_by_the_trials_that_its_compile_scored_by(scored, again, said, unsaid):
    known = {} if scored is None else {"rsso+first": scored}
    found = analyze(RunRecords(compiled_arms(), compile_trials=known))
    assert [(each.comparison.trials, each.comparison.difference) for each in found.as_compiled] == again
    tables = {file.name: text for file, text in build_table_files(found).items()}
    text = f"{write_headline(found)} {tables['differences.md']}"
    assert (said in text, unsaid in text) == (True, False), text
    alone = analyze(compiled_arms(scored)) if again else found
    data, same = serialize_analysis(found), serialize_analysis(alone)
    unlike = dict.fromkeys(("may_play", "holm", "gains", "asks"))
    for mine, other in zip(data["as_compiled"], same["comparisons"] if again else [], strict=True):
        assert {**mine, **unlike} == {**other, **unlike}, "the same numbers as if no further trial had been played"
    assert data["compile_trials"] == known
    assert sum(row["Holm"] != "" for row in csv.DictReader(tables["differences.csv"].splitlines())) <= 1, "tested once"


def test_a_compiled_arm_with_the_program_it_started_from_is_no_comparison():
    units = [replace(unit, provenance={"program": "abc"}) for unit in compiled_arms()]
    found = analyze(RunRecords(units, compile_trials={"rsso+first": 2}))
    said = write_headline(found)
    assert "rsso+first and rsso are the same program, so nothing is compared" in said
    assert "No unit differs" not in said
    assert "as the compile scored" not in said
    table = next(sheet for sheet in build_tables(found) if sheet.name == "differences")
    assert "rsso+first - rsso: both are the same program." in table.notes
    other = [replace(unit, provenance={"program": unit.program}) for unit in units]
    assert "same program" not in write_headline(analyze(other))
