"""Cost of a step of PDDL, BabyAI, TextWorldExpress, ALFWorld and tau2, all that a model waits for between two answers.

    python benchmarks/env_steps_other.py [--rounds 3] [--only alfworld]

Each task type of PDDL, BabyAI and TextWorldExpress is played from one training variant: at every step an action that
is offered, drawn with a seed, and every seventh text one that is none. Timed are `step`, `admissible_actions` and
`render`, together as they are for an actor that is shown what it may do; resets apart. Processor time counts, so that
other work on the machine does not; for TextWorldExpress, whose games are in another process, wall time. Of the rounds
of a task type the fastest counts. Target: at most 1.5 ms a step, over the task types of each.

ALFWorld is timed where its extra is installed, against the package's own environment in this process: one made game of
each task type, in either the same actions in turn, its walkthrough but for the winning action. Processor time would
leave out the environment's process, so wall time counts, and the ratio is that of the medians, step by step in
alternation. Target: at most 1.1.

tau2 is timed where its extra is installed, in wall time for the same reason: the solution of one training ticket of
each task type.

The last line is one JSON object.
"""

import json
import random
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.script import make_parser, parse_options
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark

STEPS = 60
TARGET = 1.5
TARGET_RATIO = 1.1


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="timed plays of each task type")
    parser.add_argument(
        "--only", choices=("pddl", "babyai", "textworld-express", "alfworld", "tau2"), help="time one benchmark"
    )
    options = parse_options(parser, rounds=1, only="pddl")
    rounds = options.rounds
    result: dict[str, object] = {"target_ms": TARGET, "target_ratio": TARGET_RATIO, "rounds": rounds}
    for name, package in (("pddl", None), ("babyai", None), ("textworld-express", "textworld_express")):
        if options.only not in (None, name):
            continue
        if package and find_spec(package) is None:
            print(f"{name} is not timed: its extra is not installed")
            continue
        steps = [_time_task(name, task, rounds) for task in get_benchmark(name).tasks.names()]
        each = [1000 * spent for spent, _ in steps]
        result[f"{name.replace('-', '_')}_ms_per_step"] = round(sum(each) / len(each), 3)
        result[f"{name.replace('-', '_')}_slowest_task_ms"] = round(max(each), 3)
        result[f"{name.replace('-', '_')}_reset_ms"] = round(1000 * sum(reset for _, reset in steps) / len(steps), 2)
    if options.only in (None, "alfworld"):
        if find_spec("alfworld") is None:
            print("alfworld is not timed: its extra is not installed")
        else:
            result |= _time_alfworld(rounds)
    if options.only in (None, "tau2"):
        if find_spec("tau2") is None:
            print("tau2 is not timed: its extra is not installed")
        else:
            result |= _time_tau2(rounds)
    print(json.dumps(result))


def _time_tau2(rounds: int) -> dict[str, object]:
    """Return the medians of a step and of a reset after the first, in milliseconds, and the steps timed."""
    benchmark = get_benchmark("tau2")
    environment = benchmark.make_environment(load_config(overrides=["benchmark=tau2"]).environment, lambda: False)
    variants = [benchmark.tasks.train_sample(task, 1)[0] for task in benchmark.tasks.names()]
    steps = list[float]()
    resets = list[float]()
    environment.reset(variants[0])  # starts the process
    for variant in variants * rounds:
        began = time.perf_counter()
        environment.reset(variant)
        resets.append(time.perf_counter() - began)
        for action in benchmark.find_gold_path(variant):
            began = time.perf_counter()
            environment.step(action)
            steps.append(time.perf_counter() - began)
    environment.close()
    return {
        "tau2_ms_per_step": round(1000 * median(steps), 2),
        "tau2_reset_ms": round(1000 * median(resets), 2),
        "tau2_steps": len(steps),
    }


def _time_alfworld(rounds: int) -> dict[str, object]:
    """Milliseconds of a step here and of one of the package's, their ratio, and the steps timed."""
    from rsso_dspy.environments.alfworld.environment import AlfWorld
    from rsso_dspy.environments.alfworld.tasks import load_made_game

    of = get_benchmark("alfworld")
    ours, theirs = [], []
    environment = AlfWorld(None)  # made games, whatever games the user has
    with TemporaryDirectory() as folder:
        for task in of.tasks.names():
            game = load_made_game(task, 0)
            path = Path(folder, task, "game.tw-pddl")
            path.parent.mkdir()
            path.write_text(json.dumps(game), encoding="utf-8")
            package = _start_package_game(path)
            for _ in range(rounds):
                environment.reset(of.tasks.variant(task, 0))
                package.reset()
                for action in ("look", "inventory", *game["walkthrough"][:-1]):
                    begun = time.perf_counter()
                    package.step(action)
                    between = time.perf_counter()
                    environment.step(action)
                    environment.admissible_actions()
                    theirs.append(between - begun)
                    ours.append(time.perf_counter() - between)
            package.close()
    environment.close()
    ratio = median(ours) / median(theirs)
    print(f"alfworld  {1000 * median(ours):.1f} ms a step, the package {1000 * median(theirs):.1f}: {ratio:.2f}x")
    return {
        "alfworld_ms_per_step": round(1000 * median(ours), 1),
        "alfworld_package_ms_per_step": round(1000 * median(theirs), 1),
        "alfworld_ratio": round(ratio, 3),
        "alfworld_ratio_of_sums": round(sum(ours) / sum(theirs), 3),
        "alfworld_steps": len(ours),
    }


def _start_package_game(path: Path) -> Any:
    """The package's own environment of a game, in this process."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos

    asked = textworld.EnvInfos(won=True, admissible_commands=True)
    return textworld.start(str(path), asked, wrappers=[AlfredDemangler, AlfredInfos])


def _time_task(name: str, task: str, rounds: int) -> tuple[float, float]:
    """Seconds of a step, and of a reset."""
    of = get_benchmark(name)
    read_clock = time.perf_counter if name == "textworld-express" else time.process_time
    environment = of.make_environment(load_config().environment, lambda: False)
    variant = of.tasks.variant(task, of.tasks.indices(task, "train")[-1])
    environment.reset(variant)  # files are read once
    times, resets = [], []
    for _ in range(rounds):
        draw, spent, states = random.Random(task), 0.0, []
        begun = read_clock()
        states.append(environment.reset(variant))
        resets.append(read_clock() - begun)
        for number in range(STEPS):
            offered = environment.admissible_actions()  # type: ignore[attr-defined]
            action = "do something" if number % 7 == 6 else draw.choice(list(offered))
            begun = read_clock()
            went = environment.step(action)
            states.append(went.state)
            environment.admissible_actions()  # type: ignore[attr-defined]
            environment.render(states[-5:])
            spent += read_clock() - begun
            if went.done:
                states = [environment.reset(variant)]
        times.append(spent / STEPS)
    environment.close()
    print(f"{name:18}{task:26}{1000 * min(times):8.3f} ms a step{1000 * min(resets):8.2f} ms a reset", flush=True)
    return min(times), min(resets)


if __name__ == "__main__":
    main()
