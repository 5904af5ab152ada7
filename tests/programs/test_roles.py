"""What the roles beside the actor are shown, on trajectories made by hand."""

import re
from dataclasses import replace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.environments.scienceworld.actions import USUAL
from rsso_dspy.environments.scienceworld.environment import render_listings
from rsso_dspy.lm import Listening
from rsso_dspy.memory.constitution import LASTING, Constitution, PartialEpisode
from rsso_dspy.memory.skill_windows import Window
from rsso_dspy.programs import render
from rsso_dspy.programs.constitution_writer import ConstitutionWriter
from rsso_dspy.programs.render import is_transcript_of, render_recent_steps, render_transcript, tell_outcome
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.programs.skill_verbalizer import SkillVerbalizer, render_excerpts
from rsso_dspy.records import Lesson, State, Step, Trajectory, Variant
from tests.live import Engine, model, region, says

CUPS = "a cup (containing red paint)", "a cup (containing blue paint)"
HALL = "This room is called the hall. In it, you see: \n\ta lamp\nYou also see:\n\tA door to the studio (that is open)"


def studio(*things: str) -> str:
    return "This room is called the studio. In it, you see: \n\t" + "\n\t".join(
        [*things, "a table. On the table is: " + "nothing. " * 15]
    )


def state(said: str, look: str, carried: str = "an orange") -> State:
    return State(said, look, f"In your inventory, you see:\n\t{carried}")


def step(action: str, seen: State, reward: int = 0, score: int = 0) -> Step:
    return Step(action, action, seen, reward, score, True)


START = state("This room is called the hall.", HALL)
ASKED = "Ambiguous request: Please enter the number:\n0:\tfocus on cup (in studio)\n1:\tfocus on cup (in studio)"
STEPS = (
    step("teleport to studio", state("You teleport to the studio.", studio(*CUPS)), 30, 38),
    step("pour cup in cup", state("You pour the cup into the cup.", studio(CUPS[0], "a cup (empty)"), "a rag"), 20, 58),
    step("teleport to hall", state("You teleport to the hall.", HALL, "a rag"), 0, 58),
    step("teleport to studio", state("You teleport to the studio.", studio(CUPS[0], "a cup (empty)"), "a rag"), 0, 58),
    step("focus on cup", state(ASKED, studio(CUPS[0], "a cup (empty)"), "a rag"), 0, 58),
    step("1", state("You focus on the cup.", studio(CUPS[0], "a cup (empty)"), "a rag"), -158, -100),
)
FAILED = Trajectory(Variant("mix", 1, "train"), 1, "Your task is to mix.", START, 8, STEPS, "failed")

OUTCOME = (
    "Step 6, 1 (focus on cup (in studio)), ended the attempt for good: it was the wrong choice (-158 points, to -100 "
    "of 100). Until then it had 58 of 100 points: 8 held at the beginning, +30 at step 1, +20 at step 2."
)


def test_a_transcript_says_what_is_as_it_was_and_is_known_as_one():
    for text in (render_transcript(FAILED, render_listings), render_transcript(FAILED)):
        assert is_transcript_of(text, FAILED)
        assert not is_transcript_of(text, replace(FAILED, steps=STEPS[:-1]))
    again = (*STEPS[:5], step("teleport to hall", STEPS[2].state), step("teleport to studio", STEPS[3].state))
    told = render_transcript(replace(FAILED, steps=again), render_listings)
    assert told.endswith("studio.\n(All that is in sight is as it was after step 4.)")


def test_what_was_in_sight_longest_ago_is_left_out_first(monkeypatch):
    monkeypatch.setattr(render, "LONGEST_SIGHTS", 300)
    told = render_recent_steps(FAILED.states, STEPS, render_listings)
    assert "You carry: an orange.\n(What was in sight is left out up to step 1.)\nStep 1." in told
    assert "Step 1. > teleport to studio\nYou teleport to the studio.\nStep 2." in told
    assert told.count("This room is called the studio") == 1
    for number, each in enumerate(STEPS, start=1):
        assert f"Step {number}. > {each.action}\n{each.state.observation}" in told


def ending(outcome, *rewards, at_reset=0):
    score, steps = at_reset, []
    for reward in rewards:
        score += reward
        steps.append(step("wait", STEPS[0].state, reward, score))
    return tell_outcome(Trajectory(FAILED.variant, 1, "", START, at_reset, tuple(steps), outcome))


UNDONE = "The attempt ended with the task undone, at"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (tell_outcome(FAILED), OUTCOME),
        (ending("solved", 8), "Solved: step 1, wait, completed the task. Points: +8 at step 1."),
        (ending("budget", 10, 0, 0, 0), f"{UNDONE} 10 of 100 points: +10 at step 1. The last 3 steps earned nothing."),
        (ending("budget", 0), f"{UNDONE} 0 of 100 points: no step earned any."),
        (
            ending("failed", 0, at_reset=8),
            "Step 1, wait, ended the attempt for good, at 8 of 100 points: 8 held at the beginning, no step earned "
            "any.",
        ),
        (ending("budget"), "The attempt was over before its first step."),
    ],
)
def test_an_outcome_is_told_in_plain_words(told, text):
    assert told == text


# The writer of constitutions.


@pytest.mark.parametrize(("longest", "written", "merged"), [(None, ["Doors open.", "Wat"], 2), (5, ["Doors open."], 0)])
def test_the_rule_in_which_an_answer_was_cut_off_is_left_out_and_a_summary_that_was_is_none(longest, written, merged):
    answer = says(abstract_rules="\n- Doors open.\n- Wat", error_rules="none")
    writer, ledger = ConstitutionWriter(), TrialLedger(lambda _role, _usage: None)
    known = Constitution().with_lessons([Lesson("abstract", "Water boils.")], "mix", "mix::1")
    lm = model(Engine(lambda _: answer)).copy(max_tokens=longest)
    with dspy.context(lm=lm, adapter=Listening(ChatAdapter())), ledger.book_under_role("advisor"):
        lessons = writer(PartialEpisode("task", [START], []), known, categories=LASTING).lessons
        assert [lesson.text for lesson in lessons] == written
        assert len(writer.shorten(known).lessons) == merged


# The verbalizer.


def window(things: tuple[str, ...], after: tuple[str, ...], said: str = "You pour.") -> Window:
    first, last = state("You look.", studio(*things)), state(said, studio(*after))
    return Window(0, 0, 3, (first, state("The cup is here.", studio(*things)), last), ("look", "pour"), (0, 0, 9))


ALIKE = window(CUPS, (CUPS[0], "a cup (empty)")), window((*CUPS, "a rag"), (CUPS[0], "a cup (empty)", "a rag"))


def test_excerpts_say_each_thing_once():
    whole = render_excerpts(ALIKE)
    assert whole.count(studio(*CUPS)) == whole.count("a cup (empty)") == 1
    assert whole.endswith("left out.)\nInitial state:\n\ta rag\nAction 1: look\nAction 2: pour")
    assert not re.search("(Initial|Final) state", render_excerpts(ALIKE, "actions"))
    ends = render_excerpts(ALIKE, "ends")
    assert ("Action 1" in ends, ends.count("Action 2: pour")) == (False, 2)
    moved = window(CUPS, ())
    moved = replace(moved, states=(*moved.states[:2], STEPS[2].state))
    assert "Final state:\nThis room is called the hall. In it, you see:\n\ta lamp\n" in render_excerpts([moved])


def test_no_call_of_the_verbalizer_is_sent_what_it_does_not_need():
    answers = iter([says(summary="s", skill_name="pour it"), "- answer the question with the number of the cup"])
    engine = Engine(lambda _: next(answers, "The target state is: the cup holds a paint (e.g. violet)."))
    with dspy.context(lm=model(engine), adapter=ChatAdapter()):
        skill = SkillVerbalizer()(list(ALIKE), f"{USUAL}\nTemplates:\npour OBJ in CONTAINER").skill
    assert skill.instructions == ("answer the question with the number of the cup",)
    assert skill.target == "the cup holds a paint (e.g. violet)."
    assert [region(prompt, "examples") for prompt in engine.prompts] == [
        render_excerpts(ALIKE, part) for part in ("whole", "actions", "ends")
    ]
