"""What a report says of answers that were cut off at the limit of tokens, and of prompts that a server cut."""

from dataclasses import replace

import pytest

from rsso_dspy.records import Usage
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.limits import describe_limits
from tests import records


def record(arm, usage, sent=1024):
    made = records.record(arm, "boil", 1, [[50]])
    trial = replace(made.trials[0], usage=usage, sent={role: {"max_tokens": sent} for role in usage})
    return replace(made, trials=(trial,), backend="mine")


def test_where_no_answer_and_no_prompt_was_cut_nothing_is_said():
    assert list(describe_limits([record("react", {"actor": Usage(calls=9, input=900, output=90)})])) == []


def test_answers_that_were_cut_off_are_told_by_role_with_the_setting_to_raise():
    units = [
        record("react", {"actor": Usage(calls=6, output=900, truncated=1)}),
        record("reflexion", {"actor": Usage(calls=5, output=700, truncated=4), "reflector": Usage(calls=1)}),
    ]
    assert list(describe_limits(units)) == [
        "Cut off at max_tokens (1,024): 5 of 11 answers of the actor; raise backends.mine.max_tokens."
    ]


def test_where_hidden_reasoning_used_up_the_limit_it_is_named():
    (sentence,) = describe_limits([record("react", {"actor": Usage(calls=6, output=600, reasoning=580, truncated=1)})])
    assert "actor, which hidden reasoning used up (580 of 600 tokens); raise backends.mine.max_tokens" in sentence


def test_a_rare_cut_is_not_told():
    assert list(describe_limits([record("react", {"actor": Usage(calls=4208, output=900, truncated=4)})])) == []


def test_prompts_that_a_server_cut_are_told_by_arm():
    units = [
        record("react", {"actor": Usage(calls=40, undercounted=8)}),
        record("rsso", {"actor": Usage(calls=48, undercounted=48)}),
    ]
    (sentence,) = describe_limits(units)
    assert sentence.startswith("WARNING: the server counted far fewer tokens than were sent to the actor")
    assert "(react 8 of 40, rsso 48 of 48 answers)" in sentence
    assert "num_ctx" in sentence


@pytest.mark.parametrize("usage", [Usage(calls=6, truncated=1), Usage(calls=6, undercounted=1)])
def test_the_report_says_so_beside_its_scores(usage):
    found = analyze([record("react", {"actor": usage})])
    assert found.limits
    assert set(found.limits) <= set(found.describe_gaps())


CODE = "def f(n):\n    return n"


@pytest.mark.parametrize(
    ("action", "cut", "is_told"),
    [
        ("def f(n):", CODE, True),
        ("def f(n):", f"```python\n{CODE}\n```", True),
        (CODE, f"```python\n{CODE}\n```", False),
        ("npm install", "```\nnpm install\n```", False),
        ("open door", "open door.", False),
        ("open door", "", False),
    ],
)
def test_actions_of_which_the_first_line_alone_was_played_are_told(action, cut, is_told):
    made = records.record("react", "boil", 1, [[0, 0]])
    (trial,) = made.trials
    steps = tuple(replace(step, action=action, cut=cut) for step in trial.trajectory.steps)
    trial = replace(trial, trajectory=replace(trial.trajectory, steps=steps))
    sentences = list(describe_limits([replace(made, trials=(trial,))]))
    told = "of 2 of 2 actions the first line alone was played: the environment takes one line"
    assert any(told in sentence for sentence in sentences) == is_told
