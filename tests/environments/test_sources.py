"""What the sources say of benchmarks other than ScienceWorld, by their own values: splits, rules and patterns."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.lessons import Progress
from rsso_dspy.environments.pddl import BENCHMARK as PDDL
from rsso_dspy.environments.pddl.tasks import FILES, _list_rows, load_setup
from rsso_dspy.memory.constitution import ConstitutionMemory
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import State, Step, Variant
from tests.memory.memory_cases import lend

ALFWORLD = "rsso_dspy.environments.alfworld"


@pytest.fixture(scope="module")
def alfworld() -> Iterator[ModuleType]:
    """The benchmark's package, whether or not its extra is installed: what is tested here needs no engine."""
    is_installed = find_spec("alfworld") is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ALFWORLD_DATA", raising=False)
        if not is_installed:
            forget_alfworld()  # an import that failed leaves parts, which a new package would not hold
            read_version = metadata.version
            patch.setattr(metadata, "version", lambda name: "0.4.2" if name == "alfworld" else read_version(name))
        yield import_module(ALFWORLD)
    if not is_installed:
        forget_alfworld()


def forget_alfworld() -> None:
    for name in [name for name in sys.modules if name.startswith(ALFWORLD)]:
        del sys.modules[name]
    vars(sys.modules["rsso_dspy.environments"]).pop("alfworld", None)


# OmniReflect, section 3.1: the splits.

UNSEEN_GAMES = {
    "pick_and_place_simple": 24,
    "look_at_obj_in_light": 18,
    "pick_clean_then_place_in_recep": 31,
    "pick_heat_then_place_in_recep": 23,
    "pick_cool_then_place_in_recep": 21,
    "pick_two_obj_and_place": 17,
}
"""ALFWorld's types of tasks to its games in the unseen split: 134 in all, as many as the notes on Reflexion count."""


def test_held_out_games_of_alfworld_are_the_134_of_its_unseen_split(alfworld):
    held_out = {task: alfworld.BENCHMARK.tasks.held_out(task, n=31) for task in alfworld.BENCHMARK.tasks.names()}

    assert {task: len(variants) for task, variants in held_out.items()} == UNSEEN_GAMES
    assert sum(UNSEEN_GAMES.values()) == 134
    assert {variant.split for variants in held_out.values() for variant in variants} == {"test"}
    assert alfworld.tasks.FOLDERS["test"] == "valid_unseen"


PROBLEMS_OF_AGENTBOARD = {"gripper": 20, "blockworld": 10, "barman": 20, "tyreworld": 10}
"""PDDL's domains to AgentBoard's problems of each, 60 in all, which OmniReflect plays."""


def test_the_60_problems_of_agentboard_are_played_from_the_users_folder(tmp_path):
    for domain, count in PROBLEMS_OF_AGENTBOARD.items():
        (tmp_path / domain).mkdir()
        for number, (problem, _) in enumerate(_list_rows(domain)[:count], start=1):
            (tmp_path / domain / f"prob{number:02}.pddl").write_text(problem)

    variants = [variant for domain in FILES for variant in PDDL.tasks.held_out(domain, "agentboard", 20)]
    played = {variant.key: load_setup(variant, str(tmp_path)) for variant in variants}

    assert len(played) == sum(PROBLEMS_OF_AGENTBOARD.values()) == 60
    assert {domain: sum(variant.task == domain for variant in variants) for domain in FILES} == PROBLEMS_OF_AGENTBOARD
    for variant in variants:
        place = variant.index - PDDL.tasks.held_out(variant.task, "agentboard", 1)[0].index
        written, read = load_setup(PDDL.tasks.variant(variant.task, place)), played[variant.key]
        assert (read.start, read.goal) == (written.start, written.goal), "the file of its number"


# OmniReflect, E.2: what Tables 14 to 16 tell the symbolic agent, each in our words.

GUIDANCE = {
    "alfworld": {
        "go to a place before using anything there": "Go to a place before doing anything there",
        "hold one thing at a time": "Only one thing can be carried",
        "always write the number": "take mug 1, not take mug",
        "clean at a sinkbasin": "Clean at a sinkbasin",
        "heat at a microwave": "heat at a microwave",
        "cool at a fridge": "cool at a fridge",
        "heat, cool and clean directly": "None of them has to be opened",
        "use the desklamp where it is": "use the desklamp there",
    },
    "babyai": {
        "go through doors": "open its doors",
        "a locked door needs the key of its colour": "A locked door opens only with the key of its colour",
        "hold one thing at a time": "Only one thing can be carried",
        "turn at a wall": "When a barrier is ahead, moving forward does nothing: turn",
        "do not turn again and again": "turn around once",
        "drop in an empty cell that does not block the way": "in an empty cell that is not in the way",
        "keep the key until its door is open": "keep it until the door is open",
        "move away what blocks the way": "stands in a passage has to be picked up and dropped elsewhere",
    },
    "pddl": {
        "a cocktail: fill, pour, clean": "fill a clean glass, pour it into the clean shaker, clean the glass",
        "then the second ingredient": "fill it with the second ingredient, pour that too, clean the glass",
        "then leave, grasp, shake, serve": "put it down, take the shaker, shake with the other hand empty, and pour",
    },
}
"""Benchmark to what the source says, and to the words of a rule of thumb that says it."""


@pytest.mark.usefixtures("alfworld")
@pytest.mark.parametrize("benchmark", GUIDANCE)
def test_a_symbolic_writer_begins_with_the_guidance_of_the_source(benchmark):
    if benchmark == "babyai":
        pytest.importorskip("minigrid", reason="the extra babyai is not installed")
    lessons = import_module(f"rsso_dspy.environments.{benchmark}.environment").LESSONS
    world = SimpleNamespace(rules_of_thumb=lessons.rules_of_thumb)
    memory = ConstitutionMemory(lend(writing="symbolic", environment=world))

    memory.begin_trial(Variant("any", 0), "the task")
    shown = "\n".join(memory.recall([State("", "", "")], []).items)

    missing = [said for said, words in GUIDANCE[benchmark].items() if words not in shown]
    assert not missing


# OmniReflect, E.1: the action templates of Tables 11 to 13, each as our prompt has it.

ACTION_TEMPLATES = {
    "alfworld": {
        "goto [location]": "go to PLACE",
        "take [object] from [location]": "take OBJECT from PLACE",
        "put [object] in/on [location]": "put OBJECT in/on PLACE",
        "open [something]": "open PLACE",
        "close [something]": "close PLACE",
        "toggle [object][location]": "use OBJECT",
        "clean [object] with [something]": "clean OBJECT with PLACE",
        "heat [object] with [receptacle]": "heat OBJECT with PLACE",
        "cool [object] with [receptacle]": "cool OBJECT with PLACE",
    },
    "babyai": {
        "turn right": "turn right",
        "turn left": "turn left",
        "move forward": "move forward",
        "go to <obj> <id>": "go to NAME N",
        "pick up <obj> <id>": "pickup NAME N",
        "go through <door> <id>": "go through NAME N",
        "toggle and go through <door> <id>": "toggle and go through NAME N",
        "toggle": "toggle",
    },
    "pddl gripper": {
        "move <room1> <room2>": "move from ROOM to ROOM",
        "pick <obj> <room> <gripper>": "pick up BALL at ROOM with arm ARM",
        "drop <obj> <room> <gripper>": "drop BALL ROOM ARM",
    },
    "pddl blockworld": {
        "pickup <block>": "pickup BLOCK",
        "putdown <block>": "putdown BLOCK",
        "stack <block> <block>": "stack BLOCK on BLOCK",
        "unstack <block> <block>": "unstack BLOCK from BLOCK",
    },
    "pddl barman": {
        "<hand> grasp <container>": "left grasp CONTAINER",
        "<hand> leave <container>": "left leave CONTAINER",
        "fill-shot": "fill-shot glass SHOT with INGREDIENT with HAND and HAND holding DISPENSER",
        "refill-shot": "refill-shot SHOT with INGREDIENT with HAND and HAND holding DISPENSER",
        "empty-shot": "use hand HAND to empty-shot glass SHOT with beverage BEVERAGE",
        "clean-shot": "clean-shot glass SHOT with BEVERAGE with hand HAND holding shot glass and HAND",
        "pour-shot-to-clean-shaker": "pour-shot-to-clean-shaker from a shot glass SHOT with INGREDIENT to a clean "
        "shaker SHAKER with hand HAND from level LEVEL to level LEVEL",
        "pour-shot-to-used-shaker": "pour-shot-to-used-shaker from a shot glass SHOT with INGREDIENT to a used shaker "
        "SHAKER with hand HAND from level LEVEL to level LEVEL",
        "empty-shaker": "use hand HAND to empty-shaker SHAKER with ingredient COCKTAIL from level LEVEL to level LEVEL",
        "clean-shaker": "use hand HAND and hand HAND to clean-shaker SHAKER",
        "shake": "shake a cocktail COCKTAIL with ingredient PART1 and ingredient PART2 in a shaker SHAKER with hand "
        "HAND and hand HAND",
        "pour-shaker-to-shot": "pour-shaker-to-shot to a shot glass BEVERAGE the ingredient SHOT with hand HAND from "
        "shaker SHAKER from level LEVEL to level LEVEL",
    },
    "pddl tyreworld": {
        "open <container>": "open CONTAINER",
        "close <container>": "close CONTAINER",
        "fetch <object> <container>": "fetch THING from CONTAINER",
        "put-away <object> <container>": "put-away THING in CONTAINER",
        "tighten <nut> <hub>": "tighten the nut NUT on the hub HUB",
        "jack-up <hub>": "jack-up the hub HUB",
        "jack-down <hub>": "jack-down the hub HUB",
        "undo <nut> <hub>": "undo the fastening of the nut NUT on the hub HUB",
        "do-up <nut> <hub>": "do-up the nut NUT on the hub HUB",
        "remove-wheel <wheel> <hub>": "remove-wheel WHEEL from the hub HUB",
        "put-on-wheel <wheel> <hub>": "put-on-wheel WHEEL on the hub HUB",
        "inflate <wheel>": "inflate the wheel WHEEL",
    },
}
"""World to the source's template, and to ours."""


def read_templates(world: str) -> str:
    benchmark, _, domain = world.partition(" ")
    if domain:
        return import_module("rsso_dspy.environments.pddl.environment").ACTION_TEMPLATES[domain]
    if benchmark == "babyai":
        pytest.importorskip("minigrid", reason="the extra babyai is not installed")
    return import_module(f"rsso_dspy.environments.{benchmark}").BENCHMARK.action_templates["sso"]


@pytest.mark.usefixtures("alfworld")
@pytest.mark.parametrize("world", ACTION_TEMPLATES)
def test_the_prompt_has_every_action_template_of_the_source(world):
    templates = read_templates(world).partition("\nTemplates:\n")[2].splitlines()

    missing = [theirs for theirs, ours in ACTION_TEMPLATES[world].items() if ours not in templates]
    assert not missing


# OmniReflect, F: the regular expressions of Table 19, with an answer that each of them matches.

TABLE_19 = {
    "Your task is to: put two soapbar in garbagecan.": [
        (r"^(?=.* you see)(?=.*a soapbar \d+)", "On the sinkbasin 1, you see a soapbar 1, and a cloth 2."),
        (r"You pick up the soapbar \d+", "You pick up the soapbar 1 from the sinkbasin 1."),
        (r"You put the soapbar \d+ in/on the garbagecan \d+", "You put the soapbar 1 in/on the garbagecan 1."),
        (r"You pick up the soapbar \d+", "You pick up the soapbar 2 from the toilet 1."),
        (r"You put the soapbar \d+ in/on the garbagecan \d+", "You put the soapbar 2 in/on the garbagecan 1."),
    ],
    "Your task is to: put a cool tomato in microwave.": [
        (r"^(?=.* you see)(?=.*a tomato \d+)", "On the countertop 1, you see a tomato 2."),
        (r"You pick up the tomato \d+", "You pick up the tomato 2 from the countertop 1."),
        (r"You cool the tomato \d+ using the", "You cool the tomato 2 using the fridge 1."),
        (r"You put the tomato \d+ in/on the microwave \d+", "You put the tomato 2 in/on the microwave 1."),
    ],
    "Your task is to: look at bowl under the desklamp.": [
        (r"^(?=.* you see)(?=.*a bowl \d+)", "On the shelf 1, you see a bowl 1."),
        (r"You pick up the bowl \d+", "You pick up the bowl 1 from the shelf 1."),
    ],
}
"""Task to the source's patterns, in their order. Its second sight of a soapbar is none of our steps; that of a desklamp
is told (`test_a_desklamp_that_was_seen_is_told`)."""


@pytest.mark.parametrize("task", TABLE_19)
def test_each_pattern_of_table_19_is_a_step_of_progress_on_alfworld(alfworld, task):
    environment = alfworld.environment
    progress = Progress(environment.list_steps(environment.parse_goal(task)))

    for met, (pattern, answer) in enumerate(TABLE_19[task], start=1):
        assert re.search(pattern, answer), "the source's own pattern"
        progress.read(answer)
        assert sum(progress.is_met) == met, answer


def test_a_desklamp_that_was_seen_is_told(alfworld):
    answer = "On the desk 1, you see a desklamp 1, and a pen 2."
    states = [State("You see a desk 1, and a shelf 1.", "", ""), State(answer, "", "")]
    steps = [Step("go to desk 1", "go to desk 1", states[1], 0, 0, True)]

    assert re.search(r"^(?=.* you see)(?=.*a desklamp)", answer), "the source's own pattern"
    told = alfworld.BENCHMARK.hints.lessons("Your task is to: look at bowl under the desklamp.", states, steps)
    assert "Lamps seen: desklamp 1 at desk 1." in [lesson.text for lesson in told]


# The notes on Reflexion, Evaluator: whether a trial succeeded is what the game says of itself.

ENGINE = """
import json, sys
for line in sys.stdin:
    action = json.loads(line).get("action")
    told = "You are in a room.\\n\\nYour task is to: put a pen in desk." if action is None else "You put it there."
    print(json.dumps({"feedback": told, "won": action == "win", "done": action == "win", "commands": []}), flush=True)
"""
"""An engine whose game is won by one action, and says the same after every other one."""


def test_a_trial_succeeds_where_the_game_is_won_and_fails_after_49_actions(alfworld, monkeypatch, tmp_path):
    worker, game = tmp_path / "engine.py", tmp_path / "train/pick_and_place_simple-Pen/trial_1/game.tw-pddl"
    worker.write_text(ENGINE)
    game.parent.mkdir(parents=True)
    game.write_text(json.dumps(dict.fromkeys(alfworld.tasks.PARTS, "x")))
    monkeypatch.setattr(alfworld.environment, "WORKER", worker)
    rules = resolve_protocol(load_config(overrides=["protocol.preset=reflexion/3"])).rules
    environment = alfworld.AlfWorld(str(tmp_path))
    try:
        environment.reset(alfworld.BENCHMARK.tasks.variant("pick_and_place_simple", 0))
        lost, won = environment.step("lose"), environment.step("win")
    finally:
        environment.close()

    assert lost.state.observation == won.state.observation, "no words decide it"
    assert [rules.find_ending([], move, 49) for move in (lost, won)] == [None, "solved"]
    actions = [Step(f"act {n}", f"act {n}", lost.state, 0, 0, True) for n in range(49)]
    assert rules.find_ending(actions[:48], lost, 49) is None
    assert rules.find_ending(actions, lost, 49) == "budget"
