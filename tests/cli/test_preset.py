"""`run --preset`: a whole experiment by name, and what options beside it change."""

import os
import re

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.workflows.named_experiments import EXPERIMENTS

PAPER = ("run", "--preset", "rsso-paper", "--dry-run", "--out", "out")
OTHERWISE = (
    '[protocol]\ntrials = 2\ninterface = "complete"\nstop_on_success = false\n[memory]\nreflections = 1\n'
    '[backends.anthropic]\nmodel = "anthropic/other"\nroles.actor.model = "anthropic/another"\n'
)


def test_the_papers_experiment_is_one_command_whose_cost_can_be_seen_without_a_key(rsso, tmp_path, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (tmp_path / "rsso.toml").write_text(OTHERWISE)
    code, _, err = rsso(*PAPER)
    assert code == 0
    assert "4 arms x 164 variants = 656 units, 5 trials each, protocol sso-adapt/1 retry_temperature=0.7," in err
    assert "backend anthropic: anthropic/claude-sonnet-4-6" in err
    (actor,) = re.findall(r"actor ([\d,]+)", err)
    assert 250_000 < int(actor.replace(",", "")) <= 300_000
    assert "$" in err
    assert "--preset ignores rsso.toml" in err
    assert len(err.splitlines()) == len(rsso(*PAPER, "--config", os.devnull)[2].splitlines()) + 1
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_named_fills_what_the_experiment_leaves_open(rsso, tmp_path):
    (tmp_path / "rsso.toml").write_text(OTHERWISE)
    code, _, err = rsso(*PAPER, "--config", "rsso.toml")
    assert code == 0
    assert "5 trials each, protocol sso-adapt/1 stop_on_success=False interface=complete" in " ".join(err.split())
    assert "ignores rsso.toml" not in err


def test_it_is_what_the_paper_says():
    row = EXPERIMENTS["rsso-paper"]
    config = load_config(overrides=row.settings)
    plan = plan_held_out(config, row.methods, variants=[row.variants])
    assert plan.arms == ("react", "reflexion", "sso", "rsso")
    assert len({unit.variant.task for unit in plan.units}) == 18
    assert len({unit.variant for unit in plan.units}) == 164
    assert {unit.variant.split for unit in plan.units} == {"test"}
    assert plan.protocol == "sso-adapt/1 retry_temperature=0.7"
    assert (plan.rules.trials, plan.rules.stop_on_success) == (5, True)
    assert plan.forecast_calls().calls["actor"] == 294_420


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backend", "embedded", "--tasks", "boil", "--per-task", "1"], "4 arms x 1 variant = 4 units, 5 trials"),
        (["--methods", "rsso", "--trials", "2", "--variants", "boil::22,boil::27"], "1 arm x 2 variants = 2 units, 2"),
        (["--protocol", "sso-adapt/1-cap60", "--tasks", "boil"], "protocol sso-adapt/1-cap60"),
        (["--set", "protocol.trials=3", "--tasks", "boil"], "3 trials each, protocol sso-adapt/1 trials=3"),
        (["--set", "backend=embedded"], "embedded/explorer (rule-based"),
    ],
)
def test_options_beside_it_win(rsso, words, said):
    code, _, err = rsso(*PAPER, *words)
    assert code == 0
    assert said in err


def test_an_unknown_preset_is_refused_with_the_nearest(rsso):
    code, _, err = rsso("run", "--preset", "rso-papr", "--out", "out")
    assert code == 2
    assert "unknown preset of a run 'rso-papr': did you mean rsso-paper?" in err


def test_help_lists_them(rsso, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = " ".join(rsso("run", "--help")[1].split())
    assert all(name in said for name in EXPERIMENTS)
