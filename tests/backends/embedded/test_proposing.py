"""Optimizers get instructions that say more than before, from the feedback alone."""

import dspy
import pytest

from rsso_dspy.backends.embedded import Explorer
from rsso_dspy.signatures import FlatActor

FEEDBACK = [
    "Focus on the plant first.",
    "Do not open the fridge.",
    "Teleport to the greenhouse early.",
    "Never mix water.",
]


def lm(seed=0):
    return dspy.LM("embedded/explorer", engine=Explorer(seed), cache=False, temperature=1.0)


def gepa(seed, lines=FEEDBACK, current=FlatActor.instructions):
    from gepa.strategies.instruction_proposal import InstructionProposalSignature

    return InstructionProposalSignature.run(
        lm=lambda prompt: lm(seed)(prompt)[0],
        input_dict={
            "current_instruction_doc": current,
            "dataset_with_feedback": [
                {"Inputs": {"task": "Find."}, "Generated Outputs": "-", "Feedback": " ".join(lines)}
            ],
        },
    )["new_instruction"]


def test_gepa_gets_the_current_instruction_and_feedback():
    proposed = gepa(0)
    assert proposed.startswith(FlatActor.instructions.strip().split("\n", 1)[0])
    assert any(line in proposed for line in FEEDBACK)


def test_other_seeds_propose_other_subsets():
    assert len({gepa(seed) for seed in range(8)}) > 2
    assert gepa(4) == gepa(4)


def test_nothing_is_said_twice_and_the_length_is_bounded():
    proposed = gepa(1)
    for _ in range(3):
        proposed = gepa(1, current=proposed)
    assert all(proposed.count(line) <= 1 for line in FEEDBACK)
    long = gepa(0, lines=[f"Do not open the box number {number}, it is of no use to anybody." for number in range(300)])
    assert len(long) < 3000


def test_copro_and_mipro_get_a_longer_instruction():
    from dspy.propose.grounded_proposer import generate_instruction_class
    from dspy.teleprompt.copro_optimizer import BasicGenerateInstruction

    with dspy.context(lm=lm()):
        basic = dspy.Predict(BasicGenerateInstruction)(basic_instruction="Solve the task.")
        grounded = generate_instruction_class(False, False, True, False, True)(
            task_demos="Feedback: Do not open the fridge.", basic_instruction="Solve the task.", tip="Keep it clear."
        )
    assert basic.proposed_instruction.startswith("Solve the task.")
    assert "Do not open the fridge." in grounded.proposed_instruction


@pytest.mark.parametrize("seed", range(3))
def test_a_proposal_changes_what_the_player_does(ask, seed):
    regions = {"constitution": None, "plans_from_past_attempts": None}
    bare = ask(FlatActor, **regions).action
    proposed = gepa(seed, lines=[f"Do not {bare}."])
    assert ask(FlatActor.with_instructions(proposed), **regions).action != bare
