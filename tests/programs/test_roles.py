"""What the roles beside the actor are shown, on trajectories made by hand."""

from contextlib import contextmanager
from dataclasses import replace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES, USUAL
from rsso_dspy.environments.scienceworld.environment import render_listings
from rsso_dspy.memory.constitution import Constitution, PartialEpisode
from rsso_dspy.memory.skills import Window
from rsso_dspy.offline.reflector import parse_transcript
from rsso_dspy.offline.writers import parse_excerpts
from rsso_dspy.programs import render
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.constitution_writer import ConstitutionWriter
from rsso_dspy.programs.render import is_transcript_of, render_recent_steps, render_transcript, tell_outcome
from rsso_dspy.programs.skill_verbalizer import SkillVerbalizer, filter_instructions, render_excerpts
from rsso_dspy.records import State, Step, Trajectory, Variant
from rsso_dspy.signatures import NameTarget
from tests.live import REWARDED, Engine, acting, model, region, says, walks

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

TRANSCRIPT = """\
This room is called the hall. In it, you see:
	a lamp
You also see:
	A door to the studio (that is open)
You carry: an orange.
Step 1. > teleport to studio
You teleport to the studio.
This room is called the studio. In it, you see:
	a cup (containing red paint)
	a cup (containing blue paint)
	a table. On the table is: {nothing}
Step 2. > pour cup in cup
You pour the cup into the cup.
You also observe:
	a cup (empty)
You carry: a rag.
Step 3. > teleport to hall
You teleport to the hall.
This room is called the hall. In it, you see:
	a lamp
You also see:
	A door to the studio (that is open)
Step 4. > teleport to studio
You teleport to the studio.
This room is called the studio. In it, you see:
	a cup (containing red paint)
	a cup (empty)
	a table. On the table is: {nothing}
Step 5. > focus on cup
{asked}
Step 6. > 1
You focus on the cup.""".format(nothing=("nothing. " * 15).strip(), asked=ASKED)

OUTCOME = (
    "Step 6, 1 (focus on cup (in studio)), ended the attempt for good: it was the wrong choice (-158 points, to -100 "
    "of 100). Until then it had 58 of 100 points: 8 held at the beginning, +30 at step 1, +20 at step 2."
)


def test_a_transcript_shows_what_the_actor_saw():
    assert render_transcript(FAILED, render_listings) == TRANSCRIPT
    for text in (TRANSCRIPT, render_transcript(FAILED)):
        assert is_transcript_of(text, FAILED)
        assert not is_transcript_of(text, replace(FAILED, steps=STEPS[:-1]))


def test_a_room_that_looks_as_it_did_is_not_listed_again():
    again = (*STEPS[:5], step("teleport to hall", STEPS[2].state), step("teleport to studio", STEPS[3].state))
    told = render_transcript(replace(FAILED, steps=again), render_listings)
    assert told.endswith(
        "Step 7. > teleport to studio\nYou teleport to the studio.\n(All that is in sight is as it was after step 4.)"
    )


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


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (tell_outcome(FAILED), OUTCOME),
        (
            ending("solved", 0, 92, at_reset=8),
            "Solved: step 2, wait, completed the task. Points: 8 held at the beginning, +92 at step 2.",
        ),
        (
            ending("budget", 10, 0, 0, 0),
            "The attempt ended with the task undone, at 10 of 100 points: +10 at step 1. The last 3 steps earned "
            "nothing.",
        ),
        (ending("budget", 0), "The attempt ended with the task undone, at 0 of 100 points: no step earned any."),
        (
            ending("failed", 0, 0, at_reset=8),
            "Step 2, wait, ended the attempt for good, at 8 of 100 points: 8 held at the beginning, no step earned "
            "any.",
        ),
        (
            ending("stalled", 5),
            "Step 1, wait, took the game too long, which ended the attempt, at 5 of 100 points: +5 at step 1.",
        ),
        (
            ending("repeated", 5),
            "The attempt was ended because the same action, wait, was repeated too often, at 5 of 100 points: +5 at "
            "step 1.",
        ),
        (ending("budget"), "The attempt was over before its first step."),
    ],
)
def test_an_outcome_is_told_in_plain_words(told, text):
    assert told == text


@pytest.mark.parametrize("shown", [render_listings, None])
def test_the_offline_player_reads_transcripts_of_both_kinds(shown):
    acts = parse_transcript(render_transcript(FAILED, shown), OUTCOME)
    assert [act.text for act in acts] == [each.action for each in STEPS]
    assert [act.gain for act in acts] == [each.reward for each in STEPS]
    assert [act.seen for act in acts] == [each.state.observation for each in STEPS]


# The rule writer.


def asked_of_writer(play):
    engine = Engine(lambda _: says(abstract_rules='["Doors open."]', error_rules="[]", progress_rules="[]"))
    with dspy.context(lm=model(engine), adapter=ChatAdapter()):
        ConstitutionWriter()(play, Constitution(), categories=("abstract", "error"))
    return engine.prompts[0]


def test_a_writer_is_told_the_outcome_once_there_is_one():
    play = PartialEpisode(FAILED.variant, FAILED.task, FAILED.states, STEPS, render=render_listings)
    within, after = (asked_of_writer(each) for each in (play, replace(play, ended=FAILED)))
    assert region(within, "outcome") is None
    assert "earned" not in within
    assert region(after, "outcome") == OUTCOME
    assert region(within, "transcript") == region(after, "transcript") == TRANSCRIPT
    assert "rogress" not in after.partition("<user>")[0]
    before = asked_of_writer(replace(play, render=None))
    assert region(before, "transcript") == render_recent_steps(FAILED.states, STEPS)


# The verbalizer.


def window(things: tuple[str, ...], after: tuple[str, ...], said: str = "You pour.") -> Window:
    first, last = state("You look.", studio(*things)), state(said, studio(*after))
    return Window(0, 0, 3, (first, state("The cup is here.", studio(*things)), last), ("look", "pour"), (0, 0, 9))


ALIKE = window(CUPS, (CUPS[0], "a cup (empty)")), window((*CUPS, "a rag"), (CUPS[0], "a cup (empty)", "a rag"))

WHOLE = """\
Excerpt 1
Initial state:
You look.
{studio}
In your inventory, you see:
	an orange
Action 1: look
Observation 1: The cup is here.
Action 2: pour
Observation 2: You pour.
Final state, where it is not as the initial state:
	a cup (empty)
No longer there:
	a cup (containing blue paint)

Excerpt 2
(What is as in excerpt 1 is left out.)
Initial state:
	a rag
Action 1: look
Action 2: pour"""


def test_excerpts_say_each_thing_once():
    assert render_excerpts(ALIKE) == WHOLE.format(studio=studio(*CUPS))
    assert "Initial state" not in render_excerpts(ALIKE, "actions")
    assert "Final state" not in render_excerpts(ALIKE, "actions")
    ends = render_excerpts(ALIKE, "ends")
    assert "Action 1" not in ends
    assert ends.count("Action 2: pour") == 2
    moved = window(CUPS, ())
    moved = replace(moved, states=(*moved.states[:2], STEPS[2].state))
    assert "Final state:\nThis room is called the hall. In it, you see:\n\ta lamp\n" in render_excerpts([moved])


@pytest.mark.parametrize("part", ["whole", "actions", "ends"])
def test_the_offline_player_reads_what_is_not_said_again(part):
    first, second = parse_excerpts(render_excerpts(ALIKE, part))
    assert first == second
    assert first.observations[-1] == "You pour."


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


@pytest.mark.parametrize(
    ("written", "templates", "kept"),
    [
        ("answer the question with the number of that container", USUAL, True),
        ("choose the option for the cup in your inventory", USUAL, True),
        ("answer 1", USUAL, True),
        ("answer politely", USUAL, False),
        ("answer the question with the number of that container", ACTION_TEMPLATES, False),
    ],
)
def test_an_answer_is_an_instruction_where_the_templates_know_answers(written, templates, kept):
    templates = templates if "Templates:" in templates else f"{templates}\nTemplates:\nmix CONTAINER"
    assert filter_instructions(["mix CONTAINER", written], templates, ["mix cup"])[1:] == ((written,) if kept else ())


@pytest.mark.parametrize("answer", ["The target state is: {}", "**The target is:** {}", "Target: {}", "{}"])
def test_a_target_in_a_sentence_is_read_at_once(answer):
    said = "The cup holds one new paint." if answer == "{}" else "The cup holds one new paint (e.g. violet)."
    assert ChatAdapter().parse(NameTarget, answer.format(said)) == {"target": said}


class Lending:
    """The session's simulators, and whether one is lent."""

    def __init__(self, pool):
        self.pool, self.lent = pool, False

    @contextmanager
    def lease(self):
        with self.pool.lease() as environment:
            self.lent = True
            yield environment
            self.lent = False


def test_a_memory_learns_while_the_simulator_is_still_its_own(live):
    """Else another trial may have changed the templates, the task and the focus that the roles ask it for."""
    pool, seen = Lending(live.runtime.environments), []

    def reflect(_prompt):
        seen.append(pool.lent)
        return says(what_went_wrong="All.", plan="Do better.")

    def lm(role, rollout):
        return walks(live)[0](role, rollout) if role == "actor" else model(Engine(reflect))

    rules = replace(live.runtime.rules, trials=2, interface="complete")
    with acting(live, lm, rules=rules, environments=pool):
        Agent("reflexion")(variant=REWARDED)
    assert seen == [True]
