"""The interface `complete`: what is shown, how actions are understood, what actors are told."""

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import actions, whole
from rsso_dspy.environments.scienceworld.whole import Parser, Question
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import hash_prompts, make_run_identity, resolve_protocol
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
        ("pour wood cup (containing red paint) in bowl", "pour wood cup containing red paint in bowl"),
        ("**open door**", "open door"),
        ("open door to the hallway (that is open)", "open door to the hallway"),
        ("the cupboard is closed. open cupboard.", "open cupboard"),
        ("focus on the pea plant (in the adult stage with a tall height)", "focus on the pea plant"),
        ("move apple tree in the seed stage to red box", "move apple tree to red box"),
        ("动作：open door。", "open door"),
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
        ("focus on pea plant in the adult stage with a short height", "focus on pea plant"),
        ("look at cup: it is the blue one", "look at cup"),
        ("open door, then wait", "open door"),
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
        ("1:\tpour cup (in studio) in bowl (in table, in studio)", "1"),
        ("pour cup (in inventory, in agent, in studio) in bowl (in table, in studio)", "2"),
        ("pour cup in inventory in bowl", "2"),
        ("pour cup containing red paint in bowl", "0"),
        ("I don't want option 0", None),
        ("0 - no, 1", None),
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


def test_another_action_takes_the_question_back_and_is_carried_out():
    simulator = Scripted(cancel="Unknown action.", open_door="The door is now open.")
    done = simulator.parser().take("open door", Question(CUPS, LOOK, CARRIED))
    assert (simulator.sent, done.sent) == (["cancel", "open door"], "open door")
    assert simulator.parser().take("none", Question(CUPS, LOOK, CARRIED)).sent == "cancel"


def test_folders_are_bound_to_the_prompts_of_their_interface():
    config = load_config(overrides=["protocol.preset=sso-adapt/2"])
    assert hash_prompts(config.active_benchmark, "complete") != hash_prompts(config.active_benchmark)
    assert make_run_identity(config, resolve_protocol(config))["prompts"] == hash_prompts(config.active_benchmark)


def test_an_actor_is_shown_the_interface_of_the_rules(live):
    engine = scripted(["open cupboard"] * 12)
    with acting(live, lambda *_: model(engine), rules=TrialRules(1, interface="complete"), budget=lambda _: 12):
        (trial,) = Agent("react-sso")(variant=REWARDED).trials
    first, last = engine.prompts[0], engine.prompts[-1]
    assert "use OBJ on OBJ" in region(first, "action_templates")
    assert "Subgoal" not in first
    assert last.startswith(first), "nothing that was said changes"
    assert trial.shown["action_templates"] == region(first, "action_templates")
