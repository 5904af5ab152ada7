"""Feedback on one predictor's call, for an optimizer that proposes instructions: facts, then advice.

    build_feedback("reflector", inputs, outputs, trials)      # "Facts:\nThe trial reflected on earned 33 points ..."

Everything is computed from the call, the trajectories and the kinds of the simulator's goals, on calibration variants
alone. Facts name what was done; advice is imperative sentences about play in general, which name no object of the
variant. The variant's key, the step budget and the wording of the simulator's goals are in neither. docs/FEEDBACK.md
explains each rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.optimize.feedback import constitution, verbalizer
from rsso_dspy.optimize.feedback.actor import find_answer_steps, judge_actor
from rsso_dspy.optimize.feedback.equivalence import judge_skill_equivalence
from rsso_dspy.optimize.feedback.memory_writers import judge_memory_writer
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, report_results
from rsso_dspy.optimize.feedback.reflector import judge_reflector
from rsso_dspy.optimize.feedback.remarks import render_remarks
from rsso_dspy.records import TrialResult

__all__ = ["RULES", "PredictorCall", "build_feedback", "find_answer_steps"]

RULES: dict[str, Callable[[PredictorCall], Iterator[str]]] = {
    "actor": judge_actor,
    "reflector": judge_reflector,
    "skill_verbalizer.summary": verbalizer.judge_skill_summary,
    "skill_verbalizer.instructions": verbalizer.judge_skill_steps,
    "skill_verbalizer.target": verbalizer.judge_skill_target,
    "skill_equivalence": judge_skill_equivalence,
    "constitution_writer.write": constitution.judge_rule_writer,
    "constitution_writer.summarize": constitution.judge_summarizer,
    "reflection_distiller": judge_memory_writer,
    "insight_writer": judge_memory_writer,
    "workflow_writer": judge_memory_writer,
    "strategy_writer": judge_memory_writer,
    "playbook_reviewer": judge_memory_writer,
    "cheatsheet_writer": judge_memory_writer,
}
"""Predictor to the rule that knows what its answers are for."""


def build_feedback(
    name: str,
    inputs: Mapping[str, Any],
    outputs: Any,
    trials: Sequence[TrialResult],
    progress: Sequence[Sequence[Goal]] = (),
    of: Benchmark | None = None,
) -> str:
    """How one call of the predictor ``name`` affected the trials, and what to do better.

    ``inputs`` and ``outputs`` are the call's fields by name; ``progress`` is the goals of every trial, empty when
    unknown. Texts are read in the grammar of the benchmark ``of``, the default one when None. A
    predictor without a rule of its own gets the result of the trials alone.
    """
    of = of or get_benchmark()
    call = PredictorCall(inputs, outputs, tuple(trials), progress, of)
    return render_remarks(RULES.get(name, _judge_results_only)(call), call.solved)


def _judge_results_only(call: PredictorCall) -> Iterator[str]:
    return report_results(call.trials)
