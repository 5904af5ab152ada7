"""The sentence on top of a page holds whatever the numbers are."""

import pytest

from rsso_dspy.report.analysis import RunRecords, analyze
from rsso_dspy.report.tables import OWN_MODEL, write_headline
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
    "two task types that agree": (
        arm(R, [0, 10]) + arm(S, [20, 31]),
        ["Undecided, as Holm's p is above 0.05: sso - react-sso +20.50 points (2 units, 95% interval +1"],
        ["beats", "uncertain"],
    ),
    "more comparisons than task types can decide": (
        arm("react", LOW[:6]) + arm("reflexion", HIGH[:6]) + arm("sso", LOW[:6]) + arm("rsso", LOW[:6]),
        ["Undecided, as Holm's p is above 0.05: reflexion - react +51.17 points (6 units, 95% interval +"],
        ["beats"],
    ),
    "one task type": (
        [
            record(name, "boil", index, [[score]])
            for name, scores in ((R, LOW), (S, HIGH))
            for index, score in enumerate(scores)
        ],
        ["Of one task type alone, so without a winner: sso - react-sso +50.88 points (8 units of one task type, 95%"],
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
    "no pair": (arm(R, LOW[:1]) + arm(S, [None, 50]), ["nothing is compared", "1 unit ended in an error"], ["beats"]),
}


@pytest.mark.parametrize(("records", "said", "unsaid"), CASES.values(), ids=CASES)
def test_it_says_what_the_numbers_hold_and_no_more(records, said, unsaid):
    text = write_headline(analyze(RunRecords(records, missing=3)))
    assert "The run is incomplete: 3 planned units have no record." in text or not any(
        record.trajectories for record in records
    )
    for part in said:
        assert part in text
    for part in unsaid:
        assert part not in text
