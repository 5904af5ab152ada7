"""Sweeps: a grid of settings with one run per combination, compared in one table.

    methods = ["omnireflect-neural"]
    tasks = ["boil", "find-plant"]              # optional; so are variants, per_task, trials, constitution
    per_task = 2

    [set]                                       # settings that all points share
    "protocol.preset" = "sso-adapt/1-cap60"

    [grid]                                      # every combination is a point
    "memory.constitution.r_freq" = [5, 10]
    "memory.constitution.s_freq" = [5, 10, 20]

Keys of the grid are those of the configuration and four about constitutions: `constitution` lists files; `calib` lists
draws (1-per-task, ...) to build one on first, optionally with the backend `advisor` and the `writer` (neural, symbolic,
neuro-symbolic) (OmniReflect, Tables 1 and 5).
"""

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rsso_dspy.bounds import MOST_PER_TASK, MOST_POINTS, shorten_text
from rsso_dspy.config import Config, format_override
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.safe_read import read_toml

KEYS = ("methods", "tasks", "variants", "per_task", "constitution", "set", "grid", "build")
SPECIAL = ("constitution", "calib", "advisor", "writer")
"""Keys of the grid that are not settings: constitutions to read or to build."""

EXAMPLES = {"constitution": "constitution.json", "calib": "1-per-task", "advisor": "anthropic", "writer": "neural"}

SHIPPED = Path(__file__).with_name("data")

SettingValue = str | int | float | bool | list[Any]


@dataclass(frozen=True)
class SweepPoint:
    """One combination."""

    values: Mapping[str, SettingValue]
    """Grid key to value."""
    shared: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of its folder: short and unique."""
        words = [f"{key.rpartition('.')[2]}={_format_value(value)}" for key, value in self.values.items()]
        digest = hashlib.sha256(json.dumps(dict(self.values), sort_keys=True).encode()).hexdigest()[:6]
        return f"{re.sub(r'[^A-Za-z0-9=.,_-]+', '-', ' '.join(words))[:80]}-{digest}"

    @property
    def overrides(self) -> list[str]:
        """``key=value`` for the configuration."""
        settings = {**self.shared, **self.values}
        return [format_override(key, value) for key, value in settings.items() if key not in SPECIAL]

    @property
    def build_settings(self) -> dict[str, str]:
        """How to build its constitution: calib, advisor, writer; empty if none is built."""
        if "calib" not in self.values and "calib" not in self.shared:
            return {}
        given = {**self.shared, **self.values}
        return {key: str(given[key]) for key in ("calib", "advisor", "writer") if key in given}

    @property
    def constitution(self) -> str | None:
        """The constitution file to read."""
        found = self.values.get("constitution", self.shared.get("constitution"))
        return None if found is None else str(found)


@dataclass(frozen=True)
class Sweep:
    """The content of a sweep file."""

    methods: tuple[str, ...]
    points: tuple[SweepPoint, ...]
    tasks: tuple[str, ...] | None = None
    variants: tuple[str, ...] = ()
    per_task: int | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that differ between points, in the order of the file."""
        return tuple(self.points[0].values)


def list_shipped_sweeps() -> tuple[str, ...]:
    """Names of the sweeps that come with the package: one or more for each table of OmniReflect, one for Reflexion."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def locate_sweep(path: Path) -> Path:
    """The file, or the sweep of the package that is called so. Raises `UnknownName` with the nearest names."""
    if path.exists() or path.suffix or len(path.parts) != 1:
        return path
    if path.name not in list_shipped_sweeps():
        raise UnknownName("sweep", path.name, list_shipped_sweeps(), "Name a file with its ending for another one.")
    return SHIPPED / f"{path.name}.toml"


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file. Raises `UsageError` or `UnknownName` naming the fault."""
    try:
        data = read_toml(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    for key in data:
        if key not in KEYS:
            raise UnknownName(f"key in {path}", key, KEYS, "Write settings in quotes under [set] or [grid].")
    methods, grid = data.get("methods"), data.get("grid")
    if not _is_text_list(methods):
        raise UsageError(f'{path}: methods must be a list of names, e.g. methods = ["omnireflect-neural"]')
    if not isinstance(grid, dict) or not grid:
        raise UsageError(f'{path} has no [grid], e.g. "memory.constitution.r_freq" = [5, 10]')
    for key, values in grid.items():
        if not isinstance(values, list) or not values:
            quoted = f'; quote a key with dots: "{key}.…" = [...]' if isinstance(values, dict) else ""
            raise UsageError(f"{path}: [grid] {key} must be a list of values{quoted}")
        if odd := [value for value in values if not _is_setting_value(value)]:
            raise UsageError(
                f"{path}: [grid] {key} holds {odd[0]!r}; values must be texts, numbers, true, false or lists"
            )
        if key in SPECIAL and not all(isinstance(value, str) for value in values):
            raise UsageError(f"{path}: [grid] {key} must hold texts, e.g. {key} = ['{EXAMPLES[key]}']")
    shared = _read_table(data, "set", path) | _read_table(data, "build", path)
    if data.get("constitution") is not None:
        shared["constitution"] = data["constitution"]
    sizes = [len(values) for values in grid.values()]
    if math.prod(sizes) > MOST_POINTS:
        raise UsageError(
            f"{path}: [grid] has {_format_product(sizes)} points, but at most {MOST_POINTS:,} are allowed; drop some"
        )
    points = [
        SweepPoint(dict(zip(grid, chosen, strict=True)), {k: v for k, v in shared.items() if k not in grid})
        for chosen in itertools.product(*grid.values())
    ]
    for point in points:
        if point.build_settings and point.constitution:
            raise UsageError(f"{path} names both a constitution and a calib to build one on; drop one of them")
        given = {**point.shared, **point.values}
        if not point.build_settings and (alone := [key for key in ("advisor", "writer") if key in given]):
            raise UsageError(f"{path}: {alone[0]} needs a calib to build a constitution on")
    return Sweep(
        tuple(methods or ()),
        tuple(points),
        _read_names(data, "tasks", path),
        _read_names(data, "variants", path) or (),
        _read_count(data, "per_task", path),
    )


def forecast_sweep(wanted: Sweep, configure: Callable[[list[str]], Config]) -> tuple[int, int]:
    """Return the units of all points and the most model calls that they take. `configure` gives the configuration with
    these settings. Building constitutions is not included."""
    units = calls = 0
    for point in wanted.points:
        config = configure(point.overrides)
        plan = plan_held_out(config, wanted.methods, wanted.tasks, wanted.variants, wanted.per_task)
        units += len(plan.units)
        calls += plan.forecast_calls().total_calls
    return units, calls


def _read_table(data: Mapping[str, Any], key: str, path: Path) -> dict[str, SettingValue]:
    table = data.get(key, {})
    if not isinstance(table, dict) or not all(_is_setting_value(value) for value in table.values()):
        raise UsageError(f'{path}: [{key}] must hold quoted keys with values, e.g. "protocol.trials" = 1')
    return dict(table)


def _read_names(data: Mapping[str, Any], key: str, path: Path) -> tuple[str, ...] | None:
    given = data.get(key)
    if given is not None and not _is_text_list(given):
        raise UsageError(f'{path}: {key} must be a list of names, e.g. {key} = ["boil"]')
    return None if given is None else tuple(given)


def _read_count(data: Mapping[str, Any], key: str, path: Path) -> int | None:
    given = data.get(key)
    number = isinstance(given, int) and not isinstance(given, bool)
    if given is not None and not (number and 1 <= given <= MOST_PER_TASK):
        raise UsageError(f"{path}: {key} must be a number from 1 to {MOST_PER_TASK:,}, not {shorten_text(repr(given))}")
    return given


def _format_product(sizes: Sequence[int]) -> str:
    """Format the number of points briefly."""
    factors = shorten_text(" x ".join(map(str, sizes)))
    return f"{math.prod(sizes):,} ({factors})" if math.prod(sizes) < 10**12 else factors


def _is_setting_value(value: Any) -> bool:
    """Return whether it is a valid value of a setting."""
    if isinstance(value, list):
        return all(isinstance(each, str | int | float | bool) for each in value)
    return isinstance(value, str | int | float | bool)


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) and each for each in value)


def _format_value(value: SettingValue) -> str:
    return ",".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
