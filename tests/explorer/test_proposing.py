"""Optimizers get instructions that say more than before, from the feedback alone."""

import dspy
import pytest
from dspy.propose.grounded_proposer import generate_instruction_class
from dspy.teleprompt.gepa import InstructionProposer
from gepa.strategies.instruction_proposal import InstructionProposalSignature

from rsso_dspy.adapter import XMLAdapter
from rsso_dspy.explorer import Explorer
from rsso_dspy.explorer.proposer import HEADING, RULES_OF_THUMB
from rsso_dspy.signatures import FlatActor
from rsso_dspy.signatures.proposing import ProposeEdits

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


def instructed(seed, lines=FEEDBACK, current=BASE, **options):
    """What DSPy's own proposer for GEPA makes of feedback texts, one a sample."""
    examples = [
        {"Inputs": {"task": "Do not eat the soap."}, "Generated Outputs": {"action": "open door"}, "Feedback": said}
        for said in lines
    ]
    with dspy.context(lm=lm(seed)):
        return InstructionProposer(**options)({"actor": current}, {"actor": examples}, ["actor"])["actor"]


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


@pytest.mark.parametrize("propose", [gepa, instructed])
def test_nothing_is_said_twice_the_length_is_bounded_and_without_news_a_line_goes(propose):
    current = BASE
    for _ in range(4):
        before, current = current, propose(1, current=current)
    assert len(added(current)) == len(set(added(current)))
    assert before != current
    assert len(added(propose(1, FEEDBACK, f"{BASE}\n\n{HEADING}\n" + "\n".join(FEEDBACK)))) == len(FEEDBACK) - 1
    for number in range(40):
        current = propose(number, [f"Do not open the box number {number}, it is of no use."], current)
    assert len(added(current)) == 12


def test_a_limit_of_length_is_kept():
    current = instructed(0)
    short = instructed(1, current=current, max_chars=len(BASE) + 100)
    assert short.startswith(BASE)
    assert len(short) <= len(BASE) + 100


def test_a_proposal_without_feedback_holds_rules_of_thumb():
    asked = generate_instruction_class()
    given = {**dict.fromkeys(asked.signature.input_fields, "-"), "basic_instruction": BASE}
    with dspy.context(lm=lm()):
        said = asked(**given).proposed_instruction
    assert set(added(said)) < set(RULES_OF_THUMB)
    assert set(added(gepa(0, lines=["It ended at 8 points."]))) < set(RULES_OF_THUMB)


NUMBERED = f"1. Play.\n2. Think first.\n{HEADING}\n3. Never mix water."
SHARED = "Several task types: Do not repeat an action that changed nothing.\nIn tasks about boil: Activate the stove."


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter, dspy.JSONAdapter, XMLAdapter])
@pytest.mark.parametrize(
    ("given", "edits"),
    [
        ({"shared_by_variants": SHARED},
         {"add: Do not repeat an action that changed nothing.", "add: Activate the stove."}),
        ({"shared_by_variants": SHARED, "tried_before": "+ Activate the stove.\n  0.70 -> 0.60, not kept"},
         {"add: Do not repeat an action that changed nothing."}),
        ({"attempts": "A call:\nFacts:\nDo not read this.\nAdvice:\n- Always name the mistake."},
         {"add: Always name the mistake."}),
        ({}, {"drop 3"}),
        ({"current_instruction": "1. Play."}, {f"add: {line}" for line in RULES_OF_THUMB}),
    ],
)  # fmt: skip
def test_edits_add_what_is_told_and_was_not_tried(adapter, given, edits):
    taken = []
    for seed in range(12):
        with dspy.context(lm=lm(seed), adapter=adapter()):
            asked = {"role": "actor.", "current_instruction": NUMBERED, **given}
            taken.append(dspy.Predict(ProposeEdits)(**asked).edits)
    assert all(1 <= len(each) <= 3 for each in taken)
    assert {edit for each in taken for edit in each} == edits


@pytest.mark.parametrize("seed", range(3))
def test_a_proposal_changes_what_the_player_does(ask, seed):
    regions = {"constitution": None, "plans_from_past_attempts": None}
    bare = ask(FlatActor, **regions).action
    proposed = gepa(seed, lines=[f"Do not {bare}."])
    assert ask(FlatActor.with_instructions(proposed), **regions).action != bare
