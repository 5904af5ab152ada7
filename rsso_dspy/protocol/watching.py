"""A run that is being played, seen from outside its process: what its folder says, again and again.

    watched = Watched(Path("runs/x"), price_of)
    seen = watched.look()        # rows, news since the last look, whether it still plays
    seen.state, seen.done, seen.left, seen.elapsed

Nothing is written, and a file that has not changed since the last look is not read again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

from rsso_dspy.errors import UsageError
from rsso_dspy.money import PriceOf
from rsso_dspy.protocol.journals import costs_in
from rsso_dspy.protocol.place import Place, identity_of
from rsso_dspy.protocol.runlog import Entry, Log
from rsso_dspy.protocol.store import Store
from rsso_dspy.report.live import Row
from rsso_dspy.report.tally import Finished, Spent, Tally, finished, spent, spent_on

T = TypeVar("T")
State = Literal["playing", "ended", "limit", "interrupted", "failed", "cut off", "idle"]
"""ended, limit, interrupted, failed: as its log says. cut off: nothing plays, and the log says of no end. idle: nothing
plays, and there is no log."""

ENDS: tuple[State, ...] = ("ended", "limit", "interrupted", "failed")


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at a run."""

    rows: tuple[Row, ...]
    """One per arm. Units in all are None where nothing says how many there are to be."""
    news: tuple[Entry, ...]
    """Entries of the log since the look before; at the first, all of them."""
    state: State
    last: Entry
    """The last entry of the log; empty without one."""
    begun: Entry
    """The last entry that says that the run started; empty without one."""
    done: int
    """Units and trainings that the command which played last has played."""
    left: int | None
    """How many it had to play; None when nothing says so."""
    elapsed: timedelta | None
    """Since that command began to play, until now or its end."""
    unfinished: int = 0
    """Units and trainings of which something was played and that have no record."""

    @property
    def over(self) -> bool:
        """Nothing more will come, unless somebody runs it on."""
        return self.state != "playing"

    @property
    def remaining(self) -> timedelta | None:
        """How long the rest takes if it goes on like this; None while nothing is done."""
        if self.state != "playing" or not self.done or self.left is None or self.elapsed is None:
            return None
        return self.elapsed * (self.left - self.done) / self.done

    @property
    def errors(self) -> int:
        """Units and trainings that ended in an error and were not played again."""
        return sum(len(row.tally.errored) for row in self.rows)

    @property
    def whole(self) -> bool:
        """All that was to be played, by any command, is there without errors. Where nothing says what that is: every
        arm has units, and none is only begun."""
        if self.state not in ("ended", "idle") or self.errors or self.last.get("untrained"):
            return False
        if any(row.total is None for row in self.rows):
            return not self.unfinished and all(row.tally.units for row in self.rows)
        return all(len(row.tally.units) >= (row.total or 0) for row in self.rows)


@dataclass(frozen=True, slots=True)
class _Begun:
    """Finished trials of what has no record yet."""

    arm: str
    trials: int
    spent: Spent


class Watched:
    """A run's folder, looked at again and again. Raises `UsageError` when it holds no run."""

    def __init__(self, folder: Path, price_of: PriceOf):
        self._store = Store(folder)
        self._store.read_only = True
        self._price_of = price_of
        self._models = models_of(self._store.about()[0])
        self._place = Place(folder, option="")
        self._place.hold(identity_of(folder))
        self._place.mark("run.json")
        self._log = Log(self._store)
        self._records: dict[Path, tuple[Any, Finished | None]] = {}
        self._begun: dict[Path, tuple[Any, _Begun | None]] = {}
        self._under_way: dict[Path, tuple[Any, Spent]] = {}
        self._abandoned: dict[Path, tuple[Any, list[tuple[str, Spent]]]] = {}

    def look(self) -> Seen:
        """What is there now. Raises `FolderGone` when that is no longer the folder that it was."""
        self._place.check()
        try:
            return self._look()
        except (OSError, UsageError):
            self._place.check()  # it went in this moment
            raise

    def _look(self) -> Seen:
        playing, news = self._hear()
        folder = self._store.folder
        self._records = _fresh(self._records, _glob(folder, "*/*/*/*.json", "units", "trainings"), self._finished)
        self._begun = _fresh(self._begun, _glob(folder / "started", "*/*/*/*.json", "units", "trainings"), self._noted)
        self._under_way = _fresh(self._under_way, (folder / "started").glob("*/*/*/*.under-way"), self._journal)
        self._abandoned = _fresh(self._abandoned, [folder / "abandoned.jsonl"], lambda _: self._lost())
        state = self._state(playing)
        return Seen(
            tuple(self._rows(state == "playing")),
            tuple(news),
            state,
            self._log.last,
            self._log.begun,
            self._log.done,
            len(self._log.begun["left"]) if self._log.begun else None,
            self._elapsed(state),
            len({path.with_suffix(".json") for path in (*self._begun, *self._under_way) if self._open(path)}),
        )

    def _hear(self) -> tuple[bool | None, list[Entry]]:
        """Whether a process plays, asked before the log is read: what a run does after this look shows in the next one.
        Asked again where the log has news of no end, as the run may have begun in between."""
        playing = self._store.playing()
        more = news = self._log.read()
        while playing is False and more and self._log.last["event"] not in ENDS:
            playing = self._store.playing()
            more = self._log.read()
            news = [*news, *more]
        return playing, news

    def _state(self, playing: bool | None) -> State:
        last = self._log.last.get("event")
        end = next((each for each in ENDS if each == last), None)
        if playing or (playing is None and end is None and last):
            return "playing"
        return end or ("cut off" if last else "idle")

    def _elapsed(self, state: State) -> timedelta | None:
        begun, last = _time(self._log.begun), _time(self._log.last)
        until = datetime.now(UTC) if state == "playing" else last
        return max(until - begun, timedelta()) if begun and until else None

    def _rows(self, playing: bool) -> Iterable[Row]:
        arms = list(self._store.about()[1])
        tallies: dict[str, Tally] = defaultdict(Tally)
        costs: dict[str, Spent] = defaultdict(Spent)
        planned = set(self._log.units)
        for _, new in self._records.values():
            if new:
                tallies[new.arm].add(new)
                planned |= set() if new.training else {f"{new.arm}/{new.key}"}
        for arm, more in self._spent():
            costs[arm] += more
        totals: dict[str, int] = defaultdict(int)
        for key in planned:
            totals[key.partition("/")[0]] += 1
        trials = self._trials() if playing else {}
        for arm in dict.fromkeys([*arms, *tallies, *totals]):
            yield Row(
                arm,
                totals[arm] if self._log.begun else None,
                tallies[arm],
                costs[arm],
                tuple(number for number, _ in trials.get(arm, ())),
                any(training for _, training in trials.get(arm, ())),
            )

    def _spent(self) -> Iterable[tuple[str, Spent]]:
        """Arm and cost of everything: finished, begun, under way, and abandoned on the way."""
        for _, new in self._records.values():
            if new:
                yield new.arm, new.spent
        for path, (_, begun) in self._begun.items():
            if begun and self._open(path):
                yield begun.arm, begun.spent
        for path, (_, cost) in self._under_way.items():
            yield path.parts[-3], cost
        for _, lost in self._abandoned.values():
            yield from lost

    def _trials(self) -> dict[str, list[tuple[int, bool]]]:
        """Arm to number, and whether it is of a training, of every trial under way."""
        found: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for path in self._under_way:
            _, begun = self._begun.get(path.with_suffix(".json"), (None, None))
            found[path.parts[-3]].append((begun.trials + 1 if begun else 1, path.parts[-4] == "trainings"))
        return found

    def _open(self, noted: Path) -> bool:
        """Whether what this note is about has no record yet."""
        return self._final(noted.with_suffix(".json")) not in self._records

    def _final(self, begun: Path) -> Path:
        return self._store.folder / begun.relative_to(self._store.folder / "started")

    def _finished(self, path: Path) -> Finished | None:
        record = self._store.load_training(path) if path.parts[-4] == "trainings" else self._store.load(path)
        return finished(record, self._price_of) if record else None

    def _noted(self, path: Path) -> _Begun | None:
        record = self._store.load_training(path) if path.parts[-4] == "trainings" else self._store.load(path)
        return _Begun(record.arm, len(record.trials), spent_on(record, self._price_of)) if record else None

    def _journal(self, path: Path) -> Spent:
        total = Spent()
        for role, usage, _ in costs_in(self._store.lines_of(path)):  # less a line that is being written
            total += spent({role: usage}, self._models, self._price_of)
        return total

    def _lost(self) -> list[tuple[str, Spent]]:
        return [
            (arm, spent({role: usage}, self._models, self._price_of)) for arm, role, usage in self._store.abandoned()
        ]


def _time(entry: Entry) -> datetime | None:
    try:
        when = datetime.fromisoformat(str(entry["time"]))
    except (KeyError, ValueError):
        return None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def _fresh(
    known: Mapping[Path, tuple[Any, T]], paths: Iterable[Path], read: Callable[[Path], T]
) -> dict[Path, tuple[Any, T]]:
    """What `read` gives for every file that is there; of one that did not change, what it gave before."""
    found = {}
    for path in paths:
        with suppress(OSError):  # it is finished, or played again, or a link to itself
            stat = path.stat()
            stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            before = known.get(path)
            found[path] = before if before and before[0] == stamp else (stamp, read(path))
    return found


def _glob(folder: Path, pattern: str, *kinds: str) -> Iterable[Path]:
    return (path for path in folder.glob(pattern) if path.parts[-4] in kinds and not path.name.startswith("."))


def models_of(identity: Mapping[str, Any]) -> dict[str, str]:
    """Role to model, as far as the identity of a run says."""
    try:
        backend = identity["config"]["backends"][identity["config"]["backend"]]
        roles = {role: own.get("model") or backend["model"] for role, own in backend.get("roles", {}).items()}
        return {role: str(backend["model"]) for role in ("actor", "reflector", "verbalizer", "advisor")} | roles
    except (KeyError, TypeError, AttributeError):
        return {}
