"""Answers under a JSON schema, actions held to a list, one question alone: with servers that keep to it and others."""

import json
import logging
import re
from dataclasses import replace

import dspy
import pytest

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.environments import list_verbs
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES
from rsso_dspy.environments.scienceworld.admissible import keep_in_sight, keep_templates, list_numbers
from rsso_dspy.errors import ConfigError, EnvironmentFailure, UsageError
from rsso_dspy.experiment.action_choice import check_action_choice
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.lm import Backend
from rsso_dspy.lm.adapters import schemas
from rsso_dspy.lm.adapters.schemas import LONGEST_TEXT, build_schema, takes_bounds
from rsso_dspy.programs.choosing import offer_actions
from rsso_dspy.programs.role_calls import TrialLedger
from rsso_dspy.signatures import FlatActor, Reflect, SkillActor, WriteRules
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, VARIABLE, backend, run_against
from tests.provider_server import provider
from tests.toy_benchmark import BENCHMARK, Counting

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.usefixtures("_key", "_nothing_said_yet"),
]

PROSE = "I would rather not say, and certainly in no format."
STEP = json.dumps({"thought": "hm", "action": "look around"})


@pytest.fixture
def _key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture
def _nothing_said_yet(monkeypatch):
    monkeypatch.setattr(schemas, "_told", set())


def ask(models: Backend, ledger: TrialLedger | None = None, **choices) -> dspy.Prediction:
    ledger, lm = ledger or booked(), models.lm("actor", 3)
    fields = {"task": "Look.", "action_templates": "look around", "history": "A room."}
    with dspy.context(adapter=models.adapter, lm=lm, disable_history=True, **choices), ledger.book_under_role("actor"):
        return dspy.Predict(FlatActor)(**fields)


def booked() -> TrialLedger:
    return TrialLedger(lambda _role, _usage: None)


def sent_schema(body: dict) -> dict:
    """The schema of a request, in either format."""
    if "output_config" in body:
        return body["output_config"]["format"]["schema"]
    assert body["response_format"]["json_schema"]["strict"] is True
    return body["response_format"]["json_schema"]["schema"]


@pytest.mark.parametrize("wire", WIRES)
def test_the_schema_of_the_answer_arrives_on_every_wire(wire):
    with provider(lambda _: Said(STEP), wire=wire) as served:
        assert ask(backend(wire, served, adapter="schema")).action == "look around"
    (body,) = served.requests
    schema = sent_schema(body)
    assert (list(schema["properties"]), schema["required"]) == (["thought", "action"], ["thought", "action"])
    assert schema["additionalProperties"] is False


def test_without_the_adapter_no_request_holds_a_schema():
    for adapter in ("chat", "json", "xml"):
        said = {"chat": "[[ ## thought ## ]]\nhm\n\n[[ ## action ## ]]\nwait", "json": STEP}.get(
            adapter, "<thought>hm</thought><action>wait</action>"
        )
        with provider(lambda _, said=said: Said(said)) as served:
            ask(backend("vllm", served, adapter=adapter))
        assert "response_format" not in served.requests[0]


@pytest.mark.parametrize("signature", [FlatActor, SkillActor, Reflect])
@pytest.mark.parametrize("longest", [100, 300, 1024, 100_000])
def test_texts_are_bounded_so_that_a_long_answer_is_not_cut_off(signature, longest):
    fields = build_schema(signature, longest)["properties"].values()
    lengths = [field["maxLength"] for field in fields]
    assert max(lengths) <= LONGEST_TEXT
    assert longest < 300 or sum(lengths) <= schemas.CHARACTERS_PER_TOKEN * longest
    assert not re.search("maxLength|maxItems", json.dumps(build_schema(signature)))


def test_lists_and_what_is_in_them_are_bounded_too():
    schema = build_schema(WriteRules, 1024)
    assert not re.search(r'"title"|"default"', json.dumps(schema))
    unbounded = [part for part in parts(schema) if part.get("type") == "string" and "maxLength" not in part]
    unbounded += [part for part in parts(schema) if part.get("type") == "array" and "maxItems" not in part]
    assert not unbounded
    assert all(part["required"] == list(part["properties"]) for part in parts(schema) if "properties" in part)


def parts(schema):
    """Every schema within a schema."""
    if isinstance(schema, dict):
        return [schema, *(part for value in schema.values() for part in parts(value))]
    return [part for value in schema for part in parts(value)] if isinstance(schema, list) else []


def test_what_no_schema_can_say_is_asked_for_as_some_object():
    class Free(dspy.Signature):
        """Say anything."""

        question: str = dspy.InputField()
        answer: dict[str, int] = dspy.OutputField()

    with provider(lambda _: Said('{"answer": {"a": 1}}')) as served:
        models = backend("vllm", served, adapter="schema")
        with dspy.context(adapter=models.adapter, lm=models.lm("actor", 0), disable_history=True):
            assert dspy.Predict(Free)(question="?").answer == {"a": 1}
    assert served.requests[0]["response_format"] == {"type": "json_object"}


def test_providers_own_endpoints_are_sent_no_lengths():
    def lm(model: str, **options) -> dspy.LM:
        return dspy.LM(model, api_key="none", **options)

    assert not takes_bounds(lm("openai/gpt-4.1-mini"))
    assert takes_bounds(lm("openai/gpt-4.1-mini", api_base="http://127.0.0.1:9/v1"))
    assert takes_bounds(lm("hosted_vllm/any"))


@pytest.mark.parametrize(
    ("said", "read", "warned"),
    [
        (STEP, "look around", False),
        ("Thought: hm\nAction: look around", "look around", True),
        ('{"thought": "hm", "action": "look around", "more": 1}', "look around", True),
        (PROSE, None, True),
        ('{"thought": "and then and then', None, False),  # cut off: it may well have been under the schema
    ],
)
def test_a_server_that_ignores_the_schema_is_named_once_and_read_as_ever(caplog, said, read, warned):
    with provider(lambda _: Said(said)) as served:
        models = backend("vllm", served, adapter="schema")
        for _ in range(3):
            if read is None:
                with pytest.raises(dspy.utils.exceptions.AdapterParseError):
                    ask(models)
            else:
                assert ask(models).action == read
    assert len(served.requests) == 3, "none is asked for again"
    told = [record.getMessage() for record in caplog.records if "response_format" in record.getMessage()]
    assert len(told) == warned
    assert all(WIRES["vllm"].model in text and "doctor" in text for text in told)


def test_an_action_that_is_none_of_the_choices_is_malformed():
    with provider(lambda _: Said(STEP)) as served:
        models = backend("vllm", served, adapter="schema")
        assert ask(models, action_choices=("look around", "wait")).action == "look around"
        with pytest.raises(dspy.utils.exceptions.AdapterParseError, match="not one of the 1 actions"):
            ask(models, action_choices=("wait",))
    assert sent_schema(served.requests[1])["properties"]["action"] == {"type": "string", "enum": ["wait"]}


@pytest.mark.parametrize("adapter", ["chat", "xml"])
@pytest.mark.parametrize(("again", "asked"), [(None, 1), (False, 1), (True, 2)])
def test_a_server_on_this_machine_is_asked_once(adapter, again, asked):
    with provider(lambda _: Said(PROSE)) as served, pytest.raises(dspy.utils.exceptions.AdapterParseError):
        ask(backend("vllm", served, adapter=adapter, ask_again=again))
    assert len(served.requests) == asked


@pytest.mark.parametrize(
    ("table", "again"),
    [
        ({"model": "anthropic/claude-sonnet-4-6"}, True),
        ({"model": "hosted_vllm/any", "base_url": "http://gpu.example:8000/v1"}, True),
        ({"model": "hosted_vllm/any"}, False),
        ({"model": "ollama_chat/any"}, False),
        ({"model": "openai/any", "base_url": "http://localhost:8080/v1"}, False),
        ({"model": "anthropic/claude-sonnet-4-6", "ask_again": False}, False),
        ({"model": "embedded/explorer"}, True),
    ],
)
def test_a_provider_is_asked_again_as_before(table, again):
    assert Backend(BackendConfig(**table)).asks_again("actor") is again


def test_settings_that_are_new_change_no_hash_where_they_are_not_set():
    config = load_config(overrides=["backend=vllm"])
    assert not {"ask_again", "action_choice"} & set(re.findall(r"\w+", json.dumps(config.resolve_settings())))
    assert load_config(overrides=["backend=vllm", "backends.vllm.ask_again=true"]).hash() != config.hash()


def test_answers_that_were_cut_off_are_counted_and_not_printed(caplog):
    ledger = booked()
    with provider(lambda _: Said(STEP, output=5, ending="length")) as served:
        for _ in range(2):
            ask(backend("vllm", served, adapter="json"), ledger)
    assert ledger.usage_by_role()["actor"].truncated == 2
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((), ""),
        (("protocol.action_choice=free",), ""),
        (("protocol.action_choice=listed",), "lists hundreds of actions"),
        (("protocol.action_choice=constrained",), "embedded/explorer has none"),
        (("protocol.action_choice=constrained", "backend=vllm"), "--set backends.vllm.adapter=schema"),
        (("protocol.action_choice=constrained", "backend=vllm", "backends.vllm.adapter=schema"), ""),
        (("protocol.action_choice=constrained", "backend=openai", "backends.openai.adapter=schema"), "of your own"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_is_played(settings, said):
    config = load_config(overrides=settings)
    if said:
        with pytest.raises(ConfigError, match=re.escape(said)):
            check_action_choice(config)
    else:
        check_action_choice(config)
    assert ("action_choice=" in resolve_protocol(config).id) is ("free" not in str(settings) and bool(settings))


def test_the_answer_is_held_to_what_can_be_done_in_the_room(tmp_path):
    def take(body: dict) -> Said:
        listed = sent_schema(body)["properties"]["action"]["enum"]
        return Said(json.dumps({"thought": "hm", "action": next(a for a in listed if a.startswith("Move"))}))

    constrained = ["protocol.action_choice=constrained", "backends.mine.adapter=schema"]
    with run_against("vllm", tmp_path, answer=take, settings=constrained, adapter="schema") as run:
        run.play(1)
    (record,) = run.records
    assert "action_choice=constrained" in record.protocol
    steps = record.trials[0].trajectory.steps
    assert steps
    assert all(step.understood and not step.malformed for step in steps)


def test_what_can_be_done_has_the_forms_of_the_templates_and_no_reset(env):
    env.reset(tasks.parse("find-plant::228"))
    listed = env.admissible_actions()
    verbs = {line.split()[0] for line in ACTION_TEMPLATES.partition("Templates:\n")[2].splitlines()}
    assert "wait" in listed
    assert {action.split()[0] for action in listed} <= verbs
    assert not {"reset task", "wait1", "inventory", "task"} & set(listed)
    assert all(env.step(action).understood for action in ("wait", next(a for a in listed if a.startswith("pick up"))))


def test_where_a_question_is_open_its_numbers_are_what_can_be_done(env):
    env.reset(tasks.parse("find-plant::228"))
    env.step("teleport to kitchen")
    move = env.step("pick up orange")
    if not move.state.observation.startswith("Ambiguous request"):
        move = env.step("open door")
    assert move.state.observation.startswith("Ambiguous request")
    listed = env.admissible_actions()
    assert listed == list_numbers(move.state.observation)
    assert set(listed) <= list_verbs(env)  # a number after prose is an answer while the question is open
    assert listed[:2] == ["0", "1"]
    env.step(listed[0])
    assert len(env.admissible_actions()) > 100


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ("open door", True),
        ("pour tin cup into sink", True),
        ("look in bowl", True),
        ("look at bowl", False),
        ("look around", False),
        ("wait", True),
        ("wait1", False),
        ("waiting", False),
        ("reset task", False),
        ("use thermometer on water", False),
    ],
)
def test_only_the_forms_of_the_templates_are_kept(action, kept):
    assert keep_templates([action], ACTION_TEMPLATES) == [action] * kept


NAMES = ("apple", "bowl", "cup", "drawer", "counter", "cupboard", "door to hallway", "table", "water")


@pytest.mark.parametrize(
    ("action", "kept"),
    [
        ("pick up apple", True),
        ("pick up sodium chloride", False),  # in a jar that is closed
        ("move apple to sewer", False),
        ("move apple in bowl to table", True),
        ("pour cup containing water into bowl", True),
        ("pour cup containing juice into bowl", False),
        ("pick up cup containing nothing in table", True),
        ("open door to hallway", True),
        ("move apple to inventory", True),
        ("look in drawer in counter", True),
        ("look in drawer in cupboard", False),
        ("pick up cup containing water in cupboard", False),
        ("open cupboard", True),
        ("teleport to greenhouse", True),
        ("go to greenhouse", True),
        ("wait", True),
    ],
)
def test_only_what_is_in_sight_is_kept(action, kept):
    look = "In it, you see:\n\ta cupboard. The cupboard door is closed.\n\ta table. On the table is: nothing."
    assert keep_in_sight([action], ACTION_TEMPLATES, NAMES, look) == [action] * kept


def test_nothing_in_a_closed_cupboard_can_be_named(env):
    env.reset(tasks.parse("find-plant::228"))
    before = env.step("teleport to kitchen").state
    assert "The cupboard door is closed" in before.look
    assert not [action for action in env.admissible_actions() if "tin cup" in action or "sewer" in action]
    env.step("open cupboard")
    assert "pick up tin cup" in env.admissible_actions()


class Listing(Counting):
    """The toy environment, saying what can be done."""

    actions = ("add 1", "add 2", "add 1")

    def admissible_actions(self):
        return self.actions


def test_a_short_list_is_shown_after_the_history_and_free_changes_nothing():
    with offer_actions(Listing(), "free", "You begin.") as seen:
        assert seen == "You begin."
    with offer_actions(Listing(), "listed", "You begin.") as seen:
        assert seen == "You begin.\n\nActions that can be taken now:\n- add 1\n- add 2"
    assert dspy.settings.get("action_choices") is None


@pytest.mark.parametrize(
    ("actions", "choice", "said"),
    [
        ((), "listed", "0 actions"),
        (tuple(map(str, range(101))), "listed", "101 actions"),
        (tuple(map(str, range(2001))), "constrained", "2,001 actions"),
        (None, "listed", "does not list the possible actions"),
    ],
)
def test_a_list_that_is_none_or_too_long_is_an_error_of_the_trial(actions, choice, said):
    environment = Counting() if actions is None else Listing()
    if actions is not None:
        environment.actions = actions
    with pytest.raises(EnvironmentFailure, match=said), offer_actions(environment, choice, ""):
        raise AssertionError("nobody is asked")


def test_a_users_own_adapter_does_not_drop_the_constraint_without_a_word():
    with (
        dspy.context(adapter=dspy.ChatAdapter()),
        pytest.raises(UsageError, match="needs an adapter with a schema"),
        offer_actions(Listing(), "constrained", ""),
    ):
        raise AssertionError("nobody is asked")


def test_a_benchmark_says_whether_its_lists_are_short(monkeypatch):
    listed = load_config(overrides=["protocol.action_choice=listed"])
    for admissible, said in (("short", ""), ("none", "does not list them")):
        monkeypatch.setattr(
            type(listed), "active_benchmark", property(lambda _, a=admissible: replace(BENCHMARK, admissible=a))
        )
        if said:
            with pytest.raises(ConfigError, match=said):
                check_action_choice(listed)
        else:
            check_action_choice(listed)
