"""The layout `append`: a conversation in which nothing that was said is said otherwise later."""

from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

import dspy
import pytest
from dspy.lm15 import Request, Response

from rsso_dspy.errors import UsageError
from rsso_dspy.explorer.conversation import join_turns
from rsso_dspy.explorer.prompt_parser import parse_request
from rsso_dspy.lm.adapters import ChatAdapter, JSONAdapter, XMLAdapter
from rsso_dspy.lm.adapters.schemas import JSONAdapter as SchemaAdapter
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.conversation import Conversation, measure
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.transcript import UNREADABLE
from rsso_dspy.records import State, Step
from rsso_dspy.signatures import SkillActor
from tests.live import REWARDED, WALK, Engine, acting, model, says

ADAPTERS = {"chat": ChatAdapter, "json": JSONAdapter, "xml": XMLAdapter, "schema": SchemaAdapter}


class Actor(Engine):
    """Takes these answers in turn and then waits. Keeps every request."""

    def __init__(self, answers):
        left = iter(answers)
        super().__init__(lambda prompt: next(left, None) or self.act("wait", prompt))
        self.requests: list[Request] = []

    @staticmethod
    def act(action, prompt):
        if "`next_action`" in prompt:
            subgoal = {"current_subgoal": "none"} if "`current_subgoal`" in prompt else {}
            return says(reasoning="As planned.", **subgoal, next_action=action)
        return says(thought="As planned.", action=action)

    def complete(self, request: Request) -> Response:
        self.requests.append(request)
        return super().complete(request)


def walking(actions=WALK):
    actor = Actor([])
    left = iter(actions)
    actor.answer = lambda prompt: actor.act(next(left, "wait"), prompt)
    return actor


def messages(request):
    system = request.system if isinstance(request.system, str) else "".join(part.text for part in request.system)
    return [("system", system), *((message.role, message.text) for message in request.messages)]


@contextmanager
def playing(live, actors, adapter="chat", **rules):
    def lm(role, rollout, *_):
        return model(actors(rollout)) if role == "actor" else live.backend.lm(role, rollout)

    rules = {"layout": "append", "stop_on_success": False} | rules
    with acting(live, lm, rules=TrialRules(**rules), budget=lambda _: 9), dspy.context(adapter=ADAPTERS[adapter]()):
        yield


def play(live, method, adapter, trials=3, **rules):
    """The requests of each trial, by rollout number, of an actor that walks WALK."""
    actors = {}
    with playing(live, lambda rollout: actors.setdefault(rollout, walking()), adapter, trials=trials, **rules):
        result = Agent(method)(variant=REWARDED)
    assert [trial.error for trial in result.trials] == [None] * trials
    return {rollout: actor.requests for rollout, actor in actors.items()}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    ("method", "interface"), [("rsso", "complete"), ("rsso", "sso"), ("omnireflect-symbolic", "complete")]
)
def test_a_prompt_is_the_one_before_with_its_answer_and_what_came_of_it(live, method, interface, adapter):
    said = play(live, method, adapter, interface=interface)
    told = play(live, method, adapter, interface=interface, layout="paper")
    for trial, requests in said.items():
        assert len(requests) == 9
        for before, after in pairwise(map(messages, requests)):
            assert after[: len(before)] == before
            assert [role for role, _ in after[len(before) :]] == ["assistant", "user"]
        for request, other in zip(requests, told[trial], strict=True):
            here, there = parse_request(request), parse_request(other)
            if not any("Added to" in text for _, text in messages(request)):
                assert without_history(here) == without_history(there)
            assert here.layout == there.layout or "current_subgoal" in here.layout.wanted
            assert in_order(there.get_region("history"), here.get_region("history")), here.get_region("history")
    if method == "rsso":
        assert "(as above)" in str(messages(said[3][-1])) or interface == "sso"
        assert "plans_from_past_attempts" in parse_request(said[2][0]).regions


def without_history(prompt):
    return {name: text for name, text in prompt.regions.items() if name != "history"}


def in_order(window, whole):
    """Whether the texts that were seen in a window stand in a whole history, in their order; numbers of steps apart."""
    texts = [line for line in window.splitlines() if not line.startswith(("Step", "Current subgoal"))]
    left = iter(whole.splitlines())
    return all(line in left for line in texts)


@pytest.mark.parametrize("adapter", ["chat", "json", "xml"])
@pytest.mark.parametrize("method", ["react", "react-sso"])
def test_an_answer_that_cannot_be_read_is_asked_for_again_in_the_same_conversation(live, method, adapter):
    actor = walking()
    walk, refusals = actor.answer, iter([False, False, True, True])
    actor.answer = lambda prompt: "I would rather not say, sorry." if next(refusals, False) else walk(prompt)
    with playing(live, lambda _: actor, adapter, trials=1, interface="complete"):
        (trial,) = Agent(method)(variant=REWARDED).trials
    calls = 1 if adapter == "json" else 2
    assert [step.malformed for step in trial.trajectory.steps[:4]] == [False, False, True, adapter == "json"]
    first, again = map(messages, actor.requests[2:4])
    if calls == 2:
        assert again[:-1] == first[:-1]
        assert again[-1][1].startswith(first[-1][1])
        assert "could not be read" in again[-1][1].removeprefix(first[-1][1])
        assert "JSON object" in again[-1][1].removeprefix(first[-1][1])
    after = messages(actor.requests[2 + calls])
    assert after[: len(first)] == first
    assert UNREADABLE in after[len(first)][1]
    assert "Nothing happened" in after[len(first) + 1][1]
    assert "Respond with " in after[len(first) + 1][1]
    assert sum("Respond with " in text for role, text in after if role == "user") == 2


def test_the_actors_own_words_stay_and_what_was_done_instead_is_told(live):
    actor = walking(["focus on the banana tree (in the adult stage)", "**look around**", "dance"])
    with playing(live, lambda _: actor, trials=1, interface="complete"):
        (trial,) = Agent("react-sso")(variant=REWARDED).trials
    steps = trial.trajectory.steps[:8]
    said = messages(actor.requests[8])[2:]
    assert steps[0].action != steps[0].proposed
    for step, (_, answer), (_, told) in zip(steps, said[::2], said[1::2], strict=True):
        assert f"next_action ## ]]\n{step.proposed}\n" in answer
        assert (f"Taken as: {step.action}\n" in told) == (step.action != step.proposed)
    history = parse_request(actor.requests[8]).get_region("history")
    assert [line for line in history.splitlines() if line.startswith("Next action: ")] == [
        f"Next action: {step.action}" for step in steps
    ]


@pytest.mark.parametrize("adapter", ["chat", "json", "xml"])
def test_demonstrations_and_compiled_instructions_stand_before_the_conversation(live, adapter):
    agent, actor = Agent("react-sso"), walking()
    agent.actor.demos = [dspy.Example(task="Dry it.", history="A wet lamp.", reasoning="Hm.", next_action="dry lamp")]
    agent.actor.signature = agent.actor.signature.with_instructions("Win it all.")
    with playing(live, lambda _: actor, adapter, trials=1, interface="complete"):
        agent(variant=REWARDED)
    for before, after in pairwise(map(messages, actor.requests)):
        assert after[: len(before)] == before
    first = messages(actor.requests[0])
    assert [role for role, _ in first] == ["system", "user", "assistant", "user"]
    assert "Win it all." in first[0][1]
    assert "`history`" in first[0][1]
    assert "A wet lamp." in first[1][1]
    assert "dry lamp" in first[2][1]
    read = parse_request(actor.requests[-1])
    assert [demo["history"] for demo in read.demos] == ["A wet lamp."]
    assert "A wet lamp." not in read.get_region("history")
    assert read.instruction == "Win it all."


def test_a_trace_and_its_demonstrations_are_those_of_the_paper(live):
    kept = {}
    for layout in ("paper", "append"):
        with playing(live, lambda _: walking(), trials=1, layout=layout), dspy.context(trace=[]):
            Agent("rsso")(variant=REWARDED)
            kept[layout] = [(inputs, dict(outputs)) for _, inputs, outputs in dspy.settings.trace]
    assert kept["append"] == kept["paper"]


def test_inspect_history_shows_the_conversation(live, capsys):
    with playing(live, lambda _: walking(), trials=1), dspy.context(disable_history=False):
        Agent("react")(variant=REWARDED)
    dspy.inspect_history()
    printed = capsys.readouterr().out
    assert printed.count("User message:") == 9
    assert printed.count("Assistant message:") == 8


def test_adapters_that_know_no_conversation_are_refused(live):
    with (
        playing(live, lambda _: walking(), trials=1),
        dspy.context(adapter=dspy.ChatAdapter()),
        pytest.raises(UsageError, match="layout = append needs the adapters of this package"),
    ):
        Agent("react")(variant=REWARDED)


STATE = State("You look.", "This room is called the hall.", "In your inventory, you see:\n")


def talk_of(regions, most=10_000, scaffold="sso", complete=True, length=200):
    """The conversation before each step, of an actor that waits."""
    talk, states, steps, told = Conversation(scaffold, complete, most), [STATE], [], []
    for number, texts in enumerate(regions, start=1):
        talk.ask(states, steps, texts, lambda shown: [f"{state.observation} {'.' * length}" for state in shown])
        told.append(talk.turns)
        states.append(replace(STATE, observation=f"Moment {number}."))
        steps.append(Step("wait", "wait", states[-1], 0, 0, True))
    return told


def test_a_long_conversation_loses_its_older_half_and_says_so():
    told = talk_of([{"task": "Win.", "plan": f"{number // 50}"} for number in range(200)], most=12_000)
    grown = [after[: len(before) - 1] == before[:-1] for before, after in pairwise(told)]
    assert 3 <= grown.count(False) <= 8
    assert max(map(measure, told)) <= 12_000
    for turns in told:
        opening, now = turns[0].said, turns[-1].said["seen"]
        first = int(opening["seen"].partition("Step ")[2].partition(":")[0])
        assert opening["task"] == "Win."
        assert now.startswith(f"Step {first + len(turns) - 1}:") or len(turns) == 1
        assert (first > 1) == opening["seen"].startswith(f"Only the last steps are shown, from step {first} on")
        assert len(turns) >= min(10, first + len(turns) - 1)
        assert join_turns([turn.said for turn in turns])["plan"] == f"{(first + len(turns) - 2) // 50}"


def test_ten_states_are_kept_however_long_they_are():
    told = talk_of([{"task": "Win."}] * 30, most=2000, length=1000)
    assert {len(turns) for turns in told[10:]} == {10}


OPEN = "Subgoal 1: The box is open.\n  1. teleport to hall\n  2. open OBJ"
SHUT = "Subgoal 2: The box is shut.\n  1. close OBJ"


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["a", "a", "b"], [None, "b"]),
        (["a", "", "a"], ["none", "a"]),
        (["", "- one"], ["- one"]),
        (["Rules:\n- one", "Rules:\n- one\n- two"], ["Added to what stands above:\nRules:\n- two"]),
        (["Rules:\n- one\n- two", "Rules:\n- two"], ["Rules:\n- two"]),
        ([f"{OPEN}", f"{OPEN}\n{SHUT}"], [f"Added to what stands above:\n{SHUT}"]),
        (
            [f"{OPEN}\n{SHUT}", SHUT.replace("2:", "1:"), f"{OPEN}\n{SHUT}"],
            ["Subgoal 1: The box is shut.\n  (as above)", None],
        ),
        (
            [OPEN, SHUT.replace("2:", "1:"), OPEN],
            [SHUT.replace("2:", "1:"), "Subgoal 1: The box is open.\n  (as above)"],
        ),
        ([OPEN, OPEN.replace("open OBJ", "open box")], [OPEN.replace("open OBJ", "open box")]),
    ],
)
def test_what_changes_is_told_once_and_can_be_put_together(texts, told):
    turns = talk_of([{"skills": text} for text in texts], scaffold="flat")[-1]
    said = [turn.said.get("skills") for turn in turns]
    assert said[0] == (texts[0] or None)
    for wanted, found in zip(told, said[1:], strict=True):
        assert wanted is None or found == wanted
    for count, text in enumerate(texts, start=1):
        standing = join_turns([turn.said for turn in turns[:count]]).get("skills", "")
        assert sorted(set(standing.splitlines())) == sorted(set(text.splitlines()))


def test_subgoals_that_are_offered_late_begin_the_conversation_anew_with_a_field_for_them():
    regions = [{"task": "Win.", "skills": ""}, {"task": "Win.", "skills": OPEN}, {"task": "Win.", "skills": ""}]
    _, offered, last = talk_of(regions)
    assert offered[0].said["skills"] == OPEN
    assert len(offered) == 2
    assert last[-1].said["skills"] == "none"
    with dspy.context(conversation=last, interface="complete", layout="append"):
        adapter = ChatAdapter()
        signature = adapter._call_preprocess(model(walking()), {}, SkillActor, {"task": "Win.", "history": "x"})
        assert "current_subgoal" in signature.output_fields
        assert [message["role"] for message in adapter.format(signature, [], {})][-3:] == ["user", "assistant", "user"]
