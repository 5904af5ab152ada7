"""A simulator that stands still: its trial has a score and is never passed over in silence."""

import json
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.records import UnitRecord
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST, at_hand, rsso  # noqa: F401
from tests.environments.frozen import freeze
from tests.records import record, save

ASKED = ("run", "--methods", "react-sso", "--tasks", "lifespan-longest-lived", "--per-task", "1", *FAST)
ASKED += ("--trials", "1", "--out", "played")


def halted(made: UnitRecord, number: int) -> UnitRecord:
    """The same unit, a trial of which stalled at its last step: nobody saw what that came to."""
    trials = list(made.trials)
    played = trials[number - 1].trajectory
    *before, last = played.steps
    steps = (*before, replace(last, reward=0, score=before[-1].score if before else played.points_at_reset))
    trials[number - 1] = replace(trials[number - 1], trajectory=replace(played, steps=steps, outcome="stalled"))
    return replace(made, trials=tuple(trials))


@pytest.mark.usefixtures("at_hand")
def test_a_simulator_that_is_paused_is_told(rsso, env: ScienceWorld, monkeypatch):  # noqa: F811
    step = env.step

    def paused(action: str):
        freeze(env._jvm.pid)
        with monkeypatch.context() as short:
            short.setattr(env, "_step_limit", 0.3)
            return step(action)

    monkeypatch.setattr(env, "step", paused)
    code, out, err = rsso(*ASKED)
    assert code == 1
    assert "lifespan-longest-lived::" in err
    assert ", trial 1 stalled" in err
    assert "Stalled: react-sso 1 of 1 trials." in " ".join(out.split())


def test_report_page_and_export_tell_of_stalled_trials_only_where_there_are_some(rsso):  # noqa: F811
    for name in ("sound", "some"):
        store = Store(Path(name))
        store.open({}, {"sso": "1", "rsso": "2"})
        for arm in ("sso", "rsso"):
            made = record(arm, "boil", 1, [[10], [40], [20]])
            save(store, halted(made, 2) if (name, arm) == ("some", "rsso") else made)
    note = "Stalled: rsso 1 of 3 trials. A step of these trials took longer than environment.step_seconds."
    for name, there in (("sound", False), ("some", True)):
        assert (note in " ".join(rsso("report", name)[1].split())) == there
        assert [row["stalled"] for row in json.loads(rsso("report", name, "--json")[1])["arms"]][1] == there
        assert rsso("report", name, "--html", f"{name}.html", "--tables", f"{name}-tables")[0] == 0
        assert (note in Path(f"{name}.html").read_text(encoding="utf-8")) == there
        assert (note in Path(f"{name}-tables", "methods.md").read_text(encoding="utf-8")) == there
        assert rsso("export", name, "-o", f"{name}.parquet")[0] == 0
        rows = pandas.read_parquet(f"{name}.parquet")
        assert list(rows[rows.arm == "rsso"].unit_stalled) == [int(there)] * 3
        assert list(rows[rows.outcome == "stalled"].trial) == [2] * there
        assert list(rows[rows.arm == "sso"].unit_stalled) == [0] * 3
