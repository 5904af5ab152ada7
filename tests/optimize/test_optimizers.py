"""Every optimizer finds what helps, goes through the same acceptance, and costs what was forecast; and the program
under DSPy's own tools."""

import json
import re
from contextvars import Context
from dataclasses import replace
from pathlib import Path

import dspy
import pytest

import rsso_dspy
from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.memory.constitution import ConstitutionSettings
from rsso_dspy.offline import Explorer
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import build_request, compile_agent
from rsso_dspy.optimize.optimizers import CANDIDATES, OPTIMIZERS, PROPOSAL_CHARACTERS, get_optimizer, read_candidates
from rsso_dspy.optimize.program_file import ProgramScores, describe_noise
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import get_method
from rsso_dspy.programs.runtime import TrialRules
from tests.live import Engine, acting, is_asked, model, says
from tests.optimize.conftest import TRAIN, VAL
from tests.optimize.scripted import (
    ADVICE,
    GO,
    LONGEST,
    SHORTEST,
    STAY,
    STEPS,
    Keep,
    Models,
    actor,
    adding,
    advised,
    asks_for,
    proposer,
    shown,
    wanted,
)

HARM = "Stay where you are."
LIVES = train_sample("lifespan-shortest-lived", 8)
LEARN = (LONGEST[0], LIVES[0], train_sample("find-plant", 1)[0])
CHOOSE = (LONGEST[2], LIVES[1])
HELPED = LIVES[2:]
"""Six confirm variants, on five of which advice is worth 50 points: the fewest that can confirm."""
ALIKE = LONGEST[3:4]
"""One on which it changes nothing."""

# Rollouts of the search, what the proposer adds, whether a candidate is dropped before it met all of val.
SEARCHES = {
    "gepa": (12, [ADVICE], False),
    "mipro": (16, [ADVICE, HARM, ADVICE], True),
    "bootstrap": (9, [], False),
    "candidates": (8, [], True),
}


@pytest.fixture
def own(tmp_path_factory):
    """Where an optimizer is named, the same; for `candidates`, the one of a file with a wording that harms and one that
    helps."""
    file = tmp_path_factory.mktemp("own") / "own.toml"
    file.write_text(f'actor = ["{HARM}", "{ADVICE}"]')
    return lambda name: read_candidates(file, Agent("react")) if name == CANDIDATES else name


def goes(prompt):
    """Whether the actor goes outside, which is worth 50 points: asked for the longest life, and elsewhere when advice
    or a demonstration tells it to."""
    if HARM in prompt.partition("<user>")[0]:
        return False
    return asks_for("longest")(prompt) or advised(prompt) or shown(prompt)


def test_no_optimizer_is_left_out_and_an_unknown_one_offers_the_nearest(monkeypatch):
    assert set(SEARCHES) == {CANDIDATES, *(name for name, row in OPTIMIZERS.items() if row.searches)}
    with pytest.raises(UnknownName, match=r"bootstrap.*--candidates FILE"):
        get_optimizer("bootstraps")
    monkeypatch.setattr("rsso_dspy.optimize.optimizers.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'rsso-dspy\[mipro\]'"):
        get_optimizer("mipro")


@pytest.mark.parametrize(
    ("name", "confirm", "verdict", "p"),
    [(name, HELPED, "confirmed", 1 / 32) for name in SEARCHES]
    + [(name, ALIKE, "unconfirmed", 1.0) for name in ("gepa", "bootstrap")],  # one variant rules no gain out
)
def test_whatever_searches_is_raced_chosen_and_confirmed_alike(live, own, name, confirm, verdict, p):
    rollouts, lines, drops = SEARCHES[name]
    models = Models(actor=actor(goes), proposer=proposer(lines))
    request = wanted(own(name), LEARN, CHOOSE, rollouts + 2 * len(confirm), confirm=confirm, placebos=1)
    keep = Keep()
    compiled = compile_agent(Agent("react"), models.within(live), request, events=keep)
    start, placebo, *others = keep.of.candidates.values()
    assert (compiled.before.metric, compiled.after.metric) == (0.25, 0.5)
    noise, *_ = describe_noise(compiled)
    assert (placebo.placebo, "means nothing gained +0.0 points on val" in noise) == (True, True)
    assert any(each.dropped and not set(CHOOSE) <= set(each.rollouts) for each in others) == drops
    (chosen,) = (each for each in others if set(confirm) & set(each.rollouts))
    assert chosen.mean_over(CHOOSE) == 0.5
    assert set(confirm) <= set(start.rollouts)
    assert not set(confirm) & set(placebo.rollouts)
    found = compiled.confirmation
    assert (found.verdict, found.p, found.pairs) == (verdict, pytest.approx(p), len(confirm))
    assert compiled.improved == (verdict == "confirmed")
    assert compiled.program == (chosen if compiled.improved else start).program
    assert compiled.rollouts <= request.max_rollouts
    forecast = request.forecast(live.protocol)
    assert {role: n for role, n in models.asked.items() if n > forecast.calls.get(role, 0)} == {}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_is_the_same_with_more_jobs_and_prints_nothing(live, own, name, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rollouts, lines, _ = SEARCHES[name]
    compiled = []
    for jobs in (1, 2):
        models = Models(actor=actor(goes), proposer=proposer(lines))
        request = wanted(own(name), LEARN, CHOOSE, rollouts)
        compiled.append(compile_agent(Agent("react"), models.within(live), request, jobs))
    assert compiled[0] == compiled[1]
    assert len(compiled[0].tried) > 1
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    assert dspy.settings.lm is None


@pytest.mark.parametrize("name", SEARCHES)
def test_a_perfect_program_is_not_searched_beyond(live, own, name, monkeypatch):
    monkeypatch.setattr("rsso_dspy.optimize.rollouts.score_trials", lambda _: 1.0)
    models = Models(actor=actor(goes), proposer=proposer([ADVICE]))
    compiled = compile_agent(Agent("react"), models.within(live), wanted(own(name), LEARN, CHOOSE, SEARCHES[name][0]))
    assert (len(compiled.tried), compiled.rollouts, models.asked["proposer"]) == (1, 2, 0)


def test_mipro_finds_a_demonstration_and_shows_it_to_the_proposer(live):
    helped = actor(lambda prompt: asks_for("longest")(prompt) or shown(prompt))
    models = Models(actor=helped, proposer=proposer(["Be polite."]))
    compiled = compile_agent(Agent("react"), models.within(live), wanted("mipro"))
    assert (compiled.before, compiled.after) == (ProgramScores(0.0, 0), ProgramScores(0.5, 50))
    assert {demo["action"] for demo in compiled.chosen_state["actor"]["demos"]} == {GO}
    assert any(GO in prompt.rpartition("<user>")[2] for prompt in models.engines["proposer"].prompts)


@pytest.mark.parametrize("answer", ["", says(proposed_instruction="x" * (PROPOSAL_CHARACTERS + 1))])
def test_a_proposer_that_never_says_anything_usable_changes_nothing(live, answer):
    models = Models(actor=actor(lambda _: False), proposer=lambda _: answer)
    compiled = compile_agent(Agent("react"), models.within(live), wanted("mipro", rollouts=20))
    proposing = compiled.usage["proposer"]
    assert (compiled.candidate, len(compiled.tried), proposing.calls > 0) == (None, 1, True)
    assert proposing.truncated == proposing.calls * bool(answer)


# Wordings of a person's own

PRESENT = json.dumps(Agent("react").actor.signature.instructions)
SHIPPED = Path(__file__).parents[2] / "examples/candidates.toml"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the candidates .*No such file.*write actor ="),
        ("", "holds no instruction; write actor ="),
        ("actor = [", "not valid TOML"),
        ("player = ['Go.']", "unknown role in .*'player'.*nown: actor, reflector"),
        ("reflector = 'Go.'", "reflector is no list of instructions; write reflector ="),
        ("actor = ['Go.', ' ']", "actor is no list of instructions; write actor ="),
        ("actor = ['Go.', 'Look.', ' Go. ']", "instruction 3 of actor is instruction 1 once more"),
        (f"actor = [{PRESENT}]", "instruction 1 of actor is the present instruction once more"),
    ],
)
def test_a_file_of_wordings_that_holds_none_is_refused_with_the_fix(tmp_path, content, said):
    file = tmp_path / "own.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(UsageError, match=said):
        read_candidates(file, Agent("reflexion"))


def test_wordings_are_told_apart_by_their_texts_and_make_room_for_all(live, tmp_path):
    named = []
    for text in ("actor=['Go.']", "# Mine.\nactor = [' Go. ']", "actor=['Go.', 'Do.']"):
        (tmp_path / "own").write_text(f"{text}\n[skill_verbalizer]\ntarget = ['Name it.']")
        named.append(read_candidates(tmp_path / "own", Agent("rsso")))
    one, same, more = named
    assert one.settings == same.settings != more.settings
    request = build_request(get_method("rsso"), live.protocol, Calibration(LEARN, CHOOSE, HELPED), more)
    assert request.max_rollouts == (2 + 3) * len(CHOOSE) + 2 * len(HELPED)
    assert request.describe(live.config)["identity"]["candidates"] == more.settings["candidates"]
    assert "proposer" not in request.forecast(live.protocol).calls
    with pytest.raises(UsageError, match="leave out --optimizer gepa"):
        read_candidates(tmp_path / "own", Agent("rsso"), "gepa")
    (note,) = read_candidates(SHIPPED, Agent("react")).notes
    assert note == "instructions of candidates.toml: 10 of actor; candidates are numbered in the order of the file"


# What it costs


def test_a_forecast_can_be_reached_and_is_not_exceeded_and_counts_the_advisor(live):
    """An actor that always uses its whole budget, and a proposer that says nothing new."""
    models = Models(actor=actor(lambda _: False), proposer=lambda prompt: adding(prompt, ""))
    small = wanted(rollouts=8)
    compiled = compile_agent(Agent("react"), models.within(live), small)
    forecast = replace(small, max_rollouts=compiled.rollouts).forecast(live.protocol)
    assert models.asked["actor"] == forecast.calls["actor"]
    assert models.asked["proposer"] <= small.forecast(live.protocol).calls["proposer"]
    advised = wanted("gepa", method_name="omnireflect-neural", trials=2, steps=5)
    preset = replace(live.protocol, constitution=ConstitutionSettings(r_freq=5, s_freq=1))
    assert advised.forecast(preset).calls["advisor"] == advised.max_rollouts * (2 * 1 + 1)


def test_the_same_compile_by_the_embedded_model_again_is_the_same_to_the_byte(live, tmp_path, monkeypatch):
    """Once more with everything read from its logs."""
    small = wanted("mipro", TRAIN, VAL, 6, method_name="rsso", steps=4)
    once = tmp_path / "once.json"
    compile_agent(Agent("rsso"), live, small, out=once)
    first = once.read_bytes()
    monkeypatch.setattr(Explorer, "complete", lambda *_: pytest.fail("a model was asked"))
    compile_agent(Agent("rsso"), live, small, out=once)
    assert once.read_bytes() == first


# The program under DSPy's own tools


REFLECTING = Engine(lambda _: json.dumps({"new_instruction": f"Play. {ADVICE}"}))
LIFE_SPANS = ["lifespan-longest-lived", "lifespan-shortest-lived"]
SET = rsso_dspy.trainset("scienceworld", "1-per-task", LIFE_SPANS)
TO_CHOOSE_BY = rsso_dspy.valset("scienceworld", "1-per-task", LIFE_SPANS[1:])


@pytest.mark.parametrize("threads", [1, 2])
def test_dspy_evaluates_the_program(live, threads):
    models = Models(actor=actor(asks_for("longest")))
    evaluate = dspy.Evaluate(devset=SET, metric=rsso_dspy.metric, num_threads=threads, display_progress=False)
    with acting(live, models, rules=TrialRules(1), budget=lambda _: STEPS):
        result = evaluate(Agent("react"))
    assert [score for _, _, score in result.results] == [0.5, 0.0]
    assert models.asked["actor"] == STEPS * 2


def answer_everything(prompt):
    """An actor that goes outside where the task asks for the longest, or where a demonstration or the advice says so.
    To an optimizer's question, the advice in every field."""
    went = GO in prompt.partition("<user>")[2]
    action = GO if not went and (asks_for("longest")(prompt) or shown(prompt) or advised(prompt)) else STAY
    if is_asked(prompt, "action"):
        return says(thought="So be it.", action=action)
    fields = re.findall(r"\[\[ ## (\w+) ## \]\]", prompt.rpartition("Respond with")[2])
    said = {"module_advice": json.dumps({"actor": ADVICE})}
    return "\n\n".join(f"[[ ## {name} ## ]]\n{said.get(name, ADVICE)}" for name in fields)


DSPYS_OPTIMIZERS = {
    "bootstrap": (
        lambda: dspy.BootstrapFewShot(metric=rsso_dspy.metric, metric_threshold=0.5, max_labeled_demos=0),
        {"trainset": SET},
        ({GO}, False),
    ),
    "gepa": (
        lambda: dspy.GEPA(
            rsso_dspy.metric, max_metric_calls=4, reflection_minibatch_size=1, reflection_lm=model(REFLECTING)
        ),
        {"trainset": SET[1:], "valset": TO_CHOOSE_BY},
        (set(), True),
    ),
    "mipro": (
        lambda: dspy.MIPROv2(rsso_dspy.metric, auto=None, num_candidates=3, max_labeled_demos=0, num_threads=1),
        {"trainset": SET[:1], "valset": TO_CHOOSE_BY, "num_trials": 2, "minibatch": False},
        ({GO}, True),
    ),
    "simba": (
        lambda: dspy.SIMBA(metric=rsso_dspy.metric, bsize=2, num_candidates=2, max_steps=1, num_threads=1),
        {"trainset": SET, "seed": 3},  # a seed that draws a demonstration, not a rule, for the better variant
        ({GO}, False),
    ),
}
"""How to make each, what it compiles with, and what the actor has then: demonstrated actions, whether the advice."""


@pytest.fixture
def short_default_session(tmp_path, monkeypatch):
    """A default session of the test's own, with trials of one step, one trial a variant."""
    (tmp_path / "rsso.toml").write_text(
        'embedder.model = "hash"\nprotocol = {preset = "sso-adapt/3-cap60", trials = 1, steps = 1}'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rsso_dspy.sessions._default", opened := [])
    yield
    for each in opened:
        each.runtime.environments.close()


@pytest.mark.parametrize("method_name", ["react", "rsso"])
@pytest.mark.parametrize("name", DSPYS_OPTIMIZERS)
@pytest.mark.usefixtures("short_default_session")
def test_dspys_optimizers_improve_a_program_without_a_session(name, method_name):
    make_optimizer, data, learned = DSPYS_OPTIMIZERS[name]

    def optimize():
        with dspy.context(lm=model(Engine(answer_everything))):
            program = make_optimizer().compile(rsso_dspy.Agent(method_name), **data)
            return program, rsso_dspy.metric(None, program(variant=SHORTEST[0].key))

    program, score = Context().run(optimize)  # no session is active there
    demonstrated = {demo["action"] for demo in program.actor.demos}
    assert (demonstrated, ADVICE in program.actor.signature.instructions) == learned
    assert score == 0.5
