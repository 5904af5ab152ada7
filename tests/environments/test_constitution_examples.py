"""Examples of rules that come with each benchmark, as the writers of a constitution are shown them."""

import re
from dataclasses import replace
from importlib.util import find_spec

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import BUILT_IN, get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution import CATEGORIES, require_examples
from rsso_dspy.optimize.constitution import select_examples
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import session
from scripts import draw_abstract_rules, write_rule_examples
from scripts.write_reflection_examples import play_actions
from tests.live import Engine, is_asked, model, says

EXTRAS = {"alfworld": "alfworld", "tau2": "tau2", "textworld-express": "textworld_express"}
WITHOUT_EXAMPLES = ("house-rules",)
"""Benchmarks that refuse a neuro-symbolic writer: they have no examples of rules."""
INSTALLED = [
    name for name in BUILT_IN if name not in WITHOUT_EXAMPLES and (name not in EXTRAS or find_spec(EXTRAS[name]))
]
"""Benchmarks whose extras are there: CI tests without those of ALFWorld and tau2 first."""


def ask_for_rules(benchmark: str, writing: str) -> dict[str, str]:
    """Category to the request for its rules, after ten steps of one variant, with the paper's three prompts."""
    overrides = (
        f"benchmark={benchmark}",
        "embedder.model=hash",
        "protocol.steps=10",
        "memory.constitution.prompts=separate",
        "memory.constitution.at_end=false",
    )
    engine = Engine(lambda prompt: says(action="look around") if is_asked(prompt, "action") else "none")
    with session(load_config(overrides=overrides)) as live:
        runtime = replace(live.runtime, lm=lambda *_: model(engine), hear_answers=lambda *_: None)
        tasks = live.config.active_benchmark.tasks
        (variant,) = tasks.train_sample(tasks.names()[0], 1)
        with live.activate_for_run(), runtime.activate():
            Agent(f"react+{writing}")(variant=variant, trials=2)
    requests = {category: [] for category in CATEGORIES}
    for prompt in engine.prompts:
        for category in CATEGORIES:
            if is_asked(prompt, f"{category}_rules"):
                requests[category].append(prompt)
    return {category: prompts[0] for category, prompts in requests.items()}


@pytest.mark.parametrize("benchmark", INSTALLED)
def test_each_of_a_neuro_symbolic_writers_three_requests_holds_rules_of_its_category(benchmark, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    neural, neuro_symbolic = (ask_for_rules(benchmark, writing) for writing in ("neural", "neuro-symbolic"))

    for category in CATEGORIES:
        heading = f"{category.capitalize()} rules:\n- "

        assert heading not in neural[category]
        assert re.search(rf"^{heading}(?!none$)", neuro_symbolic[category], re.M), category


@pytest.mark.parametrize("benchmark", draw_abstract_rules.BENCHMARKS)
def test_abstract_rules_of_shipped_examples_are_those_that_patterns_draw_from_their_play(benchmark):
    file = draw_abstract_rules.PACKAGE / benchmark / "data/examples.json"

    assert file.read_text(encoding="utf-8") == draw_abstract_rules.write_file(benchmark)


def test_examples_of_rules_of_games_that_are_played_anew_are_what_is_said_today():
    pytest.importorskip("textworld_express", reason="the extra textworld-express is not installed")

    assert write_rule_examples.FILE.read_text(encoding="utf-8") == write_rule_examples.write_file()


def test_examples_that_a_build_writes_hold_abstract_rules():
    benchmark = get_benchmark("pddl")
    variant = benchmark.tasks.variant("blockworld", 39)
    path = benchmark.find_gold_path(variant)[:10]
    with session(load_config(overrides=("benchmark=pddl", "embedder.model=hash"))) as live:
        trajectory, _ = play_actions(variant.key, path, live)

    (example,) = select_examples([trajectory], benchmark)

    assert "Abstract rules:\n- A block that stands on another is taken with unstack" in example


ERRORS_ALONE = "Example 1\nStep 1. > go\nGone.\nError rules:\n- Mistake: Went away. Instead: Stay.\n"


def test_a_category_without_an_example_is_refused_where_each_is_asked_for_alone():
    with pytest.raises(UsageError, match="its examples hold no abstract or progress rules"):
        require_examples("mine", "neuro-symbolic", ERRORS_ALONE, CATEGORIES, "separate")


def test_a_category_without_an_example_is_asked_for_in_the_one_call_for_all():
    assert require_examples("mine", "neuro-symbolic", ERRORS_ALONE, CATEGORIES, "joint") == ERRORS_ALONE


def test_a_category_that_is_left_out_needs_no_example():
    assert require_examples("mine", "neuro-symbolic", ERRORS_ALONE, ("error",), "separate") == ERRORS_ALONE
