"""Published rules through the verbs: protocols of other projects, the paper's tables."""

import json
from pathlib import Path

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
    data = json.loads(rsso("paper", "omnireflect", "--json")[1])
    assert data["table1"][5]["success"]["pddl"] == {"qwen": 12.1, "gemini": 36.6, "gpt-4": 70.0}
    assert "Accuracy, trial by trial" in rsso("paper", "reflexion")[1]
    assert (rsso("paper", "omnireflekt")[0], "is not one of" in rsso("paper", "omnireflekt")[2]) == (2, True)
