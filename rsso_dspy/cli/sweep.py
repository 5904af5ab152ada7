"""`rsso-dspy sweep`: play a grid of settings and print one table."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli import options
from rsso_dspy.cli.options import format_plural, parse_retry, print_status

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.experiment.run import Run
    from rsso_dspy.store.guarded_folder import GuardedFolder
    from rsso_dspy.workflows.sweeps import Sweep, SweepPoint


def run_sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml",
            help="TOML file with methods, variants and a [grid] of settings, or the name of a shipped one: "
            "omnireflect-table1 to omnireflect-table5 (`rsso-dspy paper omnireflect` lists them), reflexion-tables.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the runs of all points; repeat the command to resume.")] = Path(
        "runs/sweep"
    ),
    seed: options.Seed = None,
    jobs: options.Jobs = 1,
    retry: options.Retry = None,
    max_cost: options.MaxCost = None,
    record: options.Record = False,
    dry_run: options.DryRun = False,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    benchmark: options.BenchmarkName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Play the same units under every combination of a grid of settings, and print one table.

    Points are played in sequence, each in its own folder, which `rsso-dspy report` reads too.
    """
    from rsso_dspy.cli.options import build_config
    from rsso_dspy.cli.play import count_stalled_trials, exit_if_incomplete
    from rsso_dspy.store.guarded_folder import GuardedFolder
    from rsso_dspy.store.unit_store import Store
    from rsso_dspy.workflows.sweeps import locate_sweep, read_sweep

    wanted = read_sweep(locate_sweep(file))
    retry_stalled = parse_retry(retry)

    def configure(point: "SweepPoint", advisor: str | None = None) -> "Config":
        """The settings of a point, for its agent, or for an advisor on a backend of its own."""
        who = (advisor, None, None, None) if advisor else (backend, None, model, base_url)
        return build_config(config, [*(set_ or ()), *point.overrides], *who, benchmark=benchmark, seed=seed)

    settings = [configure(point) for point in wanted.points]
    advisors = [configure(point, point.build_settings.get("advisor")) for point in wanted.points]
    print_status(f"sweep: {format_plural(wanted.points, 'point')} of {', '.join(wanted.keys)}, into {out}")
    spent, place, played = 0.0, GuardedFolder(out), []
    for number, (point, own, advisor) in enumerate(zip(wanted.points, settings, advisors, strict=True), start=1):
        values = ", ".join(f"{key} {value}" for key, value in point.values.items())
        print_status(f"point {number} of {len(wanted.points)}: {values}")
        check_folder_unchanged(place)
        left = None if max_cost is None else max(0.0, max_cost - spent)
        book, cost = _prepare_constitution(point, advisor, wanted, out, dry_run, left, record)
        spent += cost
        left = None if max_cost is None else max(0.0, max_cost - spent)
        check_folder_unchanged(place)
        planned, cost = _play_point(point, own, wanted, out, book, jobs, dry_run, left, retry_stalled, record)
        played.append((point, planned))
        spent += cost
        check_folder_unchanged(place)
    if not dry_run:
        print_sweep(played)
        exit_if_incomplete(None, "", sum(count_stalled_trials(Store(out / point.name)) for point in wanted.points))


def check_folder_unchanged(place: "GuardedFolder") -> None:
    """Raise `FolderGone` if the folder of the sweep has disappeared or was replaced."""
    if place.identity is None and place.folder.is_dir():
        place.hold()
    place.check_exists()


def _prepare_constitution(
    point: "SweepPoint",
    advisor: "Config",
    wanted: "Sweep",
    out: Path,
    dry_run: bool,
    max_cost: float | None,
    record: bool = False,
) -> tuple[Path | None, float]:
    """Return the constitution file of a point and its cost in dollars; build it first if the point says how."""
    from typing import get_args

    from rsso_dspy.cli.constitution_build import describe_build_costs, play_build, print_build_plan
    from rsso_dspy.errors import UnknownName
    from rsso_dspy.memory.constitution.file import read_constitution
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.programs.methods import Writing
    from rsso_dspy.workflows.build_constitution import itemize_build_costs, plan_constitution_build

    if not point.build_settings:
        return Path(point.constitution) if point.constitution else None, 0.0
    writing = next((each for each in get_args(Writing) if each == point.build_settings.get("writer", "neural")), None)
    if writing is None:
        raise UnknownName("writer", point.build_settings["writer"], get_args(Writing))
    drawn = draw_calibration(
        point.build_settings["calib"], wanted.tasks, advisor.seed, advisor.simplification, advisor.benchmark_in_data, 0
    )
    what = "\n".join([advisor.hash(), writing, *(variant.key for variant in drawn.train)])
    name = "-".join(re.sub(r"[^A-Za-z0-9_-]+", "-", part) for part in point.build_settings.values())
    made = out / "constitutions" / f"{name}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.json"
    if made.exists():
        return made, sum(entry.billed or 0.0 for entry in itemize_build_costs(read_constitution(made), advisor))
    planned = plan_constitution_build(advisor, drawn.train, writing, made, explore=1, say=print_status)
    print_build_plan(planned, writing, point.build_settings["calib"], drawn.notes)
    if dry_run:
        return None, 0.0
    book = play_build(planned, max_cost, None, record)
    print_status(f"{made}: {describe_build_costs(book, advisor)}")
    return made, sum(entry.billed or 0.0 for entry in itemize_build_costs(book, advisor))


def _play_point(
    point: "SweepPoint",
    settings: "Config",
    wanted: "Sweep",
    out: Path,
    book: Path | None,
    jobs: int,
    dry_run: bool,
    max_cost: float | None,
    retry_stalled: bool,
    record: bool = False,
) -> tuple["Run", float]:
    """Play a point; return what it plays and its cost in dollars."""
    from rsso_dspy.cli.play import exit_if_incomplete, play_watched
    from rsso_dspy.cli.run import add_constitution
    from rsso_dspy.cli.run_plan import print_run_plan
    from rsso_dspy.experiment.run import plan_run
    from rsso_dspy.store.run_spec import RunSpec

    spec = RunSpec(
        methods=tuple(add_constitution(wanted.methods) if book or point.build_settings else wanted.methods),
        tasks=wanted.tasks,
        variants=wanted.variants,
        per_task=wanted.per_task,
        out=out / point.name,
        constitution=book,
        unbuilt=bool(point.build_settings) and book is None,
        retry_stalled=retry_stalled,
        record=record,
    )
    planned = plan_run(settings, spec, read_only=dry_run, say=print_status)
    print_run_plan(planned)
    purse = planned.make_spend_limit(max_cost)
    if not dry_run:
        exit_if_incomplete(*play_watched(planned, jobs, purse))
    return planned, purse.cost


def print_sweep(played: Sequence[tuple["SweepPoint", "Run"]]) -> None:
    """Print one table of all points on stdout, with the units that they ask for."""
    from rsso_dspy.report.sweep_table import build_sweep_table
    from rsso_dspy.report.terminal import print_renderable
    from rsso_dspy.store.usage_ledger import get_job_key

    points = []
    for point, planned in played:
        asked = {unit.key for unit in planned.plan.units}
        points.append((point.values, [unit for unit in planned.store.units() if get_job_key(unit) in asked]))
    print_renderable(build_sweep_table(points, sum(planned.units_beside for _, planned in played)))
