"""The instruction that is really sent. Under the interface `complete` an actor whose instruction nobody changed is sent
other words than its signature holds (`signatures/complete.py`): an optimizer starts from those, and shows those.
"""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.environments import Interface
from rsso_dspy.programs.agent import Agent
from rsso_dspy.signatures.complete import SPOKEN


def get_sent_instruction(instruction: str, interface: Interface) -> str:
    """The words that are sent for an instruction, subgoals and all."""
    return SPOKEN.get(instruction, instruction) if interface == "complete" else instruction


def get_kept_instruction(instruction: str, interface: Interface) -> str:
    """The instruction that a program keeps for these words: its own where they are those that are sent for it, so that
    an unchanged program stays the same program."""
    if interface != "complete":
        return instruction
    said = instruction.strip()
    return next((kept for kept, sent in SPOKEN.items() if sent.strip() == said), instruction)


def show_sent_instructions(program: Agent, interface: Interface) -> None:
    """Put the words that are sent in place of what a program keeps for them."""
    for predictor in program.predictors_by_name.values():
        sent = get_sent_instruction(predictor.signature.instructions, interface)
        if sent != predictor.signature.instructions:
            predictor.signature = predictor.signature.with_instructions(sent)


def keep_instructions(program: Agent, interface: Interface) -> None:
    """The other way round."""
    for predictor in program.predictors_by_name.values():
        kept = get_kept_instruction(predictor.signature.instructions, interface)
        if kept != predictor.signature.instructions:
            predictor.signature = predictor.signature.with_instructions(kept)


def read_instructions(state: Mapping[str, Any], interface: Interface) -> dict[str, str]:
    """Predictor to the instruction that is sent, of a program's DSPy state."""
    return {name: get_sent_instruction(each["signature"]["instructions"], interface) for name, each in state.items()}
