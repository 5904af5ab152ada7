"""The offline player: what stands in the prompt, and nothing else, decides what it does, in every process alike."""

import os
import subprocess
import sys

import dspy
import pytest
from dspy.lm15 import Config, Message, Request

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.offline import Explorer
from rsso_dspy.offline.advice import read_advice
from rsso_dspy.offline.offered import answer_offered
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, Turn
from rsso_dspy.signatures import (
    ErrorRule,
    FlatActor,
    JudgeEquivalence,
    NameTarget,
    Reflect,
    SkillActor,
    SummarizeConstitution,
    SummarizeSkill,
    WriteInstructions,
    WriteRules,
)
from tests.offline.conftest import ADAPTERS, HALLWAY, KITCHEN, REGIONS

BARE = {"constitution": None, "plans_from_past_attempts": None, "progress": None}


@pytest.mark.parametrize(
    "tell",
    [
        lambda action: {"plans_from_past_attempts": [f"Attempt 1: Nothing was found.\nDo not {action}."]},
        lambda action: {"constitution": [f"Never {action}."]},
        lambda action: {"signature": FlatActor.with_instructions(f"{FlatActor.instructions}\nDo not {action}.")},
        lambda action: {"history": [(HALLWAY, action)], "observation": "No known action matches that input."},
    ],
    ids=["reflection", "constitution", "instruction", "failure"],
)
def test_one_line_changes_the_action(ask, tell):
    bare = ask(FlatActor, **BARE).action
    given = {"signature": FlatActor} | BARE | tell(bare)
    assert ask(given.pop("signature"), **given).action != bare


def test_a_plan_is_followed_step_by_step(ask):
    plan = ["Attempt 1: Too slow.\nRepeat what earned 8 points: teleport to bedroom; open closet; pick up mattress."]
    first = ask(FlatActor, constitution=None, plans_from_past_attempts=plan)
    seen = "You teleport to the bedroom.\nYou also observe:\n\ta closet. the closet door is closed\n\ta mattress"
    told = {"plans_from_past_attempts": plan, "history": [(HALLWAY, first.action)], "observation": seen}
    second = ask(FlatActor, constitution=None, **told)
    assert (first.action, second.action) == ("teleport to bedroom", "open closet")


def test_one_line_of_a_skill_changes_the_action_and_the_subgoal(ask):
    skill = "Subgoal 1: The closet is open.\n1. teleport to bedroom\n2. open closet"
    before = ask(SkillActor, **BARE, skills=[skill])
    after = ask(SkillActor, **BARE, skills=[skill.replace("bedroom", "workshop")])
    assert (before.action, before.subgoal) == ("teleport to bedroom", "The closet is open.")
    assert after.action == "teleport to workshop"


def test_a_demonstration_changes_the_action(ask):
    bare = ask(FlatActor, **BARE).action
    others = {"teleport to workshop", "teleport to kitchen", "teleport to bedroom"} - {bare}
    for other in sorted(others):
        demo = dspy.Example(
            task=REGIONS["task"], action_templates="", observation=HALLWAY, thought="There it is.", action=other
        )
        assert ask(FlatActor, **BARE, demos=[demo]).action == other


def test_a_question_of_the_world_is_answered_with_a_number(ask):
    question = (
        "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
        "0:\topen box (in kitchen)\n1:\topen box (in drawer, in kitchen)"
    )
    said = ask(FlatActor, **BARE, history=[(KITCHEN, "open box")], observation=question)
    assert said.action in {"0", "1"}


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
    assert {done.text: weight > 0 for done, weight in read_advice(text)} == expected


# Other benchmarks

FORMS = "Some words.\nTemplates:\nturn left\ngo to NAME N\npickup NAME N\ncheck available actions"
SEES = "There is a red ball 1 right in front of you 2 steps away.  There is a grey key 1 3 steps in front of you."
ASKS = "Templates:\nmove from ROOM to ROOM\ncheck valid actions"


def act(
    seen: str = SEES, templates: str = FORMS, task: str = "go to the red ball", told: str = "", listed: str = "",
    before: tuple[Turn, ...] = (),
) -> str | None:  # fmt: skip
    regions = {"task": task, "action_templates": templates, "possible_actions": listed}
    regions["plans_from_past_attempts"] = told
    prompt = ParsedPrompt("", {"action": False}, False, regions, (*before, Turn(seen)))
    answer = answer_offered(prompt, SeededNoise(0, 0.0))
    return answer and answer["action"]


LISTED = {"listed": "turn left; pickup grey key 1; go to red ball 1", "templates": ""}
ASKED = {
    "before": (Turn(SEES, "-", "check available actions"),),
    "seen": "You can take the following actions: turn left, pickup grey key 1, go to red ball 1",
}


@pytest.mark.parametrize(
    ("given", "does"),
    [
        ({"templates": "Templates:\nlook around\nteleport to LOCATION"}, None),
        ({}, "check available actions"),
        (ASKED, "go to red ball 1"),
        (LISTED, "go to red ball 1"),
        ({**LISTED, "task": "pick up the key"}, "pickup grey key 1"),
        ({"seen": "Robby is at rooma.", "templates": ASKS}, "check valid actions"),
        ({**ASKED, "task": "win", "told": "Attempt 1: pickup grey key 1."}, "pickup grey key 1"),
        ({**LISTED, "task": "win", "told": "Attempt 1: Do not turn left."}, "pickup grey key 1"),
    ],
)  # fmt: skip
def test_it_tries_what_is_offered_the_words_of_the_task_first(given, does):
    assert act(**given) == does


# Forms of prompts and answers

EXPECTED = {
    FlatActor: lambda p: p.action and p.thought,
    SkillActor: lambda p: p.action == "teleport to kitchen" and p.subgoal == "The fridge is open.",
    Reflect: lambda p: "focus on thermometer" in p.plan and "red box" in p.what_went_wrong,
    SummarizeSkill: lambda p: p.summary and 2 <= len(p.skill_name.split()) <= 5,
    WriteInstructions: lambda p: p.steps == ["teleport to LOCATION", "pick up cup"],
    NameTarget: lambda p: "cup" in p.target,
    JudgeEquivalence: lambda p: p.equivalent == [2],
    WriteRules: lambda p: any("open cupbord" in rule.mistake for rule in p.error_rules) and p.abstract_rules,
    SummarizeConstitution: lambda p: (
        p.abstract_rules == ["Doors open.", "Water boils."]
        and p.error_rules == [ErrorRule(mistake="open wall", solution="open the door")]
    ),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("signature", EXPECTED, ids=lambda signature: signature.__name__)
def test_answer_is_parsed_and_means_something(ask, signature, adapter):
    assert EXPECTED[signature](ask(signature, adapter=adapter))


# Determinism

SCRIPT = """
import sys
from rsso_dspy.offline import Explorer
from tests.offline.test_player import request
print(Explorer(5).complete(request()).message.text)
print("heavy:", sorted({"litellm", "torch"} & set(sys.modules)))
"""


def request(temperature=1.0, **regions):
    given = {name: regions.get(name, REGIONS.get(name, "")) for name in SkillActor.input_fields}
    given["history"] = dspy.History(messages=[])
    system, user = (message["content"] for message in ChatAdapter().format(SkillActor, [], given))
    return Request(model="x", system=system, messages=(Message.user(user),), config=Config(temperature=temperature))


def said(seed, temperature=1.0, **regions):
    return Explorer(seed).complete(request(temperature, **regions)).message.text


def test_no_hash_seed_changes_the_answer_and_nothing_heavy_is_loaded():
    outputs = []
    for hash_seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
        )
        outputs.append(done.stdout)
    assert len(set(outputs)) == 1
    assert outputs[0] == f"{said(5)}\nheavy: []\n"


def test_seeds_differ_when_warm_and_agree_when_cold():
    quiet = {"skills": [], "plans_from_past_attempts": []}
    assert len({said(seed, 2.0, **quiet) for seed in range(12)}) > 1
    assert len({said(seed, 0.0, **quiet) for seed in range(12)}) == 1
