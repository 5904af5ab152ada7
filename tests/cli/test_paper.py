"""Published rules through the verbs: protocols of other projects, the paper's tables."""

import json
from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record

FAST = ("--set", "embedder.model=hash")


def test_a_run_by_reflexions_rules_keeps_what_the_actor_was_shown_and_reports_agentboards_measures(rsso):
    few = ("--methods", "react", "--tasks", "gripper", "--per-task", "1", "--trials", "1")
    code, _, err = rsso("run", "--benchmark", "pddl", "--protocol", "reflexion/2", *few, *FAST, "--out", "one")
    assert code == 0, err
    record = dump_record(next(Store(Path("one")).units()))
    assert record["protocol"] == "reflexion/2 trials=1 embedder=hash"
    assert record["budget"] == 49
    assert record["trials"][0]["shown"]["action_templates"].count("\n> ") > 4
    code, out, err = rsso("report", "one", "--json")
    assert code == 0, err
    measures = json.loads(out)["measures"]["react"]
    assert 0 <= measures["grounding"] <= 1
    assert measures["most_calls"] == measures["calls"] == len(record["trials"][0]["trajectory"]["steps"])
    code, out, err = rsso("paper", "omnireflect", "--with", "one")
    assert (code, "Ours" in out) == (0, True), err
    data = json.loads(rsso("paper", "omnireflect", "--with", "one", "--json")[1])
    assert [(row["benchmark"], row["arm"], row["units"]) for row in data["ours"]] == [("pddl", "react", 1)]
    data2 = json.loads(rsso("paper", "reflexion", "--with", "one", "--json")[1])
    solved = float(data["ours"][0]["solved"])
    assert [(row["benchmark"], row["arm"], row["accuracy"]) for row in data2["ours"]] == [("pddl", "react", [solved])]
    out = rsso("paper", "reflexion", "--with", "one")[1]
    assert "Ours: accuracy, trial by trial" in out
    assert data["table1"][5]["success"]["pddl"] == {"qwen": 12.1, "gemini": 36.6, "gpt-4": 70.0}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("paper", "omnireflekt"), "is not one of"),
        (("paper", "--with", "one"), "`rsso-dspy paper reflexion`"),
        (("paper", "omnireflect", "--with", "nowhere"), "nowhere is no folder of a run"),
    ],
)
def test_a_table_that_is_not_there_is_refused(rsso, words, says):
    code, _, err = rsso(*words)
    assert (code, says in " ".join(err.split())) == (2, True), err


def test_example_tables_are_printed_by_name_as_text_and_as_json(rsso):
    code, out, _ = rsso("paper", "reflexion")
    assert (code, "Accuracy, trial by trial" in out, "never" in out) == (0, True, True)
    assert json.loads(rsso("paper", "reflexion", "--json")[1])
