"""What an actor is sent, step by step, and how its answers stand in it."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import ConfigError, EnvironmentFailure, UsageError
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import Answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.trial import FORGOTTEN, LONGEST_CONVERSATION, REFUSED, WITHOUT_EFFECT, Conversation
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import State, Step
from rsso_dspy.sessions import session
from tests.live import FAST, Engine, acting, model
from tests.toy_benchmark import BENCHMARK, Counting

LISTED = TrialRules(action_choice="listed")


class Listing(Counting):
    """The toy environment, saying what can be done."""

    actions = ("add 1", "add 2", "add 1")

    def admissible_actions(self):
        return self.actions


def seen(text: str) -> State:
    observation, _, look = text.partition(" | ")
    return State(observation, look, "")


def talk(steps, rules=LISTED, scaffold="flat", **changing):
    """The inputs of every step of a conversation: of the first, and after each of `steps` (action, what is seen after
    it, whether it was understood)."""
    conversation, states, done = Conversation(Listing(), rules, scaffold), [seen("You begin.")], []
    turns = [conversation.begin_turn(states, done, **changing)]
    for action, text, understood in steps:
        conversation.end_turn(turns[-1], Answer(action, "", None, said=action))
        states.append(seen(text))
        done.append(Step(action, action, states[-1], 0, 0, understood))
        turns.append(conversation.begin_turn(states, done, **changing))
    return turns, conversation


def test_actions_are_listed_those_last_that_were_tried_in_the_same_situation():
    turns, _ = talk([("add 1", "You begin.", True), ("add 2", "Two.", True), ("add 1", "You begin.", True)])
    assert [turn["possible_actions"] for turn in turns] == [
        ["add 1", "add 2"], ["add 2", "add 1"], ["add 1", "add 2"], ["add 1", "add 2"]
    ]  # fmt: skip
    assert "possible_actions" not in talk([], TrialRules())[0][0]


@pytest.mark.parametrize(
    ("steps", "notice"),
    [
        ([("add 1", "One.", True)], None),
        ([("add 1", "You begin.", True)], WITHOUT_EFFECT),
        ([("fly", "You cannot.", False)], REFUSED),
        ([("add 1", "You begin.", True)] * 3, "add 1: tried here 3 times now, and nothing changed. Take"),
        ([("wait", "Wait. | A room.", True)] * 2, None),  # in a room, seen for the first time after the first of them
        ([("wait", "Wait. | A room.", True)] * 3, "wait: tried here 2 times now, and nothing that you see changed."),
    ],
)
def test_what_changed_nothing_or_was_refused_is_said(steps, notice):
    last = talk(steps)[0][-1].get("notice")
    assert last is None if notice is None else last.startswith(notice)


def test_what_a_memory_says_again_is_not_repeated_and_the_answer_stands_as_it_was_said():
    turns, conversation = talk([("add 1", "One.", True)], skills=["Subgoal 1: count"], progress="")
    assert [turn.get("skills") for turn in turns] == [["Subgoal 1: count"], None]
    assert conversation.history.messages == [
        {**turns[0], "thought": "", "subgoal": "none", "action": "add 1", "said": "add 1"}
    ]


def test_a_conversation_that_grows_too_long_loses_its_older_half():
    text = "x" * (LONGEST_CONVERSATION // 4)
    turns, conversation = talk([(f"add {n}", text, True) for n in range(5)], skills=["s"])
    assert len(conversation.history.messages) < 5
    assert [turn.get("skills") for turn in turns].count(["s"]) == 2


@pytest.mark.parametrize(
    ("layout", "scaffold", "shown", "first"),
    [("released", "flat", 20, "You begin."), ("released", "sso", 9, "Seen 10."), ("paper", "flat", 9, "Seen 10.")],
)
def test_a_layout_shows_the_whole_transcript_or_the_last_states(layout, scaffold, shown, first):
    steps = [(f"add {n}", f"Seen {n}.", True) for n in range(20)]
    _, conversation = talk(steps, TrialRules(layout=layout), scaffold)
    turns = conversation.history.messages
    assert (len(turns), turns[0]["observation"]) == (shown, first)
    assert turns[-1]["action"] == "add 19"


def test_a_transcript_that_is_too_long_begins_with_what_is_left_out():
    steps = [(f"add {n}", "x" * (LONGEST_CONVERSATION // 3), True) for n in range(20)]
    turns = talk(steps, TrialRules(layout="released"))[1].history.messages
    assert len(turns) < 4
    assert turns[0]["notice"] == FORGOTTEN


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ((), "Listing lists 0 possible actions"),
        (tuple(map(str, range(101))), "Listing lists 101 possible actions"),
        (None, "Counting lists 0 possible actions"),
    ],
)
def test_a_list_that_is_none_or_too_long_is_an_error_of_the_trial(actions, said):
    environment = Counting() if actions is None else Listing()
    environment.actions = actions
    with pytest.raises(EnvironmentFailure, match=said):
        Conversation(environment, LISTED).begin_turn([seen("You begin.")], [])


def test_only_what_stays_the_same_in_a_trial_may_stand_in_the_system_message():
    config = load_config(overrides=['protocol.in_system=["constitution", "plans_from_past_attempts"]'])
    assert "in_system=constitution,plans_from_past_attempts" in resolve_protocol(config).id
    with pytest.raises(UsageError, match=r"skills cannot stand in the system message; these can: about, .* task$"):
        TrialRules(in_system=("task", "constitution", "skills"))


@pytest.mark.parametrize(
    ("choice", "lists", "said"),
    [(None, False, ""), ("free", False, ""), ("listed", True, ""), ("listed", False, "does not list them")],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_is_played(monkeypatch, choice, lists, said):
    config = load_config(overrides=[f"protocol.action_choice={choice}"] if choice else [])
    monkeypatch.setattr(type(config), "active_benchmark", property(lambda _: replace(BENCHMARK, lists_actions=lists)))
    with pytest.raises(ConfigError, match=said) if said else nullcontext():
        resolve_protocol(config)


def test_no_message_of_a_trial_ever_changes_and_the_models_turns_are_its_own_words():
    """So a server's cache serves all that was said before."""
    said = ["turn left", "Action: turn right.", "I would rather not say.", "hm", "move forward"]
    answers, sent = iter(said), []
    engine = Engine(lambda _: next(answers))
    complete = engine.complete
    engine.complete = lambda request: (
        sent.append([(each.role, each.text) for each in request.messages]) or complete(request)
    )
    with (
        session(load_config(overrides=[*FAST[:1], "benchmark=babyai"])) as live,
        acting(live, lambda *_: model(engine), budget=lambda _: 4),
    ):
        (trial,) = Agent("react")(variant="GoToDoor::200", trials=1).trials
    assert [step.malformed for step in trial.trajectory.steps] == [False, False, True, False]
    asked_again = sent.pop(3)
    assert asked_again[:-2] == sent[2]
    assert asked_again[-2] == ("assistant", said[2])
    for before, after in pairwise(sent[:3]):
        assert after[: len(before)] == before
    assert [text for role, text in sent[-1] if role == "assistant"] == said[:2]


def test_an_action_that_was_refused_or_without_effect_leaves_the_player_where_it_was():
    conversation, states, steps = Conversation(Listing(), LISTED), [seen("You begin.")], []
    conversation.begin_turn(states, steps)
    for action, understood in (("add 1", True), ("fly", False)):
        states.append(seen("No change."))
        steps.append(Step(action, action, states[-1], 0, 0, understood, no_effect=understood))
        assert conversation.begin_turn(states, steps)["possible_actions"] == ["add 2", "add 1"]
