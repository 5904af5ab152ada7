"""The metric for DSPy's optimizers, on the scale of `score_trials`.

dspy.GEPA(metric=metric, ...)           # score, and feedback when it names a predictor
dspy.BootstrapFewShot(metric=metric)    # score alone
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark
from rsso_dspy.optimize.feedback import build_feedback
from rsso_dspy.programs.prediction import score_trials

if TYPE_CHECKING:
    from dspy.teleprompt.gepa.gepa_utils import ScoreWithFeedback


def metric(
    example: Any,  # noqa: ARG001 - the signature is DSPy's
    prediction: Any,
    trace: Any = None,  # noqa: ARG001
    pred_name: str | None = None,
    pred_trace: Sequence[tuple[Any, dict[str, Any], Any]] | None = None,
) -> "float | ScoreWithFeedback":
    """The score of a prediction, from 0 to 1: its own ``score`` if it has one (a mean over several seeds, or an
    estimate for a candidate that was dropped), else that of its ``trials``. When a predictor is named, the same number
    with feedback on that predictor's call, which reads ``progress`` (the goals of every trial) and ``benchmark`` (its
    name). None, which SIMBA gives for a program that raised, scores 0."""
    if prediction is None:
        return 0.0
    known = prediction.get("score")
    number = score_trials(prediction.trials) if known is None else float(known)
    if pred_name is None:
        return number
    from dspy.teleprompt.gepa.gepa_utils import ScoreWithFeedback

    _, inputs, outputs = pred_trace[0] if pred_trace else (None, {}, {})
    of = get_benchmark(prediction.get("benchmark") or DEFAULT)
    said = build_feedback(pred_name, inputs, outputs, prediction.trials, prediction.get("progress") or (), of)
    return ScoreWithFeedback(score=number, feedback=said)
