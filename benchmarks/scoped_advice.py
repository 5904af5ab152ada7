"""Does the offline player follow advice that is for a sort of task, and for nothing else?

    python benchmarks/scoped_advice.py [--jobs 2] [--per-task 5] [--seeds 3] [--split dev]

Plays one trial of `react` under `sso-adapt/1-cap60`, zero-shot and with the clauses below added to the instruction, on
the same development variants with the same seeds. The clauses were written by hand after a look at the first three to
five training variants of each of their tasks, and at no development or held-out variant; what they say of animals and
of colours is common knowledge. Tasks that no clause is about are played too: there, nothing should change. Prints the
mean points of both per task; the last line is the mean gain over the tasks that a clause is about, and over the others.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from statistics import fmean

from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld.tasks import TABLE
from rsso_dspy.experiment.plan import compute_step_budgets
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import RULE_BASED_NOTE, Variant

ADVICE = """\
Advice from earlier attempts:
- In tasks about the longest life span: teleport to the outside, then focus on a giant tortoise, tortoise, parrot, \
elephant, crocodile, turtle, bear, chameleon, wolf, beaver, frog, toad, hedgehog, rabbit, mouse, dove, bird, snake or \
ant.
- In tasks about the shortest life span: teleport to the outside, then focus on a dragonfly, butterfly, moth, bee, \
ant, mouse, rabbit, hedgehog, chameleon, beaver, frog, toad, dove, bird, wolf, bear, crocodile, elephant, parrot or \
tortoise.
- In tasks about paint: first teleport to the art studio. Do not leave the art studio.
- In tasks about green paint: pour the blue paint in an empty container, then pour the yellow paint in it, then mix it.
- In tasks about orange paint: pour the red paint in an empty container, then pour the yellow paint in it, then mix it.
- In tasks about violet paint: pour the red paint in an empty container, then pour the blue paint in it, then mix it.
- In tasks about mixing chemicals: before you leave a room, read the recipe. Once you have read the recipe, pick up \
every ingredient, then teleport to the kitchen, then open the cupboard, then move every ingredient to an empty \
container, then mix that container, then focus on the product named in the task.
- In tasks about freezing: open the fridge before you leave the kitchen. Open the freezer before you leave the \
kitchen. Once the substance named in the task is in the freezer, close the freezer. Once the substance named in the \
task is in the freezer, do not open the freezer. Once the substance named in the task is in the freezer, wait."""
ADVISED = (
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
    "chemistry-mix",
    "chemistry-mix-paint-secondary-color",
    "freeze",
)
OTHERS = ("boil", "find-plant", "use-thermometer", "identify-life-stages-1")
SETTINGS = ["protocol.preset=sso-adapt/1-cap60", "embedder.model=lexical"]


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--per-task", type=int, default=5, help="variants of each task")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--split", choices=("train", "dev"), default="dev")
    given = options.parse_args()
    draw = TABLE.train_sample if given.split == "train" else TABLE.dev_sample
    variants = [variant for task in (*ADVISED, *OTHERS) for variant in draw(task, given.per_task)]
    with session(load_config(overrides=SETTINGS), jobs=given.jobs) as live:
        base, told = (
            play_all(live, make_agent(advice), variants, range(given.seeds), given.jobs) for advice in ("", ADVICE)
        )
    print(RULE_BASED_NOTE)
    print(f"\n{given.split} variants, {given.seeds} seeds each\n")
    print_head("task", "units", "zero-shot", "with the clauses", "gain", "units higher/lower")
    gains: dict[str, float] = {}
    for task in (*ADVISED, *OTHERS):
        pairs = [(base[unit], told[unit]) for unit in base if unit[0].task == task]
        gains[task] = fmean(after - before for before, after in pairs)
        up, down = sum(a > b for b, a in pairs), sum(a < b for b, a in pairs)
        means = (f"{fmean(values):.1f}" for values in zip(*pairs, strict=True))
        print_row(task, len(pairs), *means, f"{gains[task]:+.1f}", f"{up}/{down}")
    advised, others = (round(fmean(gains[task] for task in tasks), 2) for tasks in (ADVISED, OTHERS))
    print(json.dumps({"gain": advised, "others": others, "tasks": {t: round(g, 2) for t, g in gains.items()}}))


def make_agent(advice: str) -> Agent:
    """The program of `react` with the advice below its instruction."""
    agent = Agent("react")
    (actor,) = agent.actor.predictors()
    if advice:
        actor.signature = actor.signature.with_instructions(f"{actor.signature.instructions}\n\n{advice}")
    return agent


def play_all(
    live: Session, agent: Agent, variants: Sequence[Variant], seeds: Sequence[int], jobs: int
) -> dict[tuple[Variant, int], float]:
    """Points of one trial of every variant with every seed."""
    budgets = compute_step_budgets(live.protocol, variants)

    def play(unit: tuple[Variant, int]) -> float:
        runtime = replace(live.runtime, budget=budgets.__getitem__)
        with live.activate_for_run(), runtime.activate():
            played = Agent.forward(agent, unit[0], trials=1, seed=unit[1])
        if played.points is None:
            raise SystemExit(f"{unit[0].key} was not played: {played.trials[-1].failure}")
        return float(played.points)

    units = list(product(variants, seeds))
    with ThreadPoolExecutor(max_workers=jobs) as threads:
        return dict(zip(units, threads.map(play, units), strict=True))


if __name__ == "__main__":
    main()
