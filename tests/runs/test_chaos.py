"""A run that much happens to loses nothing. `benchmarks/chaos.py` does the same at length."""

import sys

import pytest

from tests.chaos.checks import judge
from tests.chaos.run import OUTAGE, SHARES, play_calm, play_disturbed
from tests.chaos.setup import Setup

SLOW = {"simulators killed as they come", "hang", "a page for an answer", "dripping", "simulator paused", OUTAGE}
"""What takes seconds, or one more start of the command."""


@pytest.mark.skipif(sys.platform != "linux", reason="finds simulators in /proc")
def test_a_run_that_much_happens_to_loses_nothing(tmp_path):
    setup = Setup(tmp_path / "chaos", tasks="find-living-thing", per_task=1, trials=2, jobs=1, timeout=60.0, wait=1.0)
    calm = play_calm(setup)
    disturbed = play_disturbed(setup, faults=1, seed=0, answers=calm.answers, without=SLOW)
    verdict = judge(setup, calm, disturbed)
    assert not {name: wrong for name, wrong in verdict.checks.items() if wrong}
    assert disturbed.inflicted.keys() == SHARES.keys() - SLOW
