"""A compile finds what helps, keeps what is as good, and never spends more than it was allowed."""

import json
from dataclasses import replace

import dspy
import pytest
from dspy.utils.exceptions import LMServerError

from rsso_dspy.config import CompileOptions, PriceConfig
from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.errors import BackendFailure, RunMismatch
from rsso_dspy.optimize.compile import ENDED, compile, compile_agent, load_finished_compile
from rsso_dspy.optimize.optimizers import get_optimizer
from rsso_dspy.optimize.program_file import ProgramScores, describe_verdict, load
from rsso_dspy.optimize.verdict import LEVEL
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from tests.live import REWARDED
from tests.optimize.scripted import ADVICE, SHORTEST, STEPS, CutShort, Keep, Models, actor, advised, proposer, wanted

SIX = train_sample("lifespan-longest-lived", 6)
LINES = ["Be polite.", "Count to three.", ADVICE, "Think of the weather."]
REACT = Agent("react").dump_state()
CONFIRMED = wanted(rollouts=24, confirm=(*SIX[2:], *SHORTEST[1:3]))


def play(live, models, request=None, **more):
    return compile_agent(Agent("react"), models.within(live), request or wanted(), **more)


def test_gepa_finds_the_one_line_that_earns_points(live):
    models = Models(actor=actor(advised), proposer=proposer(LINES))
    compiled = play(live, models, CONFIRMED)
    assert (compiled.improved, compiled.candidate) == (True, None)
    assert (compiled.confirmation.difference, compiled.confirmation.p) == (0.416667, 1 / 32), "one starts outside"
    assert {name for name in REACT if compiled.chosen_state[name] != REACT[name]} == {"actor"}
    assert (compiled.before, compiled.after) == (ProgramScores(0.0, 0), ProgramScores(0.5, 50))
    assert models.asked["proposer"] >= 3, "the line is the third that is proposed"
    assert describe_verdict(compiled).endswith(f"level {LEVEL}; p below {LEVEL}")
    assert repr(compiled) == f"Compiled(react, gepa, {compiled.confirmation})"
    with models.within(live).activate_for_run():
        assert compiled.agent()(variant=REWARDED, trials=1) is not None
    assert advised(models.engines["actor"].prompts[-1])


def test_money_that_ends_before_confirm_does_leaves_the_candidate_unconfirmed_and_kept(live, tmp_path):
    """The purse is that of the same compile without a limit, less a part of what confirming took."""

    def compile_within(cost, out):
        models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
        prices = {name: PriceConfig(input=1, output=1) for name in live.backend.models.values()}
        priced = replace(live, config=live.config.model_copy(update={"prices": prices}))
        observed, request = Keep(), replace(CONFIRMED, max_cost=cost)
        found = play(priced, models, request, events=observed, out=out)
        assert load_finished_compile(out, priced.config, request) == found
        return found, observed.of.purse.cost

    free, whole = compile_within(1000.0, tmp_path / "free.json")
    assert free.confirmation.verdict == "confirmed"
    found, spent = compile_within(whole / 2, tmp_path / "tight.json")
    assert spent < whole
    assert (found.improved, found.confirmation.verdict, found.ended_by) == (False, "unconfirmed", "cost")
    assert found.confirmation.why.startswith(f"{ENDED['cost']}: ")
    assert found.confirmation.why.endswith("of 6 confirm variants were played")
    saved = load(tmp_path / "tight.json").select_candidate()
    assert ADVICE in saved.state["actor"]["signature"]["instructions"]
    assert saved.after == free.after


@pytest.mark.parametrize(("jobs", "most"), [(1, 6), (2, 12)])
def test_no_rollout_is_played_beyond_the_budget(live, jobs, most):
    models = Models(actor=actor(advised), proposer=proposer([ADVICE, f"{ADVICE} Now."]))
    keep = Keep()
    compiled = play(live, models, wanted(train=SIX, rollouts=most), jobs=jobs, events=keep)
    assert (compiled.rollouts, compiled.ended_by) == (most, "rollouts")
    assert models.asked["actor"] <= STEPS * most
    assert len({(program, rollout.variant) for program, rollout in keep.told}) == len(keep.told)


# Errors


def fail(*_):
    raise LMServerError("oops")


@pytest.mark.parametrize(
    ("fails", "scores"), [(lambda _: True, []), (advised, [0.5] * 3)], ids=["of the program", "of a candidate"]
)
def test_an_error_of_the_actor_ends_the_compile_and_is_no_score(live, tmp_path, fails, scores):
    """Nothing that failed counts as 0, and the program as it was is kept."""
    goes = actor(lambda _: True)
    models = Models(actor=lambda prompt: (fail if fails(prompt) else goes)(prompt), proposer=proposer([ADVICE]))
    out, keep = tmp_path / "compiled.json", Keep()
    with pytest.raises(BackendFailure, match=r"lifespan-\w+-lived::\d+ could not be played: .*oops.*doctor"):
        play(live, models, events=keep, out=out)
    assert sum(map(fails, models.engines["actor"].prompts)) == 1
    assert [rollout.score for _, rollout in keep.told] == scores
    there = load(out)
    assert (there.ended_by, there.improved, there.state) == ("error", False, REACT)
    assert there.before == (ProgramScores(0.5, 50) if scores else None)
    repeat_mended(live, out)


def repeat_mended(live, out, name="gepa"):
    """Repeat a compile that an error ended: what failed is asked again."""
    models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
    assert play(live, models, wanted(name), out=out).ended_by in (None, "rollouts")
    assert sum(map(advised, models.engines["actor"].prompts)) >= STEPS


@pytest.mark.parametrize(("name", "fault"), [("gepa", RuntimeError("oops")), ("mipro", LMServerError("oops"))])
def test_a_proposer_that_fails_ends_the_compile(live, name, fault, tmp_path):
    def fails(_):
        raise fault

    models, out = Models(actor=actor(advised), proposer=fails), tmp_path / "compiled.json"
    with pytest.raises(BackendFailure, match="proposer failed"):
        play(live, models, wanted(name), out=out)
    assert (models.asked["proposer"], load(out).ended_by) == (1, "error")
    repeat_mended(live, out, name)


def test_from_python_a_compile_is_a_module_with_its_verdict(live, tmp_path, capsys):
    session = Models(actor=actor(lambda _: False)).within(live)
    compiled = compile(Agent("react"), session, tasks=["lifespan-shortest-lived"], optimizer="none", trials=1, steps=1)
    assert isinstance(compiled, dspy.Module)
    assert compiled.verdict == "not better: no candidate did better on val than the program to improve"
    assert capsys.readouterr().out == f"{compiled.verdict}. It plays the program that it started from\n"
    compiled.save(tmp_path / "compiled.json")
    assert load(tmp_path / "compiled.json") == compiled.compiled
    assert fingerprint_program(compiled.deepcopy()) == fingerprint_program(Agent("react"))


def test_a_compile_that_is_interrupted_before_anything_is_played_leaves_a_program_that_loads(live, tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(live, Models(actor=interrupt), out=tmp_path / "early.json")
    there = load(tmp_path / "early.json")
    assert (there.ended_by, there.before, there.improved, there.tried) == ("interrupted", None, False, ())
    assert there.state == REACT


# Resume


PHASES = replace(CONFIRMED, max_rollouts=26, placebos=1)  # after 15 rollouts, confirm is under way


def make_models():
    return Models(actor=actor(advised), proposer=proposer(["Be polite.", ADVICE]))


@pytest.fixture(scope="module")
def whole_phases(live, tmp_path_factory):
    """The file of that compile in one go, by two jobs, and how often it asked each role."""
    out, models = tmp_path_factory.mktemp("phases") / "whole.json", make_models()
    whole = play(live, models, PHASES, out=out, jobs=2)
    assert (whole.confirmation.verdict, whole.tried[1].placebo, whole.rollouts) == ("confirmed", True, 21)
    return out.read_bytes(), models.asked


@pytest.fixture(scope="module")
def cut(live, tmp_path_factory):
    """The file of that compile, cut short in its race."""
    out = tmp_path_factory.mktemp("phases") / "cut.json"
    with pytest.raises(KeyboardInterrupt):
        play(live, make_models(), PHASES, out=out, events=CutShort(3))
    return out


@pytest.mark.parametrize("after", [3, 15])
def test_a_compile_that_is_cut_short_in_any_phase_ends_in_the_same_file_whatever_the_jobs(
    live, whole_phases, tmp_path, after
):
    out, models = tmp_path / "cut.json", make_models()
    with pytest.raises(KeyboardInterrupt):
        play(live, models, PHASES, out=out, events=CutShort(after))
    assert load(out).confirmation.verdict in ("unconfirmed", "not better")
    play(live, models, PHASES, out=out)
    assert (out.read_bytes(), models.asked) == whole_phases
    data = json.loads(out.read_text())
    assert all(set(tried["per_variant"]) <= {*data["train"], *data["val"], *data["confirm"]} for tried in data["tried"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed: there 0, now 1"),
        ({"max_rollouts": 27}, "max_rollouts: there 26, now 27"),
        ({"optimizer": get_optimizer("bootstrap")}, "optimizer: there 'gepa', now 'bootstrap'"),
        ({"optimizer": replace(PHASES.optimizer, settings={"candidates": "1"})}, "candidates: there '.absent.', now"),
        ({"options": CompileOptions(trials=2, steps=STEPS)}, "trials: there 1, now 2"),
        ({"calibration": replace(PHASES.calibration, seeds=2)}, "seeds: there 1, now 2"),
    ],
)
def test_a_compile_cut_short_in_its_race_is_not_continued_by_another_request(live, cut, change, said):
    with pytest.raises(RunMismatch, match=said):
        play(live, Models(), replace(PHASES, **change), out=cut)
    with pytest.raises(RunMismatch, match=said):
        load_finished_compile(cut, live.config, replace(PHASES, **change))


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["cut off", "damaged"])
def test_a_rollout_whose_log_was_cut_off_or_damaged_is_played_again(live, whole_phases, tmp_path, end):
    out = tmp_path / "cut.json"
    with pytest.raises(KeyboardInterrupt):
        play(live, make_models(), PHASES, out=out, events=CutShort(3))
    log = sorted(out.with_name(f"{out.name}.rollouts").glob("units/*/lifespan*/*.jsonl"))[0]
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2] + end)
    play(live, make_models(), PHASES, out=out)
    there, whole = (json.loads(content) for content in (out.read_bytes(), whole_phases[0]))
    assert {**there, "abandoned": {}} == {**whole, "abandoned": {}}
    assert log.with_suffix(".jsonl.damaged").exists() == bool(end)
