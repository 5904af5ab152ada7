"""The 18 tasks of the adaptation protocol, their splits, the selection of variants, and gold lengths. The selection
``sso`` is the sample that the SSO reference draws (seed 42, training variants first, then test variants).

A gold length is the number of actions in the simulator's own solution of a variant, whether or not it succeeded.
Computing a path takes between half a second and two minutes, so lengths of the held-out variants and of ten training
and ten development variants a task are shipped; others are computed on demand and kept in the user's cache.
`scripts/check_golds.py` recomputes shipped ones: of the 569, the solver fails two, freeze 11 (train) and 19 (dev).

The paths themselves solve the tasks. They leave this module only through `compute_gold_paths`, for tests, benchmarks
and the gold teacher of a compile, which is given those of training variants (`Benchmark.find_gold_path`). No agent,
prompt or record may contain them but for the demonstrations of a program that was taught so."""

import json
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import DamagedFile, GoldUnknown, SimulatorDied
from rsso_dspy.files import atomic_write_text, get_cache_folder, read_json
from rsso_dspy.records import Variant

VERSION = metadata.version("scienceworld")
TIME_LIMIT = 1800.0  # time limit for computing one path, in seconds
_OTHERS = ("teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors", "noElectricalAction")
"""Simplifications; `easy` stands for all but openContainers."""

EXAMPLES = ("lifespan-longest-lived", "find-plant")
TABLE = TaskTable(read_data(__package__, "data/splits.json")["tasks"], ("sso",), EXAMPLES, ("easy", *_OTHERS))
tasks, indices, split_of, variant, parse = TABLE.names, TABLE.indices, TABLE.split_of, TABLE.variant, TABLE.parse
held_out, train_sample = TABLE.held_out, TABLE.train_sample


def find_known_length(variant: Variant) -> int | None:
    """Return the gold length from the shipped table or the user's cache, or None."""
    by_task = _read_shipped_table().get(VERSION, {}).get(variant.simplification, {})
    shipped = by_task.get(variant.task, {}).get(str(variant.index))
    if shipped is not None:
        return shipped
    try:
        cached = read_json(_get_cache_file(variant))["gold_length"]
    except (OSError, DamagedFile, KeyError, TypeError):
        cached = None
    return cached if type(cached) is int and cached > 0 else None  # compute again and overwrite


def get_gold_length(variant: Variant) -> int:
    """`find_known_length`, else computed (up to two minutes). Raises ``GoldUnknown`` if the simulator finds no path."""
    length = find_known_length(variant)
    if length is not None:
        return length
    (path,) = compute_gold_paths([variant])
    atomic_write_text(_get_cache_file(variant), json.dumps({"variant": variant.key, "gold_length": len(path)}))
    return len(path)


def compute_gold_paths(variants: Iterable[Variant]) -> list[tuple[str, ...]]:
    """Compute the gold path of each variant in one separate simulator, with the result of fresh ones. Gold paths are
    solutions: see the module's docstring. Raises ``GoldUnknown`` if the simulator finds none."""
    with Jvm() as simulator:
        return [_compute_gold_path(simulator, variant) for variant in variants]


def _compute_gold_path(simulator: Jvm, variant: Variant) -> tuple[str, ...]:
    try:
        simulator.clear_path_cache()
        error = simulator.call("load", variant.task, variant.index, variant.simplification, True, limit=TIME_LIMIT)
        path = simulator.call("getGoldActionSequence")
    except (SimulatorDied, TimeoutError) as failure:
        raise GoldUnknown(f"no gold path of {variant.key} ({variant.simplification}): {failure}") from failure
    # The simulator reports a failure as a one-line path that begins with ERROR.
    error = error or next((line for line in path if line.startswith("ERROR")), "")
    if error or not path:
        raise GoldUnknown(
            f"no gold path of {variant.key} ({variant.simplification}), so no step budget: "
            f"{error or 'the simulator returned an empty one'}. Skip this variant or choose another simplification."
        )
    return tuple(path)


def _get_cache_file(variant: Variant) -> Path:
    """Return the cache file of a variant; one small file each, so that processes do not collide."""
    folder = get_cache_folder() / "gold_lengths" / VERSION / (variant.simplification or "none")
    return folder / f"{variant.task}-{variant.index}.json"


def _read_shipped_table() -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """Read the shipped table: ScienceWorld version, simplification, task, index, length."""
    return dict(read_data(__package__, "data/gold_lengths.json"))
