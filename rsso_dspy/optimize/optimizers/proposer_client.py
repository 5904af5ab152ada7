"""The questions that optimizers put to a prompt model, put to the backend's proposer role, on the compile's account."""

from collections.abc import Callable
from typing import Any, TypeVar, get_origin

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError

from rsso_dspy.errors import BackendFailure, NotRecorded, Stopped
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts
from rsso_dspy.programs.agent import ROLLOUTS_PER_SEED
from rsso_dspy.programs.role_calls import TrialLedger

PROPOSAL_CHARACTERS = 6000
"""Longest instruction that may be proposed. It stands in every prompt of its role."""

T = TypeVar("T")


class ProposerClient:
    """Asks the proposer role. The questions of one compile are numbered, so that equal ones get other answers, and the
    same compile the same."""

    def __init__(self, rollouts: Rollouts, seed: int):
        self.rollouts = rollouts
        self.seed = seed
        self.asked = 0

    def ask(self, question: Callable[[dspy.LM], T]) -> T | None:
        """What comes of a question to the model. None when the answer cannot be read, or says nothing, or too much: a
        proposal less. A model that fails ends the compile."""
        self.asked += 1
        lm = self.rollouts.live.runtime.lm("proposer", self.seed * ROLLOUTS_PER_SEED + self.asked)
        ledger = TrialLedger(self.rollouts.record_usage, trial=self.asked)
        tape = self.rollouts.tapes.proposal(self.asked)
        try:
            with tape, self.rollouts.count_requests(), ledger.book_under_role("proposer"), dspy.context(lm=lm):
                return question(lm)
        except (Stopped, NotRecorded) as error:
            self.rollouts.stop_compile("error", error.__cause__ or error)
            raise CompileStopped from error
        except LMError as error:
            failure = BackendFailure(f"the proposer failed: {type(error).__name__}: {error}")
            self.rollouts.stop_compile("error", failure)
            raise CompileStopped from error
        except (AdapterParseError, ValueError):
            ledger.count_malformed("proposer")
            return None


class ProposerAdapter:
    """Stands in DSPy's settings for the adapter, through which every question of an optimizer goes. One question for
    several answers becomes several questions, since not every provider gives several; an answer that cannot be read
    becomes one that changes nothing. Temperatures and rollout numbers are the role's own."""

    def __init__(self, rollouts: Rollouts, seed: int):
        self.asker = ProposerClient(rollouts, seed)
        self.usual = rollouts.live.backend.adapter

    def __call__(
        self,
        lm: Any,  # noqa: ARG002
        lm_kwargs: dict[str, Any],
        signature: type[dspy.Signature],
        demos: list[dict[str, Any]],
        inputs: dict[str, Any],
    ) -> list[dict[str, Any]]:
        """As many answers as are wanted, each the output fields by name."""

        def ask_question(lm: dspy.LM) -> dict[str, Any]:
            with dspy.context(adapter=self.usual):
                answer = self.usual(lm, {}, signature, demos, inputs)[0]
            if not answer.get("proposed_instruction", "-").strip():
                raise ValueError("no instruction")
            return {name: _check_proposal_text(value) for name, value in answer.items()}

        return [
            self.asker.ask(ask_question) or _repeat_instruction(signature, inputs)
            for _ in range(lm_kwargs.get("n") or 1)
        ]


def _repeat_instruction(signature: type[dspy.Signature], inputs: dict[str, Any]) -> dict[str, Any]:
    """An answer that changes nothing: the instruction that the question is about, or the best of those that it lists
    (COPRO: instruction, prefix and score of each, the best at the end), and no advice."""
    tried = [text for text in inputs.get("attempted_instructions", ()) if text.startswith("Instruction #")]
    current = inputs.get("basic_instruction") or (tried[-1].partition(": ")[2] if tried else "")
    empty = {
        name: {} if get_origin(field.annotation) is dict else "" for name, field in signature.output_fields.items()
    }
    return empty | ({"proposed_instruction": current} if "proposed_instruction" in empty else {})


def _check_proposal_text(value: Any) -> Any:
    """The value, fit to be written to a file. Raises `ValueError` when it is too long to stand in a prompt."""
    if isinstance(value, dict):
        return {str(name): _check_proposal_text(part) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    if len(value) > PROPOSAL_CHARACTERS:
        raise ValueError(f"{len(value)} characters")
    return value.encode("utf-8", "replace").decode()
