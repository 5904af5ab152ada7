"""An agent among the modules of a DSPy user: it plays wherever a module may stand, and theirs work as without it."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import Any

import dspy
import pytest
from dspy.lm15 import Request, StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta, Usage
from dspy.primitives.code_interpreter import FinalOutput
from dspy.utils.callback import BaseCallback
from pydantic import TypeAdapter

import rsso_dspy
from rsso_dspy import sessions
from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import load_config
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import TrialResult
from rsso_dspy.sessions import Session, choose_config, make_session
from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.memory_writers import Reflect
from tests.docs.blocks import follow, page
from tests.live import Engine, model, says

SETTINGS = ("benchmark=babyai", "embedder.model=hash", "protocol.steps=3", "protocol.trials=1")
VARIANT = "GoToRedBallGrey::62"
OTHER = "GoToRedBall::163"
ACTION = "go to grey ball 2"

ANSWERS = {  # by output field; any other is answered with a word
    "next_tool_name": "finish",
    "next_tool_args": "{}",
    "answer": "blue",
    "action": ACTION,
    "subgoal": "none",
    "plan": "Go right.",
    "advice": '{"actor": "Go on.", "reflector": "Go on.", "self": "Go on."}',
    "generated_code": "```python\nfinal_answer(answer)\n```",
    "finished": "True",
}
SHORT = {"action": says(thought="As planned.", action=ACTION), "plan": says(mistakes="Circles.", plan="Go right.")}


def answer_any(prompt: str) -> str:
    """Answers any module: in DSPy's format where the prompt asks for its marks, and in the short form otherwise."""
    asked = re.findall(r"\[\[ ## (\w+) ## ]]", prompt.rpartition("starting with the field")[2])
    if not asked:
        return SHORT["plan" if "Mistakes:" in prompt else "action"]
    return "\n\n".join(f"[[ ## {name} ## ]]\n{ANSWERS.get(name, 'Something.')}" for name in asked)


class StreamingEngine(Engine):
    """Its answers come in chunks of four characters."""

    def stream(self, request: Request) -> Iterator[Any]:
        text = self.complete(request).message.text
        yield StreamStartEvent(id="1", model=request.model)
        for start in range(0, len(text), 4):
            yield StreamDeltaEvent(TextDelta(text[start : start + 4]))
        yield StreamEndEvent("stop", Usage(input_tokens=1, output_tokens=1, total_tokens=2))


def user_lm() -> dspy.LM:
    return model(StreamingEngine(answer_any))


@pytest.fixture(scope="module")
def babyai() -> Iterator[Session]:
    live = make_session(load_config(overrides=SETTINGS), 2)
    yield live
    live.runtime.environments.close()


@pytest.fixture(scope="module")
def one_simulator() -> Iterator[Session]:
    live = make_session(load_config(overrides=SETTINGS), 1)
    yield live
    live.runtime.environments.close()


def metric(_example: Any, prediction: Any, _trace: Any = None) -> float:
    return float(bool(prediction.trials[0].trajectory.steps))


def reward(_inputs: Any, prediction: Any) -> float:
    return 0.5 * float(bool(prediction.trials[0].trajectory.steps))


def play(program: Any = None, **named: Any) -> Any:
    return (program or Agent("react"))(variant=VARIANT, **named)


def examples(count: int = 2) -> list[dspy.Example]:
    return rsso_dspy.trainset("babyai")[:count]


class Advised(dspy.Module):
    """A module of a user that holds an agent and a predictor."""

    def __init__(self, agent: Agent | None = None) -> None:
        super().__init__()
        self.advise = dspy.ChainOfThought("question -> answer")
        self.agent = agent or Agent("react")

    def forward(self, variant: str) -> dspy.Prediction:
        advice = self.advise(question="Where is the ball?").answer
        return dspy.Prediction(answer=advice, trials=self.agent(variant=variant).trials)


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


class FewFields(dspy.Signature):
    """Act."""

    task: str = dspy.InputField()
    history: dspy.History = dspy.InputField()
    observation: str = dspy.InputField()
    action: str = dspy.OutputField()


# Uses: a name, and what is done in a session of BabyAI where DSPy is set to a model; each returns whether it worked.


class Awaiting(Advised):
    async def aforward(self, variant: str) -> dspy.Prediction:
        played = await self.agent.acall(variant=variant)
        return dspy.Prediction(trials=played.trials)


def use_refine() -> bool:
    engine = Engine(answer_any)
    with dspy.context(lm=model(engine)):
        played = play(dspy.Refine(Agent("react"), N=2, reward_fn=reward, threshold=1.0))
    hinted = [prompt for prompt in engine.prompts if "[[ ## hint_ ## ]]\nGo on." in prompt]
    return acts(played) and len(hinted) == 3


def use_refine_with_plans() -> bool:
    engine, agent = Engine(answer_any), Agent("reflexion")
    with dspy.context(lm=model(engine)):
        dspy.Refine(agent, N=2, reward_fn=reward, threshold=1.0)(variant=VARIANT, trials=2)
    hinted = [prompt for prompt in engine.prompts if "[[ ## hint_ ## ]]" in prompt.rpartition("<user>")[2]]
    assert sum("Go right." in prompt for prompt in hinted) == 3, "the second trial has a plan"
    return all("[[ ## hint_ ## ]]\nGo on." in prompt for prompt in hinted) and len(hinted) == 7


def use_inspect_history() -> bool:
    from contextlib import redirect_stdout
    from io import StringIO

    shown = StringIO()
    play()
    with redirect_stdout(shown):
        dspy.inspect_history(n=1)
    return f"Action: {ACTION}" in shown.getvalue()


def use_offline_react() -> bool:
    agent = Agent("react")
    agent.actor = dspy.ReAct(FlatActor, tools=[look_up])
    with dspy.context(lm=None):
        played, alone = play(agent), play()
    steps = [step.proposed for step in played.trials[0].trajectory.steps]
    return all(steps) and steps == [step.proposed for step in alone.trials[0].trajectory.steps]


def use_offline_predictor() -> bool:
    with dspy.context(lm=None):
        player = Agent("react").get_lm()
    with dspy.context(lm=player):
        played, said = play(), dspy.ReAct("question -> answer: int", tools=[look_up])(question="How many?")
    return bool(played.trials[0].trajectory.steps[0].action) and said.answer == 0


def use_react() -> bool:
    return dspy.ReAct("question -> answer", tools=[look_up])(question="?").answer == "blue"


class Interpreter:
    """Runs no code: whatever it is given ends with an answer."""

    def __init__(self) -> None:
        self.tools: dict[str, Any] = {}
        self.ran: list[str] = []

    def start(self) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def execute(self, code: str, variables: Any = None) -> Any:  # noqa: ARG002
        self.ran.append(code)
        return FinalOutput({"answer": "blue"})


def use_program_of_thought() -> bool:
    interpreter = Interpreter()
    module = dspy.ProgramOfThought("question -> answer", interpreter_factory=lambda: interpreter)
    return module(question="?").answer == "blue" and interpreter.ran == ["final_answer(answer)"]


def use_code_act() -> bool:
    interpreter = Interpreter()
    module = dspy.CodeAct("question -> answer", tools=[look_up], interpreter_factory=lambda: interpreter)
    return module(question="?").answer == "blue" and interpreter.ran[-1] == "final_answer(answer)"


def use_mipro() -> bool:
    pytest.importorskip("optuna")
    optimizer = dspy.MIPROv2(metric=metric, auto=None, num_candidates=2, num_threads=1, init_temperature=0.5)
    sizes = {"num_trials": 1, "max_bootstrapped_demos": 1, "max_labeled_demos": 0, "minibatch": False}
    return acts(play(optimizer.compile(Agent("react"), trainset=examples(), valset=examples(1), **sizes)))


def use_code_field() -> bool:
    lm = dspy.utils.DummyLM([{"code": "```python\nprint(1)\n```"}])
    with dspy.context(lm=lm):
        return dspy.Predict("question -> code: dspy.Code")(question="?").code.code == "print(1)"


def use_tool_calls() -> bool:
    calls = '{"tool_calls": [{"name": "look_up", "args": {"word": "ball"}}]}'
    signature = dspy.Signature("question: str, tools: list[dspy.Tool] -> calls: dspy.ToolCalls")
    with dspy.context(lm=dspy.utils.DummyLM([{"calls": calls}]), adapter=dspy.ChatAdapter()):
        (call,) = dspy.Predict(signature)(question="?", tools=[dspy.Tool(look_up)]).calls.tool_calls
    return (call.name, call.args) == ("look_up", {"word": "ball"})


def use_agent_as_tool() -> bool:
    agent = Agent("react")

    def play_variant(key: str) -> str:
        """Play a variant."""
        return str(agent(variant=key).variant)

    answers = [
        {"next_thought": "Play.", "next_tool_name": "play_variant", "next_tool_args": {"key": VARIANT}},
        {"next_thought": "Done.", "next_tool_name": "finish", "next_tool_args": {}},
        {"reasoning": "Played.", "answer": "blue"},
    ]
    asking = dspy.ReAct("question -> answer", tools=[play_variant])
    asking.set_lm(dspy.utils.DummyLM(answers))
    said = asking(question="?")
    return said.answer == "blue" and said.trajectory["observation_0"] == VARIANT


def use_batch() -> bool:
    played = Agent("react").batch(examples(), num_threads=2, disable_progress_bar=True)
    return len(played) == 2 and all(map(acts, played))


async def gather(agent: dspy.Module, count: int = 2) -> list[Any]:
    return await asyncio.gather(*(agent.acall(variant=VARIANT) for _ in range(count)))


def use_image() -> bool:
    image = dspy.Image("data:image/png;base64,iVBORw0KGgo=")
    lm = dspy.utils.DummyLM([{"answer": "blue"}])
    with dspy.context(lm=lm):
        said = dspy.Predict("picture: dspy.Image -> answer")(picture=image)
    parts = [part for message in lm.history[-1]["messages"] for part in message["content"] if isinstance(part, dict)]
    return said.answer == "blue" and "image_url" in [part["type"] for part in parts]


def use_parallel() -> bool:
    pairs = [(Agent("react"), {"variant": VARIANT}), (dspy.Predict("question -> answer"), {"question": "?"})]
    played, said = dspy.Parallel(num_threads=2, disable_progress_bar=True)(pairs)
    return acts(played) and said.answer == "blue"


def use_majority() -> bool:
    return dspy.majority([play(), play(), play()], field="variant").variant == VARIANT


def use_comparison() -> bool:
    attempts = [dspy.Prediction(rationale="So.", answer="blue"), dspy.Prediction(rationale="So.", answer="red")]
    return dspy.MultiChainComparison("question -> answer", M=2)(attempts, question="?").answer == "blue"


def use_history() -> bool:
    agent = Agent("react")
    played = play(agent)
    return len(agent.history) == len(played.trials[0].trajectory.steps)


def use_usage() -> bool:
    with dspy.track_usage() as usage:
        played = play()
    (tokens,) = usage.get_total_tokens().values()
    return tokens["prompt_tokens"] == played.trials[0].usage["actor"].input > 0


def use_callbacks() -> bool:
    class Listener(BaseCallback):
        heard = 0

        def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
            self.heard += 1

    listener = Listener()
    with dspy.context(callbacks=[listener]):
        play()
    return listener.heard == 3


def use_bootstrap() -> bool:
    compiled = dspy.BootstrapFewShot(metric=metric, max_labeled_demos=0).compile(Agent("react"), trainset=examples())
    return all(demo["action"] == ACTION for demo in compiled.actor.demos) and len(compiled.actor.demos) == 2


def use_labeled() -> bool:
    return len(dspy.LabeledFewShot(k=1).compile(Agent("react"), trainset=examples()).actor.demos) == 1


def use_knn() -> bool:
    def embed(texts: list[str]) -> Any:
        import numpy

        return numpy.ones((len(texts), 2), dtype=numpy.float32)

    knn = dspy.KNNFewShot(1, examples(), dspy.Embedder(embed), metric=metric, max_labeled_demos=0)
    return acts(knn.compile(Agent("react"))(variant=VARIANT))


def use_copro() -> bool:
    lm = dspy.utils.DummyLM([{"proposed_instruction": "Act.", "proposed_prefix_for_output_field": "Action:"}] * 9)
    optimizer = dspy.COPRO(prompt_model=lm, metric=metric, breadth=2, depth=1)
    named = {"num_threads": 1, "display_progress": False}
    return acts(play(optimizer.compile(Agent("react"), trainset=examples(1), eval_kwargs=named)))


def use_gepa() -> bool:
    def feedback(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:  # noqa: ARG001
        return 0.5 if pred_name is None else dspy.Prediction(score=0.5, feedback="Walk on.")

    proposer = model(Engine(lambda _: "```\nAct at once.\n```"))
    optimizer = dspy.GEPA(metric=feedback, max_metric_calls=4, reflection_lm=proposer, num_threads=1)
    return acts(play(optimizer.compile(Agent("react"), trainset=examples(1), valset=examples(1))))


def use_simba() -> bool:
    optimizer = dspy.SIMBA(metric=metric, bsize=2, num_candidates=1, max_steps=1, max_demos=1, num_threads=1)
    return acts(play(optimizer.compile(Agent("react"), trainset=examples(2), seed=0)))


def use_files() -> bool:
    from tempfile import TemporaryDirectory

    agent = Agent("react")
    agent.actor.signature = agent.actor.signature.with_instructions("Walk.")
    with TemporaryDirectory() as folder:
        agent.save(f"{folder}/agent.json")
        again = Agent("react")
        again.load(f"{folder}/agent.json")
    return again.dump_state() == agent.dump_state() and acts(play(again))


def use_model_of_one_predictor() -> bool:
    agent, engine = Agent("reflexion"), Engine(lambda _: SHORT["plan"])
    agent.reflector.set_lm(model(engine))
    play(agent, trials=2)
    return len(engine.prompts) == 1


def use_context_model() -> bool:
    engine = Engine(answer_any)
    with dspy.context(lm=model(engine)):
        play()
    return len(engine.prompts) == 3


def use_streamify() -> bool:
    *chunks, prediction = asyncio.run(collect(Agent("react")))
    return len(chunks) > 3 and acts(prediction)


def acts(prediction: Any) -> bool:
    return [step.proposed for step in prediction.trials[0].trajectory.steps] == [ACTION] * 3


USES: dict[str, Callable[[], bool]] = {
    "Predict": lambda: dspy.Predict("question -> answer")(question="?").answer == "blue",
    "ChainOfThought": lambda: dspy.ChainOfThought("question -> answer")(question="?").reasoning == "Something.",
    "ReAct": use_react,
    "ReAct as actor of the offline player": use_offline_react,
    "the offline player in a module": use_offline_predictor,
    "ProgramOfThought": use_program_of_thought,
    "CodeAct": use_code_act,
    "tool calls": use_tool_calls,
    "an agent as a tool": use_agent_as_tool,
    "an image": use_image,
    "code": use_code_field,
    "Refine": use_refine,
    "Refine of an agent with plans": use_refine_with_plans,
    "BestOfN": lambda: acts(play(dspy.BestOfN(Agent("react"), N=2, reward_fn=reward, threshold=1.0))),
    "Parallel": use_parallel,
    "MultiChainComparison": use_comparison,
    "majority": use_majority,
    "Ensemble": lambda: all(map(acts, dspy.Ensemble().compile([Agent("react"), Agent("react")])(variant=VARIANT))),
    "Evaluate": lambda: dspy.Evaluate(devset=examples(), metric=metric, num_threads=2)(Agent("react")).score == 100,
    "BootstrapFewShot": use_bootstrap,
    "LabeledFewShot": use_labeled,
    "KNNFewShot": use_knn,
    "COPRO": use_copro,
    "MIPROv2": use_mipro,
    "GEPA": use_gepa,
    "SIMBA": use_simba,
    "a module of one's own": lambda: acts(play(Advised())),
    "Refine of a module": lambda: acts(play(dspy.Refine(Advised(), N=2, reward_fn=reward, threshold=0.5))),
    "deepcopy": lambda: acts(play(Agent("react").deepcopy())),
    "save and load": use_files,
    "track_usage": use_usage,
    "history": use_history,
    "callbacks": use_callbacks,
    "streamify": use_streamify,
    "acall": lambda: acts(asyncio.run(Agent("react").acall(variant=VARIANT))),
    "gather": lambda: all(map(acts, asyncio.run(gather(Agent("react"), 3)))),
    "batch": use_batch,
    "acall of a module": lambda: acts(asyncio.run(Awaiting().acall(variant=VARIANT))),
    "inspect_history": use_inspect_history,
    "asyncify": lambda: acts(asyncio.run(dspy.asyncify(Agent("react"))(variant=VARIANT))),
    "context(lm=...)": use_context_model,
    "set_lm of one predictor": use_model_of_one_predictor,
    "syncify": lambda: acts(play(dspy.syncify(Agent("react"), in_place=False))),
}


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("use", USES)
def test_dspys_modules_and_tools_work_in_a_session(babyai, use, capsys, caplog):
    with babyai.activate_for_user(), dspy.context(lm=user_lm()):
        assert USES[use]()
    assert "failed" not in capsys.readouterr().out, "Refine and BestOfN print why an attempt failed"
    assert not [record.message for record in caplog.records if record.levelname == "ERROR"]


SETTINGS_OF_A_USER = ("adapter", "trace", "lm", "callbacks", "disable_history", "send_stream", "usage_tracker")


def test_a_session_leaves_dspys_settings_as_they_are(babyai):
    before = {name: dspy.settings.get(name) for name in SETTINGS_OF_A_USER}
    with babyai.activate_for_user():
        assert all(dspy.settings.get(name) is value for name, value in before.items())


def test_what_is_configured_in_a_session_counts_there(babyai):
    lm, adapter = user_lm(), dspy.ChatAdapter()
    with babyai.activate_for_user():
        dspy.configure(lm=lm, adapter=adapter)
        try:
            said = dspy.Predict("question -> answer")(question="?").answer
            played = play()
        finally:
            dspy.configure(lm=None, adapter=None)
    assert said == "blue"
    assert acts(played)
    asked = [call["messages"][-1]["content"] for call in lm.history]
    assert ["[[ ## action ## ]]" in text for text in asked] == [False, True, True, True]


# Where it is called: in a session, in one without a model of the user's, and outside of any.

WAYS: dict[str, Callable[[dspy.Module], Any]] = {
    "call": play,
    "acall": lambda agent: asyncio.run(agent.acall(variant=VARIANT)),
    "asyncify": lambda agent: asyncio.run(dspy.asyncify(agent)(variant=VARIANT)),
    "streamify": lambda agent: asyncio.run(collect(agent))[-1],
    "streamify, awaited": lambda agent: asyncio.run(collect(agent, is_async_program=True))[-1],
    "gather": lambda agent: asyncio.run(gather(agent))[-1],
    "syncify": lambda agent: play(dspy.syncify(agent, in_place=False)),
    "BestOfN": lambda agent: play(dspy.BestOfN(agent, N=1, reward_fn=reward, threshold=1.0)),
    "Refine": lambda agent: play(dspy.Refine(agent, N=1, reward_fn=reward, threshold=1.0)),
    "Parallel": lambda agent: dspy.Parallel(disable_progress_bar=True)([(agent, {"variant": VARIANT})])[0],
    "batch": lambda agent: agent.batch([dspy.Example(variant=VARIANT).with_inputs("variant")])[0],
    "Evaluate": lambda agent: evaluate(agent).results[0][1],
    "deepcopy": lambda agent: play(agent.deepcopy()),
}


async def collect(program: dspy.Module, listener: Any = None, **options: Any) -> list[Any]:
    """What a program streams on the variant."""
    options["include_final_prediction_in_output_stream"] = True
    streamed = dspy.streamify(program, stream_listeners=[listener] if listener else None, **options)
    return [chunk async for chunk in streamed(variant=VARIANT)]


def evaluate(agent: dspy.Module) -> Any:
    devset = [dspy.Example(variant=VARIANT).with_inputs("variant")]
    return dspy.Evaluate(devset=devset, metric=metric, display_progress=False)(agent)


@pytest.mark.parametrize("way", WAYS)
def test_the_offline_player_plays_however_an_agent_is_called(babyai, way):
    with babyai.activate_for_user():
        assert WAYS[way](Agent("reflexion")).toDict() == Agent("reflexion")(variant=VARIANT).toDict()


def call_alone(function: Callable[[], Any]) -> Any:
    """What a function returns in a thread where no session is open."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(Context().run, function).result()


@pytest.fixture
def default_sessions(monkeypatch, tmp_path) -> Iterator[list[Session]]:
    """No default session is open; the one that a test opens ends with it."""
    (tmp_path / "rsso.toml").write_text('[embedder]\nmodel = "hash"\n[protocol]\nsteps = 3\ntrials = 1\n')
    monkeypatch.chdir(tmp_path)
    opened: list[Session] = []
    monkeypatch.setattr(sessions, "_default", opened)
    yield opened
    for live in opened:
        live.runtime.environments.close()


@pytest.mark.parametrize("way", WAYS)
def test_outside_of_a_session_the_default_one_is_of_the_agents_benchmark(default_sessions, way):
    played = call_alone(partial(WAYS[way], Agent("react", benchmark="babyai")))
    assert len(played.trials[0].trajectory.steps) == 3
    (live,) = default_sessions
    assert live.config.benchmark == "babyai"
    with pytest.raises(UsageError, match="this agent is for pddl, and the session is of babyai"):
        call_alone(partial(play, Agent("react", benchmark="pddl")))


def test_an_agent_for_another_benchmark_is_refused_in_a_session(babyai):
    with babyai.activate_for_user():
        with pytest.raises(UsageError, match="for scienceworld, and the session is of babyai"):
            play(Agent("react", benchmark="scienceworld"))
        with pytest.raises(UsageError, match="for scienceworld, and the session is of babyai"):
            rsso_dspy.compile(Agent("react", benchmark="scienceworld"))
        assert play(Agent("react", benchmark="babyai")).trials[0].error is None


def test_a_benchmark_is_named_beside_a_configuration_or_in_it():
    given = load_config(overrides=("seed=7",))
    assert (choose_config(given, "babyai").benchmark, choose_config(given, "babyai").seed) == ("babyai", 7)
    assert choose_config(None, "pddl").benchmark == "pddl"
    assert choose_config(load_config(overrides=SETTINGS), "babyai").benchmark == "babyai"
    with (
        pytest.raises(UsageError, match=r"two benchmarks are named: benchmark='pddl', .* is of babyai"),
        rsso_dspy.session(load_config(overrides=SETTINGS), benchmark="pddl"),
    ):
        pass
    with pytest.raises(UnknownName, match="babyay"):
        choose_config(None, "babyay")


def test_a_compile_takes_the_session_that_is_open(babyai, capsys):
    agent = Agent("react", benchmark="babyai")
    with babyai.activate_for_user():
        compiled = rsso_dspy.compile(agent, tasks=["GoToObjDoor"], optimizer="bootstrap", trials=1)
    assert compiled.benchmark == "babyai"
    assert compiled.compiled.method == "react"
    assert capsys.readouterr().out


# Calls that are cancelled


LONGEST_WAIT = 60  # seconds after which a test fails in place of hanging


class HeldEngine(Engine):
    """Its second answer waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(self.hold_second)
        self.is_asked, self.is_let_go = threading.Event(), threading.Event()

    def hold_second(self, prompt: str) -> str:
        if len(self.prompts) == 2:
            self.is_asked.set()
            self.is_let_go.wait(LONGEST_WAIT)
        return answer_any(prompt)

    async def wait_until_asked(self) -> None:
        assert await asyncio.to_thread(self.is_asked.wait, LONGEST_WAIT)


async def cancel(playing: Any, engine: HeldEngine) -> None:
    task = asyncio.ensure_future(playing)
    await engine.wait_until_asked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def time_out(playing: Any, engine: HeldEngine) -> None:
    async def end(limit: asyncio.Timeout) -> None:
        await engine.wait_until_asked()
        limit.reschedule(0)

    async def play_within() -> None:
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(end(limit))
            await playing

    with pytest.raises(TimeoutError):
        await play_within()


async def gather_with_failure(playing: Any, engine: HeldEngine) -> None:
    async def fail() -> None:
        await engine.wait_until_asked()
        raise LookupError

    with pytest.raises(LookupError):
        await asyncio.gather(playing, fail())


CANCELLED: dict[str, Callable[[dspy.Module, HeldEngine], Any]] = {
    "cancel": lambda agent, engine: cancel(agent.acall(variant=VARIANT), engine),
    "timeout": lambda agent, engine: time_out(agent.acall(variant=VARIANT), engine),
    "gather": lambda agent, engine: gather_with_failure(agent.acall(variant=VARIANT), engine),
    "a module": lambda agent, engine: cancel(Awaiting(agent).acall(variant=VARIANT), engine),
    "streamify": lambda agent, engine: cancel(collect(agent), engine),
    "streamify, awaited": lambda agent, engine: cancel(collect(agent, is_async_program=True), engine),
}


@pytest.mark.parametrize("way", CANCELLED)
@pytest.mark.parametrize("actor", ["Predict", "ReAct"])
def test_a_cancelled_call_asks_no_more_and_gives_its_environment_back(one_simulator, way, actor):
    agent, engine = Agent("react"), HeldEngine()
    agent.actor = ACTORS[actor]()
    with one_simulator.activate_for_user(), dspy.context(lm=model(engine)):
        asyncio.run(CANCELLED[way](agent, engine))
        engine.is_let_go.set()
        with dspy.context(lm=user_lm()):
            assert acts(play())  # once the only simulator is given back
    assert len(engine.prompts) == 2


def test_a_compile_without_a_session_opens_the_default_one(default_sessions, capsys):
    agent = Agent("react", benchmark="babyai")
    compiled = call_alone(partial(rsso_dspy.compile, agent, tasks=["GoToObjDoor"], optimizer="bootstrap", trials=1))
    assert (compiled.benchmark, compiled.compiled.method) == ("babyai", "react")
    assert [live.config.benchmark for live in default_sessions] == ["babyai"]
    assert capsys.readouterr().out


# Streams


@pytest.mark.parametrize("adapter", [None, ChatAdapter()])
def test_a_field_of_a_short_answer_is_not_streamed_and_the_error_names_what_is(babyai, adapter):
    agent = Agent("react")
    listener = dspy.streaming.StreamListener("action")
    with (
        babyai.activate_for_user(),
        dspy.context(lm=user_lm(), adapter=adapter),
        pytest.raises(UsageError, match=r"the field action .* dspy\.configure\(adapter=dspy\.ChatAdapter\(\)\)"),
    ):
        asyncio.run(collect(agent, listener))


@pytest.mark.parametrize("program", [Agent("react"), Advised()], ids=["an agent", "a module around one"])
def test_under_dspys_adapter_a_field_is_streamed(babyai, program):
    actor = getattr(program, "agent", program).actor
    listener = dspy.streaming.StreamListener("action", predict=actor, predict_name="actor", allow_reuse=True)
    dspy.configure(adapter=dspy.ChatAdapter())
    try:
        with babyai.activate_for_user(), dspy.context(lm=user_lm()):
            *chunks, prediction = asyncio.run(collect(program, listener))
    finally:
        dspy.configure(adapter=None)
    assert acts(prediction)
    assert join_chunks(chunks) == ACTION * 3


def join_chunks(chunks: list[Any]) -> str:
    return "".join(chunk.chunk for chunk in chunks if isinstance(chunk, dspy.streaming.StreamResponse))


def test_a_field_of_another_module_is_streamed_beside_an_agent_in_the_short_form(babyai):
    program = Advised()
    listener = dspy.streaming.StreamListener("answer")
    with babyai.activate_for_user(), dspy.context(lm=user_lm()):
        *chunks, prediction = asyncio.run(collect(program, listener))
    assert acts(prediction)
    assert join_chunks(chunks) == "blue"


# Modules of a user's in the place of an agent's own


class Confident(FewFields):
    """Act."""

    confidence: float = dspy.OutputField()


class Bare(dspy.Module):
    """An actor whose prediction is its own."""

    def __init__(self) -> None:
        super().__init__()
        self.act = dspy.Predict(FewFields)

    def forward(self, **inputs: Any) -> dspy.Prediction:
        return dspy.Prediction(action=self.act(**inputs).action)


def reward_any(_inputs: Any, _prediction: Any) -> float:
    return 1.0


ACTORS: dict[str, Callable[[], dspy.Module]] = {
    "Predict": lambda: dspy.Predict(FewFields),
    "ChainOfThought": lambda: dspy.ChainOfThought(FlatActor),
    "ChainOfThought of few fields": lambda: dspy.ChainOfThought(FewFields),
    "ReAct": lambda: dspy.ReAct(FewFields, tools=[look_up]),
    "Refine": lambda: dspy.Refine(dspy.Predict(FewFields), N=2, reward_fn=reward_any, threshold=1.0),
    "ProgramOfThought": lambda: dspy.ProgramOfThought(FewFields, interpreter_factory=Interpreter),
    "a module": Bare,
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("actor", ACTORS)
def test_another_actor_plays_and_is_shown_what_it_did(babyai, actor, caplog):
    agent, engine = Agent("react"), Engine(answer_any)
    agent.actor = ACTORS[actor]()
    with babyai.activate_for_user(), dspy.context(lm=model(engine)):
        assert acts(play(agent))
    assert "not in signature" not in caplog.text
    assert engine.prompts[-1].partition("<user>")[2].count(ACTION) >= 2


def test_of_a_module_with_several_calls_a_step_the_trace_keeps_those_of_informative_steps(babyai):
    agent, engine = Agent("react"), Engine(answer_any)
    agent.actor = dspy.ReAct(FewFields, tools=[look_up])
    with babyai.activate_for_user(), dspy.context(lm=model(engine), trace=[]):
        steps = play(agent).trials[0].trajectory.steps
        asked = [predictor for predictor, _, _ in dspy.settings.trace]
    seen = [step.state.observation for step in steps]
    kept = sum(bool(step.reward) or seen.index(step.state.observation) < place for place, step in enumerate(steps))
    assert kept < len(steps), "otherwise this shows nothing"
    assert [predictor is agent.actor.react for predictor in asked] == [True, False] * max(kept, 1)


@pytest.mark.parametrize(
    ("method", "signature", "lacks"),
    [
        ("react", FewFields, ""),
        ("react", Confident, ""),
        ("react-sso", FewFields, ""),
        ("reflexion", FewFields, "plans_from_past_attempts"),
        ("reflexion", FlatActor, ""),
        ("sso", FlatActor, "skills, subgoal"),
        ("rsso", SkillActor.delete("plans_from_past_attempts"), "plans_from_past_attempts"),
        ("rsso", SkillActor.delete("notice").delete("progress").delete("possible_actions"), ""),
        ("react+constitution", FewFields, "constitution"),
        ("react", FewFields.delete("observation"), "observation"),
    ],
)
def test_an_actor_without_a_region_of_its_memories_is_refused(method, signature, lacks):
    agent = Agent(method)
    if not lacks:
        agent.actor = dspy.Predict(signature)
        agent.actor = dspy.ChainOfThought(signature)  # measured by the method, not by what was there
        return
    with pytest.raises(UsageError, match=f"this Predict cannot be the actor: its signature lacks {lacks};"):
        agent.actor = dspy.Predict(signature)


@pytest.mark.parametrize(("kind", "shown"), [(list[str], "["), (str, "-")])
def test_an_actor_is_given_a_region_in_the_form_of_its_signature_also_an_empty_one(babyai, kind, shown, caplog):
    agent = Agent("reflexion")
    agent.actor = dspy.Predict(FewFields.prepend("plans_from_past_attempts", dspy.InputField(), kind))
    rules = replace(babyai.runtime.rules, trials=2, stop_on_success=False)
    given = []
    with (
        babyai.activate_for_user(),
        replace(babyai.runtime, rules=rules).activate(),
        dspy.context(lm=user_lm(), trace=given),
    ):
        agent(variant=VARIANT)
    assert "input fields" not in caplog.text
    plans = [inputs["plans_from_past_attempts"] for _, inputs, _ in given if "plans_from_past_attempts" in inputs]
    assert plans
    assert all(isinstance(plan, str) is (kind is str) for plan in plans)
    assert all("Go right." in str(plan) and str(plan).startswith(shown) for plan in plans)


def test_a_step_holds_the_other_outputs_of_an_actor_also_where_it_is_stored(babyai):
    def answer(prompt: str) -> str:
        return answer_any(prompt).replace("[[ ## confidence ## ]]\nSomething.", "[[ ## confidence ## ]]\n0.5")

    agent = Agent("react")
    agent.actor = dspy.ReAct(Confident, tools=[look_up])
    with babyai.activate_for_user(), dspy.context(lm=model(Engine(answer))):
        trial = play(agent).trials[0]
    stored = TypeAdapter(TrialResult).dump_json(trial, exclude_defaults=True)
    assert TypeAdapter(TrialResult).validate_json(stored) == trial
    for step in trial.trajectory.steps:
        assert step.reasoning == "Something.", "that of dspy.ChainOfThought, which DSPy's ReAct ends with"
        assert step.outputs["confidence"] == 0.5
        assert step.outputs["trajectory"]["tool_name_0"] == "finish"
    hash(trial.trajectory)


def test_the_packages_own_actors_have_no_other_outputs(babyai):
    with babyai.activate_for_user(), dspy.context(lm=user_lm()):
        steps = [step for method in ("react", "sso") for step in play(Agent(method)).trials[0].trajectory.steps]
    assert [step.outputs for step in steps] == [{}] * 6


ListedPlan = Reflect.with_updated_fields("plan", type_=list[str])
REFLECTORS: dict[str, Callable[[], dspy.Module]] = {
    "Predict": lambda: dspy.Predict(ListedPlan),
    "ChainOfThought": lambda: dspy.ChainOfThought(ListedPlan),
    "ReAct": lambda: dspy.ReAct(ListedPlan, tools=[look_up]),
}


@pytest.mark.parametrize("reflector", REFLECTORS)
def test_a_plan_that_is_a_list_is_shown_as_lines(babyai, reflector):
    def answer(prompt: str) -> str:
        return answer_any(prompt).replace("Go right.", '["Go right.", "Take the ball."]')

    agent = Agent("reflexion")
    agent.reflector = REFLECTORS[reflector]()
    rules = replace(babyai.runtime.rules, trials=2, stop_on_success=False)
    with (
        babyai.activate_for_user(),
        replace(babyai.runtime, rules=rules).activate(),
        dspy.context(lm=model(Engine(answer))),
    ):
        _, trial = agent(variant=VARIANT).trials
    assert "Go right.\n" in trial.shown["plans_from_past_attempts"]
    assert "['" not in trial.shown["plans_from_past_attempts"]


# The page


@pytest.mark.usefixtures("default_sessions")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_page_on_modules_works_as_it_stands(monkeypatch, capsys):
    lm = user_lm()
    lm.model = "mine/model"
    monkeypatch.setattr(dspy, "LM", lambda _: lm)
    try:
        Context().run(
            follow, page("MODULES.md"), pytest.fail, capsys, lambda text: f'{text}[embedder]\nmodel = "hash"\n'
        )
    finally:
        dspy.configure(lm=None)


# Names


def test_public_names_are_listed_and_there():
    assert {"Agent", "session", "trainset", "testset", "valset", "compile", "run"} <= set(dir(rsso_dspy))
    assert all(hasattr(rsso_dspy, name) for name in dir(rsso_dspy))


def test_held_out_variants_are_examples_and_no_training_variants():
    held_out = [example.variant for example in rsso_dspy.testset("babyai", per_task=2, tasks=["GoToObjDoor"])]
    assert len(held_out) == 2
    assert all(key.startswith("GoToObjDoor::") for key in held_out)
    learnt = {example.variant for draw in (rsso_dspy.trainset, rsso_dspy.valset) for example in draw("babyai")}
    assert not learnt & {example.variant for example in rsso_dspy.testset("babyai")}


def test_the_package_is_the_command():
    shown = subprocess.run([sys.executable, "-m", "rsso_dspy", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"rsso-dspy {rsso_dspy.__version__}\n"
