"""The sentence on top of a page holds whatever the numbers are."""

from dataclasses import replace

import pytest

from rsso_dspy.records import REFUSED, Failure
from rsso_dspy.report.analysis import RunRecords, analyze
from rsso_dspy.report.tables import OWN_MODEL, write_headline
from tests.records import record

TASKS = [f"task-{number}" for number in range(8)]


def arm(name: str, scores: list[int | None]) -> list:
    return [
        record(name, task, 1, [None if score is None else [score]]) for task, score in zip(TASKS, scores, strict=False)
    ]


def many(name, scores):
    return [record(name, f"type {number}", 1, [[score]]) for number, score in enumerate(scores)]


LOW, HIGH = [10, 20, 15, 12, 18, 11, 14, 16], [60, 75, 63, 58, 71, 66, 61, 69]
MIXED = [60, 1, 63, 2, 71, 3, 4, 5]

R, S = "react-sso", "sso"
CASES = {
    "nothing": ([], ["No unit has a score yet."], ["beats"]),
    "errors alone": (arm(S, [None]), ["No unit has a score yet."], ["beats"]),
    "one arm": (arm(S, HIGH), ["sso scored 65.38 of 100 points on average", "no other arm"], ["beats", "ndecided"]),
    "better": (
        arm(R, LOW) + arm(S, HIGH),
        [
            "Highest mean: sso with 65.38",
            "sso beats react-sso on other task types by 50.88 points (8 units, 95% interval +4",
            "; Holm's p 0.0078; skills shown in 8 of 8 trials).",
        ],
        ["ndecided"],
    ),
    "worse": (
        arm(R, HIGH) + arm(S, LOW),
        ["react-sso beats sso on other task types by 50.88 points (8 units, 95% interval +4"],
        ["ndecided"],
    ),
    "undecided": (
        arm(R, LOW) + arm(S, MIXED),
        [
            "mean: sso with 26.12",
            "Undecided on other task types: sso - react-sso +11.62 points (8 units, 95% interval -",
            "; skills shown in 8 of 8 trials).",
        ],
        ["beats"],
    ),
    "equal": (
        arm(R, LOW) + arm(S, LOW),
        ["Both arms scored 14.50", "Undecided on other task types: sso - react-sso 0.00 points (8 units"],
        ["beats", "Highest"],
    ),
    "nearly equal on many task types": (
        many(R, range(1, 31)) + many(S, (score + score % 3 - 1 for score in range(1, 31))),
        ["No difference of 10 points or more on other task types: sso - react-sso 0.00 points (30 units"],
        ["beats", "ndecided"],
    ),
    "two task types": (
        arm(R, [50, 50]) + arm(S, [58, 100]),
        [
            "Highest mean: sso",
            "Undecided on other task types: sso - react-sso +29.00 points (2 units",
            "2 of 2 task types differ, and a test",
        ],
        ["beats"],
    ),
    "two task types that agree": (
        arm(R, [0, 10]) + arm(S, [20, 31]),
        ["Undecided on other task types: sso - react-sso +20.50 points (2 units", "differ, and a test needs 6"],
        ["beats"],
    ),
    "three of six task types": (
        arm(R, [0] * 6) + arm(S, [100, 0, 100, 0, 100, 0]),
        ["Undecided on other task types: sso - react-sso +50.00 points (6 units"],
        ["beats"],
    ),
    "more comparisons than task types can decide": (
        arm("react", LOW[:6]) + arm("reflexion", HIGH[:6]) + arm("sso", LOW[:6]) + arm("rsso", MIXED[:6]),
        ["Undecided on other task types:", "reflexion - react +51.17 points (6 units"],
        ["beats"],
    ),
    "one task type": (
        [
            record(name, "boil", index, [[score]])
            for name, scores in ((R, LOW), (S, HIGH))
            for index, score in enumerate(scores)
        ],
        [
            "Undecided on other variants of this task type: sso - react-sso +50.88 points (8 units, 95% interval +4",
            "one task type says nothing of others",
        ],
        ["beats"],
    ),
    "a memory that no prompt had": (
        arm(R, LOW) + [record(S, task, 1, [[score]], shown={}) for task, score in zip(TASKS, HIGH, strict=True)],
        ["Not tested: sso - react-sso (skills shown in 0 of 8 trials)."],
        ["beats", "interval"],
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
    text = write_headline(analyze(RunRecords(records)))
    for part in said:
        assert part in text
    for part in unsaid:
        assert part not in text


@pytest.mark.parametrize(
    ("case", "arm_of_missing"), [("better", R), ("better", S), ("nearly equal on many task types", S)]
)
def test_nothing_is_decided_while_units_are_missing(case, arm_of_missing):
    records = CASES[case][0]
    text = write_headline(analyze(RunRecords(records, missing={arm_of_missing: 3})))
    assert "The run is incomplete: 3 planned units have no record." in text
    assert "Undecided on other task types: sso - react-sso" in text
    assert "3 units are not played, or ended in an error" in text

    other = write_headline(analyze(RunRecords(records, missing={"rsso": 3})))
    assert "Undecided" not in other, "units of a third arm are not missing here"


def test_nothing_is_decided_while_a_shard_is_not_here():
    text = write_headline(analyze(RunRecords(CASES["better"][0], missing_shards=("2/4", "3/4"))))
    assert "Undecided on other task types: sso - react-sso +50.88 points" in text
    assert "without shards 2/4, 3/4 of the run)" in text


def test_nothing_is_decided_while_a_unit_has_an_error():
    text = write_headline(analyze(arm(R, LOW) + arm(S, [*HIGH[:7], None])))
    assert "Undecided on other task types: sso - react-sso" in text
    assert "1 unit is not played, or ended in an error" in text


def test_a_variant_that_the_environment_refuses_is_not_missing():
    *played, last = arm(S, [*HIGH[:7], None])
    refused = replace(last.trials[0], failure=Failure(REFUSED, "no such variant"))
    text = write_headline(analyze([*arm(R, LOW), *played, replace(last, trials=(refused,))]))
    assert "sso beats react-sso on other task types" in text
