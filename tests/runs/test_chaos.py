"""A run that much happens to loses nothing."""

import sys

import pytest

from tests.chaos.checks import judge
from tests.chaos.run import play_calm, play_disturbed
from tests.chaos.setup import Setup


@pytest.mark.skipif(sys.platform != "linux", reason="finds simulators in /proc")
def test_a_run_that_much_happens_to_loses_nothing(tmp_path):
    setup = Setup(tmp_path / "chaos")
    calm = play_calm(setup)
    assert not judge(setup, calm, play_disturbed(setup, calm.answers))
