"""Turns the questions of MIPROv2 into this project's requests."""

from typing import Any

import dspy

from rsso_dspy.optimize.proposing.proposer import EditProposer


class ProposerAdapter:
    """Takes the adapter's place in DSPy's settings, so that every question of an optimizer comes here. Each becomes a
    request for edits of its instruction. A question for several answers is asked several times, because not every
    provider gives several. An unreadable answer becomes one that changes nothing. Temperature and rollout number are
    the role's own."""

    def __init__(self, proposer: EditProposer, student: dspy.Module):
        self.proposer = proposer
        self.student = student

    def __call__(
        self,
        lm: Any,  # noqa: ARG002
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],  # noqa: ARG002
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """As many answers as were asked for, each as output fields by name."""
        current = str(inputs.get("basic_instruction") or "")
        name = self._find_predictor(current)
        empty = dict.fromkeys(signature.output_fields, "")
        answers = []
        for _ in range(lm_kwargs.get("n") or 1):
            text = self._ask(name, current) if name else None
            answers.append(empty | {"proposed_instruction": current if text is None else text})
        return answers

    def _ask(self, name: str, current: str) -> str | None:
        predictor = dict(self.student.named_predictors())[name]
        return self.proposer.propose(name, predictor, current, self.proposer.find_rollouts({name: current}))

    def _find_predictor(self, instruction: str) -> str:
        """The predictor whose instruction this is; empty if none has it."""
        said, known = instruction.strip(), self.student.named_predictors()
        return next((name for name, each in known if each.signature.instructions.strip() == said), "")
