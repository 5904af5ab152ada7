"""Do shorter rollouts rank candidate programs as whole ones do?

    python benchmarks/short_rollouts.py [--jobs 2]

Takes the candidates that gepa and simba come up with for rsso on nine tasks (three seeds of gepa, one of simba), plays
each on one training variant of every task with whole rollouts (two trials of 60 steps) and with shortened ones, and
compares the rankings: Kendall's tau over candidates, and what is lost, in the metric of whole rollouts, by choosing the
best by shortened ones. The ratio is the share of model calls that one trial instead of two needs.
"""

import json
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scipy.stats import kendalltau

from benchmarks.compile_gain import METHOD, TASKS
from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.experiment.events import EventStream
from rsso_dspy.experiment.plan import compute_step_budgets
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.candidates import CompileLimits
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.request import build_request
from rsso_dspy.optimize.rollouts import RolloutFinished, Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import RULE_BASED_NOTE

SETTINGS = ["protocol.preset=sso-adapt/1-cap60"]
SEARCHES = (("gepa", 0), ("gepa", 1), ("gepa", 2), ("simba", 0))
ENOUGH = 10**9


@dataclass(frozen=True)
class RolloutLength:
    """How long a rollout is. Options of `rsso-dspy compile`."""

    name: str
    trials: int = 2
    steps: int = 60
    max_idle: int | None = None


WHOLE = RolloutLength("2 trials of 60 steps")
SHORTENED = (
    RolloutLength("--compile-trials 1", trials=1),
    RolloutLength("--compile-steps 30", steps=30),
    RolloutLength("--max-idle 20", max_idle=20),
    RolloutLength("--compile-trials 1 --compile-steps 30", trials=1, steps=30),
)


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--jobs", type=int, default=2)
    jobs = options.parse_args().jobs
    with session(load_config(overrides=SETTINGS), jobs=jobs) as live:
        states = collect_candidates(live, jobs)
        whole, most = measure_candidates(live, states, WHOLE, jobs)
        rows = [(form, *measure_candidates(live, states, form, jobs)) for form in SHORTENED]
    print(RULE_BASED_NOTE)
    print(f"\n{len(states)} candidates, metric of whole rollouts {min(whole):.3f} to {max(whole):.3f}\n")
    print_head("rollouts", "model calls", "Kendall's tau", "p", "best is the same", "lost by its choice")
    print_row(WHOLE.name, f"{most:,}", "", "", "", "")
    for form, found, calls in rows:
        agreement = kendalltau(whole, found)
        chosen = max(range(len(found)), key=found.__getitem__)
        lost = max(whole) - whole[chosen]
        print_row(form.name, f"{calls:,} ({calls / most:.0%})", f"{agreement.statistic:.2f}",
                  f"{agreement.pvalue:.3f}", "no" if lost else "yes", f"{lost:.3f}")  # fmt: skip
    print(json.dumps({"ratio": round(rows[0][2] / most, 3), "candidates": len(states)}))


class StateCollector(EventStream):
    """Keeps every candidate's state."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, Any] = {}
        self.subscribe(RolloutFinished, self.on_rollout)

    def on_rollout(self, event: RolloutFinished) -> None:
        self.states.setdefault(event.candidate.program, event.candidate.state)


def collect_candidates(live: Session, jobs: int) -> list[Any]:
    """States of the programs that short searches try, zero-shot first."""
    found = StateCollector()
    for name, seed in SEARCHES:
        calibration = draw_calibration("1-per-task", TASKS, seed, live.config.environment.simplification)
        wanted = build_request(Agent(METHOD).method, live.protocol, calibration, name, 1, 40, 60, seed=seed)
        compile_agent(Agent(METHOD), live, wanted, jobs, found)
    return list(found.states.values())


def measure_candidates(live: Session, states: list[Any], form: RolloutLength, jobs: int) -> tuple[list[float], int]:
    """The mean metric of every candidate with rollouts of this form, and the model calls that took."""
    variants = draw_calibration("1-per-task", TASKS, 0, live.config.environment.simplification).val
    budgets = {
        variant: min(budget, form.steps) for variant, budget in compute_step_budgets(live.protocol, variants).items()
    }
    limits = CompileLimits(ENOUGH, None, None)
    rollouts = Rollouts(live, variants, budgets, form.trials, 0, limits, StateCollector(), max_idle=form.max_idle)
    for state in states:
        agent = Agent(METHOD)
        agent.load_state(state)
        rollouts.play_all(agent, variants, jobs)
    played = [candidate.rollouts for candidate in rollouts.candidates.values()]
    return [fmean(rollout.score for rollout in each.values()) for each in played], rollouts.lm_calls


if __name__ == "__main__":
    main()
