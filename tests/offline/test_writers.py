"""What the offline player writes: reflections with their improvements' fields, and better instructions."""

import dspy
import pytest
from dspy.teleprompt.gepa import InstructionProposer
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.memory.reflections import IMPROVEMENTS
from rsso_dspy.offline import Explorer
from rsso_dspy.offline.proposer import HEADING
from rsso_dspy.offline.reflector import parse_transcript, select_actions_to_repeat
from rsso_dspy.signatures import DistillReflections, FlatActor, Reflect
from rsso_dspy.signatures.reflection import add_reflection_fields
from tests.offline.conftest import ADAPTERS, OUTCOME, TRANSCRIPT


def test_a_plan_keeps_what_earned_and_forbids_what_cost_points_or_did_nothing(ask):
    kept = select_actions_to_repeat(parse_transcript(TRANSCRIPT, OUTCOME))
    assert [act.text for act in kept] == ["teleport to kitchen", "focus on thermometer"]
    answer = ask(Reflect)
    for mistake in ("focus on red box", "open cupbord"):
        assert mistake in answer.what_went_wrong
        assert f"Do not {mistake}." in answer.plan
    assert "Repeat what earned 33 points: teleport to kitchen; focus on thermometer." in answer.plan


# Fields of the improvements

LOOPS = (
    "Steps 1 to 10: 10 actions were of only 2 kinds: open door, look around.\n"
    "Steps 3 to 4: the same action, wait, 2 times."
)
PLANS = "Attempt 1: Slow. Do not open stove.\n\nAttempt 2: Repeat what earned 10 points: open door. Do not eat soap."


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_field_of_the_improvements_is_answered_in_its_type(ask, adapter):
    signature = add_reflection_fields(Reflect, frozenset(IMPROVEMENTS))
    assert list(signature.output_fields)[-1] == "plan"
    answer = ask(signature, adapter=adapter, loops=LOOPS)
    assert answer.critical_step == 5
    assert "open 1 times" in answer.failed_action_pattern.replace(",", "")
    assert isinstance(answer.priority_locations, list)
    assert "Do not open door." in answer.plan
    assert "Do not wait" not in answer.plan


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_distilled_plans_merge_with_what_stands(ask, adapter):
    answer = ask(
        DistillReflections,
        adapter=adapter,
        task_type="boil",
        known_never=["Do not eat soap."],
        known_always=[],
        known_strategy="",
        plans=PLANS,
    )
    assert answer.never == ["Do not eat soap.", "Do not open stove."]
    assert answer.always == ["Repeat what earned 10 points: open door."] == [answer.strategy]


# Instructions

FEEDBACK = [
    "Focus on the plant first.",
    "Do not open the fridge.",
    "Teleport to the greenhouse early.",
    "Never mix water.",
]
BASE = FlatActor.instructions.strip()


def lm(seed=0):
    return dspy.LM("embedded/explorer", engine=Explorer(seed), cache=False, temperature=1.0)


def gepa(seed, lines=FEEDBACK, current=BASE):
    """What GEPA's own question is answered with."""
    sample = {"Inputs": {"task": "Find."}, "Generated Outputs": "-", "Feedback": " ".join(lines)}
    asked = {"current_instruction_doc": current, "dataset_with_feedback": [sample]}
    return InstructionProposalSignature.run(lm=lambda prompt: lm(seed)(prompt)[0], input_dict=asked)["new_instruction"]


def instructed(seed, lines=FEEDBACK, current=BASE):
    """What DSPy's own proposer for GEPA makes of feedback texts, one a sample."""
    examples = [
        {"Inputs": {"task": "Do not eat the soap."}, "Generated Outputs": {"action": "open door"}, "Feedback": said}
        for said in lines
    ]
    with dspy.context(lm=lm(seed)):
        return InstructionProposer(adapter=ChatAdapter())({"actor": current}, {"actor": examples}, ["actor"])["actor"]


def added(instruction):
    base, _, rest = instruction.partition(HEADING)
    assert base.strip() == BASE
    return [line.removeprefix("- ") for line in rest.strip().splitlines()]


@pytest.mark.parametrize("propose", [gepa, instructed])
def test_lines_of_the_feedback_are_added_below_the_hand_written_text(propose):
    taken = [added(propose(seed)) for seed in range(6)]
    assert all(0 < len(lines) < len(FEEDBACK) for lines in taken)
    assert {line for lines in taken for line in lines} == set(FEEDBACK), "neither inputs nor outputs are advice"
    assert len({*map(tuple, taken)}) > 2, "other seeds propose other lines"
    assert propose(4) == propose(4)


def test_a_proposal_changes_what_the_player_does(ask):
    regions = {"constitution": None, "plans_from_past_attempts": None}
    bare = ask(FlatActor, **regions).action
    proposed = gepa(0, lines=[f"Do not {bare}."])
    assert ask(FlatActor.with_instructions(proposed), **regions).action != bare
