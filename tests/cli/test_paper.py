"""Published rules through the verbs: protocols of other projects, the paper's tables."""

import json
from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store


def test_a_run_by_reflexions_rules_keeps_what_the_actor_was_shown_and_reports_agentboards_measures(rsso):
    few = ("--methods", "react", "--tasks", "gripper", "--per-task", "1", "--set", "embedder.model=hash")
    code, _, err = rsso(
        "run", "--benchmark", "pddl", "--protocol", "reflexion/2", "--trials", "1", *few, "--out", "one"
    )
    assert code == 0, err
    (unit,) = Store(Path("one")).units()
    assert (unit.protocol, unit.budget) == ("reflexion/2 trials=1 embedder=hash", 49)
    assert unit.trials[0].shown["action_templates"].count("\n> ") > 4
    measures = json.loads(rsso("report", "one", "--json")[1])["measures"]["react"]
    assert 0 <= measures["grounding"] <= 1
    assert measures["most_calls"] == measures["calls"] == len(unit.trajectories[0].steps)
    assert "Ours" in rsso("paper", "omnireflect", "--with", "one")[1]
    data = json.loads(rsso("paper", "omnireflect", "--with", "one", "--json")[1])
    assert [(row["benchmark"], row["arm"], row["units"]) for row in data["ours"]] == [("pddl", "react", 1)]
    assert data["table1"][5]["success"]["pddl"] == {"qwen": 12.1, "gemini": 36.6, "gpt-4": 70.0}
    ours = json.loads(rsso("paper", "reflexion", "--with", "one", "--json")[1])["ours"]
    assert [row["accuracy"] for row in ours] == [[float(data["ours"][0]["solved"])]]
    out = rsso("paper", "reflexion", "--with", "one")[1]
    assert all(text in out for text in ("Ours: accuracy, trial by trial", "Accuracy, trial by trial", "never"))


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
