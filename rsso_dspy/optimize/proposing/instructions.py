"""Converts between the instruction that is sent and the one that a program keeps. Under the interface `complete`, an
actor with an unchanged instruction is sent other words than its signature holds (`signatures/complete.py`); optimizers
start from the words that are sent.
"""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.environments import Interface
from rsso_dspy.programs.agent import Agent
from rsso_dspy.signatures.complete import SPOKEN


def get_sent_instruction(instruction: str, interface: Interface) -> str:
    """The words that are sent for an instruction, those about subgoals included."""
    return SPOKEN.get(instruction, instruction) if interface == "complete" else instruction


def get_kept_instruction(instruction: str, interface: Interface) -> str:
    """The instruction that a program keeps for these words: its own if they are what is sent for it, so that an
    unchanged program stays the same."""
    if interface != "complete":
        return instruction
    said = instruction.strip()
    return next((kept for kept, sent in SPOKEN.items() if sent.strip() == said), instruction)


def show_sent_instructions(program: Agent, interface: Interface) -> None:
    """Replace the instructions that a program keeps by the words that are sent for them."""
    for predictor in program.predictors_by_name.values():
        sent = get_sent_instruction(predictor.signature.instructions, interface)
        if sent != predictor.signature.instructions:
            predictor.signature = predictor.signature.with_instructions(sent)


def keep_instructions(program: Agent, interface: Interface) -> None:
    """Replace words that are sent by the instructions that a program keeps for them."""
    for predictor in program.predictors_by_name.values():
        kept = get_kept_instruction(predictor.signature.instructions, interface)
        if kept != predictor.signature.instructions:
            predictor.signature = predictor.signature.with_instructions(kept)


def read_instructions(state: Mapping[str, Any], interface: Interface) -> dict[str, str]:
    """Predictor to the instruction that is sent, from DSPy's state of a program."""
    return {name: get_sent_instruction(each["signature"]["instructions"], interface) for name, each in state.items()}
