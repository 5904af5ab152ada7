"""Does a compile accept junk, and does it keep what is good? Simulated compiles through the real acceptance code.

    python benchmarks/junk.py [--compiles 200] [--candidates 4] [--calib 1-per-task] [--sampled]
    python benchmarks/junk.py --real 3 --tasks boil,find-plant [--jobs 2]

A simulated compile draws the calibration of all 18 tasks, plays its phases as `rsso-dspy compile` does (placebo, race
on val, choice, confirm, default budget), and takes the scores of rollouts from dice: an equally good program differs
from the one to improve on 28% of variants by 45 points on average, as measured on the embedded backend. All candidates
are useless, or one of them is truly better by 5 or 10 points. With `--sampled` every rollout is solved or not at
random, those of the program to improve too, as by a model with a temperature: 60% of them, and more of a better one.
Greedy takes whatever is best on val. `--real N` compiles on the embedded backend with candidates that are rewordings
without meaning, N seeds, and counts those it confirms.
"""

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from benchmarks.script import make_parser, parse_options
from rsso_dspy.config import CompileOptions, load_config
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.compile import CompileRequest, build_request, compile_agent, play_phases
from rsso_dspy.optimize.optimizers import SENTENCES, Optimizer, get_optimizer, make_placebo
from rsso_dspy.optimize.rollouts import Job, Rollouts, choose_candidate
from rsso_dspy.optimize.verdict import FLIP, FLIPPED, Confirmation, Rollout, judge_candidate
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import get_method
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import RULE_BASED_NOTE
from rsso_dspy.sessions import session

METHOD = "rsso"
SOLVED, SPREAD = 0.6, 0.05
"""Flips are from `FLIP` less this to `FLIP` and this: 40 to 50 points, from 50."""


class SimulatedRollouts(Rollouts):
    """Rollouts whose scores are dice. `gains` says by how much a program is truly better than others."""

    def __init__(self, wanted: CompileRequest, gains: dict[str, float], dice_seed: int, sampled: bool = False):
        backend = SimpleNamespace(models={}, replay=None)
        runtime = SimpleNamespace(rules=SimpleNamespace(interface="sso"))
        live: Any = SimpleNamespace(backend=backend, config=SimpleNamespace(prices={}), runtime=runtime)
        super().__init__(live, wanted)
        self.gains, self.dice_seed, self.sampled = gains, dice_seed, sampled

    def _play_variant(self, program: Agent, job: Job) -> Rollout:  # noqa: ARG002
        """The program to improve scores 0.5 everywhere, if rollouts are not sampled; another one differs where its dice
        say so, upwards as often as downwards unless it has a gain."""
        name, variant, repeat = job
        score, gain = 0.5, self.gains.get(name, 0.0)
        dice = random.Random(f"{self.dice_seed}/{variant.key}/{name}/{repeat}")
        if self.sampled:
            score = float(dice.random() < SOLVED + gain)
        elif name != next(iter(self.candidates)) and dice.random() < FLIPPED:
            up = 0.5 + gain / (2 * FLIPPED * FLIP)
            score += dice.uniform(FLIP - SPREAD, FLIP + SPREAD) * (1 if dice.random() < up else -1)
        return Rollout(variant, score, (), (), ())


def make_candidates(count: int) -> list[Agent]:
    """Programs that differ in a word."""
    found = []
    for number in range(count):
        agent = Agent(METHOD)
        words = agent.actor.signature.instructions
        agent.actor.signature = agent.actor.signature.with_instructions(f"{words} Candidate {number}.")
        found.append(agent)
    return found


def make_trier(programs: list[Agent]) -> Optimizer:
    """An optimizer that tries these, as far as the budget reaches."""
    return replace(get_optimizer("gepa"), name="trier", propose=lambda _: iter(programs))


def simulate_compiles(given: argparse.Namespace, gain: float, say: Callable[[str], None]) -> dict[str, float]:
    """Shares over so many compiles with one candidate of that gain among useless ones."""
    config = load_config()
    programs = make_candidates(given.candidates)
    good = fingerprint_program(programs[0])
    verdicts: list[Confirmation] = []
    greedy, kept_good, greedy_good, luck, spent, dropped = [], [], [], [], [], []
    for number in range(given.compiles):
        calibration = draw_calibration(given.calib, None, number)
        wanted = build_request(get_method(METHOD), resolve_protocol(config), calibration, seeds=given.seeds)
        order = random.Random(number).sample(programs, len(programs))
        wanted = replace(wanted, optimizer=make_trier(order))
        rollouts = SimulatedRollouts(wanted, {good: gain} if gain else {}, number, given.sampled)
        agent = Agent(METHOD)
        play_phases(agent, rollouts)
        start, chosen = next(iter(rollouts.candidates.values())), choose_candidate(rollouts)
        found = judge_candidate(start, chosen, calibration.confirm, given.seeds)
        verdicts.append(found)
        greedy.append(chosen is not None)
        is_good = chosen is not None and chosen.program == good
        greedy_good.append(is_good)
        kept_good.append(is_good and found.verdict == "confirmed")
        before = start.mean_over(rollouts.val, seeds=given.seeds) or 0.0
        luck.append((chosen.mean_over(rollouts.val, seeds=given.seeds) or 0.0) - before if chosen else 0.0)
        spent.append(rollouts.spent)
        dropped.append(sum(each.dropped for each in rollouts.candidates.values()))
    confirmed = fmean(each.verdict == "confirmed" for each in verdicts)
    of_unconfirmed = fmean(each.verdict == "unconfirmed" for each in verdicts)
    found_gain = 100 * fmean([each.difference or 0.0 for each in verdicts])
    say(f"| {100 * gain:.0f} | {fmean(greedy):.1%} | {100 * fmean(luck):+.1f} | {confirmed:.1%} | "
        f"{of_unconfirmed:.1%} | {fmean(greedy_good):.1%} | {fmean(kept_good):.1%} | {found_gain:+.1f} | "
        f"{fmean(spent):.0f} | {fmean(dropped):.1f} |")  # fmt: skip
    return {"greedy": fmean(greedy), "confirmed": confirmed, "good_chosen": fmean(greedy_good),
            "good_confirmed": fmean(kept_good), "rollouts": fmean(spent)}  # fmt: skip


def compile_placebos(given: argparse.Namespace) -> dict[str, int]:
    """Real compiles on the embedded backend whose candidates mean nothing."""
    counts = {"confirmed": 0, "unconfirmed": 0, "not better": 0}
    tasks = given.tasks.split(",") if given.tasks else None
    for seed in range(given.real):
        config = load_config(overrides=[f"seed={seed}", "protocol.preset=sso-adapt/3-cap60"])
        with session(config, jobs=given.jobs) as live:
            calibration = draw_calibration(given.calib, tasks, seed, config.simplification)
            options = CompileOptions(steps=given.steps)
            wanted = build_request(get_method(METHOD), live.protocol, calibration, options=options, seed=seed)
            wanted = replace(wanted, placebos=0)
            agent = Agent(METHOD)
            programs = [make_placebo(agent, seed + n) for n in range(min(4, len(SENTENCES)))]
            compiled = compile_agent(agent, live, replace(wanted, optimizer=make_trier(programs)), given.jobs)
        assert compiled.confirmation is not None
        counts[compiled.confirmation.verdict] += 1
        start, *metrics = [each.scores.metric for each in compiled.tried if each.scores]
        gains = [f"{100 * (metric - start):+.1f}" for metric in metrics]
        print(f"seed {seed}: {compiled.confirmation.verdict}; gains on val {', '.join(gains)}; {compiled.confirmation}")
    return counts


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--compiles", type=int, default=200)
    options.add_argument("--candidates", type=int, default=4)
    options.add_argument("--calib", default="1-per-task")
    options.add_argument("--seeds", type=int, default=1)
    options.add_argument("--sampled", action="store_true", help="every rollout is a throw of its own")
    options.add_argument("--real", type=int, default=0)
    options.add_argument("--tasks", default="", help="of real compiles")
    options.add_argument("--steps", type=int, default=60, help="of a trial of a real compile, at most")
    options.add_argument("--jobs", type=int, default=2)
    given = parse_options(options, compiles=2)
    if given.real:
        print(RULE_BASED_NOTE)
        print(json.dumps({"real": given.real, **compile_placebos(given)}))
        return
    print(f"{given.compiles} compiles, {given.candidates} candidates, --calib {given.calib}, {given.seeds} seed(s)\n")
    print("| true gain of one | greedy takes one | gain on val | confirmed | unconfirmed | greedy takes the good one | "
          "good one confirmed | gain on confirm | rollouts | dropped |\n|" + "---|" * 10)  # fmt: skip
    found = {str(round(100 * gain)): simulate_compiles(given, gain, print) for gain in (0.0, 0.05, 0.1)}
    print(json.dumps({gain: {key: round(value, 3) for key, value in row.items()} for gain, row in found.items()}))


if __name__ == "__main__":
    main()
