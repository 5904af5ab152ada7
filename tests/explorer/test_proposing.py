"""Optimizers get instructions that say more than before, from the feedback alone."""

import subprocess
import sys

import dspy
import pytest

from rsso_dspy.adapter import XMLAdapter
from rsso_dspy.explorer import Explorer
from rsso_dspy.explorer.proposer import HEADING, RULES_OF_THUMB
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


BASE = FlatActor.instructions.strip()


def instructed(seed, *samples, current=BASE, **options):
    """What DSPy's own proposer for GEPA makes of feedback texts, one a sample."""
    from dspy.teleprompt.gepa import InstructionProposer

    examples = [
        {"Inputs": {"task": "Do not eat the soap."}, "Generated Outputs": {"action": "open door"}, "Feedback": said}
        for said in samples
    ]
    with dspy.context(lm=lm(seed)):
        return InstructionProposer(**options)({"actor": current}, {"actor": examples}, ["actor"])["actor"]


def added(instruction):
    base, _, rest = instruction.partition(HEADING)
    assert base.strip() == BASE
    return [line.removeprefix("- ") for line in rest.strip().splitlines()]


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


def suggested(seed=0, adapter=dspy.ChatAdapter):
    """What MIPROv2's proposer gets, which tells no feedback."""
    asked = dspy.Signature("task_demos, basic_instruction, tip -> proposed_instruction")
    with dspy.context(lm=lm(seed), adapter=adapter()):
        return dspy.Predict(asked)(task_demos="-", basic_instruction=BASE, tip="-").proposed_instruction


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter, dspy.JSONAdapter, XMLAdapter])
def test_who_hears_nothing_gets_rules_of_thumb(adapter):
    lines = {line for seed in range(6) for line in added(suggested(seed, adapter))}
    assert lines <= set(RULES_OF_THUMB)
    assert len(lines) > 3
    assert set(added(instructed(0, "Facts:\nDo not read this."))) <= set(RULES_OF_THUMB)


@pytest.mark.parametrize("seed", range(3))
def test_a_proposal_changes_what_the_player_does(ask, seed):
    regions = {"constitution": None, "plans_from_past_attempts": None}
    bare = ask(FlatActor, **regions).action
    proposed = gepa(seed, lines=[f"Do not {bare}."])
    assert ask(FlatActor.with_instructions(proposed), **regions).action != bare


def test_dspys_proposer_gets_the_hand_written_text_and_feedback_lines_only():
    for seed in range(12):
        lines = added(instructed(seed, "The trial ended at 8 points.", " ".join(FEEDBACK)))
        assert lines
        assert set(lines) <= set(FEEDBACK), "neither inputs nor outputs nor facts are advice"
    assert len({instructed(seed, *FEEDBACK) for seed in range(8)}) > 3


def test_a_proposal_is_the_same_in_every_process():
    code = (
        "from tests.explorer.test_proposing import *; import sys;"
        "sys.stdout.write(instructed(3, *FEEDBACK, current=instructed(1, *FEEDBACK)))"
    )
    here = instructed(3, *FEEDBACK, current=instructed(1, *FEEDBACK))
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed}
        there = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        assert there.stdout == here


def test_the_search_goes_both_ways():
    current = instructed(0, *(f"Do not open box {name}." for name in "abcdefgh"))
    before = added(current)
    later = [added(instructed(seed, "Never mix water.", current=current)) for seed in range(20)]
    assert any(set(before) - set(lines) for lines in later), "lines are dropped"
    assert any(set(before) < set(lines) for lines in later), "and added to all that were there"
    unmoved = [added(instructed(seed, "", current=current)) for seed in range(5)]
    assert all(len(lines) < len(before) for lines in unmoved), "without feedback there is still something to try"


def test_a_line_and_its_contrary_never_stand_together():
    pairs = [
        ("Teleport to the kitchen.", "Do not teleport to the kitchen."),
        ("First, go to the hall.", "Avoid teleporting to hall."),
        ("Always look twice.", "Never look twice."),
    ]
    current = BASE
    for seed in range(30):
        current = instructed(seed, *(line for pair in pairs for line in pair), current=current)
        lines = added(current)
        assert len(lines) == len(set(lines))
        for pair in pairs:
            assert not set(pair) <= set(lines)
    against = f"{BASE}\nDo not open the fridge."
    assert "Open the fridge." not in instructed(0, "Open the fridge.", current=against)


def test_lines_of_many_samples_are_likelier():
    rare = [f"Do not open box {name}." for name in "abcdefgh"]
    samples = [f"Wait a while. {line}" for line in rare]
    taken = [added(instructed(seed, *samples)) for seed in range(40)]
    often = sum("Wait a while." in lines for lines in taken)
    assert often > 2 * max(sum(line in lines for lines in taken) for line in rare)


def test_many_proposals_stay_within_bounds_and_a_limit_is_kept():
    current = BASE
    for seed in range(40):
        current = instructed(seed, f"Do not open the box number {seed}, it is of no use to anybody.", current=current)
    assert len(current) < len(BASE) + 2000
    short = instructed(0, *FEEDBACK, current=current, max_chars=len(BASE) + 150)
    assert short.startswith(BASE)
    assert len(short) <= len(BASE) + 150
