"""A run from Python: what `rsso-dspy run` and `rsso-dspy report` do, as calls.

result = rsso_dspy.run(["react-sso", "rsso"], tasks="find-plant", per_task=2, trials=3, out="runs/plants")
result.report(), result.to_pandas()
"""

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rsso_dspy.config import Config, load_config, validate_config
from rsso_dspy.constitutions import parse_constitutions
from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.executor import EventStream, UnitFinished
from rsso_dspy.optimize.program_file import load_programs
from rsso_dspy.power import Spread
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.records import ZERO_SHOT, Announcement, RoleUsage
from rsso_dspy.report.analysis import Analysis, RunRecords, analyze
from rsso_dspy.report.export import COLUMNS, RowKind, build_rows
from rsso_dspy.report.metrics import group_by_arm
from rsso_dspy.report.rounds import RoundsSoFar, judge_so_far
from rsso_dspy.report.sheets import print_parts
from rsso_dspy.report.tables import render_analysis, write_headline
from rsso_dspy.runs import plan_run, read_announcement
from rsso_dspy.sessions import session
from rsso_dspy.store.commands import RunSpec, list_missing_shards, load_stored_prices
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import JobRecord


class RunReport(str):
    """The tables of a run as text. A notebook shows them as they are."""

    __slots__ = ()
    __repr__ = str.__str__


class RunResult:
    """The results of a run's folder, as far as it is played."""

    def __init__(self, folder: Path, config: Config):
        self.folder = folder
        self.store = Store(folder, read_only=True)
        self.pool = PooledRuns([self.store])
        self._price_of = make_price_lookup({**load_stored_prices([folder]), **config.prices})

    @cached_property
    def analysis(self) -> Analysis:
        """The numbers behind every table: `.arms`, `.comparisons`, `.tasks`, ..."""
        return analyze(collect_played(self.pool), self._price_of)

    @property
    def scores(self) -> dict[str, float | None]:
        """Arm to its mean over units of the best accumulator, 0 to 100; None without a finished unit."""
        return {arm.arm: arm.mean for arm in self.analysis.arms}

    @property
    def headline(self) -> str:
        """What came out, in plain sentences that hold whatever the numbers are."""
        return f"{write_headline(self.analysis)} {self.analysis.rule_based_note}".rstrip()

    def report(self) -> RunReport:
        """Return what `rsso-dspy report` prints: results, paired differences with their tests, and costs."""
        buffer = StringIO()
        print_parts(render_analysis(self.analysis, True, False), buffer, REPORT_WIDTH)
        return RunReport(buffer.getvalue().rstrip())

    def to_pandas(self, rows: RowKind = "trials") -> Any:
        """Return a `pandas.DataFrame` with a row per trial, or per step, and the columns of `rsso-dspy export`."""
        require_extra("pandas", "data frames need pandas", "pandas")
        import pandas

        if rows not in COLUMNS:
            raise UsageError(f"rows={rows!r}: expected one of {', '.join(COLUMNS)}")
        records: list[JobRecord] = [*self.pool.trainings(), *self.pool.units()]
        data = list(build_rows(rows, records, self._price_of))
        return pandas.DataFrame(data, columns=list(COLUMNS[rows]))

    def __repr__(self) -> str:
        means = []
        for arm, mean in self.scores.items():
            means.append(f"{arm} -" if mean is None else f"{arm} {mean:.1f}")
        units = sum(arm.units for arm in self.analysis.arms)
        errored = self.analysis.errored
        skipped = sum(unit.is_skipped for unit in errored)

        summary = f"{', '.join(means) or 'nothing finished'} points on average; {units} units"
        if skipped:
            summary += f", {skipped} skipped, as the environment refuses them"
        unfinished = {"errored": len(errored) - skipped, "not finished": self.analysis.missing_units}
        remaining = "".join(f", {count} {state}" for state, count in unfinished.items() if count)
        hint = ": repeat the call to resume" if remaining else ""
        return f"RunResult({self.folder}: {summary}{remaining}{hint})"


def run(
    methods: Sequence[str] | str | None = None,
    *,
    programs: Sequence[Path | str] | str = (ZERO_SHOT,),
    unconfirmed: bool = False,
    tasks: Sequence[str] | str | None = None,
    variants: Sequence[str] | str = (),
    per_task: int | None = None,
    trials: int | None = None,
    benchmark: str | None = None,
    protocol: str | None = None,
    seed: int | None = None,
    skills: Path | str | None = None,
    constitution: Path | str | Sequence[str] | Mapping[str, Path | str] | None = None,
    rounds: int | None = None,
    margin: float | None = None,
    until_decided: bool = False,
    out: Path | str = "runs/run",
    jobs: int = 1,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    config: Config | None = None,
    settings: Sequence[str] = (),
    progress: bool = True,
) -> RunResult:
    """Play held-out variants with one or more methods, save every trial in the folder `out`, and return its results.

    Call it again to resume. Give each experiment an `out` of its own: the results count every unit in the folder. The
    arguments are options of `rsso-dspy run`: `methods` (default: those of the compiled `programs`, or react-sso and
    rsso), `programs` (``["zero-shot", "compiled.json"]`` compares both), `tasks` and `variants` are lists or
    comma-separated; `constitution` is a file, or names with a file each, ``{"hand": "AGENTS.md"}``, of which every
    method with a constitution has an arm each; `settings` are overrides such as `"memory.reflections.size=5"` of the
    configuration, which is `rsso.toml` where there is one. A model set by `dspy.configure(lm=...)` answers in every
    role. Raises `UsageError` for what cannot be played, `RunMismatch` if the folder holds another run, and
    `LimitReached` at `max_cost` (US dollars) or `max_tokens`.
    """
    if config is not None and settings:
        raise UsageError("config and settings exclude each other; put the settings into the configuration")
    playing = load_programs(_split(programs), unconfirmed)
    if methods is not None:
        method_names = _split(methods)
    else:
        compiled_for = dict.fromkeys(program.method for program in playing.values() if program)
        method_names = tuple(compiled_for) or ("react-sso", "rsso")
    spec = RunSpec(
        methods=method_names,
        programs=tuple(playing),
        compiled=tuple(Path(file) for file in _split(programs) if file != ZERO_SHOT),
        unconfirmed=unconfirmed,
        tasks=None if tasks is None else _split(tasks),
        variants=_split(variants),
        per_task=per_task,
        out=Path(out),
        skills=None if skills is None else Path(skills),
        constitution=None if constitution is None else parse_constitutions(constitution),
        rounds=rounds,
        margin=margin,
        until_decided=until_decided,
    )

    data = (config or load_config(overrides=settings)).model_dump()
    if benchmark is not None:
        data["benchmark"] = benchmark
    if seed is not None:
        data["seed"] = seed
    if protocol is not None:
        data["protocol"]["preset"] = protocol
    if trials is not None:
        data["protocol"]["trials"] = trials
    with session(validate_config(data), jobs) as live:
        planned = plan_run(live.config, spec, playing, say=lambda note: warnings.warn(note, stacklevel=2))
        purse = planned.make_spend_limit(max_cost, max_tokens)
        if any("skills" in unit.arm.method.memories for unit in planned.plan.units):
            live.embedder.check()
        events = EventStream()
        with tqdm(total=len(planned.left), desc=str(out), unit="unit", disable=not progress) as bar:
            events.subscribe(UnitFinished, lambda _: bar.update())
            planned.execute(live, jobs, purse, events, is_decided=partial(is_decided, planned.store.folder))
        return RunResult(planned.store.folder, live.config)


def _split(names: Sequence[Path | str] | str) -> tuple[str, ...]:
    """Return names given as a list or comma-separated."""
    if isinstance(names, str):
        return tuple(name.strip() for name in names.split(","))
    return tuple(map(str, names))


REPORT_WIDTH = 100  # columns of a report as text


def open_run(folder: Path | str, config: Config | None = None) -> RunResult:
    """Open the folder of a run, whoever played it. Prices come from `config`."""
    return RunResult(Path(folder), config or load_config())


def collect_played(pool: PooledRuns) -> RunRecords:
    """Collect the records, costs and dates of a pool. Raises `RunMismatch` if units of one arm cannot be pooled."""
    abandoned: list[RoleUsage] = []
    interrupted: list[RoleUsage] = []  # usage of trials that began in folders that nobody plays in now
    under_way: list[RoleUsage] = []
    set_aside: list[RoleUsage] = []
    unreadable = 0
    planned_units: set[tuple[str, str]] = set()
    dates: list[str] = []
    shards: list[str] = []
    models: dict[str, dict[str, str]] = {}
    answers: tuple[str, ...] = ()
    for store in pool.stores:
        is_playing = bool(store.is_playing())
        abandoned += pool.label_usage(store, store.read_abandoned())
        begun_usage = pool.label_usage(store, store.read_under_way())
        if is_playing:
            under_way += begun_usage
        else:
            interrupted += begun_usage
        for damaged in store.read_set_aside():
            costs = [(damaged.arm, role, usage) for role, usage in damaged.usage.items()]
            set_aside += pool.label_usage(store, costs)
            unreadable += damaged.unreadable_lines

        for key in store.read_file().get("planned", ()):
            if " (training)/" not in key:
                arm, _, unit = key.partition("/")
                planned_units.add((pool.label_arm(store, arm), unit))
        for _, log in store.load_logs():
            dates += [time[:10] for time in log.times]
        shards += store.read_file().get("shards", ())

        identity, arms = store.read_identity()
        if identity.get("config", {}).get("shared_answers"):
            answers = ("shared with the first arm where requests were equal, and counted for each arm",)
        for arm in arms:
            models[pool.label_arm(store, arm)] = get_role_models(identity)

    announced = _read_announcement(pool)
    records = list(pool.units())
    if announced is not None:
        planned_units = _select_begun(planned_units, announced, [*records, *pool.load_begun()])
    recorded = {(record.arm, f"{record.key}/s{record.seed}") for record in records}
    first_and_last = [min(dates), max(dates)] if dates else []
    return RunRecords(
        records,
        trainings=list(pool.trainings()),
        begun=list(pool.load_begun()),
        abandoned=[*abandoned, *interrupted],
        dates=tuple(dict.fromkeys(first_and_last)),
        missing=Counter(arm for arm, _ in planned_units - recorded),
        missing_shards=list_missing_shards(shards),
        under_way=under_way,
        models=models,
        answers=answers,
        set_aside=set_aside,
        unreadable_lines=unreadable,
        announced=announced,
    )


def _read_announcement(pool: PooledRuns) -> Announcement | None:
    """Return the rounds of a run. Raises `UsageError` for one among several folders, since its rounds are judged
    alone."""
    announced = [(store.folder, read_announcement(store)) for store in pool.stores]
    in_rounds = [str(folder) for folder, rounds in announced if rounds]
    if in_rounds and len(pool.stores) > 1:
        clause = "was played in rounds, which are" if len(in_rounds) == 1 else "were played in rounds, each of which is"
        raise UsageError(f"{', '.join(in_rounds)} {clause} judged alone: report it by itself")
    _, rounds = announced[0]
    return rounds


def _select_begun(
    planned: Collection[tuple[str, str]], announced: Announcement, played: Iterable[JobRecord]
) -> set[tuple[str, str]]:
    """Return those of the planned units, given as arm and unit, whose round has begun: others are not missing."""
    round_of = announced.round_of
    current_round = max((round_of.get(record.key, 0) for record in played), default=0)

    begun = set()
    for arm, unit in planned:
        key, _, _ = unit.rpartition("/")
        if round_of.get(key, 0) <= current_round:
            begun.add((arm, unit))
    return begun


def judge_run(folder: Path) -> RoundsSoFar | None:
    """Judge the complete rounds of a run; None before the first unit."""
    run_records = collect_played(PooledRuns([Store(folder, read_only=True)]))
    assert run_records.announced is not None
    arms = group_by_arm(run_records.records)
    return judge_so_far(arms, run_records.announced) if arms else None


def is_decided(folder: Path) -> bool:
    """Whether a run in rounds has a verdict on every pair that it announced."""
    judged = judge_run(folder)
    return judged is not None and judged.is_decided


def measure_spread(folder: Path) -> Spread:
    """Return how much the difference of a run's main comparison varies. Raises `UsageError` where it shows none."""
    compared = RunResult(folder, load_config(whole=False)).analysis.main_result
    noise = compared.noise if compared else None
    if noise is None or not noise.spread.units:
        raise UsageError(
            f"{folder} does not show how much differences vary: it takes two arms that differ somewhere, on two task "
            "types or more and two variants of one"
        )
    return noise.spread


def get_role_models(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the model of each role, as far as the run's identity names it."""
    with suppress(KeyError, TypeError, AttributeError):
        config = identity["config"]
        backend = config["backends"][config["backend"]]
        models = {role: str(backend["model"]) for role in ("actor", "reflector", "verbalizer", "advisor")}
        for role, override in backend.get("roles", {}).items():
            models[role] = override.get("model") or backend["model"]
        return models
    return {}
