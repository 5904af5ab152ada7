"""The runs of real models that stand in examples/recorded: read and replayed where no model is."""

from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso

__all__ = ["rsso"]

FOLDERS = sorted(file.parent for file in (Path(__file__).parents[2] / "examples/recorded").glob("*/run.json"))
PLAYED = 3
"""Variants of each run that are played again, with all its arms: the longest ones."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_run_is_reported_and_replays_byte_for_byte_without_a_model(folder, rsso, tmp_path):
    code, out, _ = rsso("report", folder)
    assert code == 0
    assert "hosted_vllm/qwen2.5-coder-1.5b-instruct" in " ".join(out.split())
    recorded = {(unit.arm, unit.key): unit for unit in Store(folder, read_only=True).units()}
    longest = sorted(recorded.values(), key=lambda unit: -sum(len(each.steps) for each in unit.trajectories))
    chosen = list(dict.fromkeys(unit.key for unit in longest))[:PLAYED]
    told = ("--config", folder.with_suffix(".toml"), "--variants", ",".join(chosen))
    code, _, err = rsso("run", "--replay", folder, *told, "--out", tmp_path / "again")
    assert (code, "no model is asked" in err) == (0, True)
    again = Store(tmp_path / "again")
    units = list(again.units())
    assert len(units) == sum(key in chosen for _, key in recorded)
    for unit in units:
        assert unit.trials == recorded[unit.arm, unit.key].trials
        logs = (store.read_log(unit) for store in (Store(folder, read_only=True), again))
        first, second = ([log.decode(lines) for lines in log.by_number.values()] for log in logs)
        assert first == second
