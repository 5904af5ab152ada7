"""The order in which a layout sends the regions of a prompt: that of its source, whatever adapter sends them."""

import re

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import Method, actor_signature
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.signatures.layouts import PAPER, arrange_call, find_arrangement, order_fields, send_arranged
from tests.live import REWARDED, Engine, acting, model, says, walks

ALGORITHM_1 = (  # rSSO, Algorithm 1: the prompt, assembled top to bottom
    "plans from past attempts",
    "task description",
    "action templates and focus-on warning",
    "instruction list and target state of each skill",
    "action-observation history",
)
BEGINS_WITH = {  # what a prompt of ours shows of each
    "plans from past attempts": "Plans from past attempts (",
    "task description": "Your task is to find a(n) plant.",
    "action templates and focus-on warning": "focus",
    "instruction list and target state of each skill": "Subgoal 1: ",
    "action-observation history": "History",
}
HAS = {
    "react": ALGORITHM_1[1:3] + ALGORITHM_1[4:],
    "reflexion": ALGORITHM_1[:3] + ALGORITHM_1[4:],
    "sso": ALGORITHM_1[1:],
    "rsso": ALGORITHM_1,
}


def play_three_trials(live, method_name, **rules):
    """The actor's requests of the third trial, each a list of role and text."""
    lm, actors = walks(live)
    with acting(live, lm, rules=TrialRules(3, stop_on_success=False, **rules)):
        Agent(method_name)(variant=REWARDED)
    return [split_roles(prompt) for prompt in actors[3].prompts]


def split_roles(prompt):
    """Split a request as `tests.live.prompt_of` writes it."""
    system, *rest = re.split(r"\n\n<(user|assistant)>\n", prompt)
    return [("system", system), *zip(rest[::2], rest[1::2], strict=True)]


def find_part(part, text):
    """Where a part of Algorithm 1 stands in a text."""
    if part == "action templates and focus-on warning":
        return text.index(ACTION_TEMPLATES)
    if part == "action-observation history":
        return re.search(r"^History:?", text, re.M).start()
    return text.index(BEGINS_WITH[part])


@pytest.mark.parametrize("method_name", ["react", "reflexion", "sso", "rsso"])
def test_every_request_of_the_paper_layout_has_the_parts_of_algorithm_1_in_its_order(live, method_name):
    requests = play_three_trials(live, method_name, layout="paper")
    assert len(requests) > 1
    for messages in requests[1:]:  # before the first action there is no history
        (_, system), (role, text) = messages
        assert role == "user"
        places = [find_part(part, text) for part in HAS[method_name]]
        assert places == sorted(places)
        assert text.rindex("\nObservation:") > places[-1], "the present observation is last"
        for part in ALGORITHM_1:
            if part not in HAS[method_name]:
                with pytest.raises((ValueError, AttributeError)):
                    find_part(part, text)
        assert "\nAbout: " in system
        assert "About: " not in text


def test_the_focus_on_warning_stands_with_the_templates():
    assert re.search(r"focus", ACTION_TEMPLATES.split("Templates:")[0])


SIGNATURE = actor_signature(Method("all", "sso", ("constitution", "reflections", "skills"), "all memories"))
INPUTS = {
    "about": "A house.",
    "action_templates": "open OBJ",
    "constitution": ["Doors open."],
    "plans_from_past_attempts": ["Attempt 1 at this task: open the door"],
    "task": "Leave.",
    "skills": ["Subgoal 1: out"],
    "observation": "A hall.",
    "history": dspy.History(messages=[{"observation": "A bed.", "thought": "Up.", "action": "get up"}]),
}


def send(adapter, layout, scaffold="sso", **inputs):
    """The messages that a predictor sends through an adapter, as role and text."""
    sent = []

    class Asked(Engine):
        def complete(self, request):
            sent.append(request)
            return super().complete(request)

    answer = says(thought="t", subgoal="none", action="open door")
    if isinstance(adapter, dspy.ChatAdapter):
        answer = "\n".join(f"[[ ## {name} ## ]]\nx" for name in ("thought", "subgoal", "action"))
    lm = model(Asked(lambda _: answer))
    with dspy.context(adapter=adapter, lm=lm), send_arranged(find_arrangement(layout, scaffold)):
        dspy.Predict(SIGNATURE)(**INPUTS | inputs)
    (request,) = sent
    return [("system", str(request.system)), *((message.role, message.text) for message in request.messages)]


SENT = {  # each of the inputs once, in the order of the source
    "paper": ["open the door", "Doors open.", "Leave.", "open OBJ", "Subgoal 1: out", "A bed.", "A hall."],
    "conversation": ["A house.", "open OBJ", "Doors open.", "open the door", "Leave.", "A bed."],
}


@pytest.mark.parametrize("adapter", [ChatAdapter(), JSONAdapter(), dspy.ChatAdapter(), dspy.JSONAdapter()])
def test_any_adapter_sends_what_the_paper_layout_arranges(adapter):
    if isinstance(adapter, dspy.JSONAdapter | JSONAdapter):
        adapter.parse = lambda *_: {"thought": "t", "subgoal": "none", "action": "open door"}
    (_, system), (role, text) = send(adapter, "paper")
    assert role == "user"
    assert "A house." in system
    places = [text.index(part) for part in SENT["paper"]]
    assert places == sorted(places)
    assert "get up" in text


def test_the_conversation_keeps_a_message_for_each_turn():
    messages = send(ChatAdapter(), "conversation")
    assert [role for role, _ in messages] == ["system", "user", "assistant", "user"]
    places = [messages[1][1].index(part) for part in SENT["conversation"]]
    assert places == sorted(places)
    assert messages[2][1] == "Thought: Up.\nAction: get up"


def test_the_released_sso_code_has_everything_but_the_states_in_the_system_message():
    """SSO's released code: role, task, form of the answer, action prompt, skills; then a message for each state."""
    messages = send(ChatAdapter(), "released")
    assert [role for role, _ in messages] == ["system", "user", "assistant", "user"]
    system = messages[0][1]
    parts = ["Leave.", "open OBJ", "open the door", "Subgoal 1: out"]
    places = [system.index(part) for part in parts]
    assert places == sorted(places)
    assert [text for role, text in messages if role == "user"] == ["Observation: A bed.", "Observation: A hall."]


def test_the_released_reflexion_code_has_examples_memory_task_and_transcript_in_one_message():
    """Reflexion's released code: solved examples, the memory, the task, the whole transcript."""
    (_, _), (role, text) = send(ChatAdapter(), "released", "flat", solved_examples=["Task: Stay.\nAction: wait"])
    assert role == "user"
    parts = ["- Task: Stay.\n  Action: wait", "open the door", "Leave.", "A bed.", "A hall."]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_region_stands_in_the_system_message_where_the_protocol_says_so():
    usual = send(ChatAdapter(), "conversation")
    arrangement = find_arrangement("conversation", "sso", ("plans_from_past_attempts", "constitution"))
    call = arrange_call(arrangement, SIGNATURE, [], INPUTS)
    system, *messages = ChatAdapter().format(call.signature, call.demos, call.inputs)
    for text in ("Attempt 1 at this task: open the door", "Doors open."):
        assert text in usual[1][1]
        assert text in system["content"]
        assert not any(text in message["content"] for message in messages)


def test_a_region_of_another_package_stands_with_the_memories_of_a_trial_or_of_a_step():
    signature = SIGNATURE.insert(0, "diary", dspy.InputField(), str).append("hints", dspy.InputField(), str)
    names = order_fields(signature, PAPER.order)
    assert names.index("diary") + 1 == names.index("task")
    assert names.index("hints") + 1 == names.index("skills")
    assert sorted(names) == sorted(signature.input_fields)


def test_nothing_is_put_into_the_mouth_of_a_model_whose_answer_could_not_be_read(live):
    answers = iter(["What a nice room."] * 2)
    actor = Engine(lambda _: next(answers, says(thought="r", subgoal="none", action="look around")))
    for layout in ("paper", "released"):
        answers = iter(["What a nice room."] * 2)
        rules = TrialRules(1, layout=layout)
        with acting(live, lambda *_: model(actor), rules=rules, budget=lambda _: 3):
            Agent("react-sso")(variant=REWARDED)
        assert "could be read from the answer" not in actor.prompts[-1]
        assert "Nothing happened: your answer held no action." in actor.prompts[-1]


def test_the_thought_has_to_say_what_plans_say_where_there_are_any(live):
    lm, actors = walks(live)
    with acting(live, lm, rules=TrialRules(2)):
        Agent("reflexion")(variant=REWARDED)
    first, second = actors[1].prompts[0], actors[2].prompts[0]
    assert "The thought is what the situation is and what to do about it" in first
    assert "The thought is what the plans from past attempts say of this" in second


def test_a_conversation_holds_the_whole_trajectory(live):
    """OmniReflect, Algorithm 1, line 10: the action is chosen by the whole trajectory so far."""
    messages = play_three_trials(live, "react", layout="conversation")[-1]
    answers = [text for role, text in messages if role == "assistant"]
    assert len(answers) > 10, "more than the window of the other layouts"
    assert sum(text.count("Observation:") for role, text in messages if role == "user") == len(answers) + 1
