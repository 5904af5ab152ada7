"""Checks whether prompts fit a method: the fields that a saved state must have."""

import hashlib
import json

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.compiled_parts import PredictorState
from rsso_dspy.programs.agent import Agent


def check_stock_modules(agent: Agent) -> None:
    """Raise `UsageError` for an agent with modules or models of its own: a file holds only prompts."""
    stock = Agent(agent.method.name)
    if agent.predictors_by_name.keys() != stock.predictors_by_name.keys() or hash_schema(agent) != hash_schema(stock):
        raise UsageError(
            "its modules are not those of the method, and a compiled file holds prompts and demonstrations alone: "
            "play it from Python (agent(variant=...), dspy.Evaluate), and keep it with agent.save(PATH)"
        )


def find_misfit(state: PredictorState | None, signature: type[dspy.Signature]) -> str:
    """Why a state does not fit a predictor; empty when it fits."""
    if state is None:
        return "is missing"
    if len(state["signature"]["fields"]) != len(signature.fields):
        return "has another number of fields"
    strange = {key for demo in state["demos"] for key in demo} - signature.fields.keys() - {"augmented"}
    return f"has demonstrations with the fields {', '.join(sorted(strange))}" if strange else ""


def hash_schema(agent: Agent) -> str:
    """Hash (12 hexadecimal digits) of names, kinds and types of the fields of all predictors, which a saved state must
    fit. The words, which compiling changes, do not enter it."""
    fields = {
        name: [
            (key, str(info.annotation), key in predictor.signature.output_fields)
            for key, info in predictor.signature.fields.items()
        ]
        for name, predictor in agent.predictors_by_name.items()
    }
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]
