"""Equal retries are a control where they can differ: what makes them, what is sent for it, and what is said where they
cannot."""

from dataclasses import replace

import pytest

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.errors import ConfigError
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.retry_warnings import list_retry_warnings
from rsso_dspy.experiment.session import session
from rsso_dspy.lm import Backend
from rsso_dspy.report.analysis import RunRecords, analyze_run
from rsso_dspy.report.analysis_json import serialize_analysis
from rsso_dspy.report.tables import build_methods_table
from tests.cli.conftest import rsso  # noqa: F401
from tests.live import says
from tests.provider_formats import Said
from tests.provider_runs import KEY, SHORT, STEPS, VARIABLE, run_against
from tests.records import record

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("_key"),
]

TWO = ("protocol.trials=2",)


@pytest.fixture
def _key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)


def test_every_request_of_a_run_has_a_seed_of_its_own_and_a_replay_the_same(tmp_path):
    sent = []
    for name in ("one", "again"):
        with run_against("vllm", tmp_path / name, settings=TWO, seed=True) as run:
            run.play(2)
            sent.append([body["seed"] for body in run.served.requests])
            recorded = [trial.sent["actor"]["seed"] for unit in run.records for trial in unit.trials]
    seeds = sent[0]
    assert len(seeds) == 2 * 2 * STEPS == len(set(seeds)), "units x trials x steps, all apart"
    assert sent[1] == seeds
    assert recorded == seeds[::STEPS]
    assert all(second == first + 1 for first, second in zip(seeds[::STEPS], seeds[1::STEPS], strict=True))


def test_without_the_setting_no_seed_is_sent(tmp_path):
    with run_against("vllm", tmp_path / "run", settings=TWO) as run:
        run.play(1)
    assert not any("seed" in body for body in run.served.requests)
    assert "seed" not in run.records[0].trials[0].sent["actor"]


def test_a_request_that_is_asked_again_keeps_its_seed(tmp_path):
    with run_against("vllm", tmp_path / "run", faults={1: "overloaded"}, seed=True, retries=1) as run:
        run.play(1)
    seeds = [body["seed"] for body in run.served.requests]
    assert seeds[0] == seeds[1] == seeds[2] - 1


def test_the_actor_retries_at_the_temperature_of_the_protocol(tmp_path):
    settings = (*TWO, "protocol.retry_temperature=0.7")
    with run_against("openai", tmp_path / "run", settings=settings, temperature=0.0) as run:
        run.play(1)
    assert [body["temperature"] for body in run.served.requests] == [0.0] * STEPS + [0.7] * STEPS
    (unit,) = run.records
    assert [trial.sent["actor"]["temperature"] for trial in unit.trials] == [0.0, 0.7]
    assert "retry_temperature=0.7" in run.plan.protocol


def test_a_training_variant_that_was_not_played_before_is_no_retry(live):
    """Numbers of trials go on from variant to variant there."""
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.programs.runtime import ResumeState

    asked = []

    def lm(role, rollout, temperature=None):
        asked.append(temperature)
        return live.backend.lm(role, rollout)

    rules = replace(live.runtime.rules, retry_temperature=0.7)
    runtime = replace(live.runtime, lm=lm, rules=rules, budget=lambda _: 1)
    with live.activate_for_run(), runtime.activate():
        first = Agent("react")(variant="find-plant::229", trials=1)
        Agent("react")(variant=SHORT, trials=2, start=ResumeState(played=first.trials))
        assert asked == [None, None]
        Agent("react")(variant="find-plant::229", trials=2, start=ResumeState(played=first.trials))
    assert asked == [None, None, 0.7]


def test_a_temperature_that_the_actor_does_not_take_is_refused_before_anything_is_played():
    overrides = ["backend=mine", "backends.mine.model=anthropic/claude-sonnet-4-6", "protocol.retry_temperature=1.5"]
    with pytest.raises(ConfigError, match="1 is the highest"), session(load_config(overrides=overrides)):
        pass


MODEL = "hosted_vllm/m"
GREEDY = {"model": MODEL}
CONTROL = "further trials of react, react-sso repeat the first one"
MEMORIES = "further trials of sso, rsso differ from the first only by their memories"


@pytest.mark.parametrize(
    ("backend", "protocol", "said"),
    [
        (GREEDY, [], [CONTROL, MEMORIES]),
        ({**GREEDY, "seed": True}, [], ["a seed changes nothing", MEMORIES]),
        ({**GREEDY, "temperature": 0.7, "top_k": 1}, [], [CONTROL, MEMORIES]),
        ({**GREEDY, "temperature": 0.7, "roles": {"actor": {"temperature": 0}}}, [], [CONTROL, MEMORIES]),
        (GREEDY, ["protocol.retry_temperature=0"], [CONTROL, MEMORIES]),
        (GREEDY, ["protocol.retry_temperature=0.7"], []),
        ({**GREEDY, "temperature": 0.7}, [], []),
        ({**GREEDY, "roles": {"actor": {"temperature": 0.7}}}, [], []),
        (GREEDY, ["protocol.trials=1"], []),
        (GREEDY, ["protocol.frozen=true"], ["further trials of react, react-sso, sso, rsso repeat the first one"]),
        ({"model": "embedded/explorer"}, [], []),
    ],
)
def test_a_plan_whose_retries_cannot_differ_says_so(backend, protocol, said):
    config = load_config(overrides=["protocol.trials=3", *protocol])
    plan = plan_held_out(config, ["react", "react-sso", "sso", "rsso"], variants=[SHORT])
    warnings = list_retry_warnings(plan, Backend(BackendConfig(**backend)))
    assert len(warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, warnings, strict=True))
    assert not said or "protocol.retry_temperature=0.7" in warnings[0]


def test_a_run_says_it_before_anything_is_paid(rsso):  # noqa: F811
    words = ("run", "--backend", "vllm", "--methods", "react,rsso", "--tasks", "boil", "--per-task", "1", "--dry-run")
    assert "warning: the actor draws the likeliest token only" in rsso(*words)[2]
    assert "warning" not in rsso(*words, "--set", "protocol.retry_temperature=0.7")[2]


def test_trials_that_were_equal_are_said_below_the_table(tmp_path):
    with run_against("openai", tmp_path / "run", settings=TWO) as run:
        run.play(2)
    found = analyze_run(RunRecords(run.records))
    assert found.repeated == {"react": (2, 2)}
    assert any("react 2 of 2" in note and "retry_temperature" in note for note in build_methods_table(found).notes)
    assert serialize_analysis(found)["repeated"] == {"react": {"equal": 2, "units": 2}}


@pytest.mark.parametrize(
    ("rule_based", "trials", "expected"),
    [
        (False, [[0, 0], [0, 0]], {"react": (1, 1)}),
        (False, [[0, 0], [0, 0, 0]], {}),
        (False, [[0, 0]], {}),
        (False, [[0, 0], None], {}),
        (True, [[0, 0], [0, 0]], {}),
    ],
)
def test_only_trials_of_a_language_model_that_are_equal_in_every_action_are_counted(rule_based, trials, expected):
    unit = replace(record("react", "boil", 1, trials), rule_based=rule_based)
    assert analyze_run(RunRecords([unit])).repeated == expected


def test_trials_that_differ_are_not_said_to_be_equal(tmp_path):
    actions = iter(["look around", "inventory"] * STEPS)
    answer = lambda _: Said(says(thought="hm", action=next(actions)))  # noqa: E731
    with run_against("openai", tmp_path / "run", settings=TWO, answer=answer) as run:
        run.play(1)
    assert analyze_run(RunRecords(run.records)).repeated == {"react": (1, 1)}
    actions = iter(["look around"] * STEPS + ["inventory"] * STEPS)
    with run_against("openai", tmp_path / "other", settings=TWO, answer=answer) as run:
        run.play(1)
    assert analyze_run(RunRecords(run.records)).repeated == {}


def test_the_embedded_model_plays_as_before():
    assert resolve_protocol(load_config()).id == "adapt/2"
    config = load_config()
    assert set(config.resolve_settings()["backends"]["embedded"]) == {
        "model",
        "temperature",
        "max_tokens",
        "adapter",
        "roles",
    }
