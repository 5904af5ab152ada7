"""Two benchmarks in one process: what is said of play on one is never said in the words of the other."""

import dspy
import pytest

from rsso_dspy import metric
from rsso_dspy.config import load_config
from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark
from rsso_dspy.optimize.feedback import build_feedback
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import session
from tests.toy_package import installed


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site")))
    get_benchmark.cache_clear()


@pytest.fixture
def played() -> dspy.Prediction:
    """A trial of the other benchmark, outside of any compile."""
    with session(load_config(overrides=["benchmark=toy", "embedder.model=hash", "protocol.trials=1"])):
        return Agent("react")(variant="up::0")


def test_a_prediction_says_what_was_played_and_the_metric_goes_by_it(played):
    assert (played.benchmark, played.toDict()["benchmark"]) == ("toy", "toy")
    assert metric(None, played) == played.score
    missed = ((Goal("Arrive", False, True),),)
    prediction = dspy.Prediction(**{**played, "progress": missed})
    said = metric(None, prediction, pred_name="actor").feedback
    of_toy, of_default = (
        build_feedback("actor", {}, {}, played.trials, missed, get_benchmark(name)) for name in ("toy", DEFAULT)
    )
    assert said == of_toy != of_default
    assert "Always stop at the number." in said
