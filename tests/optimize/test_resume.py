"""A compile that is cut short pays for nothing twice."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.errors import RunMismatch
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from tests.optimize.scripted import ADVICE, SHORTEST, Keep, Models, actor, advised, proposer, wanted

SIX = train_sample("lifespan-longest-lived", 6)
SMALL = wanted(rollouts=26, confirm=(*SIX[2:], *SHORTEST[1:3]), placebos=1)


class CutShort(Keep):
    """Ends the compile after so many rollouts, as Ctrl-C would."""

    def __init__(self, after: int):
        super().__init__()
        self.after = after

    def on_rollout(self, event):
        super().on_rollout(event)
        if len(self.told) == self.after:
            event.rollouts.stop_compile("interrupted")


def make_models():
    return Models(actor=actor(advised), proposer=proposer(["Be polite.", ADVICE]))


def play_phases(live, models, out, jobs=1, events=None, request=SMALL):
    """The program as it is and a placebo on val, a search, then confirm: after 15 rollouts it is under way."""
    return compile_agent(Agent("react"), models.within(live), request, jobs, events, out)


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
    out.unlink()
    with pytest.raises(RunMismatch, match="seed: there 0, now 1"):
        play_phases(live, models, out, request=replace(SMALL, seed=1))


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
