"""The worlds that the offline player has a way of playing: from the prompt alone, and better when it is told so."""

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.pddl.environment import PddlEnvironment
from rsso_dspy.explorer.offered_actions import answer_offered
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, PromptLayout
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.worlds.roles import align_steps, reflect_on_world, write_world_rules

WINDOW = 10
"""States that a prompt shows."""


def prompt(**regions) -> ParsedPrompt:
    return ParsedPrompt(PromptLayout("", {"action": "str"}, "chat"), regions, (), "")


def play(task: str, index: int, told: str = "") -> tuple[bool, str]:
    """Whether a training problem is solved within its budget, and the transcript."""
    pddl = get_benchmark("pddl")
    variant = pddl.table.variant(task, index)
    game = PddlEnvironment(None)
    parts = [game.reset(variant).observation]
    transcript = parts[0]
    for number in range(1, int(1.5 * pddl.gold_length(variant)) + 1):
        said = prompt(task=game.task, action_templates=game.action_templates, constitution=told,
                      history="\n\n".join(parts[-2 * WINDOW + 1 :]))  # fmt: skip
        answer = answer_offered(said, SeededNoise(0, 0.0))
        went = game.step(answer["action"])
        parts += [f"Thought: {answer['thought']}\nAction: {answer['action']}", went.state.observation]
        transcript += f"\nStep {number}. > {answer['action']}\n{went.state.observation}"
        if went.done:
            return True, transcript
    return False, transcript


@pytest.mark.parametrize("task", ["gripper", "blockworld", "barman", "tyreworld"])
def test_what_is_written_of_an_attempt_solves_more_problems_of_a_domain(task):
    indices = get_benchmark("pddl").table.indices(task, "train")[::4]
    plain = {index: play(task, index) for index in indices}
    solved = [index for index, (won, _) in plain.items() if won]
    assert 0 < len(solved) < len(indices)
    goal, record = next((task, text) for won, text in plain.values() if not won)
    again = 0
    for index, (won, text) in plain.items():
        plan = (reflect_on_world(prompt(task=goal, transcript=text, outcome="")) or {})["plan"]
        again += won or play(task, index, plan)[0]
    assert again > len(solved)
    rules = write_world_rules(prompt(task=goal, transcript=record, outcome="", known_rules=""))
    assert rules["abstract_rules"]
    told = "\n".join(rules["abstract_rules"])
    assert write_world_rules(prompt(task=goal, transcript=record, outcome="", known_rules=told))["abstract_rules"] == []


FIRST = "You are in the middle of a room. Looking quickly around you, you see a drawer 1, a desk 1, and a bed 1."
FORMS = "Templates:\ngo to PLACE\nopen PLACE\ntake OBJECT from PLACE\nput OBJECT in/on PLACE\ncheck valid actions"
SHUT = f"{FIRST}\n\nThought: I go.\nAction: go to drawer 1\n\nThe drawer 1 is closed."
HELD = (
    f"{FIRST}\n\nThought: I go.\nAction: go to desk 1\n\nOn the desk 1, you see a pen 2.\n\nThought: I take.\n"
    "Action: take pen 2 from desk 1\n\nYou pick up the pen 2 from the desk 1."
)
ASK = "check valid actions"
SURE = "Do not ask for the valid actions: ask only when an action failed."


@pytest.mark.parametrize(
    ("history", "told", "does"),
    [
        (FIRST, "", ASK),
        (FIRST, f"{SURE} The pen 2 is at bed 1: go to bed 1 for the pen.", "go to bed 1"),
        (SHUT, f"{SURE} Open what is closed.", "open drawer 1"),
        (SHUT, SURE, "go to bed 1"),
        (HELD, SURE, "go to drawer 1"),
        (f"{HELD}\n\nThought: I go.\nAction: go to drawer 1\n\nThe drawer 1 is closed.", SURE, "open drawer 1"),
        (f"{HELD}\n\nThought: I open.\nAction: open bed 1\n\nNothing happens.", SURE, ASK),
    ],
)
def test_a_house_is_searched_by_what_is_told(history, told, does):
    said = prompt(task="put a pen in drawer", action_templates=FORMS, history=history, plans_from_past_attempts=told)
    assert answer_offered(said, SeededNoise(0, 0.0))["action"] == does


def test_a_reflection_says_where_a_thing_was_and_a_skill_what_excerpts_share():
    acts = "Step 1. > go to bed 1\nYou arrive at bed 1. On the bed 1, you see a pen 2.\nStep 2. > go to drawer 1\n"
    said = prompt(task="put a pen in drawer", transcript=f"{FIRST}\n{acts}The drawer 1 is closed.", outcome="")
    plan = reflect_on_world(said)["plan"]
    assert "The pen 2 is at bed 1" in plan
    assert "Open what is closed" in plan
    one, other = ("check valid actions", "go to bed 1"), ("check valid actions", "go to desk 1")
    assert align_steps([one, other]) == ["go to SOMETHING 1"]
    assert align_steps([("boil water",)]) is None
