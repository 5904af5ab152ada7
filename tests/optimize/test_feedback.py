"""Feedback blames and praises what the trajectories show, and an instruction made of it changes what is played."""

import re
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

import dspy
import pytest
import scienceworld

from rsso_dspy.environments import Goal
from rsso_dspy.environments.scienceworld.lessons import LESSONS
from rsso_dspy.errors import RssoError
from rsso_dspy.offline.proposer import extract_feedback_lines
from rsso_dspy.optimize.feedback import LINES, RULES, build_feedback, digest_trials, match_steps, metric
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.prediction import INVALID_COST, SOLVED, score_trials
from rsso_dspy.programs.render import render_transcript
from rsso_dspy.records import Failure, State, Step, Trajectory, TrialResult, Variant
from tests.records import STATE, record, trajectory

GOALS = LESSONS.hints.goals
VARIANT = Variant("find-plant", 28, "train")


def trial(*acts, number=1, outcome="budget"):
    """A trial of (action, reward) or (action, reward, fields of the step)."""
    steps, total = [], 0
    for action, reward, *more in acts:
        total += reward
        fields = {"understood": True, "reasoning": f"I will {action}."} | (more[0] if more else {})
        state = State(f"You did {action}.", STATE.look, STATE.inventory)
        steps.append(Step(action, action, state, reward, total, **fields))
    path = Trajectory(VARIANT, number, "Your task is to find a plant.", STATE, 0, tuple(steps), outcome)
    return TrialResult(number, path)


def actor(action, *results, goals=(), done=(), **answer):
    answer = {"thought": f"I will {action}.", "action": action} | answer
    history = dspy.History(messages=[{"observation": "", "action": each} for each in done])
    return build_feedback("actor", {"history": history}, dspy.Prediction(**answer), results, goals)


PLAYED = trial(
    ("teleport to bedroom", 0),
    ("open closet", 0),
    ("teleport to greenhouse", 8),
    ("pick up fern", 25),
    ("opne door", 0, {"understood": False}),
    ("focus on rock", -133),
    outcome="failed",
)


ONCE_MORE = trial(("wait", 0), ("open box", 5), ("wait", 0))
REPEATS = "This action repeated an earlier one, with the same answer and to no effect.\nIt was the last action of its"


@pytest.mark.parametrize(
    ("played", "action", "done", "said"),
    [
        (PLAYED, "`pick up fern`", (), "The score rose by 25 points at this action.\nIt came after: "),
        (PLAYED, "opne door", (), "This action was not understood."),
        (PLAYED, "focus on rock", (), "The score fell by 133 points at this action.\nIt was the last action of its"),
        (PLAYED, " ", (), "This answer held no action."),
        (ONCE_MORE, "wait", (), "The score rose at: open box"),
        (ONCE_MORE, "wait", ("wait", "open box"), REPEATS),
    ],
)
def test_the_actor_hears_what_its_action_did_and_the_history_tells_which_of_two(played, action, done, said):
    text = actor(action, played, done=done, thought=f"I will {action.strip('`')}.")
    assert text.startswith(f"Facts:\n{said}")
    assert ("-100 of 100 points" in text) == (played is PLAYED)
    assert ("- Do not repeat an action that changed nothing." in text.splitlines()) == (said == REPEATS)
    assert match_steps(dspy.Prediction(thought="No.", action=action), [played.trajectory]) == []


ORDERS = re.compile(r"fern|rock|greenhouse|bedroom|closet|door", re.I)
"""Whatever the trials were about."""


def test_facts_name_what_was_done_and_advice_names_none_of_it():
    text = actor("open closet", PLAYED)
    facts, _, advice = text.partition("Advice:\n")
    for fact in (
        "The score rose at: teleport to greenhouse (+8), pick up fern (+25). What came before may have brought it.",
        "The score fell at: focus on rock (-133).",
        "Never understood: opne door.",
    ):
        assert fact in facts.splitlines()
    assert "Perhaps: Always use a template, with names as the observations give them." in advice
    assert not ORDERS.search(advice)


BOILING = trial(("move water to pot", 0), ("activate stove", 0), ("open closet", 25))
LOOP = trial(*[("look around", 0)] * 5)
SOLVING = trial(("focus on fern", 100), number=2, outcome="solved")


@pytest.mark.parametrize(
    ("action", "results", "said", "unsaid"),
    [
        ("open closet", [BOILING], "It came after: move water to pot, activate stove; they may have", "brought 25"),
        ("look around", [LOOP], "The action look around was taken 5 times and earned nothing.", "brought"),
        ("look around", [LOOP], "1-5. look around x5", "2-5."),
        ("look around", [LOOP], "Advice:\n- Perhaps: Do not repeat an action that changed nothing.", "2."),
        ("look around", [LOOP, SOLVING], "Facts:", "Advice:"),
    ],
)
def test_what_came_before_is_credited_loops_are_named_and_a_solved_variant_hears_facts_alone(
    action, results, said, unsaid
):
    text = actor(action, *results)
    assert (said in text, unsaid in text) == (True, False), text


def test_goals_are_told_by_kind_and_never_by_class_and_become_advice_where_no_trial_reached_them():
    plant, room = Goal("GoalFocusOnPlant", False, True), Goal("GoalMoveToLocation", False, False)
    missed = actor("open closet", PLAYED, goals=((plant, room),))
    assert all(line in missed for kind in ("GoalFocusOnPlant", "GoalMoveToLocation") for line in GOALS[kind][1])
    here, helps = Goal("GoalMoveToLocation", True, True), Goal("GoalContainerOpen", False, False)
    once = actor("open closet", PLAYED, PLAYED, goals=((plant, room, helps), (plant, here, helps)))
    assert GOALS["GoalMoveToLocation"][1][0] not in once, "one of the trials reached it"
    text = actor("open closet", PLAYED, goals=((plant, here, helps),))
    assert "The trials reached 1 of 2 goals that the task requires." in text
    assert "These kinds of goals were reached: a place to be in." in text
    assert "These kinds of goals were missed: the thing asked for in focus." in text
    assert not re.search(rf"Goal[A-Z]|{VARIANT.task}|28|budget", missed + once + text)
    unheard = actor("open closet", PLAYED, goals=((Goal("GoalUnheardOf", False, True),),))
    counted = "The trials reached 0 of 1 goals that the task requires."
    assert sorted(unheard.splitlines()) == sorted([*actor("open closet", PLAYED).splitlines(), counted])


def test_every_kind_of_goal_has_advice_that_a_proposer_can_use_and_a_phrase_that_is_none():
    jar = Path(scienceworld.__file__).parent / "scienceworld.jar"
    names = [PurePosixPath(name) for name in ZipFile(jar).namelist() if name.endswith(".class")]
    kinds = {name.stem for name in names if name.stem.startswith("Goal") and "$" not in name.stem}
    assert GOALS.keys() == kinds - {"Goal", "GoalReturn", "GoalSequence"}
    for phrase, lines in GOALS.values():
        assert [each for line in lines for each in extract_feedback_lines(line)] == list(lines)
        assert extract_feedback_lines(f"These kinds of goals were reached: {phrase}.") == []


def reflector(plan, *results, wrong=""):
    given = {"transcript": render_transcript(results[0].trajectory)}
    return build_feedback("reflector", given, dspy.Prediction(mistakes=wrong, plan=plan), results)


@pytest.mark.parametrize(
    ("acts", "verdict"),
    [
        ([("pick up fern", 25), ("focus on fern", 67)], "better"),
        ([("pick up fern", 25), ("focus on fern", -150)], "better on the way and worse in the end"),
        ([("pick up fern", 17), ("wait", 0)], "no better and no worse"),
        ([("pick up fern", 17), ("focus on fern", -150)], "worse"),
        ([("pick up fern", 10), ("wait", 0)], "worse"),
        ([("pick up fern", 17), ("wait", -3)], "worse"),
    ],
)
def test_a_plan_is_judged_by_what_is_left_in_the_end(acts, verdict):
    before = trial(("teleport to greenhouse", 8), ("pick up fern", 17))
    text = reflector("Go.", before, trial(("teleport to greenhouse", 8), *acts, number=2))
    assert re.search(rf"the next one, which read the plan, earned \d+ and ended at -?\d+: {verdict}\.", text)


def test_the_reflector_is_blamed_for_what_it_does_not_name():
    again = trial(("opne door", 0, {"understood": False}), number=2)
    text = reflector("Pick up fern. Do not opne door.", PLAYED, again)
    assert "less was earned and less was lost" in text
    assert "The action focus on rock was a mistake, and the answer does not name it." in text
    assert "The answer names the mistake opne door, and it was made again." in text
    assert "leaves out actions that earned points, such as teleport to greenhouse." in text
    assert any(line.startswith("Always forbid a mistake") for line in extract_feedback_lines(text))
    good = reflector("Teleport to greenhouse. Pick up fern. Do not focus on rock. Do not opne door.", PLAYED)
    assert extract_feedback_lines(good) == []


def test_every_predictor_with_a_rule_has_a_row_of_the_page_and_others_get_the_result_alone():
    page = (Path(__file__).parents[2] / "docs" / "COMPILING.md").read_text(encoding="utf-8")
    feedback = page.partition("\n## Feedback\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([\w.]+)` \|", feedback, re.M)) == RULES.keys() <= ROLE_OF.keys()
    text = build_feedback("planner", {}, dspy.Prediction(), [PLAYED])
    assert text == "Facts:\nTrial 1 was ended by the environment, at -100 of 100 points."


# The digest


def test_a_trial_is_told_in_a_few_lines():
    acts = [
        ("teleport to kitchen", 8),
        *[("wait", 0)] * 12,
        ("opne stove", 0, {"understood": False}),
        *[(f"open box {n}", 0) for n in range(20)],
        ("focus on red box", -150, {"reasoning": "Boxes boil. Notes: searched: kitchen; facts: reading = 3."}),
    ]
    first, *lines = digest_trials([trial(*acts).trajectory, trial(("wait", 0), number=2).trajectory])
    assert first == "Task: Your task is to find a plant."
    assert lines[0].startswith("Trial 1, 35 steps. It began: ")
    assert lines[1] == '1. teleport to kitchen +8 | it thought: "I will teleport to kitchen."'
    assert lines[2] == "2-13. wait x12"
    assert lines[3] == '14. opne stove | "You did opne stove."'
    assert lines[-4].startswith("... left out: ")
    assert lines[-3] == '35. focus on red box -150 | "You did focus on red box." | it thought: "Boxes boil."'
    assert lines[-2] == "Trial 2, 1 steps."
    assert len(lines) == 1 + LINES + 1 + 2


# The metric


def trials(*scores, at_reset=0):
    return record("rsso", "boil", 0, scores, at_reset).trials


def with_invalid(invalid, of):
    """One trial of 50 points in which so many actions were not understood."""
    state = State("", "", "")
    steps = [Step("look", "look", state, 0, 50, understood=number >= invalid) for number in range(of - 1)]
    steps.append(Step("open door", "open door", state, 50, 50, understood=True))
    return (TrialResult(1, Trajectory(VARIANT, 1, "A task.", state, 0, tuple(steps), "budget")),)


@pytest.mark.parametrize(
    ("scores", "at_reset", "worth"),
    [
        ([[50, 0, 50, 100]], 0, 0.9992),
        ([[50, -100], [20, 100]], 0, 0.75 * 0.9996 + 0.25 * 0.50),  # a collapse of trial 1 is seen
        ([[90, 99]], 0, 0.9),
        ([[10, 30], [40]], 0, 0.75 * 0.40 + 0.25 * 0.30),
        ([[30, 30]], 20, 0.30),
        ([[20, 60, -100]], 0, 0.60),  # what was earned is not erased by a wrong ending
        ([[-100]], 0, 0.0),
    ],
)
def test_three_quarters_for_the_best_trial_and_one_for_trial_1(scores, at_reset, worth):
    played = score_trials(trials(*scores, at_reset=at_reset))
    assert played == pytest.approx(worth)
    assert (played >= SOLVED) == (100 in scores[0])


def test_invalid_actions_break_ties_and_no_more():
    clean, clumsy = score_trials(with_invalid(0, of=10)), score_trials(with_invalid(5, of=10))
    assert clean - clumsy == pytest.approx(INVALID_COST / 2)
    assert clean == pytest.approx(0.50)
    assert clumsy > score_trials(trials([40]))


def test_an_error_is_no_score():
    played = TrialResult(1, trajectory(VARIANT, 1, [100]))
    with pytest.raises(RssoError, match="SimulatorDied: gone"):
        score_trials((played, TrialResult(2, None, failure=Failure("SimulatorDied", "gone"))))
    with pytest.raises(RssoError, match="at least one"):
        score_trials(())


def test_the_metric_is_a_number_until_a_predictor_is_named():
    prediction = dspy.Prediction(trials=trials([25]))
    assert metric(None, prediction) == pytest.approx(0.25)
    said = metric(None, prediction, None, "actor", [(None, {"history": ""}, dspy.Prediction(action="look"))])
    assert said.score == pytest.approx(0.25)
    assert "25 of 100 points" in said.feedback
    assert metric(None, None) == 0, "what SIMBA asks about a program that raised"
