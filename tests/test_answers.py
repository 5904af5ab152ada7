"""What is read of an answer that holds thought, or marks of chat templates: the answer, and never a draft.

In the answers `{a}` stands for the action. A draft is an action that the thought names and does not choose.
"""

import re

import dspy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsso_dspy.answers import separate
from rsso_dspy.signatures import NameTarget, Reflect, WriteInstructions, WriteRules
from tests.test_adapter import FlatActor, SkillActor, during, read

VERBS = frozenset({"open", "wait", "go", "take"})
POSSIBLE = frozenset({"open chest", "wait", "go north"})
LISTED = {"verbs": VERBS, "possible": POSSIBLE}
WAYS = {
    "listed": LISTED,
    "listed, without a thought": LISTED | {"unasked": frozenset({"thought"})},
    "free": {"verbs": VERBS},
    "free, without a thought": {"verbs": VERBS, "unasked": frozenset({"thought"})},
}
DRAFT = "I could wait.\nwait\nThat costs a turn."
WORSE = f'{DRAFT}\nAction: wait\n{{"action": "wait"}}\n<action>wait</action>\nPossible actions: wait; go north.'

PAIRS = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<THINK>", "</THINK>"),
    ("< think >", "</ think >"),
    ('<think time="3s">', "</think>"),
    ("<think duration=5>", "</think>"),
    ("<thinking>", "</think>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<reflection>", "</reflection>"),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<Scratch-Pad>", "</Scratch-Pad>"),
    ("<brainstorm>", "</brainstorm>"),
    ("<situation>", "</situation>"),
    ("<ant:thinking>", "</ant:thinking>"),
    ("[THINK]", "[/THINK]"),
    ("[think]", "[/think]"),
    ("[REASONING]", "[/REASONING]"),
    ("[Notes]", "[/Notes]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("＜think＞", "＜/think＞"),
    ("【think】", "【/think】"),
    ("〈thought〉", "〈/thought〉"),
    ("<|think|>", "<|/think|>"),
    ("<|think|>", "</|think|>"),
    ("<｜think｜>", "<｜/think｜>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|thinking_start|>", "<|thinking_end|>"),
    ("<|begin_of_sketch|>", "<|end_of_sketch|>"),
    ("<｜begin▁of▁thought｜>", "<｜end▁of▁thought｜>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis <|message|>", "<|end|>\n<|start|>assistant <|channel|>final <|message|>"),
    ("<|start|>assistant<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    (
        "<|channel|>analysis<|message|>",
        "<|end|><|start|>assistant<|channel|>commentary<|message|>Well.<|end|>"
        "<|start|>assistant<|channel|>final<|message|>",
    ),
    ("analysis", "assistantfinal"),
    ("analysis\n", "\nassistantfinal\n"),
    ("analysis ", " assistantfinal "),
    ("analysis", "assistantcommentaryThe robot has hands.assistantfinal"),
    ("assistantanalysis", "assistantfinal"),
    ("analysis", "assistantanalysisMore of it.assistantfinal"),
    ("commentary", "assistantfinal"),
    ("analysis", "\nassistant\nfinal\n"),
    ("analysis", "final"),
    ("analysis\n", "\nfinal\n"),
    ("analysis\n", "\nfinal"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("```thinking\n", "\n```\n"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|think|>", "<|end|><|begin|>assistant<|content|>"),
    ("<|begin|>assistant<|think|>", "<|end|><|begin|>assistant<|content|>"),
    ("<|thinking|>", "<|answer|>"),
    ("<|channel|>analysis<|message|>", "assistantfinal"),
    ('<details type="reasoning" done="true"><summary>Thought for 3 s</summary>', "</details>"),
]
"""Marks that open and close thought, as servers and models write them."""
ANSWERS = {
    "bare": "{a}",
    "bare, on its own line": "\n\n{a}\n",
    "labels": "\nThought: I hold the key.\nAction: {a}",
    "one label": "\nAction: {a}",
    "JSON": '{"thought": "I hold the key.", "action": "{a}"}',
    "fenced JSON": '\n```json\n{"action": "{a}"}\n```',
    "XML": "<action>{a}</action>",
    "both as XML": "\n<thought>I hold the key.</thought>\n<action>{a}</action>",
    "an answer's block": "<answer>{a}</answer> because it is locked: wait",
    "an answer's block, unclosed": "\n<final_answer>\n{a}",
    "a response in bars": "<|START_RESPONSE|>{a}<|END_RESPONSE|>",
    "a solution in bars": "\n\n<|begin_of_solution|>\n\n{a}\n\n<|end_of_solution|>",
    "a box": "<|begin_of_box|>{a}<|end_of_box|>",
}


def act(answer, signature=FlatActor, **fields):
    with during(**fields):
        return read(signature, answer)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_a_block_that_opens_the_answer_is_thought_and_its_drafts_are_not_played(pair, way):
    opening, closing = pair
    for kind, form in ANSWERS.items():
        for thought in (DRAFT, WORSE):
            answer = f"{opening}{thought}{closing}{form.replace('{a}', 'open chest')}"
            got = act(answer, **WAYS[way])
            assert (got and got["action"]) == "open chest", (kind, answer)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_what_was_thought_is_the_thought_where_the_answer_says_none(pair):
    opening, closing = pair
    if "details" not in opening and "commentary" not in opening + closing and "assistantanalysis" not in closing:
        got = act(f"{opening}The chest is locked.{closing}open chest", **LISTED)
        assert got == {"thought": "The chest is locked.", "action": "open chest"}
    got = act(f"{opening}The chest is locked.{closing}\nThought: I hold the key.\nAction: open chest", **LISTED)
    assert got == {"thought": "I hold the key.", "action": "open chest"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_thought_that_was_cut_off_holds_no_answer(pair, way):
    opening = pair[0]
    for thought in ("I could wait.", DRAFT, WORSE.replace("<action>wait</action>", "")):
        if opening in ("[Notes]", "commentary"):
            continue  # nothing says that these are no words of the answer
        assert act(f"{opening}{thought}", **WAYS[way]) is None, thought


CLOSINGS = [
    "</think>",
    "</thinking>",
    "[/THINK]",
    "◁/think▷",
    "</seed:think>",
    "<|END_THINKING|>",
    "<|end_of_thought|>",
    "</scratchpad>",
    "</reasoning>",
    "</thought>",
    "</deduction>",
    "<channel|>",
    "assistantfinal",
    "<|end|><|start|>assistant<|channel|>final<|message|>",
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("closing", CLOSINGS)
def test_before_a_closing_mark_whose_opening_is_lost_all_is_thought(closing, way):
    for kind, form in ANSWERS.items():
        got = act(f"{WORSE}\n{closing}{form.replace('{a}', 'open chest')}", **WAYS[way])
        assert (got and got["action"]) == "open chest", kind


@pytest.mark.parametrize(
    ("answer", "thought"),
    [
        ("<think>One.</think><think>Two.</think>open chest", "One.\nTwo."),
        ("<think></think>\n\nopen chest", ""),
        ("<think>\n\n</think>\n<reflection>It fits.</reflection>open chest", "It fits."),
        ("<observation>A hall.</observation>\n<plan>Out.</plan>\nopen chest", "A hall.\nOut."),
        ("<think>A <think>wait</think> B: wait</think>\nopen chest", "A wait B: wait"),
        ("<think>\n<think>\nwait</think>\nopen chest", "wait"),
        ("<think>\n<think>\nwait</think>\n</think>\nopen chest", "wait"),
        ("<think>I close it with a <thought> mark: wait</think>\nopen chest", "I close it with a  mark: wait"),
        ("Sure!\n<think>\nwait\n</think>\nopen chest", "wait"),
        ("open chest\n<think>Or should I wait?\nwait", "Or should I wait?\nwait"),
        ("<response><think>wait</think><answer>open chest</answer></response>", "wait"),
        ("<think>One.</think>\n<response>\nThought: Two.\nAction: open chest\n</response>\nwait", "Two."),
        ("<answer>open chest</answer> because I could not\nwait", ""),
        ("<answer>open chest</answer>\n<answer>wait</answer>", ""),
        ("Here is what I do: <answer>open chest</answer>\nwait", "Here is what I do:"),
        ("Thought: Not yet\nwait\n<answer>open chest</answer>", "Not yet\nwait"),
        ("<root><thought>A.</thought><action>open chest</action></root>", "A."),
        ("<draft><thought>A.</thought><action>wait</action></draft>open chest", "A.wait"),
        ("<thought>A.</thought><action>open chest</act", "A."),
        ("<thought>One: {\"action\": \"wait\"}</thought>{\"action\": \"open chest\"}", 'One: {"action": "wait"}'),
        ("<thought>One.\nAction: wait</thought>\nAction: open chest", "One.\nAction: wait"),
        ("<reasoning>One.\nwait</reasoning>open chest", "One.\nwait"),
        ("think: One.\nact: open chest", "One."),
        ("> think: One.\n> open chest", "One."),
        ("Thought: One.\nAction: <answer>open chest</answer>", "One."),
        ("Thought: One.\nAction: <|begin_of_box|>open chest<|end_of_box|>", "One."),
        ("<pad><pad>open chest", ""),
        ("Thought: One.\nAction: <b>open chest</b>", "One."),
        ("Thought: One.\nAction: <p><code>open chest</code></p>", "One."),
        ("<step>\nThought: One.\nAction: open chest</step>", "One."),
        ("<|thought|>One.<|action|>open chest", "One."),
        ("<|THOUGHT|>One.</|THOUGHT|><|ACTION|>open chest</|ACTION|>", "One."),
        ("Thought 2: One.\nAct 2: open chest", "One."),
        ('{"think": "One.", "act": "open chest"}', "One."),
        ('{"thinking": "wait", "thought": "One.", "act": "wait", "action": "open chest"}', "One."),
        ("Thinking: wait\nThought: One.\nAction: open chest", "One."),
    ],
)  # fmt: skip
def test_several_blocks_nested_ones_and_labels(answer, thought):
    assert act(answer, **LISTED) == {"thought": thought, "action": "open chest"}


@pytest.mark.parametrize(
    "answer",
    [
        "<thought>\nwait\n</thought>", "<think>wait</think>", "[THINK]wait[/THINK]", "<reasoning>\nwait\n</reasoning>",
        "<situation>wait</situation>", "<think>A <think>B</think> still: wait", "<answer></answer>",
        "<answer>  </answer>\nwait",
        "<|channel|>analysis<|message|>wait", "<|channel|>commentary<|message|>wait", "analysisWe could\nwait\nor",
        "<|channel|>analysis<|message|>wait<|end|><|start|>assistant<|channel|>commentary<|message|>wait<|end|>",
        "> think: I have to wait first.", "think: wait", "Thought: wait", "<think>\nwait\n</thi",
        "<|im_start|>user\nwait<|im_end|>", "<|tool_call|>\nwait",
    ],
)  # fmt: skip
def test_thought_alone_is_no_answer(answer):
    assert [act(answer, **way) for way in WAYS.values()] == [None] * len(WAYS)


def test_a_field_that_is_called_like_a_thought_is_that_field():
    one = dspy.Signature("question -> analysis, answer")
    for form in ("<analysis>A: 3?</analysis><answer>4</answer>", "<think>3</think>Analysis: A: 3?\nAnswer: 4"):
        assert read(one, form) == {"analysis": "A: 3?", "answer": "4"}
    two = dspy.Signature("question -> reasoning, response")
    assert read(two, "<reasoning>A.</reasoning><response>4</response> So it is.") == {
        "reasoning": "A.",
        "response": "4",
    }
    assert read(two, "<scratchpad>3?</scratchpad><reasoning>A.</reasoning><response>4</response>") == {
        "reasoning": "A.",
        "response": "4",
    }
    thinking = dspy.Signature("question -> thinking, answer")
    assert read(thinking, "<thinking>3?</thinking><answer>4</answer>") == {"thinking": "3?", "answer": "4"}
    assert read(thinking, "<think>3?</think>Thinking: A.\nAnswer: 4") == {"thinking": "A.", "answer": "4"}
    alone = dspy.Signature("question -> analysis")
    assert read(alone, "<think>3?</think><analysis>It was dark.</analysis> So.") == {"analysis": "It was dark."}
    three = dspy.Signature("question -> reasoning, thought, action, act")
    said = {"reasoning": "A.", "thought": "B.", "action": "wait", "act": "go"}
    assert read(three, "\n".join(f"{name}: {value}" for name, value in said.items())) == said
    assert read(three, "".join(f"<{name}>{value}</{name}>" for name, value in said.items())) == said
    assert read(dspy.Signature("question -> count: int"), "<thought>3 or 4?</thought>\n4") == {"count": 4}
    assert read(dspy.Signature("question -> answer"), "<notes>Paris?</notes>\nRome") == {"answer": "Rome"}


RULES = {"abstract_rules": ["Ice melts."], "error_rules": [], "progress_rules": ["The pot is filled."]}
LISTS = "Abstract rules:\n- Ice melts.\nError rules: none\nProgress rules:\n- The pot is filled."
PLAN = {"mistakes": "It was dark.", "plan": "Take the lamp."}


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if "channel>" not in pair[0]], ids=lambda pair: pair[0])
def test_other_signatures_are_read_in_the_same_way(pair):
    opening, closing = pair
    draft = "Not sure.\n- Plan: run.\nMistakes: none.\nTarget: nothing.\nSteps:\n- wait\nAbstract rules:\n- Fire burns."
    before = f"{opening}{draft}{closing}"
    assert read(WriteRules, f"{before}\n{LISTS}") == RULES
    assert read(Reflect, f"{before}Mistakes: It was dark.\nPlan: Take the lamp.") == PLAN
    assert read(Reflect, f'{before}{{"mistakes": "It was dark.", "plan": "Take the lamp."}}') == PLAN
    assert read(NameTarget, f"{before}\nThe door is open.") == {"target": "The door is open."}
    assert read(WriteInstructions, f"{before}\n- focus on OBJ") == {"steps": ["focus on OBJ"]}
    for signature in (WriteRules, Reflect, NameTarget, WriteInstructions):
        assert opening in ("[Notes]", "commentary") or read(signature, f"{opening}{draft}") is None


def test_items_in_elements_are_no_thought():
    answer = "<step>go to kitchen</step>\n<step>open fridge</step>\nDone."
    assert read(WriteInstructions, answer) is None
    assert read(WriteInstructions, f"<steps>{answer}</steps>") is None
    assert read(WriteInstructions, "<notes>- a\n- b</notes>\nThat is all.") is None


# Marks of chat templates.

ENDS = [
    "<|im_end|>",
    "<|eot_id|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "</s>",
    "<|return|>",
    "[/INST]",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<｜end▁of▁sentence｜>",
    "<｜User｜>",
    "[|endofturn|]",
    "<eos>",
    "<|user|>",
    "</|ACTION|>",
    "<|end_of_box|>",
    "<|END_RESPONSE|>",
    "<|END_OF_RESPONSE|>",
    "<turn|>",
    "<|observation|>",
    "<|eom_id|>",
    "<｜end of sentence｜>",
    "<|Im_End|>",
    "< |im_end| >",
    "<EOS_TOKEN>",
    "<end_of_utterance>",
    "[EOS]",
    "<im_end>",
    "[end_of_turn]",
    "|im_end|",
    "<end>",
    "[END]",
    "[/TOOL_RESULTS]",
    "</assistant>",
    "<unused42>",
    "<0x0A>",
    "<[end▁of▁sentence]>",
    "<|user_start|>wait<|user_end|>",
    "<|fim_pad|>",
    "<|x9|>",
    "<|end_of_turn|>\n<|start_of_role|>user<|end_of_role|>wait<|end_of_text|>",
    "<|im_end|>\n<|im_start|>user\nwait",
    "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nwait",
    "</s>[INST] wait [/INST] go north",
    "<|im_e",
    "<end_of_turn>\n<start_of_turn>user\nwait",
    "<｜end▁of▁sentence｜><｜User｜>wait<｜Assistant｜>go north",
]
STARTS = [
    "<|im_start|>assistant\n",
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<start_of_turn>model\n",
    "<s>",
    "<|start_of_role|>assistant<|end_of_role|>",
    "<｜Assistant｜>",
    "[|assistant|]",
    "<|assistant|>\n",
    "[/INST] ",
    "<|channel|>final <|message|>",
    "<|begin_of_text|>",
    "<bos>",
    "<|CHATBOT_TOKEN|>",
    "<|im_assistant|>assistant<|im_middle|>",
    "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    "<|begin_of_box|>",
    "<|START_RESPONSE|>",
    "<|ACTION|>",
    "<｜begin▁of▁sentence｜>",
    "<|turn>model\n",
    "<|header_start|>assistant<|header_end|>\n\n",
    "<|channel|>final<|constrain|>text<|message|>",
    "<|im_start|>user\nwait<|im_end|>\n<|im_start|>assistant\n",
    "[INST] wait [/INST] ",
    "<|x9|>",
    "assistantfinal",
    "<|assistant_start|>",
    "<role>ASSISTANT</role>",
    "[BOS]",
    "<assistant>\n",
    "<seed:bos>",
    "<|BOT|>assistant\n",
    "<|user_start|>wait<|user_end|><|assistant_start|>",
]


@pytest.mark.parametrize("way", WAYS)
def test_no_mark_of_a_template_stands_in_an_action(way):
    labels = "Thought: I hold the key.\nAction: open chest"
    said = {"thought": "I hold the key.", "action": "open chest"}
    if "without" in way:
        labels = "Action: open chest"
        said = {"action": "open chest"}
    for start in ["", *STARTS]:
        for end in ["", *ENDS]:
            answer = f"{start}open chest{end}"
            got = act(answer, **WAYS[way])
            assert got is not None, answer
            assert got["action"] == "open chest", answer
            assert not got.get("thought"), answer
            if start == "<|ACTION|>":
                continue  # is followed by the action alone
            for between in ("", "\n"):
                answer = f"{start}{labels}{between}{end}"
                got = act(answer, **WAYS[way])
                assert got == said, answer


@pytest.mark.parametrize("end", ENDS)
def test_no_mark_of_a_template_stands_in_a_text_or_a_list(end):
    assert read(Reflect, f"Mistakes: It was dark.\nPlan: Take the lamp.{end}") == PLAN
    assert read(NameTarget, f"The door is open.{end}") == {"target": "The door is open."}
    assert read(WriteRules, f"{LISTS}{end}") == RULES
    if end != "<|im_e":  # cut off
        assert read(Reflect, f'{{"mistakes": "It was dark.{end}", "plan": "Take the lamp."}}') in (PLAN, None)


def test_a_mark_between_words_is_never_sent():
    assert act("Action: open <|x9|>chest", **LISTED) is None
    assert act("Action: open <｜x▁y｜> chest", verbs=VERBS) is None
    assert act("open <unk> chest", verbs=VERBS) is None
    assert act("Action: open <small> chest", verbs=VERBS) is None
    assert act("Action: open <small> chest", verbs=VERBS, possible=frozenset({"open <small> chest"})) is not None
    assert act('{"action": "open <0x0A>chest"}', verbs=VERBS) is None
    assert read(Reflect, "Mistakes: It was dark.\nPlan: Take <|x9|>the lamp.") == PLAN


MARKS = [mark for pair in PAIRS for mark in pair] + STARTS + ENDS + CLOSINGS
PIECES = st.sampled_from([*MARKS, "open chest", "\n", " ", "Action: ", "Thought: ", '{"action": "', '"}', "<action>"])


@settings(deadline=None, max_examples=200)
@given(pieces=st.lists(PIECES, max_size=10))
def test_whatever_marks_are_mixed_none_stands_in_an_action(pieces):
    for way in WAYS.values():
        got = act("".join(pieces), **way)
        assert got is None or not re.search(r"[<\[][/ ]?[|｜]|[|｜] ?[>\]]|</?s>|_of_turn>|INST\]", got["action"])


STUCK = [
    "<think>" * 3000, "<think></think>" * 3000, "</a>" * 3000, "<a></a>" * 3000, "<|x|>" * 4000, "<|im_start|>" * 2000,
    "[INST]" * 3000, "<!--" * 5000, "analysis" + "assistantfinal" * 2000, "```thinking\n" * 3000, "<a b=" * 4000,
    "open chest" + "<|x|>" * 3000, "<answer>" * 3000, "< " * 5000, "<|" + "a_" * 10_000,
    "<think>a</think>b</think>" * 999,
]  # fmt: skip


@pytest.mark.parametrize("answer", STUCK, ids=range(len(STUCK)))
@pytest.mark.timeout(20)
def test_a_model_that_got_stuck_at_a_mark_holds_nobody_up(answer):
    for signature in (FlatActor, SkillActor, WriteRules):
        read(signature, answer)


@pytest.mark.parametrize(
    "text", ["a <| b", "[x|y]", "f <| g |> h", "a < b | c > d", "x[1]|y[2]", "|a|b|", "<| ", "a <- b", "[wait]", "<|>"]
)
def test_what_is_no_mark_stays(text):
    assert separate(f"Plan: {text}", {}).text == f"Plan: {text}".strip()
    assert read(Reflect, f"Mistakes: It was dark.\nPlan: Use {text} there.")["plan"] == f"Use {text} there."


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("open chest.", "open chest"), ("open chest!", "open chest"), ("Open door.", "Open door"), ("Wait!", "wait"),
        ("I hold it.\nopen chest.", "open chest"), ("I hold it.\nopen door.", "open door"), ("open door!", "open door"),
        ("Action: open door.", "open door"), ("Action: open door!", "open door"), ("The chest is shut.", None),
        ("Open it. Or wait.", None), ("Open it? Or wait!", None), ("Open doors lead out.\nThat is all.", None),
        ("act: go north", "go north"), ("Act 2: go north", "go north"), ("ACT 12 - go north", "go north"),
        ("**Act:** go north", "go north"), ("> act: go north", "go north"), ("Acting: wait, or go north", None),
    ],
)  # fmt: skip
def test_full_stops_and_short_labels(said, action):
    for way in WAYS.values():
        got = act(said, **way)
        assert (got and got["action"].lower()) == (action and action.lower()), said


def test_a_full_stop_stays_where_nothing_says_that_the_rest_is_an_action():
    assert act("Action: say it.", verbs=VERBS)["action"] == "say it."
    assert act("The chest is shut.") is None
    assert act("<thinking>It fits.</thinking>open chest", SkillActor) == {
        "thought": "It fits.",
        "subgoal": "none",
        "action": "open chest",
    }
