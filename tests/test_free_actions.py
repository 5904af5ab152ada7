"""Actions of an environment of one's own reach it as the model gave them, and what was cut off them is kept."""

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter, read_answer
from rsso_dspy.answers.actions import ActionForm, find_action, read_action
from rsso_dspy.environments import find_free_form
from rsso_dspy.playing import playing
from rsso_dspy.programs.render import render_recent_steps
from rsso_dspy.programs.roles import read_answer as read_prediction
from rsso_dspy.records import State, Step
from rsso_dspy.signatures.actor import FlatActor
from tests.live import Engine
from tests.toy_benchmark import Counting

FUNCTION = "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)"
FENCED = f"```python\n{FUNCTION}\n```"
LINE, TEXT = ActionForm(), ActionForm("text")
KNOWN = ActionForm(verbs=frozenset({"open", "go"}))
LISTED = ActionForm(possible=frozenset({"open door", "wait"}))


@pytest.mark.parametrize(
    "action",
    [
        'echo "hello world"',
        "*.txt",
        "rm *.txt",
        "_tmp_",
        "*important*",
        '{"tool": "buy"}',
        '{"tool": "buy", "items": [1, 2]}',
        "npm install",
        "buy milk, eggs",
        "f = lambda x: x",
        "ls | wc -l",
        "git commit -m 'first: one'",
        "cd src && make test",
        "x[0] = {1: 'a'}",
        "SELECT * FROM t WHERE a = 'b';",
        "print(f'{x}!')",
        "Dr. Who arrives.",
        "yes",
        "-1",
        "/help",
        "e2e4",
    ],
)
def test_a_line_is_whole_alone_and_behind_its_label(action):
    assert read_action(action, LINE) == action
    assert find_action(action, LINE) == action
    with playing(free_form=LINE, unasked=frozenset({"thought"})):
        assert read_answer(FlatActor, action)["action"] == action
        assert read_answer(FlatActor, f"Action: {action}")["action"] == action
    with playing(free_form=LINE):
        fields = read_answer(FlatActor, f"Thought: It is time.\nAction: {action}")
    assert (fields["thought"], fields["action"]) == ("It is time.", action)


@pytest.mark.parametrize(
    ("text", "form", "action"),
    [
        ("**open door**", LINE, "open door"),
        ("`npm install`", LINE, "npm install"),
        ('"npm install"', LINE, "npm install"),
        ("```\nnpm install\n```", LINE, "npm install"),
        ("```bash\nnpm install\n```", LINE, "npm install"),
        ("_open door_", KNOWN, "open door"),
        ("1. open door", KNOWN, "open door"),
        ("1. open door", LINE, "1. open door"),
        ("open door.", KNOWN, "open door"),
        ("open door.", LINE, "open door."),
        ("Open door.", LISTED, "open door"),
        ("- wait", LISTED, "wait"),
        ("npm install\nnpm test", LINE, "npm install"),
        ("> npm install", LINE, "npm install"),  # as prompts show the actions of earlier attempts
        ("Step 1. > npm install", LINE, "npm install"),
        ("> `npm install`", LINE, "npm install"),
        ("> open door", KNOWN, "open door"),
        (">file", LINE, ">file"),
        (">", LINE, ">"),
        ("Step 1. Open it.", LINE, "Step 1. Open it."),
        (FENCED, TEXT, FUNCTION),
        (f"```\n{FUNCTION}\n```", TEXT, FUNCTION),
        (FUNCTION, TEXT, FUNCTION),
        (f"Here it is:\n{FENCED}\nIt recurses.", TEXT, FUNCTION),
        (f"{FENCED}\nor\n{FENCED}", TEXT, ""),
        ("", LINE, ""),
    ],
)
def test_marks_go_in_pairs_and_a_fence_with_its_content_left(text, form, action):
    assert read_action(text, form) == action


@pytest.mark.parametrize(
    "text",
    [
        "I would like to see the files first.",
        "What should I do?",
        "Sure, here is what I do next.",
        "First I look around.\nThen I open something.",
        "I'm sorry, I can't help with that.",
    ],
)
def test_talk_is_no_action(text):
    with playing(free_form=LINE, unasked=frozenset({"thought"})):
        assert read_answer(FlatActor, text) is None


def test_labels_in_a_fenced_block_are_code():
    code = "result = 5\naction: str = 'x'\nobservation = result\nprint(result)"
    with playing(free_form=TEXT):
        fields = read_answer(FlatActor, f"Thought: Try it.\nAction:\n```python\n{code}\n```\nObservation: 5")
    assert fields == {"thought": "Try it.", "action": code}


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ('{"thought": "Buy.", "action": "buy milk, eggs"}', "buy milk, eggs"),
        ('{"thought": "Buy.", "action": {"tool": "buy"}}', '{"tool": "buy"}'),
        ('{"action": "buy", "item": "milk"}', '{"action": "buy", "item": "milk"}'),
    ],
)
def test_an_object_is_the_form_or_the_action(answer, action):
    with playing(free_form=LINE):
        assert read_answer(FlatActor, answer)["action"] == action


OBJECT = '{"action": "buy", "item": "milk"}'
ON_LINES = '{\n  "action": "buy",\n  "item": "milk"\n}'
IN_ONE_LINE = '{ "action": "buy", "item": "milk" }'
KEYS = frozenset({"action", "item"})
AS_FORM = '{"thought": "Buy.", "action": "buy"}'


@pytest.mark.parametrize("keys", [frozenset(), KEYS], ids=["unknown", "shown"])
@pytest.mark.parametrize(
    ("answer", "thought", "text", "line"),
    [
        (OBJECT, "", OBJECT, OBJECT),
        (ON_LINES, "", ON_LINES, IN_ONE_LINE),
        (f"Thought: Milk.\nAction: {OBJECT}", "Milk.", OBJECT, OBJECT),
        (f"Thought: Milk.\nAction: {ON_LINES}", "Milk.", ON_LINES, IN_ONE_LINE),
        (f"Thought: Milk.\nAction:\n{ON_LINES}", "Milk.", ON_LINES, IN_ONE_LINE),
        (f"Thought: Milk.\nAction:\n```json\n{ON_LINES}\n```", "Milk.", ON_LINES, IN_ONE_LINE),
        (f'{{"thought": "Milk.", "action": {OBJECT}}}', "Milk.", OBJECT, OBJECT),
        (AS_FORM, "Buy.", "buy", "buy"),
        ('{\n  "thought": "Buy.",\n  "action": "buy"\n}', "Buy.", "buy", "buy"),
        (f"```json\n{AS_FORM}\n```", "Buy.", "buy", "buy"),
        ('{"tool": "x", "action": {"action": 1}}', "", '{"tool": "x", "action": {"action": 1}}',
         '{"tool": "x", "action": {"action": 1}}'),
    ],
)  # fmt: skip
def test_an_object_with_other_keys_than_the_forms_is_the_action(answer, thought, text, line, keys):
    for form, action in (("text", text), ("line", line)):
        with playing(free_form=ActionForm(form, keys=keys)):
            assert read_answer(FlatActor, answer) == {"thought": thought, "action": action}


@pytest.mark.parametrize("form", ["line", "text"])
@pytest.mark.parametrize(
    ("answer", "unknown", "shown"),
    [
        ('{"action": "wait"}', "wait", '{"action": "wait"}'),
        (f'{{"action": {OBJECT}}}', OBJECT, OBJECT),
        (f"Thought: Milk.\n{OBJECT}", None, OBJECT),
        (f"I buy milk.\n{OBJECT}", None, OBJECT),
        (f"Thought: Two.\n{OBJECT}\n{OBJECT}", None, None),
    ],
)
def test_an_object_as_the_templates_show_it_is_the_action(answer, unknown, shown, form):
    for keys, action in ((frozenset(), unknown), (KEYS, shown)):
        with playing(free_form=ActionForm(form, keys=keys)):
            assert (read_answer(FlatActor, answer) or {}).get("action") == action


def test_templates_tell_the_keys_of_objects():
    class Shop(Counting):
        knows_all_verbs = False
        action_templates = 'Templates:\n{"action": "buy", "item": ITEM}\n{"action": "wait"}'

    assert find_free_form(Shop(), frozenset()) == ActionForm(
        "line", frozenset({'{"action":'}), keys=frozenset({"action", "item"})
    )


@pytest.mark.parametrize(
    ("answer", "thought"),
    [
        ("npm install", ""),
        (f"It is time.\n{FENCED}", "It is time."),
        (f"Thought: It is time.\n{FENCED}", "It is time."),
    ],
)
def test_the_thought_of_an_answer_without_labels_is_what_stands_ahead_of_the_action(answer, thought):
    with playing(free_form=TEXT):
        assert read_answer(FlatActor, answer)["thought"] == thought


def test_a_text_that_begins_with_the_label_of_another_field_is_no_action():
    with playing(free_form=TEXT):
        assert read_answer(FlatActor, "Thought: I write a function.\ndef f():\n    pass") is None


@pytest.mark.parametrize("answer", ["Action: ...", "Action: <your action here>", "Action:", ""])
def test_a_placeholder_is_no_action(answer):
    with playing(free_form=LINE):
        assert read_answer(FlatActor, answer) is None


def test_two_different_actions_are_unclear():
    with playing(free_form=LINE):
        assert read_answer(FlatActor, "Action: npm install\nAction: npm test") is None


def predict(said, form):
    """The prediction that an actor's answer becomes."""
    lm = dspy.LM("script/x", engine=Engine(lambda _: said), cache=False)
    with dspy.context(lm=lm, adapter=ChatAdapter()), playing(free_form=form, possible=form.possible):
        return dspy.Predict(FlatActor)(
            task="t", action_templates="", history=dspy.History(messages=[]), observation="o"
        )


@pytest.mark.parametrize(
    ("said", "action", "cut"),
    [
        ("Thought: Now.\nAction: npm install", "npm install", ""),
        ("Thought: Now.\nAction: `npm install`", "npm install", "`npm install`"),
        ("Thought: Now.\nAction: npm install\nnpm test", "npm install", "npm install\nnpm test"),
    ],
)
def test_what_was_cut_off_an_action_is_kept(said, action, cut):
    answer = read_prediction(predict(said, LINE), (), LINE)
    assert (answer.action, answer.cut) == (action, cut)
    assert "given" not in predict(said, LINE) or cut


def test_an_action_that_another_adapter_read_is_cleaned_alike():
    prediction = dspy.Prediction(action=FENCED, thought="")
    answer = read_prediction(prediction, (), TEXT)
    assert (answer.action, answer.cut) == (FUNCTION, FENCED)


FENCE = "```"
WITH_FENCES = f"def fence(code):\n    return '{FENCE}' + code + '{FENCE}'"
INDENTED_FENCES = f'def f(x):\n    """\n    {FENCE}\n    x\n    {FENCE}\n    """\n    return x'
QUOTING = 'def f(x):\n    """\n> a line\n    """\n    return "&lt;b&gt;"'
DOCTEST = "def f(x):\n    '''\n    >>> f(1)\n    1\n    '''\n    return x"


@pytest.mark.parametrize("code", [WITH_FENCES, INDENTED_FENCES, QUOTING, DOCTEST, "> out.txt\necho hi", "<think>\nx"])
@pytest.mark.parametrize(
    "form",
    [
        f"Thought: I write.\nAction:\n{FENCE}python\n{{code}}\n{FENCE}",
        f"Thought: I write.\nAction: {FENCE}\n{{code}}\n{FENCE}\nThat is all.",
        "Thought: I write.\nAction:\n````\n{code}\n````",
        "Thought: I write.\nAction:\n~~~python\n{code}\n~~~",
        f"Thought: I write.\r\nAction:\r\n{FENCE}\n{{code}}\n{FENCE}",
        f"<think>Which?\nAction: none</think>\nThought: I write.\nAction:\n{FENCE}\n{{code}}\n{FENCE}",
        f"Thought: I write.\nAction:\n{FENCE}python\n{{code}}",
    ],
)
def test_what_stands_in_a_fenced_block_is_left_as_it_is(form, code):
    with playing(free_form=TEXT):
        fields = read_answer(FlatActor, form.replace("{code}", code))
    assert fields is not None
    assert fields["action"] == code


def test_a_longer_fence_holds_shorter_ones_at_the_margin():
    code = f'"""\n{FENCE}\nx\n{FENCE}\n"""'
    with playing(free_form=TEXT):
        assert read_answer(FlatActor, f"Thought: So.\nAction:\n````\n{code}\n````") == {
            "thought": "So.",
            "action": code,
        }


@pytest.mark.parametrize("code", [QUOTING, DOCTEST, "def f():\n    return 1", "a |\n> b"])
def test_lines_without_a_fence_keep_their_marks(code):
    with playing(free_form=TEXT):
        fields = read_answer(FlatActor, f"Thought: I write.\nAction:\n{code}")
    assert fields["action"] == code


PAGE = "<ul>\n<!-- fruit -->\n<li>&lt;b&gt;</li>\n</ul>"
TAGGED = ActionForm(verbs=frozenset({"<go>"}), possible=frozenset({"open <b>"}))


@pytest.mark.parametrize(
    ("said", "form", "action", "cut"),
    [
        ("say &lt;b&gt;", LINE, "say &lt;b&gt;", ""),
        ("Thought: So.\nAction: say &lt;b&gt; and <b>", LINE, "say &lt;b&gt; and <b>", ""),
        ("&lt;think&gt;Hm.&lt;/think&gt;\nAction: say &lt;b&gt;", LINE, "say &lt;b&gt;", ""),
        ("<action>say &lt;b&gt;</action>", LINE, "say &lt;b&gt;", ""),
        ("Action: **say &lt;b&gt;**", LINE, "say &lt;b&gt;", "**say &lt;b&gt;**"),
        ('{"thought": "So.", "action": "say \\"&lt;b&gt;\\""}', LINE, 'say "&lt;b&gt;"', ""),
        ("Action: say \U0001f469\u200d\U0001f4bb", LINE, "say \U0001f469\u200d\U0001f4bb", ""),
        (f"Thought: So.\nAction:\n{PAGE}", TEXT, PAGE, ""),
        ("Action: open &lt;b&gt;", TAGGED, "open <b>", "open &lt;b&gt;"),
        ("open &lt;b&gt;", TAGGED, "open <b>", "open &lt;b&gt;"),
        ("Action: &lt;go&gt; on", TAGGED, "<go> on", "&lt;go&gt; on"),
        ("&lt;answer&gt;ls -l&lt;/answer&gt;", LINE, "ls -l", ""),
        ("Action: ls &lt;a&gt;&lt;|im_end|&gt;", LINE, "ls &lt;a&gt;", ""),
    ],
)
def test_an_action_is_as_it_was_written_unless_it_is_known_as_it_was_read(said, form, action, cut):
    answer = read_prediction(predict(said, form), (), form)
    assert (answer.action, answer.cut) == (action, cut)


def test_an_action_that_is_copied_as_earlier_attempts_show_it_is_the_action():
    """A small model, shown its last attempt, answered `> ls logs` in the mark of that transcript."""
    start, seen = State("You are at the root.", "", ""), State("Refused.", "", "")
    step = Step("ls logs", "ls logs", seen, reward=0, score=0, understood=True)
    transcript = render_recent_steps([start, seen], [step])
    shown = next(line for line in transcript.splitlines() if "ls logs" in line)

    assert shown == "Step 1. > ls logs"
    assert read_action(shown, LINE) == "ls logs"
    assert read_action(shown.removeprefix("Step 1. "), LINE) == "ls logs"
