"""Monitor of a run from outside its process, by repeated reading of its folder.

    watched = RunMonitor(Path("runs/x"), price_of)
    seen = watched.take_snapshot()        # rows, new events, whether it still plays
    seen.state, seen.done, seen.left, seen.elapsed

Writes nothing, and rereads only files that have changed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

from rsso_dspy.errors import UsageError
from rsso_dspy.pricing import PriceOf
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.report.live_table import LiveRow
from rsso_dspy.report.running_totals import (
    FinishedTotals,
    RunningTotals,
    TokenCost,
    compute_finished_totals,
    sum_record_cost,
    sum_usage_cost,
)
from rsso_dspy.store.guarded_folder import GuardedFolder, get_folder_identity
from rsso_dspy.store.journals import parse_usage_lines
from rsso_dspy.store.run_log import Entry, RunLog
from rsso_dspy.store.run_spec import list_missing_shards
from rsso_dspy.store.unit_store import Store

T = TypeVar("T")
RunState = Literal["playing", "ended", "limit", "interrupted", "failed", "cut off", "idle"]
"""ended, limit, interrupted, failed: according to its log. cut off: no process plays it, and the log has no end. idle:
no process plays it, and there is no log."""

ENDS: tuple[RunState, ...] = ("ended", "limit", "interrupted", "failed")


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A snapshot of a run."""

    rows: tuple[LiveRow, ...]
    """One row per arm. The total number of units is None if unknown."""
    news: tuple[Entry, ...]
    """Log entries since the previous snapshot; all of them in the first."""
    state: RunState
    last: Entry
    """The last entry of the log; empty without one."""
    begun: Entry
    """The last `started` entry; empty without one."""
    done: int
    """Units and trainings played by the last command."""
    left: int | None
    """Number of units and trainings it had to play; None if unknown."""
    elapsed: timedelta | None
    """Seconds from the start of that command until now or its end."""
    unfinished: int = 0
    """Started units and trainings without a record."""
    missing_shards: tuple[str, ...] = ()
    """Parts ``i/n`` of the run that are not in its folder."""

    @property
    def is_over(self) -> bool:
        """Whether the run is over, unless it is resumed."""
        return self.state != "playing"

    @property
    def remaining(self) -> timedelta | None:
        """Remaining seconds at the current pace; None while nothing is done."""
        if self.state != "playing" or not self.done or self.left is None or self.elapsed is None:
            return None
        return self.elapsed * (self.left - self.done) / self.done

    @property
    def errors(self) -> int:
        """Errored units and trainings that were not replayed."""
        return sum(len(row.tally.errored) for row in self.rows)

    @property
    def is_complete(self) -> bool:
        """Whether all planned units of any command are finished without errors.

        If the plan is unknown: whether every arm has units and none is unfinished.
        """
        if self.state not in ("ended", "idle") or self.errors or self.last.get("untrained"):
            return False
        if any(row.total is None for row in self.rows):
            return not self.unfinished and all(row.tally.units for row in self.rows)
        return all(len(row.tally.units) >= (row.total or 0) for row in self.rows)


@dataclass(frozen=True, slots=True)
class _BegunCost:
    """Return finished trials of units without a record."""

    arm: str
    trials: int
    spent: TokenCost


class RunMonitor:
    """Monitors a run's folder. Raises `UsageError` if it holds no run."""

    def __init__(self, folder: Path, price_of: PriceOf):
        self._store = Store(folder, read_only=True)
        self._price_of = price_of
        self._models = get_role_models(self._store.read_identity()[0])
        self._place = GuardedFolder(folder, option="")
        self._place.hold(get_folder_identity(folder))
        self._place.watch_file("run.json")
        self._log = RunLog(self._store)
        self._records: dict[Path, tuple[Any, FinishedTotals | None]] = {}
        self._begun: dict[Path, tuple[Any, _BegunCost | None]] = {}
        self._under_way: dict[Path, tuple[Any, TokenCost]] = {}
        self._abandoned: dict[Path, tuple[Any, list[tuple[str, TokenCost]]]] = {}

    def take_snapshot(self) -> RunSnapshot:
        """Return the current snapshot. Raises `FolderGone` if the folder has disappeared or was replaced."""
        self._place.check_exists()
        try:
            return self._read_snapshot()
        except (OSError, UsageError):
            self._place.check_exists()  # it disappeared just now
            raise

    def _read_snapshot(self) -> RunSnapshot:
        playing, news = self._read_new_events()
        folder = self._store.folder
        self._records = _refresh_cache(
            self._records, _list_files(folder, "*/*/*/*.json", "units", "trainings"), self._read_finished
        )
        self._begun = _refresh_cache(
            self._begun, _list_files(folder / "started", "*/*/*/*.json", "units", "trainings"), self._read_begun
        )
        self._under_way = _refresh_cache(
            self._under_way, (folder / "started").glob("*/*/*/*.under-way"), self._read_journal_cost
        )
        self._abandoned = _refresh_cache(
            self._abandoned, [folder / "abandoned.jsonl"], lambda _: self._read_abandoned_costs()
        )
        state = self._get_state(playing)
        return RunSnapshot(
            tuple(self._build_rows(state == "playing")),
            tuple(news),
            state,
            self._log.last,
            self._log.begun,
            self._log.done,
            len(self._log.begun["left"]) if self._log.begun else None,
            self._compute_elapsed(state),
            len({path.with_suffix(".json") for path in (*self._begun, *self._under_way) if self._is_unfinished(path)}),
            tuple(list_missing_shards(self._store.read_shards())),
        )

    def _read_new_events(self) -> tuple[bool | None, list[Entry]]:
        """Return whether a process plays the run; check before reading the log.

        Checked again if the log has new entries without an end, because the run may have started in between.
        """
        playing = self._store.is_playing()
        more = news = self._log.read()
        while playing is False and more and self._log.last["event"] not in ENDS:
            playing = self._store.is_playing()
            more = self._log.read()
            news = [*news, *more]
        return playing, news

    def _get_state(self, playing: bool | None) -> RunState:
        last = self._log.last.get("event")
        end = next((each for each in ENDS if each == last), None)
        if playing or (playing is None and end is None and last):
            return "playing"
        return end or ("cut off" if last else "idle")

    def _compute_elapsed(self, state: RunState) -> timedelta | None:
        begun, last = _parse_event_time(self._log.begun), _parse_event_time(self._log.last)
        until = datetime.now(UTC) if state == "playing" else last
        return max(until - begun, timedelta()) if begun and until else None

    def _build_rows(self, playing: bool) -> Iterable[LiveRow]:
        arms = list(self._store.read_identity()[1])
        tallies: dict[str, RunningTotals] = defaultdict(RunningTotals)
        costs: dict[str, TokenCost] = defaultdict(TokenCost)
        planned = set(self._log.units)
        for _, new in self._records.values():
            if new:
                tallies[new.arm].add_finished(new)
                planned |= set() if new.training else {f"{new.arm}/{new.key}"}
        for arm, more in self._iterate_costs():
            costs[arm] += more
        totals: dict[str, int] = defaultdict(int)
        for key in planned:
            totals[key.partition("/")[0]] += 1
        trials = self._list_running_trials() if playing else {}
        for arm in dict.fromkeys([*arms, *tallies, *totals]):
            yield LiveRow(
                arm,
                totals[arm] if self._log.begun else None,
                tallies[arm],
                costs[arm],
                tuple(number for number, _ in trials.get(arm, ())),
                any(training for _, training in trials.get(arm, ())),
            )

    def _iterate_costs(self) -> Iterable[tuple[str, TokenCost]]:
        """Return arm and cost of everything: finished, started, current and abandoned."""
        for _, new in self._records.values():
            if new:
                yield new.arm, new.spent
        for path, (_, begun) in self._begun.items():
            if begun and self._is_unfinished(path):
                yield begun.arm, begun.spent
        for path, (_, cost) in self._under_way.items():
            yield path.parts[-3], cost
        for _, lost in self._abandoned.values():
            yield from lost

    def _list_running_trials(self) -> dict[str, list[tuple[int, bool]]]:
        """Return the current trials by arm: number, and whether it belongs to a training."""
        found: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for path in self._under_way:
            _, begun = self._begun.get(path.with_suffix(".json"), (None, None))
            found[path.parts[-3]].append((begun.trials + 1 if begun else 1, path.parts[-4] == "trainings"))
        return found

    def _is_unfinished(self, noted: Path) -> bool:
        """Return whether the unit of this entry has no record yet."""
        folder = self._store.folder
        return folder / noted.with_suffix(".json").relative_to(folder / "started") not in self._records

    def _load(self, path: Path) -> UnitRecord | TrainingRecord | None:
        return self._store.load_training(path) if path.parts[-4] == "trainings" else self._store.load(path)

    def _read_finished(self, path: Path) -> FinishedTotals | None:
        record = self._load(path)
        return compute_finished_totals(record, self._price_of) if record else None

    def _read_begun(self, path: Path) -> _BegunCost | None:
        record = self._load(path)
        return _BegunCost(record.arm, len(record.trials), sum_record_cost(record, self._price_of)) if record else None

    def _read_journal_cost(self, path: Path) -> TokenCost:
        total = TokenCost()
        for role, usage, _ in parse_usage_lines(self._store.read_journal(path)):  # without an incomplete line
            total += sum_usage_cost({role: usage}, self._models, self._price_of)
        return total

    def _read_abandoned_costs(self) -> list[tuple[str, TokenCost]]:
        return [
            (arm, sum_usage_cost({role: usage}, self._models, self._price_of))
            for arm, role, usage in self._store.read_abandoned()
        ]


def _parse_event_time(entry: Entry) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(entry["time"]))
    except (KeyError, ValueError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _refresh_cache(
    known: Mapping[Path, tuple[Any, T]], paths: Iterable[Path], read: Callable[[Path], T]
) -> dict[Path, tuple[Any, T]]:
    """Return the result of `read` for every existing file, cached for unchanged ones."""
    found = {}
    for path in paths:
        with suppress(OSError):  # finished, replayed, or a link to itself
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            before = known.get(path)
            found[path] = before if before and before[0] == stamp else (stamp, read(path))
    return found


def _list_files(folder: Path, pattern: str, *kinds: str) -> Iterable[Path]:
    return (path for path in folder.glob(pattern) if path.parts[-4] in kinds and not path.name.startswith("."))


def get_role_models(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the model of each role, as far as the run's identity names it."""
    try:
        backend = identity["config"]["backends"][identity["config"]["backend"]]
        roles = {role: own.get("model") or backend["model"] for role, own in backend.get("roles", {}).items()}
        return {role: str(backend["model"]) for role in ("actor", "reflector", "verbalizer", "advisor")} | roles
    except (KeyError, TypeError, AttributeError):
        return {}
