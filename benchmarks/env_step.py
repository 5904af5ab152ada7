"""Cost of a step through the driver, against the simulator alone and against ScienceWorld's own wrapper.

    python benchmarks/env_step.py [--rounds 5]

Gold paths of eight tasks are replayed. Three ways to take a step are timed, loads and resets left out:

    raw     `step` and `getScore` of the simulator's interface: the least that any environment has to ask for
    driver  `ScienceWorld.step`: the same, and completion, clock, surroundings, inventory, time limit, action repair
    stock   `ScienceWorldEnv.step` of the scienceworld package, as installed, with its own Java options

Raw and driver share one simulator process and take turns, the first turn alternating, so that both meet the same
compiled code and the same busy machine; of each path's rounds the median counts. The stock wrapper has a process of
its own and replays each path once per two rounds, after an unmeasured warm-up like the others.

ratio = driver time / raw time over all paths (target: at most 1.10); speedup = stock time / driver time (target: at
least 3.5).
"""

import json
import statistics
import time
from collections.abc import Callable

from benchmarks.script import make_parser, parse_options
from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.records import Variant

VARIANTS = (
    "boil::25",
    "chemistry-mix::30",
    "find-living-thing::229",
    "find-plant::229",
    "grow-plant::98",
    "identify-life-stages-2::7",
    "measure-melting-point-known-substance::413",
    "use-thermometer::412",
)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="timed replays of each path, each way")
    parser.add_argument("--variants", type=int, default=len(VARIANTS), help="how many of the variants are played")
    options = parse_options(parser, rounds=2, variants=1)
    rounds = options.rounds

    variants = [tasks.parse(key) for key in VARIANTS[: options.variants]]
    paths = dict(zip(variants, tasks.compute_gold_paths(variants), strict=True))
    totals = {"raw": 0.0, "driver": 0.0, "stock": 0.0}
    stock = _make_stock_replay()
    print(f"{'milliseconds a step':44}{'steps':>6}{'raw':>8}{'driver':>8}{'stock':>8}")
    with ScienceWorld() as env:
        for variant, path in paths.items():
            ways = {"raw": _make_raw_replay(env), "driver": _make_driver_replay(env)}
            times: dict[str, list[float]] = {"raw": [], "driver": [], "stock": []}
            for turn in range(-1, rounds):  # the turn before the first warms up
                for name in sorted(ways, reverse=turn % 2 == 0):
                    times[name].append(ways[name](variant, path))
            for _ in range(1 + rounds // 2):
                times["stock"].append(stock(variant, path))
            medians = {name: statistics.median(taken[1:]) for name, taken in times.items()}
            for name, median in medians.items():
                totals[name] += median
            shown = "".join(f"{1000 * median / len(path):8.2f}" for median in medians.values())
            print(f"{variant.key:44}{len(path):6}{shown}", flush=True)
    steps = sum(map(len, paths.values()))
    result = {
        "ratio": round(totals["driver"] / totals["raw"], 3),
        "target": 1.10,
        "speedup_over_stock": round(totals["stock"] / totals["driver"], 2),
        "speedup_target": 3.5,
        **{f"{name}_ms_per_step": round(1000 * total / steps, 2) for name, total in totals.items()},
        "steps": steps,
        "rounds": rounds,
    }
    print(json.dumps(result))


Replay = Callable[[Variant, tuple[str, ...]], float]
"""Plays a path from reset; the seconds that its steps took."""


def _make_driver_replay(env: ScienceWorld) -> Replay:
    def replay_path(variant: Variant, path: tuple[str, ...]) -> float:
        env.reset(variant)
        start = time.perf_counter()
        for action in path:
            env.step(action)
        return time.perf_counter() - start

    return replay_path


def _make_raw_replay(env: ScienceWorld) -> Replay:
    """The simulator inside ``env``, spoken to directly."""

    def replay_path(variant: Variant, path: tuple[str, ...]) -> float:
        env.reset(variant)
        simulator = env._jvm
        start = time.perf_counter()
        for action in path:
            simulator.call("step", action)
            simulator.call("getScore")
        return time.perf_counter() - start

    return replay_path


def _make_stock_replay() -> Replay:
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv()

    def replay_path(variant: Variant, path: tuple[str, ...]) -> float:
        env.load(variant.task, variant.index, variant.simplification)
        env.reset()
        start = time.perf_counter()
        for action in path:
            env.step(action)
        return time.perf_counter() - start

    return replay_path


if __name__ == "__main__":
    main()
