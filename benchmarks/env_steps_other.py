"""Cost of a step of the benchmarks that need no simulator process, all that a model waits for between two answers.

    python benchmarks/env_steps_other.py [--rounds 3]

Each task type of PDDL and BabyAI is played from one training variant: at every step an action that is offered, drawn
with a seed, and every seventh text one that is none. Timed are `step`, `admissible_actions` and `render`, together as
they are for an actor that is shown what it may do; resets apart. Processor time counts, so that other work on the
machine does not; of the rounds of a task type the fastest. Target: at most 1.5 ms a step, over the task types of each.
"""

import argparse
import json
import random
import time

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark

STEPS = 60
TARGET = 1.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="timed plays of each task type")
    rounds = parser.parse_args().rounds
    result: dict[str, object] = {"target_ms": TARGET, "rounds": rounds}
    for name in ("pddl", "babyai"):
        steps = [_time_task(name, task, rounds) for task in get_benchmark(name).table.tasks()]
        each = [1000 * spent for spent, _ in steps]
        result[f"{name}_ms_per_step"] = round(sum(each) / len(each), 3)
        result[f"{name}_slowest_task_ms"] = round(max(each), 3)
        result[f"{name}_reset_ms"] = round(1000 * sum(reset for _, reset in steps) / len(steps), 2)
    print(json.dumps(result))


def _time_task(name: str, task: str, rounds: int) -> tuple[float, float]:
    """Seconds of a step, and of a reset."""
    of = get_benchmark(name)
    environment = of.environment(load_config().environment, lambda: False)
    variant = of.table.variant(task, of.table.indices(task, "train")[-1])
    environment.reset(variant)  # files are read once
    times, resets = [], []
    for _ in range(rounds):
        draw, spent, states = random.Random(task), 0.0, []
        begun = time.process_time()
        states.append(environment.reset(variant))
        resets.append(time.process_time() - begun)
        for number in range(STEPS):
            offered = environment.admissible_actions()  # type: ignore[attr-defined]
            action = "do something" if number % 7 == 6 else draw.choice(list(offered))
            begun = time.process_time()
            went = environment.step(action)
            states.append(went.state)
            environment.admissible_actions()  # type: ignore[attr-defined]
            environment.render(states[-5:])
            spent += time.process_time() - begun
            if went.done:
                states = [environment.reset(variant)]
        times.append(spent / STEPS)
    print(f"{name:8}{task:26}{1000 * min(times):8.3f} ms a step{1000 * min(resets):8.2f} ms a reset", flush=True)
    return min(times), min(resets)


if __name__ == "__main__":
    main()
