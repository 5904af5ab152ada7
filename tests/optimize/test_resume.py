"""A compile that is cut short pays for nothing twice; and where it starts."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.config import CompileOptions
from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.errors import RunMismatch, SplitError, UsageError
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.program_file import load
from rsso_dspy.optimize.request import build_request
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.store.guards import check_held_out
from tests.optimize.conftest import TRAIN, VAL
from tests.optimize.scripted import ADVICE, LONGEST, SHORTEST, STEPS, Keep, Models, actor, advised, proposer, wanted

SMALL = wanted("gepa", TRAIN, VAL, 8, method_name="rsso", trials=2, steps=STEPS + 2)
"""A compile by the embedded model."""


class CutShort(Keep):
    """Ends the compile after so many rollouts, as Ctrl-C would."""

    def __init__(self, after: int):
        super().__init__()
        self.after = after

    def on_rollout(self, event):
        super().on_rollout(event)
        if len(self.told) == self.after:
            event.rollouts.stop_compile("interrupted")


def test_rollouts_of_another_request_are_refused_with_the_difference(live, tmp_path):
    out = tmp_path / "program.json"
    with pytest.raises(KeyboardInterrupt):
        compile_agent(Agent("rsso"), live, SMALL, events=CutShort(1), out=out)
    out.unlink()
    with pytest.raises(RunMismatch, match="seed: there 0, now 1"):
        compile_agent(Agent("rsso"), live, replace(SMALL, seed=1), out=out)


# Where it starts


def test_a_compile_may_start_from_another_and_remembers_what_that_has_seen(live, tmp_path):
    models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
    first = compile_agent(Agent("react"), models.within(live), wanted(rollouts=6), out=tmp_path / "first.json")
    assert first.candidate
    start = load(tmp_path / "first.json").select_candidate()
    calibration = Calibration(LONGEST[2:3], SHORTEST[2:3])
    options = CompileOptions(trials=1, steps=2)
    again = build_request(METHODS["react"], live.protocol, calibration, "gepa", options, max_rollouts=4, start=start)
    second = compile_agent(start.agent(), models.within(live), again, out=tmp_path / "second.json")
    there = load(tmp_path / "second.json")
    assert there.start == start.program
    assert second.before.metric == start.after.metric
    assert set(there.calibration) == {*start.calibration, LONGEST[2].key, SHORTEST[2].key}
    with pytest.raises(SplitError, match="compiled on"):
        check_held_out(there.calibration, LONGEST[:1])
    with pytest.raises(UsageError, match="--method react"):
        build_request(METHODS["rsso"], live.protocol, calibration, start=start)


def make_models():
    return Models(actor=actor(advised), proposer=proposer(["Be polite.", ADVICE]))


def play_phases(live, models, out, jobs=1, events=None):
    """The program as it is and a placebo on val, a search, then confirm: after 15 rollouts it is under way."""
    six = train_sample("lifespan-longest-lived", 6)
    small = wanted(rollouts=26, confirm=(*six[2:], *SHORTEST[1:3]), placebos=1)
    return compile_agent(Agent("react"), models.within(live), small, jobs, events, out)


@pytest.fixture(scope="module")
def whole_phases(live, tmp_path_factory):
    """The file of that compile in one go, by two jobs, and how often it asked each role."""
    out, models = tmp_path_factory.mktemp("phases") / "whole.json", make_models()
    whole = play_phases(live, models, out, jobs=2)
    assert (whole.confirmation.verdict, whole.tried[1].placebo, whole.rollouts) == ("confirmed", True, 21)
    return out.read_bytes(), models.asked


@pytest.mark.parametrize("after", [3, 15])
def test_a_compile_that_is_cut_short_in_any_phase_ends_in_the_same_file_whatever_the_jobs(
    live, whole_phases, tmp_path, after
):
    out, models, rest = tmp_path / "cut.json", make_models(), Keep()
    with pytest.raises(KeyboardInterrupt):
        play_phases(live, models, out, events=CutShort(after))
    assert load(out).confirmation.verdict in ("unconfirmed", "not better")
    play_phases(live, models, out, events=rest)
    assert rest.of.recalled == after
    assert (out.read_bytes(), models.asked) == whole_phases
    data = json.loads(out.read_text())
    assert all(set(tried["per_variant"]) <= {*data["train"], *data["val"], *data["confirm"]} for tried in data["tried"])


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["cut off", "damaged"])
def test_a_rollout_whose_log_was_cut_off_or_damaged_is_played_again(live, whole_phases, tmp_path, end):
    out = tmp_path / "cut.json"
    with pytest.raises(KeyboardInterrupt):
        play_phases(live, make_models(), out, events=CutShort(3))
    log = sorted(out.with_name(f"{out.name}.rollouts").glob("units/*/lifespan*/*.jsonl"))[0]
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2] + end)
    play_phases(live, make_models(), out)
    there, whole = (json.loads(content) for content in (out.read_bytes(), whole_phases[0]))
    assert {**there, "abandoned": {}} == {**whole, "abandoned": {}}
    assert log.with_suffix(".jsonl.damaged").exists() == bool(end)
