"""Whatever model a DSPy user has set, with all that is set on it: its calls under an adapter that listens reach the
server as they are, once, and stand in the log."""

import asyncio
from contextlib import nullcontext

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMError

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.errors import Stopped
from rsso_dspy.playing import playing
from rsso_dspy.store.unit_log import UnitLog
from tests.provider_formats import Said
from tests.provider_server import provider, replying

KEY = "k-0123456789abcdef"
CHAT = "[[ ## answer ## ]]\nblue\n\n[[ ## completed ## ]]"


class Listener(BaseCallback):
    """Counts what DSPy says of models."""

    def __init__(self):
        self.heard = []

    def on_lm_start(self, call_id, instance, inputs):  # noqa: ARG002
        self.heard.append(type(instance).__name__)


def make_lm(served, model="openai/m", **options):
    usual = {"api_base": served.url, "api_key": KEY, "cache": False, "temperature": 0.0, "max_tokens": 50}
    return dspy.LM(model, **usual | options)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of LiteLLM, when it is imported
def test_what_is_set_on_a_model_reaches_the_server(live):
    more = {"extra_body": {"min_p": 0.1}, "chat_template_kwargs": {"enable_thinking": False}}
    with provider(lambda _: Said(CHAT)) as served:
        ask(live, make_lm(served, "hosted_vllm/m", temperature=0.3, stop=["\n\n"], seed=5, **more))
    (body,) = served.requests
    assert (body["temperature"], body["stop"], body["seed"], body["min_p"]) == (0.3, ["\n\n"], 5, 0.1)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def listening(live):
    """The adapter of the predictors of an agent, for any predictor."""
    return dspy.context(adapter=live.runtime.listen(dspy.settings.adapter))


def ask(live, lm, way="context", adapter=None, log=None, **context):
    """One question through a session, in one of the ways that DSPy's users know; the prediction and the log's calls."""
    text = []
    log = log or UnitLog(write=text.append, whole=True)
    program = dspy.Predict("question -> answer")
    if way == "set_lm":
        program.set_lm(lm)
    elif way == "predictor.lm":
        program.lm = lm
    settings = {"lm": lm} if way in ("context", "acall") else {}
    adapters = dspy.context(adapter=adapter) if adapter else nullcontext()
    with adapters, live.activate_for_user(), listening(live), playing(calls=log), dspy.context(**settings, **context):
        said = asyncio.run(program.acall(question="sky?")) if way == "acall" else program(question="sky?")
    read = UnitLog("".join(text).encode(), whole=True)
    return said, [read.decode(lines) for lines in read.by_number.values()]


WAYS = {
    "dspy.context(lm=...)": {},
    "acall": {"way": "acall"},
    "set_lm": {"way": "set_lm"},
    "a predictor's own": {"way": "predictor.lm"},
    "JSONAdapter": {"adapter": dspy.JSONAdapter()},
    "DSPy's own ChatAdapter": {"adapter": dspy.ChatAdapter()},
    "ours": {"adapter": ChatAdapter()},
    "without history": {"disable_history": True},
}


@pytest.mark.parametrize("case", WAYS)
def test_every_way_to_set_a_model_is_logged_once(live, case):
    text = '{"answer": "blue"}' if case == "JSONAdapter" else CHAT
    listener = Listener()
    GLOBAL_HISTORY.clear()
    with provider(lambda _: Said(text, 12, 3)) as served:
        lm = make_lm(served)
        with dspy.track_usage() as usage:
            said, calls = ask(live, lm, callbacks=[listener], **WAYS[case])
    assert said.answer == "blue"
    assert (len(served.requests), len(calls), listener.heard) == (1, 1, ["LM"])
    assert (calls[0].text, calls[0].served, calls[0].usage[0]["prompt_tokens"]) == (text, "m", 12)
    assert KEY not in str(calls[0])
    assert len(lm.history) == len(GLOBAL_HISTORY) == (0 if case == "without history" else 1)
    assert {name: each["prompt_tokens"] for name, each in usage.get_total_tokens().items()} == {"openai/m": 12}
    assert (lm.num_retries, lm.kwargs["api_base"]) == (3, served.url), "the user's own model stays as it was"


def test_a_stream_is_logged_too(live):
    text = []
    log = UnitLog(write=text.append, whole=True)

    async def collect(program):
        return [chunk async for chunk in dspy.streamify(program)(question="sky?")]

    lm = dspy.utils.DummyLM([{"answer": "blue"}])
    with live.activate_for_user(), listening(live), playing(calls=log), dspy.context(lm=lm):
        chunks = asyncio.run(collect(dspy.Predict("question -> answer")))
    assert chunks[-1].answer == "blue"
    assert len(UnitLog("".join(text).encode(), whole=True).by_number) == 1


def test_a_copy_of_a_model_is_given_again_from_the_log_with_the_server_gone(live):
    with provider(lambda _: Said(CHAT, 12, 3)) as served:
        lm = make_lm(served, temperature=0.5)
        text = []
        log = UnitLog(write=text.append, whole=True)
        with live.activate_for_user(), listening(live), playing(calls=log), dspy.context(lm=lm):
            dspy.Predict("question -> answer")(question="sky?")
    replay = UnitLog(whole=True)
    replay.source = UnitLog("".join(text).encode(), whole=True).make_answers("u")
    with (
        live.activate_for_user(),
        listening(live),
        playing(calls=replay),
        dspy.context(lm=lm),
        dspy.track_usage() as usage,
    ):
        assert dspy.Predict("question -> answer")(question="sky?").answer == "blue"
        with pytest.raises(Stopped):
            dspy.Predict("question -> answer")(question="sea?")
    assert usage.get_total_tokens()["openai/m"]["prompt_tokens"] == 12
    assert len(served.requests) == 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # of LiteLLM, when it is imported
def test_no_request_of_a_persons_model_follows_a_redirect(live):
    with provider(lambda _: Said(CHAT)) as elsewhere:

        def redirect(path, headers, body):  # noqa: ARG001
            return 307, {"Location": elsewhere.root + path}, b""

        with replying(redirect) as url:
            lm = dspy.LM("hosted_vllm/m", api_base=f"{url}/v1", api_key=KEY, cache=False, num_retries=0, timeout=20)
            with pytest.raises(LMError):
                ask(live, lm.copy(extra_body={"min_p": 0.1}))
    assert elsewhere.requests == []
