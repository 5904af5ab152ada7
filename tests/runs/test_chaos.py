"""A run that much happens to loses nothing. `benchmarks/chaos.py` does the same at length."""

import sys

import pytest

from tests.chaos.checks import judge
from tests.chaos.run import BY_SERVER, SHARES, play_calm, play_disturbed
from tests.chaos.setup import Setup

LEFT_OUT = {"run interrupted (Ctrl-C)", *BY_SERVER}
"""What `test_replay.py` does, and what a server does, which `test_faults.py` does one by one."""


@pytest.mark.skipif(sys.platform != "linux", reason="finds simulators in /proc")
def test_a_run_that_much_happens_to_loses_nothing(tmp_path):
    setup = Setup(tmp_path / "chaos", tasks="find-living-thing", per_task=1, trials=2, jobs=1, timeout=60.0)
    calm = play_calm(setup)
    disturbed = play_disturbed(setup, faults=1, seed=0, answers=calm.answers, without=LEFT_OUT)
    verdict = judge(setup, calm, disturbed)
    assert not {name: wrong for name, wrong in verdict.checks.items() if wrong}
    assert disturbed.inflicted.keys() == SHARES.keys() - LEFT_OUT
