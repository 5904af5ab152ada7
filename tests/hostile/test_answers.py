"""Answers that lack what decides nothing are read, in both scaffolds alike; what cannot be read is kept and shown. What
is no answer is no score, and what no file can hold ends no run."""

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from typing import Any

import dspy
import pytest
from dspy.utils.exceptions import LMServerError

from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.errors import BackendFailure
from rsso_dspy.executor import list_pending_jobs
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import TrialLedger, choose_target, read_answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage
from tests.live import REWARDED, Engine, acting, model, says
from tests.provider_formats import Said
from tests.provider_runs import VARIABLE, backend, look, run_against
from tests.provider_server import completion, provider, replying

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.mark.parametrize(
    ("said", "target"),
    [
        ("Subgoal 2: The door is open.", "The door is open."),
        ("2", "The door is open."),
        ("Subgoal 3", None),
        ("The window is open.", None),
    ],
)
def test_a_subgoal_is_known_by_its_words_or_its_number(said, target):
    targets = ["The box is open.", "The door is open."]
    assert choose_target(said, targets) == target
    answer = read_answer(dspy.Prediction(thought="", subgoal=said, action="wait"), targets)
    assert answer.rejected == ("" if target else said)


def test_what_could_not_be_read_is_kept_with_the_step(live):
    def answer(prompt):
        if "Mistakes:" in prompt:
            return "No."
        if "Nothing happened" in prompt:
            return says(thought="", subgoal="The moon is full.", action="wait1")
        return "I would rather not say."

    with acting(live, lambda *_: model(Engine(answer)), rules=TrialRules(2, layout="paper"), budget=lambda _: 2):
        first, _ = Agent("reflexion-sso")(variant=REWARDED).trials
    one, two = first.trajectory.steps
    assert (one.malformed, one.unread) == (True, "I would rather not say.")
    assert (two.rejected, two.unread) == ("The moon is full.", "")
    assert first.unread == {"reflector": ("No.",)}


NO_ANSWERS: dict[str, Any] = {
    "an error in words": {"error": "Model is being loaded"},
    "an error as an object": {"error": {"message": "Model is being loaded", "type": "unavailable"}},
    "a detail": {"detail": "Model is being loaded"},
    "a message": {"message": "Model is being loaded", "id": "x"},
    "no choices": {"choices": [], "message": "Model is being loaded"},
    "null choices": {"choices": None, "detail": "Model is being loaded"},
    "a choice without a message": {"choices": [{"index": 0}], "detail": "Model is being loaded"},
    "a choice with an error": {
        "choices": [{"message": {"content": ""}, "error": {"message": "Model is being loaded"}}]
    },
    "a list": ["Model is being loaded"],
    "a text": "Model is being loaded",
    "an empty object": {},
    "null": None,
}
"""Bodies under a status of 200 that hold no answer."""
each_way = pytest.mark.parametrize("way", [("vllm", {}), ("vllm", {"top_k": 5}), ("litellm", {}), ("anthropic", {})])


@each_way
@pytest.mark.parametrize("case", NO_ANSWERS)
@pytest.mark.usefixtures("provider_key")
def test_a_response_without_an_answer_is_asked_for_again_and_then_an_error(case, way):
    wire, more = way
    spent: list[Usage] = []
    with provider(lambda _: (200, NO_ANSWERS[case]), wire=wire) as served:
        models = backend(wire, served, retries=2, **more)
        ledger = TrialLedger(lambda _role, usage: spent.append(usage))
        with ledger.book_under_role("actor"), pytest.raises(LMServerError) as raised:
            models.lm("actor", 0)("Is water wet?")
    assert len(served.requests) == 3
    if case not in ("an empty object", "null"):
        assert "Model is being loaded" in str(raised.value)
    assert sum(spent, Usage()) == Usage(failed=3), "it is no answer, and none whose cost is unknown"


@each_way
@pytest.mark.usefixtures("provider_key")
def test_a_model_that_says_nothing_has_answered(way):
    wire, more = way
    with provider(lambda _: Said(""), wire=wire) as served:
        (answer,) = backend(wire, served, retries=2, **more).lm("actor", 0)("Is water wet?")
    assert not answer
    assert len(served.requests) == 1


@pytest.mark.usefixtures("provider_key")
def test_a_server_that_is_out_of_order_for_a_while_costs_no_score(tmp_path):
    replies = iter([look({}), (200, {"error": "loading"}), (200, {"choices": []}), look({})])
    with run_against("vllm", tmp_path / "run", answer=lambda _: next(replies), retries=2) as run:
        run.play(1)
        (record,) = run.records
    (trial,) = record.trials
    assert [step.action for step in trial.trajectory.steps] == ["look around", "look around"]
    assert trial.failures == {"LMServerError": 2}


def test_the_key_that_such_a_response_quotes_is_struck_out(monkeypatch):
    monkeypatch.setenv(VARIABLE, "sk-0123456789abcdefghij")
    quoting = provider(lambda _: (200, {"error": "refused: sk-0123456789abcdefghij"}))
    with quoting as served, pytest.raises(LMServerError, match=r"refused: \*\*\*$"):
        backend("openai", served).lm("actor", 0)("Is water wet?")


HALF = "\ud83d"


def speak_by_halves(place: str, model: str = "m") -> Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]:
    """A server whose second answer has half a character in one place."""
    numbers = count(1)

    def answer(_: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, body = completion(look({}).text)
        if next(numbers) != 2:
            return status, body
        message = body["choices"][0]["message"]
        if place == "unreadable":
            message["content"] = f"I think {HALF}"
        elif place == "escaped in a field":
            message["content"] = '{"thought": "half \\ud83d", "action": "look around"}'
        elif place == "reasoning":
            message["reasoning_content"] = f"hm {HALF}"
        elif place == "name":
            body["model"] = f"{model}{HALF}"
        elif place == "usage":
            body["usage"][f"queue{HALF}"] = f"x{HALF}"
        elif place == "error":
            return 400, {"error": {"message": f"refused: {HALF}", "type": f"bad{HALF}", "code": f"c{HALF}"}}
        elif place == "error with status 200":
            return 200, {"error": f"loading {HALF}"}
        return status, body

    return answer


PLACES = ("unreadable", "escaped in a field", "reasoning", "name", "usage", "error", "error with status 200")


@pytest.mark.parametrize("more", [{}, {"top_k": 5}, {"adapter": "json"}], ids=["own client", "LiteLLM", "json"])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.usefixtures("provider_key")
def test_half_a_character_ends_no_run_and_no_later_start(place, more, tmp_path):
    with run_against("vllm", tmp_path, answer=speak_by_halves(place), ask_again=True, **more) as run:
        outcome = run.play(1)
        assert len(outcome.errored) == place.startswith("error")
        again = run.executor.run(run.plan, list_pending_jobs(run.plan, run.store)[-1:], jobs=1)
    assert again.errored == []
    for file in tmp_path.rglob("*.jsonl"):
        for line in file.read_text().splitlines():
            json.dumps(json.loads(line), ensure_ascii=False).encode()
    for record in run.records:
        json.dumps(asdict(record), ensure_ascii=False).encode()


@pytest.mark.usefixtures("provider_key")
def test_half_a_character_in_a_log_is_given_again_whole(tmp_path):
    with run_against("vllm", tmp_path, answer=lambda _: Said("I would rather chat."), ask_again=False) as run:
        run.play(1)
        (log,) = tmp_path.rglob("*.jsonl")
        head, *lines = log.read_text().splitlines()
        calls = [line for line in lines if line.startswith(('{"call"', '{"text"'))]
        damaged = "\n".join([head, *calls, ""]).replace("I would rather chat.", "I would \\ud83d")
        log.write_text(damaged.replace('"served": "m"', '"served": "m\\udc00"'))
        asked = len(run.served.requests)
        run.play(1)
        assert len(run.served.requests) == asked, "its answers are given again"
    (record,) = run.records
    assert {step.unread for step in record.trials[0].trajectory.steps} == {"I would ?"}
    assert record.trials[0].answered == {"actor": ("m?",)}


@pytest.mark.parametrize(
    "embedding",
    [
        (400, {"error": {"message": f"refused: {HALF}"}}),
        (200, {"data": [{"index": 0, "embedding": [HALF]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}),
    ],
    ids=["an error", "no numbers"],
)
@pytest.mark.usefixtures("provider_key")
def test_half_a_character_from_an_embedder_is_replaced_too(embedding):
    status, body = embedding
    with replying(lambda *_: (status, {"Content-Type": "application/json"}, json.dumps(body).encode())) as url:
        config = EmbedderConfig(model="litellm/openai/e", base_url=url, key_variable=VARIABLE, retries=0)
        with pytest.raises(BackendFailure) as raised:
            Embedder(config)(["a door"])
    str(raised.value).encode()
