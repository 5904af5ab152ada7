"""Feedback on one predictor's call, for an optimizer that proposes instructions: facts, then advice.

    feedback("reflector", inputs, outputs, trials)      # "The trial reflected on earned 33 points, the next one ..."

Everything is computed from the call, the trajectories and the kinds of the simulator's goals, on calibration variants
alone. Advice is imperative sentences about play in general or about actions that were seen to pay or to cost; the
variant, the step budget and the wording of the simulator's goals are never in it. docs/FEEDBACK.md explains each rule.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rsso_dspy.environments.benchmark import Benchmark, benchmark
from rsso_dspy.environments.goals import Goal
from rsso_dspy.optimize.feedback import constitution, verbalizer
from rsso_dspy.optimize.feedback.actor import actor, steps_of
from rsso_dspy.optimize.feedback.call import Call, results
from rsso_dspy.optimize.feedback.equivalence import equivalence
from rsso_dspy.optimize.feedback.reflector import reflector
from rsso_dspy.trajectory import TrialResult

__all__ = ["RULES", "Call", "feedback", "steps_of"]

RULES: dict[str, Callable[[Call], Iterator[str]]] = {
    "actor": actor,
    "reflector": reflector,
    "skill_verbalizer.summary": verbalizer.summary,
    "skill_verbalizer.instructions": verbalizer.steps,
    "skill_verbalizer.target": verbalizer.target,
    "skill_equivalence": equivalence,
    "constitution_writer.write": constitution.rule_writer,
    "constitution_writer.summarize": constitution.summarizer,
}
"""Predictor to the rule that knows what its answers are for."""


def feedback(
    name: str,
    inputs: Mapping[str, Any],
    outputs: Any,
    trials: Sequence[TrialResult],
    progress: Sequence[Sequence[Goal]] = (),
    of: Benchmark | None = None,
) -> str:
    """What one call of the predictor ``name`` had to do with how the trials went, and what to do better.

    ``inputs`` and ``outputs`` are the call's fields by name; ``progress`` is the goals of every trial, empty when
    unknown. Texts are read in the grammar of the benchmark ``of``, the default one when None. A predictor without a
    rule of its own gets the result of the trials alone.
    """
    call = Call(inputs, outputs, tuple(trials), progress, of or benchmark())
    return "\n".join(dict.fromkeys(RULES.get(name, _only_results)(call)))


def _only_results(call: Call) -> Iterator[str]:
    return results(call.trials)
