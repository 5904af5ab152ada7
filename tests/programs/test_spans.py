"""What `mlflow.dspy.autolog` records of an agent."""

import dspy
import pytest
from dspy.dsp.utils.settings import main_thread_config

from rsso_dspy.programs.agent import Agent
from tests.live import REWARDED, acting, model, scripted


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_spans_are_named_after_trial_step_and_role(live, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    engine = scripted(["look around"] * 2)
    mlflow.dspy.autolog()
    listening = main_thread_config["callbacks"]  # the session of the tests was opened before, and hides it
    try:
        with acting(live, lambda *_: model(engine), budget=lambda _: 2), dspy.context(callbacks=listening):
            Agent("react")(variant=REWARDED, trials=1)
        mlflow.flush_trace_async_logging()
        trace = mlflow.get_trace(mlflow.get_last_active_trace_id())
    finally:
        mlflow.dspy.autolog(disable=True)
        dspy.configure(callbacks=[])
    names = {span.span_id: span.name for span in trace.data.spans}
    above = {span.name: names.get(span.parent_id) for span in trace.data.spans}
    assert above["trial 1"] == "Agent.forward"
    assert above["step 1"] == above["step 2"] == "trial 1"
    assert above["actor"] in ("step 1", "step 2")
    assert above["Predict.forward"] == "actor"
