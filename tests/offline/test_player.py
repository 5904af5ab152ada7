"""The offline player: what stands in the prompt, and nothing else, decides what it does, in every process alike."""

import os
import subprocess
import sys

import dspy
import pytest
from dspy.lm15 import Config, Message, Request

from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.memory.reflections import IMPROVEMENTS
from rsso_dspy.offline import Explorer
from rsso_dspy.offline.advice import read_advice
from rsso_dspy.offline.offered import answer_offered
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, Turn
from rsso_dspy.offline.proposer import HEADING
from rsso_dspy.offline.scene import parse_goals
from rsso_dspy.signatures import ErrorRule, FlatActor, Reflect, SkillActor, SummarizeConstitution, WriteRules
from rsso_dspy.signatures.memory_writers import (
    DistillReflections,
    JudgeEquivalence,
    NameTarget,
    SummarizeSkill,
    WriteInstructions,
    add_reflection_fields,
)

TEMPLATES = "Templates:\nopen OBJ\npick up OBJ\nfocus on OBJ\nmove OBJ to CONTAINER\nteleport LOCATION\nwait"
HALLWAY = """\
This room is called the hallway.
You also observe:
\ta door to the workshop (that is open)
\ta door to the kitchen (that is open)
\ta door to the bedroom (that is open)
\ta picture
\tan orange in your inventory"""
TRANSCRIPT = """\
This room is called the hallway. In it, you see:
\ta picture
You also see:
\tA door to the kitchen (that is open)
\tA door to the bedroom (that is open)
Step 1. > teleport to bedroom
You teleport to the bedroom.
Step 2. > teleport to kitchen
You teleport to the kitchen.
Step 3. > open cupbord
No known action matches that input.
Step 4. > focus on thermometer
You focus on the thermometer.
Step 5. > focus on red box
You focus on the red box."""
OUTCOME = (
    "Step 5, focus on red box, ended the attempt for good: it was the wrong choice (-133 points, to -100 of 100). "
    "Until then it had 33 of 100 points: +8 at step 2, +25 at step 4."
)
EXCERPT = """\
Excerpt {0}
Action 1: teleport to {1}
Observation 1: You teleport to the {1}.
Action 2: pick up {2} cup
Observation 2: You move the {2} cup to the inventory.
Final state:
You move the {2} cup to the inventory."""
REGIONS = {
    "constitution": ["A thermometer measures what it is used on."],
    "plans_from_past_attempts": ["Attempt 1: Nothing was earned.\nDo not teleport to bedroom."],
    "task": "Your task is to find a(n) plant. First, focus on the thing. Then, move it to the red box in the kitchen.",
    "action_templates": TEMPLATES,
    "skills": ["Subgoal 1: The fridge is open.\n1. teleport to kitchen\n2. open fridge"],
    "history": [],
    "observation": HALLWAY,
    "transcript": TRANSCRIPT,
    "outcome": OUTCOME,
    "examples": "\n\n".join(map(EXCERPT.format, "12", ("kitchen", "workshop"), ("red", "blue"))),
    "steps": ["teleport to LOCATION", "pick up cup"],
    "library": "1. Target: A cup is held. Instructions: pick up cup\n2. Target: A door opens. Instructions: open door",
    "new_skill": "Target: a door opens. Instructions: open door",
    "known_never": ["Do not eat soap."],
    "plans": "Attempt 1: Slow. Do not open stove.\n\nAttempt 2: Repeat what earned 10 points: open door.",
    "loops": "Steps 1 to 10: 10 actions were of only 2 kinds: open door, look around.\n"
    "Steps 3 to 4: the same action, wait, 2 times.",
    "gathered_abstract_rules": ["Doors open.", "Doors open!", "Water boils."],
    "gathered_error_rules": [ErrorRule(mistake="open wall", solution="open the door")],
}
BARE = {"constitution": None, "plans_from_past_attempts": None}
ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter, "dspy chat": dspy.ChatAdapter, "dspy json": dspy.JSONAdapter}


def lm(seed=0, temperature=0.0):
    return dspy.LM("embedded/explorer", engine=Explorer(seed), cache=False, temperature=temperature)


def ask(signature, adapter="chat", demos=(), **regions):
    """What the engine answers, parsed. A region given as None is removed from the signature; a history is a list of
    what was seen and the action that followed."""
    for name in [name for name, text in regions.items() if text is None]:
        signature = signature.delete(name)
    given = {name: regions.get(name, REGIONS.get(name, "")) for name in signature.input_fields}
    if "history" in given:
        turns = [{"observation": seen, "thought": "-", "action": action} for seen, action in given["history"]]
        given["history"] = dspy.History(messages=turns)
    with dspy.context(lm=lm(), adapter=ADAPTERS[adapter]()):
        return dspy.Predict(signature)(**given, demos=list(demos))


def propose(seed, lines):
    """What DSPy's own proposer for GEPA makes of feedback texts, one a sample."""
    from dspy.teleprompt.gepa import InstructionProposer  # heavy

    made = {"Inputs": {"task": "Do not eat the soap."}, "Generated Outputs": {"action": "open door"}}
    samples = [{**made, "Feedback": line} for line in lines]
    with dspy.context(lm=lm(seed, 1.0)):
        proposer = InstructionProposer(adapter=ChatAdapter())
        return proposer({"actor": FlatActor.instructions}, {"actor": samples}, ["actor"])["actor"]


# What it is told


@pytest.mark.parametrize(
    "tell",
    [
        lambda action: {"plans_from_past_attempts": [f"Attempt 1: Nothing was found.\nDo not {action}."]},
        lambda action: {"constitution": [f"Never {action}."]},
        lambda action: {"signature": FlatActor.with_instructions(propose(0, [f"Do not {action}."]))},
        lambda action: {"history": [(HALLWAY, action)], "observation": "No known action matches that input."},
    ],
    ids=["reflection", "constitution", "instruction", "failure"],
)
def test_one_line_changes_the_action(tell):
    bare = ask(FlatActor, **BARE).action
    assert ask(**{"signature": FlatActor} | BARE | tell(bare)).action != bare


BEDROOM = "You teleport to the bedroom.\nYou also observe:\n\ta closet. the closet door is closed\n\t{}"


@pytest.mark.parametrize(
    ("second", "there", "does"),
    [
        ("open closet", "a mattress", "open closet"),
        ("focus on plane b", "an inclined plane h\n\tan inclined plane b", "focus on inclined plane b"),
        ("focus on plant. Do not focus on apple tree", "an apple tree\n\ta peach tree", "focus on peach tree"),
        ("open OBJ", "a mattress", "open closet"),
    ],
)
def test_a_plan_is_followed_step_by_step_with_the_names_of_what_is_here(second, there, does):
    plan = [f"Attempt 1: Too slow.\nRepeat what earned 8 points: teleport to bedroom; {second}."]
    told = {"constitution": None, "plans_from_past_attempts": plan}
    assert (first := ask(FlatActor, **told).action) == "teleport to bedroom"
    assert ask(FlatActor, **told, history=[(HALLWAY, first)], observation=BEDROOM.format(there)).action == does


def test_one_line_of_a_skill_changes_the_action_and_the_subgoal():
    skill = "Subgoal 1: The closet is open.\n1. teleport to bedroom\n2. open closet"
    before = ask(SkillActor, **BARE, skills=[skill])
    assert (before.action, before.subgoal) == ("teleport to bedroom", "The closet is open.")
    assert ask(SkillActor, **BARE, skills=[skill.replace("bedroom", "workshop")]).action == "teleport to workshop"


def test_a_demonstration_changes_the_action():
    others = {"teleport to workshop", "teleport to kitchen", "teleport to bedroom"} - {ask(FlatActor, **BARE).action}
    for other in sorted(others):
        demo = dspy.Example(task=REGIONS["task"], observation=HALLWAY, thought="There it is.", action=other)
        assert ask(FlatActor, **BARE, demos=[demo]).action == other


def test_a_question_of_the_world_is_answered_with_a_number():
    question = "Ambiguous request: Please enter the number:\n0:\topen box (in kitchen)\n1:\topen box (in drawer)"
    assert ask(FlatActor, **BARE, history=[(HALLWAY, "open box")], observation=question).action in {"0", "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
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


@pytest.mark.parametrize(
    ("task", "meant", "other"),
    [
        ("Grow it. First, focus on a seed. Seeds are in the kitchen.", "apple seed", "seed jar"),
        ("Find a(n) living thing. First, focus on the thing.", "baby brown bear", "red box"),
        ("After completing it, focus on the inclined plane with the least angle.", "inclined plane b", "plane ticket"),
    ],
)
def test_what_a_task_names_is_told_from_what_is_named_alike(task, meant, other):
    (target,) = parse_goals(task).targets
    assert (target.is_matched_by(meant), target.is_matched_by(other)) == (True, False)


def test_stages_of_a_life_come_in_their_order():
    task = "Your task is to focus on the life stages of the turtle, starting from earliest to latest."
    seen = "You also observe:\n\tan adult turtle\n\ta turtle egg\n\ta juvenile turtle"
    history = []
    for stage in ("turtle egg", "juvenile turtle", "adult turtle"):
        observation = f"You focus on the turtle.\n{seen}" if history else seen
        assert ask(FlatActor, **BARE, task=task, history=history, observation=observation).action == f"focus on {stage}"
        history.append((observation, f"focus on {stage}"))


# Other benchmarks

SEES = "There is a red ball 1 right in front of you 2 steps away.  There is a grey key 1 3 steps in front of you."
LISTED = {"listed": "turn left; pickup grey key 1; go to red ball 1", "question": ""}
ASKED = {
    "before": (Turn(SEES, "-", "check available actions"),),
    "seen": "You can take the following actions: turn left, pickup grey key 1, go to red ball 1",
}


@pytest.mark.parametrize(
    ("given", "does"),
    [
        ({"question": ""}, None),
        ({}, "check available actions"),
        (ASKED, "go to red ball 1"),
        (LISTED, "go to red ball 1"),
        ({**LISTED, "task": "pick up the key"}, "pickup grey key 1"),
        ({**ASKED, "task": "win", "told": "Attempt 1: pickup grey key 1."}, "pickup grey key 1"),
        ({**LISTED, "task": "win", "told": "Attempt 1: Do not turn left."}, "pickup grey key 1"),
    ],
)
def test_it_tries_what_is_offered_the_words_of_the_task_first(given, does):
    given = {"task": "go to the red ball", "question": "check available actions", "seen": SEES, "before": ()} | given
    regions = {"task": given["task"], "action_templates": f"Templates:\nturn left\n{given['question']}"}
    regions |= {"possible_actions": given.get("listed", ""), "plans_from_past_attempts": given.get("told", "")}
    prompt = ParsedPrompt("", {"action": False}, False, regions, (*given["before"], Turn(given["seen"])))
    answer = answer_offered(prompt, SeededNoise(0, 0.0))
    assert (answer and answer["action"]) == does


# What it writes

EXPECTED = {
    FlatActor: lambda p: p.action and p.thought,
    SkillActor: lambda p: p.action == "teleport to kitchen" and p.subgoal == "The fridge is open.",
    add_reflection_fields(Reflect, frozenset(IMPROVEMENTS)): lambda p: (
        p.plan.startswith("Repeat what earned 33 points: teleport to kitchen; focus on thermometer. Do not focus on ")
        and all(f"{said} open cupbord" in text for said, text in (("Do not", p.plan), ("such as", p.mistakes)))
        and ("Do not open door." in p.plan, "Do not wait" in p.plan) == (True, False)
        and (p.critical_step, p.failed_action_pattern[:12], type(p.priority_locations)) == (5, "open, 1 time", list)
    ),
    SummarizeSkill: lambda p: p.summary and 2 <= len(p.skill_name.split()) <= 5,
    WriteInstructions: lambda p: p.steps == ["teleport to LOCATION", "pick up cup"],
    NameTarget: lambda p: "cup" in p.target,
    JudgeEquivalence: lambda p: p.equivalent == [2],
    WriteRules: lambda p: any("open cupbord" in rule.mistake for rule in p.error_rules) and p.abstract_rules,
    SummarizeConstitution: lambda p: (
        p.abstract_rules == ["Doors open!", "Water boils."]
        and p.error_rules == [ErrorRule(mistake="open wall", solution="open the door")]
    ),
    DistillReflections: lambda p: (
        p.never == ["Do not eat soap.", "Do not open stove."]
        and p.always == ["Repeat what earned 10 points: open door."] == [p.strategy]
    ),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("signature", EXPECTED, ids=lambda signature: signature.__name__)
def test_answer_is_parsed_and_means_something(signature, adapter):
    assert EXPECTED[signature](said := ask(signature, adapter)), said


@pytest.mark.parametrize("adapter", ["dspy chat", "dspy json"])
@pytest.mark.parametrize(
    ("outputs", "values"),
    [
        (["number: int", "share: float", "is_done: bool", "words: list[str]"], [0, 0.0, False, []]),
        (["choice: Literal['left', 'right']"], ["left"]),
        (["next_thought", "next_tool_name: Literal['look_up', 'finish']", "next_tool_args: dict"],
         ["Say it.", "finish", {}]),
        (["generated_code", "finished: bool"], ["```python\nNone\n```", True]),
    ],
)  # fmt: skip
def test_of_a_field_that_it_does_not_know_it_says_the_least_of_its_type(adapter, outputs, values):
    said = ask(dspy.Signature(f"task -> {', '.join(outputs)}", "Say it."), adapter)
    assert list(said.values()) == values


LINES = ["Focus on the plant first.", "Do not open the fridge.", "Go to the greenhouse early.", "Never mix water."]


def test_lines_of_the_feedback_are_added_below_the_hand_written_text():
    parts = [propose(seed, LINES).split(HEADING) for seed in range(6)]
    assert {base.strip() for base, _ in parts} == {FlatActor.instructions.strip()}
    taken = {tuple(line.removeprefix("- ") for line in added.strip().splitlines()) for _, added in parts}
    assert all(0 < len(lines) < len(LINES) for lines in taken)
    assert {line for lines in taken for line in lines} == set(LINES), "neither inputs nor outputs are advice"
    assert len(taken) > 2, "other seeds propose other lines"
    assert propose(4, LINES) == propose(4, LINES)


# Determinism

SCRIPT = """
import sys
from rsso_dspy.offline import Explorer
from tests.offline.test_player import say
print(say(5))
print("heavy:", sorted({"litellm", "torch"} & set(sys.modules)))
"""


def say(seed, temperature=1.0, **regions):
    given = {name: regions.get(name, REGIONS.get(name, "")) for name in SkillActor.input_fields}
    given["history"] = dspy.History(messages=[])
    system, user = (message["content"] for message in ChatAdapter().format(SkillActor, [], given))
    asked = Request(model="x", system=system, messages=(Message.user(user),), config=Config(temperature=temperature))
    return Explorer(seed).complete(asked).message.text


def test_no_hash_seed_changes_the_answer_and_nothing_heavy_is_loaded():
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        output = subprocess.check_output([sys.executable, "-c", SCRIPT], text=True, env=environment)
        assert output == f"{say(5)}\nheavy: []\n"


def test_seeds_differ_when_warm_and_agree_when_cold():
    quiet = {"skills": [], "plans_from_past_attempts": []}
    assert len({say(seed, 2.0, **quiet) for seed in range(12)}) > 1
    assert len({say(seed, 0.0, **quiet) for seed in range(12)}) == 1
