from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES, USUAL
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.skill_verbalizer import filter_instructions
from tests.live import REWARDED, Engine, acting, is_asked, model, says, walks

EXAMPLES = ["open door", "use thermometer on water", "0"]


def checked(*written):
    return filter_instructions(written, ACTION_TEMPLATES, EXAMPLES)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        *((text, text) for text in ("read OBJ", "pick up the thermometer", "Look in OBJ", "wait")),
        ("use thermometer on OBJ", "use thermometer on OBJ"),  # only the examples know it
        ("First, open OBJ", "open OBJ"),
        ("Then you should teleport to the kitchen", "teleport to the kitchen"),
        ("Step 3: pick up OBJ", "pick up OBJ"),
        ("Action: wait", "wait"),
        *((text, None) for text in ("0", "OBJ", "Do not focus on OBJ", "be patient", "looking in OBJ")),
    ],
)
def test_an_instruction_is_an_action_without_words_that_lead_up_to_it_or_left_out(written, kept):
    assert checked("open OBJ", written) == ("open OBJ", *([kept] if kept else []))


def test_an_answer_is_an_instruction_where_the_templates_know_answers():
    for written, templates, kept in (
        ("answer the question with the number of that container", USUAL, True),
        ("choose the option for the cup in your inventory", USUAL, True),
        ("answer politely", USUAL, False),
        ("answer the question with the number of that container", "", False),
    ):
        told = filter_instructions(["mix CONTAINER", written], f"{templates}\nTemplates:\nmix CONTAINER", ["mix cup"])
        assert told[1:] == ((written,) if kept else ())


def test_an_answer_of_which_most_is_no_action_is_no_answer_and_without_templates_nothing_is_checked():
    assert checked("open OBJ", "be patient", "be kind") == ()
    assert filter_instructions(["use thermometer on OBJ"], ACTION_TEMPLATES, []) == ()
    assert filter_instructions(["sing"], "", EXAMPLES) == ("sing",)


def test_a_skill_with_instructions_that_are_no_actions_is_left_out_and_counted(live):
    lm, _ = walks(live)

    def answer(prompt):
        if is_asked(prompt, "equivalent"):
            return "none"
        if is_asked(prompt, "target"):
            return "It is done."
        if is_asked(prompt, "steps"):
            return "be patient\nbe kind"
        return says(summary="What happened.", skill_name="a skill")

    verbalizer = model(Engine(answer))
    rules = replace(live.runtime.rules, trials=2, learn_after_last=True)
    with acting(live, lambda role, n: verbalizer if role == "verbalizer" else lm(role, n), rules=rules):
        played = Agent("sso")(variant=REWARDED)
    learnt, usage = played.trials[1].learnt["skills"], played.trials[1].usage["verbalizer"]
    assert learnt["library"] == 0
    assert learnt["malformed"] == usage.malformed > 0
