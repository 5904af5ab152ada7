"""Answers that lack what decides nothing are read, in both scaffolds alike; what cannot be read is kept and shown."""

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

from rsso_dspy.adapter import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.playing import playing
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import choose_target, first_line, read_answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import TrialResult
from rsso_dspy.signatures import FlatActor, Reflect, SkillActor
from rsso_dspy.store.run_folder import Store
from tests.live import REWARDED, Engine, acting, model, says
from tests.records import record, save

VERBS = frozenset({"teleport", "open", "wait"})


def read(signature, answer, adapter=ChatAdapter):
    with playing(verbs=VERBS):
        try:
            return adapter().parse(signature, answer)
        except AdapterParseError:
            return None


@pytest.mark.parametrize("adapter", [ChatAdapter, JSONAdapter, XMLAdapter])
@pytest.mark.parametrize(
    ("answer", "why", "action"),
    [
        ("teleport outside", "", "teleport outside"),
        ("**Teleport outside.**", "", "Teleport outside"),
        ("`open door`", "", "open door"),
        ("Action: teleport outside", "", "teleport outside"),
        ('{"action": "teleport outside"}', "", "teleport outside"),
        ('{"reasoning": "Animals.", "action": "teleport outside"}', "Animals.", "teleport outside"),
        ("[[ ## action ## ]]\nteleport outside", "", "teleport outside"),
        ("[[ ## action ## ]]\nteleport outside [[ ## completed ## ]]", "", "teleport outside"),
        ("Reasoning: Animals.\nNext action: teleport outside", "Animals.", "teleport outside"),
        ("There are animals outside.\n\nteleport outside", "There are animals outside.", "teleport outside"),
        ("2", "", "2"),
        ("<answer>teleport outside</answer>", "", "teleport outside"),
        ("It is closed. So my next action is to open door.", "", "open door"),
        ('It is closed. My next action is "open door".', "", "open door"),
        ("| Why | Next action |\n|---|---|\n| It is closed. | open door |", "", "open door"),
        ("It is closed. Therefore, I will `open door`.", "", "open door"),
        ("Thought: Closed.\nAction: open\nAction Input: door", "Closed.", "open door"),
        ("Thought: Long.\nAction: wait\nAction Input: None", "Long.", "wait"),
        ('{"action": "open", "action_input": "door"}', "", "open door"),
        ('{"name": "open", "parameters": {"OBJ": "door"}}', "", "open(door)"),
        ('{"name": "wait", "arguments": {}}', "", "wait"),
        (
            "[[ ## reasoning ## ]]\nClosed.\n\n[[ ## mood ## ]]\nfine\n\n[[Next Action]]\nopen door",
            "Closed.",
            "open door",
        ),
    ],
)
def test_both_scaffolds_read_alike(adapter, answer, why, action):
    flat, skills = read(FlatActor, answer, adapter), read(SkillActor, answer, adapter)
    assert flat is not None
    assert skills is not None
    assert (flat["thought"], first_line(flat["action"])) == (why, action)
    assert (skills["reasoning"], skills["current_subgoal"], first_line(skills["next_action"])) == (why, "none", action)


@pytest.mark.parametrize(
    "answer",
    [
        "I think the best thing to do is to look for the animals.",
        "I cannot help with that.",
        "Wait, is the door open?",
        "Observation: The door opens.\nopen door",
        "<answer>open door</answer> or <answer>wait</answer>",
        "My next action is not to open door.",
        "I will not `open door`, I will `wait`.",
        "Try `open door` and see.",
        "| Step | Action |\n|---|---|\n| 1 | open door |\n| 2 | wait |",
        "",
    ],
)
def test_prose_is_no_action(answer):
    assert read(FlatActor, answer) is None
    assert read(SkillActor, answer) is None


def test_a_bare_line_is_no_action_where_nobody_says_how_actions_begin():
    with pytest.raises(AdapterParseError):
        ChatAdapter().parse(SkillActor, "teleport outside")


def test_a_plain_reflection_is_a_plan():
    text = "I searched the wrong rooms. Teleport to the kitchen first.\n\nThen focus on the apple."
    assert read(Reflect, text) == {"what_went_wrong": "", "plan": text}
    assert read(Reflect, "Sorry, I cannot help you with this task.") is None
    assert read(Reflect, "What went wrong: circles.\n\nPlan:") is None


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("**Next action:** open door.", "open door"),
        ("1. `open door`", "open door"),
        ("- Action: open door", "open door"),
        ("> wait", "wait"),
        ("My command: wait1.", "wait1"),
        ("2.", "2"),
        ("use thermometer on tin", "use thermometer on tin"),
    ],
)
def test_what_stands_around_an_action_goes(said, action):
    assert first_line(said) == action


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("Subgoal 2: The door is open.", "The door is open."),
        ("subgoal 1", "The box is open."),
        ("2", "The door is open."),
        ("the door is open", "The door is open."),
        ("Subgoal 3", None),
        ("The window is open.", None),
    ],
)
def test_a_subgoal_is_known_by_its_words_or_its_number(said, target):
    targets = ["The box is open.", "The door is open."]
    assert choose_target(said, targets) == target
    answer = read_answer(dspy.Prediction(reasoning="", current_subgoal=said, next_action="wait"), "sso", targets)
    assert answer.rejected == ("" if target else said)


@pytest.mark.parametrize("said", ["none", "None.", "", "N/A", "no subgoal"])
def test_no_subgoal_is_not_a_rejected_one(said):
    assert read_answer(dspy.Prediction(current_subgoal=said, next_action="wait"), "sso", []).rejected == ""


def test_what_could_not_be_read_is_kept_with_the_step(live):
    def answer(prompt):
        if "what_went_wrong" in prompt:
            return "No."
        if "Step #2" in prompt:
            return says(reasoning="", current_subgoal="The moon is full.", next_action="wait1")
        return "I would rather not say."

    with acting(live, lambda *_: model(Engine(answer)), rules=TrialRules(2), budget=lambda _: 2):
        first, _ = Agent("reflexion-sso")(variant=REWARDED).trials
    one, two = first.trajectory.steps
    assert (one.malformed, one.unread) == (True, "I would rather not say.")
    assert (two.rejected, two.unread) == ("The moon is full.", "")
    assert first.unread == {"reflector": ("No.",)}


def test_records_say_nothing_of_what_did_not_happen(tmp_path):
    text = save(Store(tmp_path), record("react", "boil", 22, [[10]])).read_text()
    assert not [name for name in ("unread", "rejected", "asked_back", "no_effect") if f'"{name}"' in text]
    assert TrialResult(1, None).unread == {}
