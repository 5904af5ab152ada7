"""The interface `complete`: what is shown, how actions are understood, what actors are told."""

from dataclasses import replace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import load_config
from rsso_dspy.environments import choose_interface, list_verbs
from rsso_dspy.environments.scienceworld import actions, tasks, whole
from rsso_dspy.environments.scienceworld.environment import render_listings
from rsso_dspy.environments.scienceworld.whole import Parser, Question, did_nothing
from rsso_dspy.memory.skills import Skill
from rsso_dspy.memory.skills.retrieve import just_reached, render_skills
from rsso_dspy.memory.skills.skill import SkillScores, Window
from rsso_dspy.playing import playing
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.render import render_history
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import PRESETS, hash_prompts, interface_of, make_run_identity, resolve_protocol
from rsso_dspy.records import State, Step
from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.complete import speak_completely
from tests.live import REWARDED, acting, model, region, scripted

SEEN = (
    "This room is called the workshop. In it, you see: a substance called tin a wood cup (containing red paint) "
    "a wood cup (containing blue paint) a recipe titled instructions to make rust a door to the hallway (that is open) "
    "a stove, which is turned off. on the stove is: nothing. "
    "a flower pot 3 (containing a pea plant in the adult stage with a tall height, soil) "
    "a apple tree in the seed stage"
)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("focus on substance called tin", "focus on tin"),
        ("use thermometer on a substance called tin.", "use thermometer on tin"),
        ("pour wood cup (containing red paint) in bowl", "pour wood cup containing red paint in bowl"),
        ("read recipe titled instructions to make rust", "read recipe"),
        ("pick up unknown substance b.", "pick up unknown substance b"),
        ("**open door**", "open door"),
        ("next action: open door", "open door"),
        ("wait (to see what happens)", "wait"),
        ("open door to the hallway (that is open)", "open door to the hallway"),
        ("open cupboard. that shows what is in it.", "open cupboard"),
        ("the cupboard is closed. open cupboard.", "open cupboard"),
        ("it takes time. wait.", "wait"),
        ("turn on the stove", "activate stove"),
        ("activate stove, which is turned off", "activate stove"),
        ("pour cup into bowl", "pour cup in bowl"),
        ("focus on pea plant in the adult stage with a tall height.", "focus on pea plant"),
        ("focus on the pea plant (in the adult stage with a tall height)", "focus on the pea plant"),
        ("move apple tree in the seed stage to red box", "move apple tree to red box"),
        ('focus on the "yellow box"', "focus on the yellow box"),
        ("i will open door", "open door"),
        ("i’ll open door.", "open door"),
        ("let's open door", "open door"),
        ("i should open door now.", "open door"),
        ("please open door", "open door"),
        ("first, open door", "open door"),
        ("now open door", "open door"),
        ("the door is closed. so i will open door.", "open door"),
        ("final answer: open door", "open door"),
        ("agent: open door", "open door"),
        ("so my next action is to open door.", "open door"),
        ("open door because it leads on", "open door"),
        ("open door, because it leads on.", "open door"),
        ("open door - to see what is behind", "open door"),
        ("open door — to see what is behind", "open door"),
        ("open door: this gets me closer", "open door"),
        ("open door # next", "open door"),
        ("open door in order to go on", "open door"),
        ("i'll open door so that i can go on", "open door"),
        (r"\boxed{open door}", "open door"),
        ("<b>open door</b>", "open door"),
        ("<answer>open door</answer>", "open door"),
        ("<open door>", "open door"),
        ("«open door»", "open door"),
        ("[open door]", "open door"),
        ("🚀 open door", "open door"),
        ("look-at tin", "look at tin"),
        ("look_around()", "look around"),
        ("pick wood cup up", "pick up wood cup"),
        ("look at thermometer in my inventory", "look at thermometer in inventory"),
        ("look at thermometer from my inventory", "look at thermometer in inventory"),
        ("open obj door", "open door"),
        ("teleport location kitchen", "teleport kitchen"),
        ("focus on: wood cup", "focus on wood cup"),
        ("move: cup to table", "move cup to table"),
        ("i open door.", "open door"),
        ("i see what i need, so i will open door.", "open door"),
        ("since it leads on, open door.", "open door"),
        ("a) open door", "open door"),
        ("动作：open door。", "open door"),
        ("open door<|im_end|>", "open door"),
        (r"$\boxed{\text{open door}}$", "open door"),
        ('use("thermometer", "tin")', "use thermometer on tin"),
        ('pick_up(object="wood cup")', "pick up wood cup"),
        ("pour(red paint, wood_cup)", "pour red paint in wood cup"),
        ("pickup wood_cup", "pick up wood cup"),
        ("switch on stove", "activate stove"),
        ("<next_action>open door</next_action>", "open door"),
        ("the agent should open door", "open door"),
        ("open door to get closer to the goal", "open door"),
        ("enter the kitchen", "go to kitchen"),
        ("inspect tin", "look at tin"),
        ("look around the room", "look around"),
        ("place thermometer in inventory inside cup", "put thermometer in inventory in cup"),
    ],
)
def test_an_action_is_tried_as_it_was_meant(said, meant):
    assert meant in list(whole.wordings(said, SEEN))


@pytest.mark.parametrize(
    ("said", "never"),
    [
        ("focus on wood cup (containing green paint)", "focus on wood cup"),
        ("focus on cup (the sharp one)", "focus on cup"),
        ("read recipe titled instructions to make gold", "read recipe"),
        ("open door. no, focus on tin", "open door"),
        ("focus on tin (not yet)", "focus on tin"),
        ("focus on pea plant in the seed stage", "focus on pea plant"),
        ("focus on pea plant in the adult stage with a short height", "focus on pea plant"),
        ("look at wire - red", "look at wire"),
        ("look at cup # red", "look at cup"),
        ("look at cup: it is the blue one", "look at cup"),
        ("open door, then wait", "open door"),
        ("open door because i can then focus on tin", "open door"),
        ("i will not open door", "open door"),
        ("i should open door - no, wait", "open door"),
        ("let's not open door", "open door"),
        ("i cannot open door", "open door"),
        ("since i should not open door, wait", "open door"),
        ("i open door, so i will wait", "wait"),
    ],
)
def test_no_wording_means_anything_else(said, never):
    assert never not in list(whole.wordings(said, SEEN))


class Scripted:
    """A simulator that knows some texts."""

    def __init__(self, **answers):
        self.answers = {name.replace("_", " "): said for name, said in answers.items()}
        self.sent = []

    def act(self, text):
        self.sent.append(text)
        return self.answers.get(text, actions.NOT_KNOWN)

    def parser(self, valid=()):
        return Parser(self.act, lambda: ("", ""), lambda: valid)


@pytest.mark.parametrize("said", ["reset task", "reset (the) task.", "**reset task**", "reset task (please)"])
def test_no_repair_sends_what_sets_the_task_back(said):
    simulator = Scripted()
    simulator.parser(["reset task"]).take(said, None)
    assert not any(actions.is_task_reset(sent) for sent in simulator.sent)


CUPS = f"{actions.AMBIGUOUS} Please enter the number\n0:\tpour cup (in studio) in bowl (in table, in studio)\n" + (
    "1:\tpour cup (in studio) in bowl (in table, in studio)\n2:\tpour cup (in inventory, in agent, in studio) in bowl "
    "(in table, in studio)\n"
)
LOOK = (
    "This room is called the studio. In it, you see: \n\ta cup (containing red paint)\n\ta cup (containing nothing)\n"
)
CARRIED = "In your inventory, you see:\n\ta cup (containing milk)\n"


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("1", "1"),
        ("option 2", "2"),
        ("Answer: 0", "0"),
        ("2.", "2"),
        ("1:\tpour cup (in studio) in bowl (in table, in studio)", "1"),
        ("I choose option 1.", "1"),
        ("pour cup (in inventory, in agent, in studio) in bowl (in table, in studio)", "2"),
        ("pour cup in inventory in bowl", "2"),
        ("pour cup containing red paint in bowl", "0"),
        ("7", None),
        ("mix cup 1", None),
        ("look around", None),
        ("pour cup in bowl", None),
        ("2nd", "1"),
        ("the 1st option", "0"),
        ("the second", "1"),
        ("the last one", "2"),
        ("the third option, please", "2"),
        ("the 4th option", None),
        ("not 1", None),
        ("not 0, the sink one", None),
        ("I don't want option 0", None),
        ("I don’t want option 0, but option 1", "1"),
        ("Option 0 is wrong, so option 2", "2"),
        ("I pick 1, not 0", "1"),
        ("1 (not 0)", "1"),
        ("0 - no, 1", None),
        ("Between 0 and 1, I choose 1", "1"),
        ("0 or 1", None),
        ("I choose 0 or 1", None),
        ("option 1, the first one", None),
        ("I think that 2 fits best", "2"),
        ("Two.", "2"),
        ("option one", "1"),
        ("the one", None),
        ("First, I look around", None),
        ("I will wait1", None),
    ],
)
def test_a_question_is_answered_by_number_or_text(said, number):
    assert Question(CUPS, LOOK, CARRIED).choose(said) == number


def test_options_of_the_same_words_are_told_apart_by_what_the_listing_shows():
    question = Question(CUPS, LOOK, CARRIED)
    assert question.marks == {"0": "cup (containing red paint)", "1": "cup (containing nothing)"}
    shown = "\n1:\tpour cup (in studio) in bowl (in table, in studio): the cup (containing nothing)\n"
    assert shown in question.render_question()
    assert not question.idle


def test_options_that_nothing_tells_apart_are_taken_silently():
    same = f"{actions.AMBIGUOUS} Which?\n0:\tpick up seed (in jar, in studio)\n1:\tpick up seed (in jar, in studio)\n"
    simulator = Scripted(pick_up_seed=same)
    simulator.answers["0"] = "You move the seed to the inventory."
    done = simulator.parser().take("pick up seed", None)
    assert (done.sent, done.answer, done.asks) == ("pick up seed", "You move the seed to the inventory.", None)


def test_another_action_takes_the_question_back_and_is_carried_out():
    simulator = Scripted(cancel="Unknown action.", open_door="The door is now open.")
    done = simulator.parser().take("open door", Question(CUPS, LOOK, CARRIED))
    assert (simulator.sent, done.sent) == (["cancel", "open door"], "open door")
    assert simulator.parser().take("none", Question(CUPS, LOOK, CARRIED)).sent == "cancel"


def test_what_did_nothing_is_told_from_what_was_looked_at():
    assert did_nothing("The door is already open.")
    assert did_nothing("It's not clear how to get there from here.")
    assert not did_nothing("The door is now open.")
    assert not did_nothing("Inside the sink is: \n\tnothing")


ROOM = "This room is called the {}. In it, you see: \n\t{}\nYou also see:\n\tA door to the hall (that is open)"


def _state(said, room, things, carried="an orange"):
    return State(said, ROOM.format(room, "\n\t".join(things)), f"In your inventory, you see:\n\t{carried}\n")


def test_a_room_is_listed_whole_when_it_is_entered_and_looked_at():
    cup, box = "a cup (containing an orange)", "a box"
    told = render_listings(
        [
            _state("You begin.", "kitchen", [box, cup]),
            _state("You open the box.", "kitchen", ["an open box", cup]),
            _state("You move to the hall.", "hall", [cup, cup]),
            _state("This room is called the hall.", "hall", [cup, cup]),
        ],
        "You focus on the cup.",
    )
    assert told[0].startswith("Earlier: You focus on the cup.\nYou begin.\nThis room is called the kitchen.")
    assert told[0].index(f"\t{box}") < told[0].index(f"\t{cup}") < told[0].index("A door")
    assert told[1] == "You open the box.\nYou also observe:\n\tan open box\nYou carry: an orange."
    assert told[2].count(cup) == 2
    assert told[3].count(cup) == 2
    assert all(text.endswith("\nYou carry: an orange.") for text in told)


@pytest.mark.parametrize("scaffold", ["flat", "sso"])
def test_steps_have_the_numbers_of_the_trial(scaffold):
    states = [_state(f"This is moment {number}.", "hall", ["a cup"]) for number in range(14)]
    steps = [Step("wait", "wait", state, 0, 0, True) for state in states[1:]]
    shown = render_history(states, steps, render_listings, scaffold, interface="complete")
    assert shown.startswith("Only the last steps are shown, from step 5 on")
    assert "Step 5:\nThis is moment 4." in shown
    assert shown.count("Step ") == 10
    assert "Current subgoal" not in shown
    assert "Only the last" not in render_history(states[:9], steps[:8], render_listings, scaffold, interface="complete")


def test_both_scaffolds_are_told_the_same_where_no_skill_is_offered():
    flat, skills = (speak_completely(actor, ("skills",)) for actor in (FlatActor, SkillActor))
    assert flat.instructions.split() == skills.instructions.split()
    assert "Do not repeat an action that had no effect." in " ".join(flat.instructions.split())
    assert list(skills.output_fields) == ["reasoning", "next_action"]
    offered = speak_completely(SkillActor, ())
    assert "current_subgoal" in offered.output_fields
    assert offered.instructions.count("Subgoals ") == 2


def test_an_instruction_that_was_compiled_is_the_one_that_is_sent():
    compiled = SkillActor.with_instructions("Win. Subgoals that fit are copied.")
    assert speak_completely(compiled, ()).instructions == compiled.instructions
    assert speak_completely(compiled, ("skills",)).instructions == "Win."


WINDOW = Window(0, 0, 2, (_state("", "hall", ["a cup"]), _state("", "hall", [])), ("open box",), (0, 5))
SKILL = Skill(
    "id",
    "s",
    "Open up",
    ("teleport to hall", "open OBJ"),
    "The box is open.",
    (WINDOW, WINDOW),
    SkillScores(*[0.0] * 6),
)


def test_skills_are_shown_with_name_and_beginning():
    assert render_skills([SKILL], fully=True).text == (
        "Subgoal 1: The box is open.\n  Name: Open up\n  Began: This room is called the hall\n"
        "  1. teleport to hall\n  2. open OBJ"
    )
    assert render_skills([SKILL], fully=True).targets == render_skills([SKILL]).targets
    assert render_skills([], fully=True).text == ""


def test_a_subgoal_just_reached_is_known():
    go = Step("teleport to hall", "teleport to hall", WINDOW.states[0], 0, 0, True, "", SKILL.target, ("id",))
    opened = replace(go, action="open box")
    skills = {"id": SKILL}
    assert not just_reached([go], skills)
    assert just_reached([go, opened], skills) == {"id"}
    assert just_reached([replace(go, reward=5)], skills) == {"id"}
    longer = {"id": replace(SKILL, beyond=1)}
    assert not just_reached([replace(go, reward=5)], longer)
    assert just_reached([replace(go, reward=5), opened], longer) == {"id"}
    assert not just_reached([go, replace(opened, no_effect=True)], skills)
    assert not just_reached([go, opened, *[replace(go, subgoal=None)] * 10], skills)


def test_presets_name_their_interface():
    assert {name: preset.rules.interface for name, preset in PRESETS.items()} == {
        "adapt/2": "complete",
        "adapt/2-cap60": "complete",
        "sso-adapt/1": "sso",
        "sso-adapt/1-cap60": "sso",
        "release": "sso",
        "omnireflect/1": "sso",
        "agentboard/1": "sso",
        "reflexion/1": "sso",
    }
    assert resolve_protocol(load_config()).id == "adapt/2"
    assert resolve_protocol(load_config(overrides=["protocol.interface=sso"])).id == "adapt/2 interface=sso"
    assert interface_of({"preset": "sso-adapt/1"}) == interface_of({}) == "sso"
    assert interface_of({"preset": "sso-adapt/1", "interface": "complete"}) == "complete"


def test_folders_are_bound_to_the_prompts_of_their_interface():
    config = load_config(overrides=["protocol.preset=sso-adapt/1"])
    assert hash_prompts(config.active_benchmark, "complete") != hash_prompts(config.active_benchmark)
    assert make_run_identity(config, resolve_protocol(config))["prompts"] == hash_prompts(config.active_benchmark)
    assert (hash_prompts(config.active_benchmark), hash_prompts(config.active_benchmark, "complete")) == (
        "51e0d00f1fbb",
        "ca40a8a01a01",
    )


def test_an_environment_with_one_interface_has_it_under_both_names():
    class Plain:
        action_templates = "Templates:\npush OBJ\nTURN OBJ"

    choose_interface(Plain(), "complete")
    assert list_verbs(Plain()) == {"push", "turn"}


def test_the_simulator_shows_all_it_offers(env):
    choose_interface(env, "complete")
    try:
        env.reset(tasks.parse("find-plant::229"))
        listed = env.action_templates.partition("Templates:\n")[2].splitlines()
        assert {"use OBJ on OBJ", "look at OBJ", "look around", "wait1", "teleport LOCATION"} <= set(listed)
        assert "reset task" not in listed
        move = env.step("**Focus on the banana tree (in the adult stage).**")
        assert move.state.observation == "You focus on the plant."
        asked = env.step("focus on soil")
        assert asked.asked_back
        assert env.step("open door to hallway").no_effect
    finally:
        choose_interface(env, "sso")
    env.reset(tasks.parse("find-plant::229"))
    assert env.action_templates == actions.ACTION_TEMPLATES


def test_an_actor_is_shown_the_interface_of_the_rules(live):
    engine = scripted(["open cupboard"] * 12)
    with acting(live, lambda *_: model(engine), rules=TrialRules(1, interface="complete"), budget=lambda _: 12):
        (trial,) = Agent("react-sso")(variant=REWARDED).trials
    first, last = engine.prompts[0], engine.prompts[-1]
    assert "use OBJ on OBJ" in region(first, "action_templates")
    assert "current_subgoal" not in first
    assert region(last, "history").startswith("Only the last steps are shown, from step 3 on")
    assert trial.shown["action_templates"] == region(first, "action_templates")


def test_a_call_without_subgoals_can_serve_as_a_demonstration():
    engine = scripted(["open door"])
    with dspy.context(lm=model(engine), adapter=ChatAdapter()), playing(interface="complete"):
        said = dspy.Predict(SkillActor)(task="t", action_templates="Templates:\nopen OBJ", history="h")
    assert "current_subgoal" not in engine.prompts[0]
    assert (said.current_subgoal, said.next_action) == ("none", "open door")
