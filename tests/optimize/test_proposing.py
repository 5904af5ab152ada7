"""What a proposer is shown is true, short and about training variants; what it answers is a bounded edit."""

from dataclasses import replace

import dspy
import pytest

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.naming import Naming
from rsso_dspy.environments.scienceworld.goal_advice import ADVICE as BY_KIND
from rsso_dspy.errors import NotInstalled
from rsso_dspy.optimize.acceptance import Rollout
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.proposing.digest import LINES, digest_rollout, find_decisive_steps
from rsso_dspy.optimize.proposing.edits import HEADING, LONGEST_LINE, MOST_EDITS, MOST_LINES, apply_edits, number_lines
from rsso_dspy.optimize.proposing.instructions import get_kept_instruction, get_sent_instruction
from rsso_dspy.optimize.proposing.names import generalize_action, list_names
from rsso_dspy.optimize.proposing.request import Evidence, build_request, select_attempts
from rsso_dspy.optimize.proposing.shared_lines import find_shared_lines
from rsso_dspy.optimize.proposing.task_types import make_topic, word_task_types
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.records import State, TrialResult, Variant
from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.complete import SPOKEN
from tests.optimize.scripted import ADVICE, LONGEST, Models, actor, adding, advised, proposer, wanted
from tests.optimize.test_feedback import trial

BOIL = "Your task is to boil {}. For compounds without a boiling point, combusting the substance is also acceptable."
KITCHEN = State("", "You see: a substance called water, a stove, which is off, a red box (containing nothing)", "")
SEARCHED = (("teleport to bedroom", 0), ("open closet", 0))


def rollout(task, index, text, *trials, goals=(), called=("actor",)):
    """A rollout of constructed trials on a training variant."""
    variant = Variant(task, index, "train")
    results = tuple(
        TrialResult(n, replace(each.trajectory, variant=variant, trial=n, task=text, start=KITCHEN))
        for n, each in enumerate(trials, start=1)
    )
    best = max(result.trajectory.accumulator for result in results) / 100
    solved = any(result.trajectory.solved for result in results)
    calls = tuple((name, {}, dspy.Prediction()) for name in called)
    return Rollout(variant, 1.0 if solved else best, results, goals, calls)


def boil(index, thing, *acts, **more):
    return rollout("boil", index, BOIL.format(thing), trial(*acts), **more)


# The digest


def test_a_trial_is_told_in_a_few_lines():
    acts = [
        ("teleport to kitchen", 8),
        *[("wait", 0)] * 12,
        ("opne stove", 0, {"understood": False}),
        *[("open closet", 0), ("close closet", 0)] * 3,
        ("focus on red box", -150, {"reasoning": "Boxes boil. Notes: searched: kitchen; facts: reading = 3."}),
    ]
    text = digest_rollout(boil(1, "water", *acts), get_benchmark())
    lines = text.splitlines()
    assert lines[:2] == [f"Task: {BOIL.format('water')}", "Metric: 0.08 of 1."]
    assert "In sight at the start: water, stove, red box." in lines
    assert any(line.startswith("1. teleport to kitchen +8") and "(the last gain)" in line for line in lines)
    assert "2-13. wait x12" in lines
    assert "15-20. open closet, close closet in turn, x3" in lines
    assert '14. opne stove | "You did opne stove."' in lines
    (end,) = (line for line in lines if line.startswith("21."))
    assert "focus on red box -150" in end
    assert "(the loss)" in end
    assert 'it thought: "Boxes boil."' in end
    assert "Notes" not in text
    assert "In sight and never acted on: water, lamp." in lines, "the red box and the stove were"


def test_a_long_trial_keeps_its_decisive_steps():
    acts = [(f"teleport to room {n}", 0) for n in range(30)] + [("activate stove", 25)]
    acts += [(f"open box {n}", 0) for n in range(30)]
    played = boil(1, "water", *acts)
    lines = digest_rollout(played, get_benchmark()).splitlines()
    assert len([line for line in lines if line[0].isdigit()]) == LINES
    assert any(line.startswith("31. activate stove +25 | (the last gain)") for line in lines)
    assert any(line.startswith("... left out: ") for line in lines)


def test_the_first_missed_chance_is_where_the_named_thing_came_in_sight():
    went = trial(("teleport to hall", 0), ("teleport to lab", 0), ("wait", 0)).trajectory
    lab = replace(went.steps[1], state=State("", "You see: a lead pipe, a substance called lead", ""))
    went = replace(went, task=BOIL.format("lead"), start=KITCHEN, steps=(went.steps[0], lab, went.steps[2]))
    assert find_decisive_steps(went, get_benchmark().grammar.naming) == {
        1: "first missed chance: lead",
        2: "the last action",
    }
    did = replace(went, steps=(*went.steps, replace(went.steps[2], action="pick up lead")))
    assert "first missed chance: lead" not in find_decisive_steps(did, get_benchmark().grammar.naming).values()


@pytest.mark.parametrize(
    ("benchmark", "look", "names"),
    [
        ("scienceworld", "\tthe agent\n\ta table. On the table is: a tin cup\n\tA door to the kitchen (that is open)",
         ["table", "tin cup"]),
        ("scienceworld", "a jug (containing nothing)\n\ta substance called lead\n\tthe air", ["jug", "lead"]),
        ("babyai", "There is a grey ball 1 2 steps to your left.  There is a red closed door 1 3 steps in front of "
         "you and 0 steps to your right.  You are facing a wall 4 steps away. You are carrying a key.",
         ["grey ball", "red closed door", "key"]),
        ("pddl", "Ball1 is a ball.  Ball1 is at rooma.  Robby is at roomb. Left is free. The b1 is clear. "
         "Shot1 is empty. ", ["ball1", "b1", "shot1"]),
        ("alfworld", "You are in the middle of a room. Looking quickly around you, you see a bed 1, and a desk 2.",
         ["bed", "desk"]),
        ("", "You are in the cellar. You see an old lamp, a box (empty) and the cat. A door leads to the garden. Exits "
         "leading north.", ["cellar", "old lamp", "box", "cat"]),
    ],
)  # fmt: skip
def test_names_are_things_and_no_doors_or_rooms(benchmark, look, names):
    try:
        naming = get_benchmark(benchmark).grammar.naming if benchmark else Naming()
    except NotInstalled as missing:
        pytest.skip(str(missing))
    assert list_names(State("", look, ""), naming) == names


# Task types


@pytest.mark.parametrize(
    ("texts", "names", "wording", "topic"),
    [
        ([BOIL.format("water"), BOIL.format("lead")], (), "boil …", "boil"),
        ([BOIL.format("water")], ("water", "stove"), "boil …", "boil"),
        (["Your task is to find a(n) plant. First, focus."], ("fern",), "find a(n) plant", "find a plant"),
    ],
)
def test_a_task_type_is_worded_without_what_differs(texts, names, wording, topic):
    assert word_task_types({"x": texts}, names) == {"x": wording}
    assert make_topic(wording) == topic


def test_types_that_begin_alike_are_told_apart():
    tasks = {"a": ["Your task is to measure it. Then wait."], "b": ["Your task is to measure it. Then run."]}
    assert len(set(word_task_types(tasks).values())) == 2


# What variants share


def test_one_variant_gives_guesses_without_names_and_two_give_shared_lines():
    acts = [("teleport to greenhouse", 8), ("focus on blue box", 17), ("activate stove", 25), *SEARCHED]
    goals = ((Goal("GoalLifeStage", False, True),),)
    one = find_shared_lines([boil(1, "water", *acts, goals=goals)], get_benchmark()).types["boil"]
    assert one.shared == ()
    assert one.guesses == BY_KIND["GoalLifeStage"]
    two = find_shared_lines([boil(n, "water", *acts, goals=goals) for n in (1, 2)], get_benchmark()).types["boil"]
    assert {"First, teleport to greenhouse.", "When you can, activate stove."} <= set(two.shared)
    assert not [line for line in two.shared if "blue box" in line], "an answer, however often it was right"
    assert two.guesses == ()


def test_a_variant_that_earned_there_speaks_against_avoiding_it():
    found = ("teleport to bedroom", 0), ("pick up doll", 10)
    vain = [boil(n, "water", *SEARCHED) for n in (1, 2)]
    assert "Avoid teleporting to bedroom." in find_shared_lines(vain, get_benchmark()).types["boil"].shared
    against = find_shared_lines([*vain, boil(3, "water", *found)], get_benchmark())
    assert "Avoid teleporting to bedroom." not in against.types["boil"].shared


def test_solved_variants_speak_for_nothing_and_several_types_for_a_general_line():
    loops = [("look around", 0)] * 4
    solved = rollout("boil", 3, BOIL.format("tin"), trial(("activate stove", 100), outcome="solved"))
    types = [boil(1, "water", *loops), boil(2, "lead", *loops), solved]
    once = find_shared_lines(types, get_benchmark())
    assert (once.types["boil"].variants, once.general) == (2, ())
    other = [rollout("melt", n, "Your task is to melt tin.", trial(*loops)) for n in (1, 2)]
    assert find_shared_lines([*types, *other], get_benchmark()).general == (
        "Do not repeat an action that changed nothing.",
    )


@pytest.mark.parametrize(
    ("action", "task", "general"),
    [
        ("pick up water", BOIL.format("water"), "pick up the substance named in the task"),
        ("focus on red box", "Put it in the red box.", "focus on the box named in the task"),
        ("teleport to kitchen", "Your task is in the kitchen.", "teleport to the place named in the task"),
        ("pick up fern", BOIL.format("water"), None),
        ("move water to pot", BOIL.format("water"), None),
        ("wait", BOIL.format("water"), None),
    ],
)
def test_particulars_become_the_role_they_play_in_the_task(action, task, general):
    assert generalize_action(action, task, get_benchmark().grammar) == general


# Which attempts


def test_unsolved_attempts_come_first_one_of_each_type_and_none_that_was_solved_at_once():
    at_once = boil(1, "tin", ("activate stove", 100), called=("actor",))
    at_once = replace(at_once, trials=(replace_outcome(at_once.trials[0]),))
    late = rollout("boil", 2, BOIL.format("tin"), trial(("wait", 0)), trial(("wait", 100), outcome="solved"))
    low, mid = boil(3, "lead", ("wait", 1)), boil(4, "water", ("wait", 2))
    other = rollout("melt", 1, "Your task is to melt tin.", trial(("wait", 50)))
    deaf = boil(5, "zinc", ("wait", 0), called=("reflector",))
    every = [at_once, late, low, mid, other, deaf]
    assert select_attempts("actor", Evidence(every, {})) == [low, other, mid]
    assert select_attempts("actor", Evidence([at_once, late], {})) == [late]
    assert select_attempts("reflector", Evidence(every, {})) == [deaf]
    more = Evidence([low, mid, other, boil(6, "iron", ("wait", 3))], {}, turn=1)
    assert select_attempts("actor", more)[0].variant.index == 6, "other ones from turn to turn"


def replace_outcome(result):
    return replace(result, trajectory=replace(result.trajectory, outcome="solved"))


def test_a_request_holds_scores_shared_lines_and_attempts_and_no_internal_name():
    every = [boil(n, name, *SEARCHED, ("wait", 10 * n)) for n, name in ((1, "water"), (3, "lead"))]
    tasks = {"boil": [BOIL.format("water"), BOIL.format("lead")], "lifespan-longest-lived": ["Your task is to wait."]}
    asked = build_request("actor", Agent("react").actor, "Play.", Evidence(every, tasks), "", get_benchmark())
    scored = "- boil …: metric 0.20, 0 of 2 variants solved, 0 at the first trial"
    assert asked["task_types"].splitlines() == [scored, "- wait"]
    assert asked["shared_by_variants"].startswith("In tasks about boil: ")
    assert asked["attempts"].count("Task: ") == 2
    whole = "\n".join(asked.values())
    assert "lifespan-longest" not in whole
    assert "::" not in whole
    assert len(whole) / 4 < 600, "tokens"


# Edits

BASE = FlatActor.instructions


def test_edits_leave_the_rest_word_for_word():
    text, edits = apply_edits(BASE, ["add: Wait.", "add: Open doors."])
    assert text == f"{BASE}\n\n{HEADING}\n- Wait.\n- Open doors."
    assert [str(edit) for edit in edits] == ["+ Wait.", "+ Open doors."]
    assert number_lines(text).splitlines()[-3:] == [HEADING, "6. Wait.", "7. Open doors."]
    text, edits = apply_edits(text, ["Drop line 6", "change 7: Open boxes.", "- drop #5."])
    assert text.endswith(f"{HEADING}\n- Open boxes.")
    assert "Do not repeat" not in text
    assert text.startswith(BASE.partition("\n\n")[0])
    assert apply_edits(f"{BASE}\n\n{HEADING}\n- Wait.", ["drop 6"])[0] == BASE


@pytest.mark.parametrize(
    "said",
    [
        *("", "Wait.", "add:", "add: Solve the task by one action at a time.", "drop 99", "change 1:", "change: Wait."),
        *(f"add: {'x' * LONGEST_LINE}x", f"add: {HEADING}"),
    ],
)
def test_what_is_no_edit_changes_nothing(said):
    assert apply_edits(BASE, [said]) == (BASE, [])


def test_edits_and_lines_are_bounded():
    text, edits = apply_edits(BASE, [f"add: Wait {n}." for n in range(9)])
    assert len(edits) == MOST_EDITS
    for turn in range(9):
        text, _ = apply_edits(text, [f"add: Look {turn} {n}." for n in range(4)])
    assert text.count("\n- ") == MOST_LINES


# The instruction that is sent


@pytest.mark.parametrize("kind", [FlatActor, SkillActor])
def test_a_search_starts_from_what_is_sent(kind):
    sent = get_sent_instruction(kind.instructions, "complete")
    assert sent == SPOKEN[kind.instructions] != kind.instructions
    assert get_kept_instruction(f"{sent}\n", "complete") == kind.instructions
    assert get_sent_instruction(kind.instructions, "sso") == kind.instructions
    assert get_kept_instruction(sent, "sso") == sent


def test_under_the_complete_interface_the_words_that_are_sent_are_shown_edited_and_played(live):
    within = replace(live, runtime=replace(live.runtime, rules=replace(live.runtime.rules, interface="complete")))
    models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
    compiled = compile_agent(Agent("react"), models.within(within), wanted(rollouts=6))
    sent = SPOKEN[FlatActor.instructions]
    assert all(number_lines(sent) in prompt for prompt in models.engines["proposer"].prompts)
    assert compiled.chosen_state["actor"]["signature"]["instructions"] == f"{sent}\n\n{HEADING}\n- {ADVICE}"
    assert compiled.tried[0].program == fingerprint_program(Agent("react")), "unchanged, it is the zero-shot program"


# What was tried before


def test_a_later_request_tells_what_came_of_the_earlier_ones(live):
    lines = iter(["Be polite.", "Count to three.", ADVICE])
    models = Models(actor=actor(lambda _: False), proposer=lambda _: adding(next(lines, "Think.")))
    compile_agent(Agent("react"), models.within(live), wanted(train=LONGEST[:1], rollouts=6))
    first, second, *_ = models.engines["proposer"].prompts
    assert "tried_before" not in first
    assert "+ Be polite.\n  1 variants: 0.00 -> 0.00" in second
    assert "not kept" in second
