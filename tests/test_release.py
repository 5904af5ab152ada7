"""What the released adaptation loop gets wrong, row by row, and what holds here instead.

The rows are those of docs/FIDELITY.md; each test is named after the behaviour that must not return.
"""

import dspy
import pytest

from rsso_dspy.config import BackendConfig
from rsso_dspy.errors import ConfigError, GoldUnknown
from rsso_dspy.files import CACHE_VARIABLE
from rsso_dspy.lm import Backend
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Variant
from tests.live import REWARDED, Recorder, acting, model, region, walks
from tests.provider_server import completion, provider


def test_trials_walking_on_to_other_variants(live):
    with acting(live, walks(live)[0], rules=TrialRules(3, False)):
        result = Agent("react-sso")(variant=REWARDED)
    starts = {(t.trajectory.variant.key, t.trajectory.task, t.trajectory.start) for t in result.trials}
    assert len(result.trials) == 3
    assert len(starts) == 1


def test_reflections_surviving_between_variants(live):
    agent = Agent("rsso")
    (first, actors), (second, again) = walks(live), walks(live)
    with acting(live, first, rules=TrialRules(3, False)):
        before = agent(variant=REWARDED)
    with acting(live, second, rules=TrialRules(3, False)):
        after = agent(variant=REWARDED)
    assert before.memories["reflections"]["plans"]
    assert before.trials[-2].learnt["skills"]["library"] > 0
    for name in ("plans_from_past_attempts", "skills"):
        assert region(again[1].prompts[0], name) is None
    assert [actors[t].prompts for t in actors] == [again[t].prompts for t in again]
    assert before.trials == after.trials
    assert before.memories == after.memories


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_temperature_never_reaching_the_request(monkeypatch):
    monkeypatch.setenv("TEST_PROVIDER_KEY", "sk-test")
    with provider(lambda _: completion("[[ ## answer ## ]]\nyes")) as served:
        table = BackendConfig(
            model="openai/m", base_url=served.url, key_variable="TEST_PROVIDER_KEY", temperature=0.37, retries=0
        )
        dspy.Predict("question -> answer")(question="?", lm=Backend(table).lm("actor", 0))
    assert [body["temperature"] for body in served.requests] == [0.37]


def test_skills_in_hash_order_and_more_than_three(live):
    """Within one process; tests/runs/test_replay.py compares two hash seeds."""
    prompts = []
    for _ in range(2):
        lm, actors = walks(live)
        with acting(live, lm, rules=TrialRules(4, stop_on_success=False)):
            result = Agent("sso")(variant=REWARDED)
        prompts.append([prompt for actor in actors.values() for prompt in actor.prompts])
        recalled = [step.recalled for trial in result.trials for step in trial.trajectory.steps]
        assert any(recalled)
        assert all(len(ids) == len(set(ids)) <= 3 for ids in recalled)
    assert prompts[0] == prompts[1]


def test_an_unknown_model_name_returning_nothing():
    with pytest.raises(ConfigError, match=r"anthropic/.*openai/.*embedded/explorer"):
        Backend(BackendConfig(model="sonnet")).check()


def test_candidates_and_running_means_surviving_between_variants(live):
    agent, memories = Agent("sso"), []
    for _ in range(2):
        with acting(live, walks(live)[0], rules=TrialRules(3, stop_on_success=False)):
            memories.append(agent(variant=REWARDED).memories["skills"])
    assert memories[0]["pool"]
    assert memories[0] == memories[1]


def test_the_target_call_not_seeing_the_instructions(live):
    said: dict[str, list[str]] = {}
    lm, _ = walks(live)
    with acting(
        live,
        lambda role, n: lm(role, n) if role == "actor" else model(Recorder(n, said.setdefault(role, []))),
        rules=TrialRules(3, False),
    ):
        Agent("sso")(variant=REWARDED)
    summary, steps, target = said["verbalizer"][:3]
    assert "`summary`" in summary
    assert region(summary, "summary") is None
    assert region(steps, "summary")
    assert region(target, "summary") == region(steps, "summary")
    assert region(target, "steps")


def test_the_length_of_an_error_text_setting_the_budget(live, monkeypatch, tmp_path):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    with pytest.raises(GoldUnknown, match="boil::9999"):
        live.runtime.budget(Variant("boil", 9999))
    assert not list(tmp_path.rglob("*.json"))
