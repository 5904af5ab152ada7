"""Which model answers, as a DSPy user expects it: a predictor's own, else the one DSPy is set to, else the backend's;
and the modules of an agent as DSPy modules of their own."""

import asyncio
import csv
import json
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError

import rsso_dspy
from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import load_config
from rsso_dspy.errors import RssoError, UsageError
from rsso_dspy.memory.skill_windows import Window
from rsso_dspy.offline import Explorer
from rsso_dspy.optimize.program_file import load_programs
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.skill_verbalizer import SkillVerbalizer
from rsso_dspy.records import Failure, State, TrialResult
from rsso_dspy.sessions import make_session
from rsso_dspy.signatures import FlatActor, Reflect, SkillActor
from tests.live import FAST, REWARDED, WALK, Engine, acting, is_asked, model, prompt_of, says, scripted

METHOD = "rsso+neural"
ROLES = {
    "action": "actor",
    "mistakes": "reflector",
    "summary": "verbalizer",
    "steps": "verbalizer",
    "target": "verbalizer",
    "equivalent": "verbalizer",
    "abstract_rules": "advisor",
}
"""Output field that a prompt asks for to the role that it is for; the first counts."""


class Counting(Explorer):
    """A model that walks to two rewards in every trial and answers other roles as the offline one does; counts calls by
    role."""

    def __init__(self):
        super().__init__(seed=0)
        self.asked = Counter()

    def complete(self, request):
        prompt = prompt_of(request)
        role = next(role for field, role in ROLES.items() if is_asked(prompt, field))
        self.asked[role] += 1
        if role != "actor":
            return super().complete(request)
        if "<assistant>" not in prompt and "History:" not in prompt:
            self.walk = scripted(WALK)
        return self.walk.complete(request)

    def __deepcopy__(self, memo):
        return self


def refuse(role, _rollout):
    raise AssertionError(f"the backend was asked for its {role}")


def silent(*_):
    """A model that may be made and not asked."""
    return model(Engine(refuse))


def count_booked(result):
    booked = Counter()
    for trial in result.trials:
        booked.update({role: usage.calls for role, usage in trial.usage.items()})
    return booked


@contextmanager
def playing(live, lm=None, backend=refuse, **changes):
    """A person's own calls in the live session, whose backend is not to be asked, with DSPy set to `lm`."""
    settings = {"lm": lm} if lm else {}
    with live.activate_for_user(), replace(live.runtime, lm=backend, **changes).activate(), dspy.context(**settings):
        yield


@pytest.mark.parametrize("way", ["predictor.lm", "context", "configure", "backend"])
def test_the_users_model_gets_every_call_of_every_role_and_without_one_the_backend(live, way):
    engine = Counting()
    lm, agent = model(engine), Agent(METHOD)
    if way == "predictor.lm":
        agent.set_lm(lm)
    rules = TrialRules(3, stop_on_success=False, learn_after_last=True)
    backend = {"predictor.lm": silent, "backend": lambda *_: lm}.get(way, refuse)
    dspy.configure(lm=lm if way == "configure" else None)
    try:
        with playing(live, lm if way == "context" else None, backend, rules=rules, budget=lambda _: 12):
            result = agent(variant=REWARDED)
    finally:
        dspy.configure(lm=None)
    assert engine.asked.keys() == set(ROLES.values())
    assert count_booked(result) == engine.asked


def test_a_session_names_the_model_that_dspy_is_set_to():
    with dspy.context(lm=model(Counting())):
        users = dspy.settings.lm
        users.model = "mine/teacher"
        live = make_session(load_config(overrides=FAST), 1)
        assert set(live.backend.models.values()) == {"mine/teacher"}
        assert live.backend.lm("actor", 1) is users
        assert not live.backend.rule_based
        live.check_models()
        live.runtime.environments.close()
        with pytest.raises(UsageError, match=r"two models are named.*dspy\.configure"):
            make_session(load_config(overrides=(*FAST, "backend=ollama")), 1)


@pytest.mark.parametrize("way", ["agent", "context"])
def test_runs_and_compiles_refuse_a_model_that_records_would_not_name(live, way):
    agent = Agent("react")
    lm = dspy.LM("mine/other", engine=Counting(), cache=False)
    if way == "agent":
        agent.set_lm(lm)
    with dspy.context(lm=lm if way == "context" else None), pytest.raises(UsageError, match="mine/other would answer"):
        live.check_models([agent])
    with dspy.context(lm=lm if way == "context" else None), pytest.raises(UsageError, match="mine/other would answer"):
        rsso_dspy.compile(agent, live, "1-per-task", tasks=["find-plant"], max_rollouts=4)


def test_retries_are_no_copies_where_dspy_keeps_answers(live):
    engine = Counting()
    lm = dspy.LM(f"cached/{uuid4()}", engine=engine, cache=True, temperature=0.7)  # DSPy's cache outlives a process
    with playing(live, lm, rules=TrialRules(2, stop_on_success=False), budget=lambda _: 2):
        Agent("react-sso")(variant=REWARDED)
    assert engine.asked["actor"] == 4


def test_usage_and_history_are_told_to_whoever_asks_dspy(live):
    with live.activate_for_user(), dspy.context(lm=model(Counting())), dspy.track_usage() as usage:
        agent = Agent("react-sso")
        result = agent(variant=REWARDED, trials=1, seed=3)
    (tokens,) = usage.get_total_tokens().values()
    assert tokens["prompt_tokens"] == sum(trial.usage["actor"].input for trial in result.trials) > 0
    assert len(agent.history) == result.trials[0].usage["actor"].calls


# Modules


STATES = tuple(State(f"You see {n} trees.", f"This is garden {n}.", "In your inventory: nothing.") for n in range(3))
WINDOWS = [Window(piece, 0, 3, STATES, ("look around", "focus on tree"), (0, 0, 5)) for piece in (0, 1)]
EXCERPTS = {"examples": WINDOWS, "action_templates": "FOCUS ON object\nLOOK AROUND"}


def test_a_module_alone_raises_as_dspy_does_when_an_answer_cannot_be_read():
    with dspy.context(lm=model(Engine(lambda _: "I would rather not say."))), pytest.raises(AdapterParseError):
        SkillVerbalizer()(**EXCERPTS)


def ask_verbalizer(whole):
    """The requests of the three calls: summary, instructions, target."""
    answers = iter([says(summary="A tree.", skill_name="find tree"), "- look around\n- focus on tree", "It is seen."])
    engine = Engine(lambda _: next(answers))
    with dspy.context(lm=model(engine), adapter=ChatAdapter(), disable_history=True):
        assert SkillVerbalizer()(**EXCERPTS, whole=whole).skill
    return engine.prompts


def test_each_call_of_the_verbalizer_reads_whole_excerpts_where_none_is_trimmed():
    """SSO's released code shows each of its three calls every example from its initial to its final state."""
    requests = ask_verbalizer(whole=True)
    assert len(requests) == 3
    for request in requests:
        assert request.count("Initial state:\n") == request.count("Final state:\n") == len(WINDOWS)
        assert request.count(STATES[0].description) == request.count(STATES[-1].description) == len(WINDOWS)
        assert "is left out" not in request


def test_a_trimmed_excerpt_holds_what_the_one_before_it_lacks_and_what_its_call_needs():
    summary, instructions, _ = ask_verbalizer(whole=False)
    assert summary.count("Initial state:\n") == 1
    assert "is left out" in summary
    assert "Initial state:" not in instructions


def test_submodules_are_compiled_alone_by_dspys_optimizers():
    examples = [dspy.Example(**EXCERPTS).with_inputs(*EXCERPTS) for _ in range(2)]

    def metric(_example, prediction, _trace=None):
        return float(prediction.skill is not None)

    with dspy.context(lm=model(Explorer(seed=0)), adapter=ChatAdapter(), disable_history=True):
        shown = dspy.BootstrapFewShot(metric=metric, max_bootstrapped_demos=1, max_labeled_demos=0).compile(
            SkillVerbalizer(), trainset=examples
        )
        said = shown(**EXCERPTS)
    assert (said.skill.instructions, said.skill.target) == (tuple(said.steps), said.target)
    assert said.steps
    assert all(predictor.demos for predictor in shown.predictors())


def test_another_module_plays_or_says_at_assignment_what_is_missing(live):
    agent = Agent("react-sso")
    with pytest.raises(UsageError, match=r"cannot be the actor.*lacks observation, task;"):
        agent.actor = dspy.Predict("history: dspy.History -> action")
    agent.actor = dspy.ChainOfThought(SkillActor)
    engine = Counting()
    with acting(live, lambda *_: model(engine), budget=lambda _: 4):
        (trial,) = agent(variant=REWARDED, trials=1).trials
    assert [step.action for step in trial.trajectory.steps] == WALK[:4]
    with live.activate_for_user(), pytest.raises(UsageError, match=r"agent\.save"):
        rsso_dspy.compile(agent, live, "1-per-task", tasks=["find-plant"], max_rollouts=4)


# What comes back


@pytest.fixture(scope="module")
def result(live):
    with live.activate_for_user():
        return Agent("react")(variant=REWARDED, trials=1)


def test_a_prediction_is_short_and_a_score(live, result):
    assert len(repr(result)) < 120
    assert "react on find-plant::229" in repr(result)
    assert result.score == rsso_dspy.metric(None, result)
    assert result.points == result.trials[0].trajectory.accumulator
    devset = [dspy.Example(variant=REWARDED, trials=1).with_inputs("variant", "trials")]
    with live.activate_for_user():
        evaluate = dspy.Evaluate(devset=devset, metric=rsso_dspy.metric, num_threads=1, display_progress=False)
        assert evaluate(Agent("react")).score == pytest.approx(100 * result.score)


def test_an_evaluation_is_saved_as_json_and_as_csv(live, tmp_path):
    devset = [dspy.Example(variant=REWARDED, trials=1).with_inputs("variant", "trials")]
    with live.activate_for_user():
        for ending in ("json", "csv"):
            file = {f"save_as_{ending}": str(tmp_path / f"saved.{ending}")}
            evaluate = dspy.Evaluate(devset=devset, metric=rsso_dspy.metric, display_progress=False, **file)
            score = evaluate(Agent("react")).score / 100
    (row,) = json.loads((tmp_path / "saved.json").read_text())
    assert (row["example_variant"], row["pred_variant"], row["score"]) == (REWARDED, REWARDED, pytest.approx(score))
    (trial,) = row["pred_trials"]
    assert trial["trajectory"]["steps"][0]["action"]
    with (tmp_path / "saved.csv").open(encoding="utf-8", newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["pred_variant"], float(line["score"])) == (REWARDED, pytest.approx(score))


def test_a_prediction_as_data_holds_all_that_json_can(result):
    data = result.toDict()
    assert json.loads(json.dumps(data)) == data == dict(result.items())
    assert data["trials"][0]["trajectory"]["outcome"] == result.trials[0].trajectory.outcome


def test_an_agent_is_awaited_as_it_is_called(live):
    async def play_both():
        agent = Agent("react")
        return await asyncio.gather(agent.acall(variant=REWARDED, trials=1), agent.acall(variant=REWARDED, trials=1))

    with live.activate_for_user():
        first, second = asyncio.run(play_both())
        called = Agent("react")(variant=REWARDED, trials=1)
    assert first.toDict() == second.toDict() == called.toDict()


def test_demonstrations_that_no_prompt_shows_are_warned_of(live):
    trainset = [dspy.Example(variant=REWARDED).with_inputs("variant")]
    labeled = dspy.LabeledFewShot(k=1).compile(Agent("react"), trainset=trainset)
    with live.activate_for_user(), pytest.warns(UserWarning, match="1 of 1 demonstrations of actor have no answer"):
        labeled(variant=REWARDED, trials=1)


# Files


def test_a_program_that_sends_the_prompts_of_zero_shot_is_not_compared_with_it(tmp_path):
    trainset = [dspy.Example(variant=REWARDED).with_inputs("variant")]
    dspy.LabeledFewShot(k=1).compile(Agent("react"), trainset=trainset).save(tmp_path / "labeled.json")
    agent = Agent("react")
    agent.save(tmp_path / "same.json")
    for name, why in (("labeled", ": none of its 1 demonstrations has an answer"), ("same", "$")):
        file = str(tmp_path / f"{name}.json")
        with pytest.raises(
            UsageError, match=f"{name} sends the same prompts as zero-shot, so there is .* compare{why}"
        ):
            load_programs(["zero-shot", file])
        assert list(load_programs([file])) == [name], "alone it may be played"


@pytest.fixture
def told():
    agent = Agent("rsso")
    agent.actor.signature = agent.actor.signature.with_instructions("Look twice, act once.")
    agent.actor.demos = [{"task": "t", "observation": "o", "thought": "r", "subgoal": "none", "action": "wait"}]
    return agent


def test_a_state_that_dspy_saved_is_a_program(told, tmp_path):
    told.save(tmp_path / "told.json")
    (compiled := rsso_dspy.load(tmp_path / "told.json")).save(tmp_path / "compiled.json")
    (again := Agent("rsso")).load(tmp_path / "compiled.json")
    assert compiled.agent().dump_state() == again.dump_state() == told.dump_state()
    assert compiled.changes == ("instruction of actor", "1 demonstrations of actor")
    drop_method(tmp_path / "told.json")
    with pytest.raises(UsageError, match=r"Agent\(METHOD\)\.load"):
        rsso_dspy.load(tmp_path / "told.json")


def save_agent(method: str, path: Path) -> None:
    """Save an agent with an actor's instruction of its own."""
    agent = Agent(method)
    agent.actor.signature = agent.actor.signature.with_instructions(f"Act as {method}.")
    agent.save(path)


def drop_method(path: Path) -> None:
    data = json.loads(path.read_text())
    del data["metadata"]["method"]
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("saved", "into", "named", "fits"),
    [
        ("rsso", "rsso", False, True),
        ("rsso", "rsso+constitution", True, True),
        ("rsso", "rsso+neural", True, True),
        ("rsso", "react", True, False),
        ("react", "omnireflect-symbolic", True, False),
        ("rsso+constitution", "rsso", True, False),
        ("react-sso", "sso", False, False),
    ],
)
def test_a_file_is_loaded_into_its_method_and_else_refused_and_the_agent_stays(tmp_path, saved, into, named, fits):
    save_agent(saved, tmp_path / "saved.json")
    if not named:
        drop_method(tmp_path / "saved.json")
    agent = Agent(into)
    if fits:
        agent.load(tmp_path / "saved.json")
        assert agent.actor.signature.instructions == f"Act as {saved}."
        return
    whose = f"was saved for the method {saved}" if named else "does not name its method"
    with pytest.raises(UsageError, match=f"{re.escape(whose)}, and this agent is of {into}"):
        agent.load(tmp_path / "saved.json")
    assert agent.dump_state() == Agent(into).dump_state()


def confident_actor() -> dspy.Module:
    return dspy.Predict(FlatActor.append("confidence", dspy.OutputField(), float))


@pytest.mark.parametrize(
    ("name", "module", "told"),
    [
        (
            "reflector",
            lambda: dspy.ChainOfThought(Reflect),
            "predictors that the agent lacks: reflector.predict; predictors that the file lacks: reflector",
        ),
        ("actor", confident_actor, "fields of actor that the agent lacks: Confidence"),
    ],
)
def test_what_a_file_of_the_same_method_does_not_fit_is_said(tmp_path, name, module, told):
    agent = Agent("reflexion")
    setattr(agent, name, module())
    agent.save(tmp_path / "saved.json")
    fits_not = re.escape(f"does not fit this agent of reflexion; {told}. Load it into")
    with pytest.raises(UsageError, match=fits_not):
        Agent("reflexion").load(tmp_path / "saved.json")
    again = Agent("reflexion")
    setattr(again, name, module())
    again.load(tmp_path / "saved.json")
    assert again.dump_state() == agent.dump_state()


def test_an_error_that_has_no_score_says_to_repeat_what_was_called():
    trial = TrialResult(1, None, failure=Failure("BackendFailure", "nobody answers"))
    with pytest.raises(RssoError, match="then repeat the call or the command"):
        score_trials([trial])
