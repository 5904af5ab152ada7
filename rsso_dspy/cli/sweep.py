"""`rsso-dspy sweep`: a grid of settings, one table."""

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import (
    BackendName,
    BenchmarkName,
    ConfigFile,
    DryRun,
    Jobs,
    MaxCost,
    Overrides,
    Retry,
    Seed,
    count,
    retries_stalled,
    say,
)

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.protocol.place import Place
    from rsso_dspy.protocol.sweeps import Point, Sweep


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="Methods, variants and a [grid] of settings.")],
    out: Annotated[
        Path, typer.Option(help="Folder with a run for every point; the same command again continues it.")
    ] = Path("runs/sweep"),
    seed: Seed = None,
    jobs: Jobs = 1,
    retry: Retry = None,
    max_cost: MaxCost = None,
    dry_run: DryRun = False,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play the same units under every combination of a grid of settings, and print one table.

    Points are played one after the other, each in a folder of its own, so that `rsso-dspy report` reads them too.
    """
    from rsso_dspy.cli.options import configuration
    from rsso_dspy.cli.run import stalled_in, stop_unless_whole
    from rsso_dspy.protocol.place import Place
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.protocol.sweeps import read_sweep

    wanted = read_sweep(file)
    retry_stalled = retries_stalled(retry)
    settings, advisors = (
        [
            configuration(config, [*(set_ or ()), *point.overrides], who, benchmark=benchmark, seed=seed)
            for point, who in zip(wanted.points, backends, strict=True)
        ]
        for backends in (
            [backend] * len(wanted.points),
            [point.built.get("advisor", backend) for point in wanted.points],
        )
    )
    say(f"sweep: {count(wanted.points, 'point')} of {', '.join(wanted.keys)}, into {out}")
    spent, place = 0.0, Place(out)
    for number, (point, own, advisor) in enumerate(zip(wanted.points, settings, advisors, strict=True), start=1):
        say(f"point {number} of {len(wanted.points)}: {named(point)}")
        stay(place)
        left = None if max_cost is None else max(0.0, max_cost - spent)
        book, cost = _constitution(point, advisor, wanted, out, dry_run, left)
        spent += cost
        left = None if max_cost is None else max(0.0, max_cost - spent)
        stay(place)
        spent += _play(point, own, wanted, out, book, jobs, dry_run, left, retry_stalled)
        stay(place)
    if not dry_run:
        print_sweep(wanted, out)
        stop_unless_whole(None, "", sum(stalled_in(Store(out / point.name)) for point in wanted.points))


def stay(place: "Place") -> None:
    """Raise `FolderGone` when the folder of the sweep is not the one that it was since it is there."""
    if place.identity is None and place.folder.is_dir():
        place.hold()
    place.check()


def named(point: "Point") -> str:
    """A point in words."""
    return ", ".join(f"{key} {value}" for key, value in point.values.items())


def _constitution(
    point: "Point", advisor: "Config", wanted: "Sweep", out: Path, dry_run: bool, max_cost: float | None
) -> tuple[Path | None, float]:
    """The file that the methods of a point read, which is built first when the point says how, and what building it
    cost in dollars, now or earlier."""
    from typing import get_args

    from rsso_dspy.cli.constitution import describe as describe_building
    from rsso_dspy.cli.constitution import play as build
    from rsso_dspy.errors import UnknownName
    from rsso_dspy.optimize.calibration import draw
    from rsso_dspy.programs.methods import Writing
    from rsso_dspy.protocol.building import building

    if not point.built:
        return Path(point.constitution) if point.constitution else None, 0.0
    writing = next((each for each in get_args(Writing) if each == point.built.get("writer", "neural")), None)
    if writing is None:
        raise UnknownName("writer", point.built["writer"], get_args(Writing))
    drawn = draw(point.built["calib"], wanted.tasks, advisor.seed, advisor.simplification, advisor.played)
    what = "\n".join([advisor.hash(), writing, *(variant.key for variant in drawn.learn)])
    name = "-".join(re.sub(r"[^A-Za-z0-9_-]+", "-", part) for part in point.built.values())
    made = out / "constitutions" / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.json"
    if made.exists():
        return made, built_for(made, advisor)
    planned = building(advisor, drawn.learn, writing, made, explore=1, say=say)
    describe_building(planned, writing, point.built["calib"], drawn.notes)
    if dry_run:
        return None, 0.0
    build(planned, max_cost, None)
    return made, built_for(made, advisor)


def built_for(file: Path, advisor: "Config") -> float:
    """What a constitution cost to build, in dollars, at prices that are known."""
    from rsso_dspy.backends import Backend
    from rsso_dspy.config import prices
    from rsso_dspy.money import cost
    from rsso_dspy.protocol.constitutions import read_book
    from rsso_dspy.trajectory import Usage

    price_of, models = prices(advisor.prices), dict(Backend(advisor.active_backend).models)
    usage = read_book(file).provenance.get("usage", {})
    known = [(Usage(**spent), price) for role, spent in usage.items() if (price := price_of(models[role]))]
    return sum(cost(spent, price) for spent, price in known)


def _play(
    point: "Point",
    settings: "Config",
    wanted: "Sweep",
    out: Path,
    book: Path | None,
    jobs: int,
    dry_run: bool,
    max_cost: float | None,
    retry_stalled: bool,
) -> float:
    """Play a point; what it cost in dollars."""
    from rsso_dspy.cli.forecast import describe
    from rsso_dspy.cli.run import played, reading, stop_unless_whole
    from rsso_dspy.protocol.held_out import prepare
    from rsso_dspy.protocol.run_spec import RunSpec

    spec = RunSpec(
        methods=tuple(reading(wanted.methods) if book or point.built else wanted.methods),
        tasks=wanted.tasks,
        variants=wanted.variants,
        per_task=wanted.per_task,
        out=out / point.name,
        constitution=book,
        unbuilt=bool(point.built) and book is None,
        retry_stalled=retry_stalled,
    )
    planned = prepare(settings, spec, read_only=dry_run, say=say)
    describe(planned)
    purse = planned.purse(max_cost)
    if not dry_run:
        stop_unless_whole(*played(planned, jobs, purse))
    return purse.cost


def print_sweep(wanted: "Sweep", out: Path) -> None:
    """One table of all points, on stdout."""
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.report.sweeps import sweep_table
    from rsso_dspy.report.terminal import show

    show(sweep_table([(point.values, list(Store(out / point.name).units())) for point in wanted.points]))
