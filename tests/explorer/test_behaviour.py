"""What stands in the prompt, and nothing else, changes what the player does."""

import dspy
import pytest

from rsso_dspy.explorer.advice import read_advice, read_plan_cautions, select_plan_steps
from rsso_dspy.signatures import FlatActor, SkillActor
from tests.explorer.conftest import HALLWAY, KITCHEN, REGIONS

BARE = {"constitution": None, "plans_from_past_attempts": None, "progress": None}


def test_one_line_of_a_reflection_changes_the_action(ask):
    bare = ask(FlatActor, constitution=None, plans_from_past_attempts="Attempt 1: Nothing was found.").action
    told = ask(FlatActor, constitution=None, plans_from_past_attempts=f"Attempt 1: Nothing was found.\nDo not {bare}.")
    assert told.action != bare


def test_a_plan_is_followed_step_by_step(ask):
    plan = "Attempt 1: Too slow.\nRepeat what earned 8 points: teleport to bedroom; open closet; pick up mattress."
    first = ask(FlatActor, constitution=None, plans_from_past_attempts=plan)
    history = (
        f"{HALLWAY}\n\nThought: {first.thought}\nAction: {first.action}\n\nYou teleport to the bedroom.\n"
        "You also observe:\n\ta closet. the closet door is closed\n\ta mattress"
    )
    second = ask(FlatActor, constitution=None, plans_from_past_attempts=plan, history=history)
    assert (first.action, second.action) == ("teleport to bedroom", "open closet")


def test_the_plan_that_earned_most_is_the_one_followed(ask):
    plans = (
        "Attempt 1: Wrong box.\nRepeat what earned 40 points: teleport to workshop.\n\n"
        "Attempt 2: Worse.\nRepeat what earned 8 points: teleport to bedroom."
    )
    assert ask(FlatActor, constitution=None, plans_from_past_attempts=plans).action == "teleport to workshop"


def test_one_line_of_a_skill_changes_the_action_and_the_subgoal(ask):
    skill = "Subgoal 1: The closet is open.\n  1. teleport to bedroom\n  2. open closet"
    before = ask(SkillActor, **BARE, skills=skill)
    after = ask(SkillActor, **BARE, skills=skill.replace("bedroom", "workshop"))
    assert (before.next_action, before.current_subgoal) == ("teleport to bedroom", "The closet is open.")
    assert after.next_action == "teleport to workshop"


def test_one_line_of_the_instruction_changes_the_action(ask):
    bare = ask(FlatActor, **BARE).action
    told = FlatActor.with_instructions(f"{FlatActor.instructions}\nDo not {bare}.")
    assert ask(told, **BARE).action != bare


def test_an_instruction_can_call_for_an_action(ask):
    told = FlatActor.with_instructions(f"{FlatActor.instructions}\nFirst, open the freezer.")
    history = {"history": KITCHEN, "task": "Your task is to find a(n) animal. First, focus on the thing."}
    assert ask(FlatActor, **BARE, **history).action != "open freezer"
    assert ask(told, **BARE, **history).action == "open freezer"


def test_a_demonstration_changes_the_action(ask):
    bare = ask(FlatActor, **BARE).action
    others = {"teleport to workshop", "teleport to kitchen", "teleport to bedroom"} - {bare}
    for other in sorted(others):
        demo = dspy.Example(
            task=REGIONS["task"], action_templates="", history=HALLWAY, thought="There it is.", action=other
        )
        assert ask(FlatActor, **BARE, demos=[demo]).action == other


def test_a_rule_of_the_constitution_changes_the_action(ask):
    bare = ask(FlatActor, **BARE).action
    told = ask(FlatActor, constitution=f"Never {bare}.", plans_from_past_attempts=None).action
    assert told != bare


def test_what_failed_is_not_repeated(ask):
    history = f"{HALLWAY}\n\nThought: -\nAction: {{}}\n\nNo known action matches that input."
    bare = ask(FlatActor, **BARE).action
    assert ask(FlatActor, **BARE, history=history.format(bare)).action != bare


def test_a_question_of_the_world_is_answered_with_a_number(ask):
    question = (
        "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
        "0:\topen box (in kitchen)\n1:\topen box (in drawer, in kitchen)"
    )
    history = f"{KITCHEN}\n\nThought: -\nAction: open box\n\n{question}"
    assert ask(FlatActor, **BARE, history=history).action in {"0", "1"}


def test_names_of_tasks_and_variants_are_never_seen(ask):
    """The prompt holds no id; one that is put in where ids could stand changes nothing."""
    for hidden in ("boil", "find-plant::228", "variant 7"):
        history = REGIONS["history"].replace("Step #1:", f"Step #1:\n[{hidden}]")
        assert ask(SkillActor, history=history).next_action == ask(SkillActor).next_action


def test_memory_beyond_the_window_is_carried_by_the_reasoning(ask):
    noted = "I will wait. Notes: searched: hallway, kitchen, bedroom."
    history = f"{HALLWAY}\n\nThought: {noted}\nAction: wait\n\nYou decide to wait for 10 iterations."
    assert ask(FlatActor, **BARE, history=history).action == "teleport to workshop"


def test_a_mistake_in_the_constitution_is_not_made_again(ask):
    bare = ask(FlatActor, **BARE).action
    told = ask(FlatActor, **BARE | {"constitution": f"- Mistake: {bare}, without effect. Instead: do something else"})
    assert told.action != bare


def test_a_conditional_step_of_a_plan_is_no_step():
    plan = "Attempt 1: Too slow.\nTeleport to bedroom; open closet. If the stove is broken, open the freezer."
    assert [step.text for step in select_plan_steps(plan)] == ["teleport to bedroom", "open closet"]
    assert not any(line.command for line in read_plan_cautions(plan))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Open the fridge. Do not wait.", {"open fridge": True, "wait": False}),
        ("- Avoid waiting.\n- First, open the fridge, then open the freezer.",
         {"wait": False, "open fridge": True, "open freezer": True}),
        ("If the fridge is closed, open it. Do not wait unless you hold the thermometer. Open the freezer.",
         {"open freezer": True}),
        ("Open the freezer rather than the fridge. Only wait once it is open.", {}),
        ("- Mistake: open fridge, without effect when it is open. Instead: look elsewhere", {"open fridge": False}),
        ("Use the names that the observations give.", {}),
    ],
)  # fmt: skip
def test_advice_is_what_to_do_and_what_not_without_conditions(text, expected):
    assert {line.command.text: line.positive for line in read_advice(text) if line.command} == expected
