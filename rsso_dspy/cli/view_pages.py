"""What `rsso-dspy view` serves: the runs of a folder, their pages, single units, and how far they are.

Everything is read from disk at every request; what took long is kept until the files change.

    pages = RunPages(Path("runs"), price_of)
    pages.render_page(["first"]), pages.read_unit(["first"], "rsso", "boil::22", 0, training=False)

Runs are asked for by the names that `find_runs` gives, and units by what the page lists: no text of a request ever
becomes a path.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from rsso_dspy.errors import RunMismatch, UsageError

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.unit_store import Store

DEPTH = 3
"""Folders below the one that is served in which runs are looked for."""
MOST_RUNS = 500
MOST_AVERAGED = 500
"""Maximum number of units of a run whose means the list of runs shows."""
PARTS = ("units", "started", "trainings")

UnitName = tuple[str, str, int, bool]
"""Arm, key, seed and whether it is a training, as the page lists a unit."""


@dataclass(slots=True)
class _Page:
    """The page of some runs as it was rendered last."""

    version: str = ""
    html: str = ""
    files: dict[UnitName, "tuple[Store, Path, str]"] = field(default_factory=dict)
    """Store, file of the finished record, and the arm as the page labels it."""
    finder: Any = None


class RunPages:
    """The pages of a run, or of the runs of a folder."""

    def __init__(self, root: Path, price_of: "PriceOf"):
        self.root = root
        self.price_of = price_of
        self._pages: dict[tuple[str, ...], _Page] = {}
        self._means: dict[Path, tuple[str, tuple[tuple[str, str], ...]]] = {}
        self._making: dict[tuple[str, ...], Future[str]] = {}
        self._lock = threading.Lock()

    def find_runs(self) -> dict[str, Path]:
        """Return the folders of runs by their names: paths below the root. Links are not followed."""
        if (self.root / "run.json").is_file():
            return {self.root.resolve().name: self.root}
        found: dict[str, Path] = {}
        level = [self.root]
        for _ in range(DEPTH):
            below = [
                each for folder in level for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink()
            ]
            runs = [each for each in below if (each / "run.json").is_file()]
            found |= {str(each.relative_to(self.root)): each for each in runs}
            level = [each for each in below if each not in runs]
        return dict(list(found.items())[:MOST_RUNS])

    def render_list(self, wanted: str) -> str:
        """Render the list of runs, newest first, that contain the words of `wanted`."""
        from rsso_dspy.report.page.run_list import RunRow, render_run_list

        rows: list[RunRow] = []
        for name, folder in self.find_runs().items():
            try:
                rows.append(self._describe_run(name, folder))
            except UsageError as error:
                rows.append(RunRow(name, f"cannot be read: {error}", "", (), "", ""))
        rows.sort(key=lambda row: row.changed, reverse=True)
        return render_run_list(str(self.root), [row for row in rows if row.contains(wanted)], wanted)

    def _describe_run(self, name: str, folder: Path) -> Any:
        from rsso_dspy.report.page.run_list import RunRow
        from rsso_dspy.store.unit_store import Store

        store = Store(folder, read_only=True)
        identity, arms = store.read_identity()
        version, newest = measure_folder(folder)
        known = self._means.get(folder)
        if known is None or known[0] != version:
            known = self._means[folder] = (version, _average_arms(store, list(arms)))
        changed = datetime.fromtimestamp(newest / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
        units = describe_progress([store]).partition(",")[0]
        return RunRow(name, _describe_state(store), units, known[1], str(identity.get("protocol", "")), changed)

    def open_pool(self, names: Sequence[str]) -> "PooledRuns | None":
        """Open runs by name; None if there is no run of one of these names. Arms of equal names are kept apart."""
        from rsso_dspy.cli.run_folders import open_runs

        known = self.find_runs()
        if not names or any(name not in known for name in names):
            return None
        folders = [known[name] for name in dict.fromkeys(names)]
        try:
            return open_runs(folders)
        except RunMismatch:
            return open_runs(folders, separate=True)
        except UsageError:
            if len(folders) == 1:
                raise
            return open_runs(folders, separate=True)

    def render_page(self, names: Sequence[str], patience: float | None = None) -> str | None:
        """Render the page of these runs; None if there is none of a name. Raises `UsageError` for runs that cannot be
        read or compared.

        With `patience`, the first page of these runs is made in a thread, and one that asks again every second is
        returned if it takes longer than this many seconds. Later pages are waited for: a browser keeps the one before.
        """
        from rsso_dspy.cli.page_content import get_page_title
        from rsso_dspy.report.page.run_list import render_waiting_page

        pool, asked = self.open_pool(names), tuple(names)
        if pool is None:
            return None
        if patience is None or ((known := self._pages.get(asked)) and known.html):
            with self._lock:
                return self._refresh(asked, pool).html
        mine: Future[str] = Future()
        making = self._making.setdefault(asked, mine)
        if making is mine:
            threading.Thread(target=self._make_page, args=(asked, pool, making), daemon=True).start()
        if not wait([making], patience).done:
            return render_waiting_page(get_page_title(pool.stores), describe_progress(pool.stores))
        self._making.pop(asked, None)
        return making.result()

    def _make_page(self, names: tuple[str, ...], pool: "PooledRuns", making: "Future[str]") -> None:
        try:
            with self._lock:
                making.set_result(self._refresh(names, pool).html)
        except Exception as error:  # raised to who asks next
            making.set_exception(error)

    def read_unit(self, names: Sequence[str], arm: str, key: str, seed: int, training: bool) -> bytes | None:
        """Return the record of a unit that the page lists, as JSON; None if there is none."""
        from dataclasses import replace

        from rsso_dspy.redaction import redact_json
        from rsso_dspy.report.page.record_payload import build_record_data

        pool = self.open_pool(names)
        if pool is None:
            return None
        with self._lock:
            page = self._pages.get(tuple(names)) or self._refresh(tuple(names), pool)
            store, path, label = page.files.get((arm, key, seed, training), (None, Path(), ""))
            if store is None:
                return None
            load = store.load_training if training else store.load
            record: UnitRecord | TrainingRecord | None = load(path) or load(store.started_path(path))
            if record is None:
                return None
            exchanges = page.finder.find(record)
            return redact_json(json.dumps(build_record_data(replace(record, arm=label), exchanges))).encode("ascii")

    def read_state(self, names: Sequence[str]) -> dict[str, str] | None:
        """Return the version of what is on disk and how far the runs are; None if there is none of a name."""
        from rsso_dspy.store.unit_store import Store

        known = self.find_runs()
        if not names or any(name not in known for name in names):
            return None
        stores = [Store(known[name], read_only=True) for name in names]
        return {"version": _measure_folders([store.folder for store in stores]), "status": describe_progress(stores)}

    def _refresh(self, names: tuple[str, ...], pool: "PooledRuns") -> _Page:
        page = self._pages.setdefault(names, _Page())
        version = _measure_folders([store.folder for store in pool.stores])
        if page.version != version:
            self._render(names, pool, page, version)
        return page

    def _render(self, names: tuple[str, ...], pool: "PooledRuns", page: _Page, version: str) -> None:
        from rsso_dspy.cli.page_content import RequestFinder, build_sections, get_page_title
        from rsso_dspy.environments.benchmark import get_benchmark
        from rsso_dspy.report.analysis import analyze_run
        from rsso_dspy.report.headline import write_headline
        from rsso_dspy.report.page.document import render_shell
        from rsso_dspy.report.page.record_payload import build_list_entry
        from rsso_dspy.report.page_sections import format_run_facts
        from rsso_dspy.report.report_files import describe_run
        from rsso_dspy.workflows.played_runs import collect_played

        found = collect_played(pool)
        analysis = analyze_run(found, self.price_of)
        sections = build_sections(pool.stores, found, analysis, self.price_of)
        page.files, entries = {}, []
        finished: list[UnitRecord | TrainingRecord] = [*found.records, *found.trainings]
        for place, record in enumerate([*finished, *pool.load_begun()]):
            entry = build_list_entry(record)
            entry["has"] += "p" * (place >= len(finished))
            entries.append(entry)
            name = (entry["arm"], entry["key"], record.seed, entry["training"])
            page.files[name] = _locate(pool, record)
        asked = urlencode([("dir", name) for name in names])
        live = {
            "unit": f"unit?{asked}",
            "state": f"state?{asked}",
            "version": version,
            "status": describe_progress(pool.stores),
        }
        index = {"units": entries, "templates": get_benchmark().action_templates, "live": live}
        page.html = render_shell(
            get_page_title(pool.stores),
            sections,
            describe_run(analysis),
            format_run_facts(analysis),
            index,
            write_headline(analysis),
        )
        page.finder = RequestFinder(pool)
        page.version = version


def _locate(pool: "PooledRuns", record: "UnitRecord | TrainingRecord") -> "tuple[Store, Path, str]":
    """Return the store and the file of a record of a pool."""
    for store, own in pool.find_sources(record):
        path = store.path_of(own)
        if path.exists() or store.started_path(path).exists():
            return store, path, record.arm
    return pool.stores[0], pool.stores[0].path_of(record), record.arm


def measure_folder(folder: Path) -> tuple[str, int]:
    """Return a text that changes with the records of a run, and when the last one changed, in nanoseconds."""
    seen = hashlib.sha256()
    newest = (folder / "run.json").stat().st_mtime_ns
    for file in sorted(file for part in PARTS for file in (folder / part).rglob("*.json")):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue
        newest = max(newest, stat.st_mtime_ns)
        seen.update(f"{file.relative_to(folder)} {stat.st_mtime_ns} {stat.st_size}\n".encode("utf-8", "replace"))
    return seen.hexdigest()[:16], newest


def _measure_folders(folders: Sequence[Path]) -> str:
    return "-".join(measure_folder(folder)[0] for folder in folders)


def _average_arms(store: "Store", arms: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the means of arms; without numbers for a long run."""
    from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm

    if sum(1 for _ in (store.folder / "units").glob("*/*/*.json")) > MOST_AVERAGED:
        return tuple((arm, "") for arm in arms)
    means = {arm: compute_arm_metrics(arm, units).mean for arm, units in group_by_arm(list(store.units())).items()}
    return tuple((arm, "n/a" if (mean := means.get(arm)) is None else f"{mean:.2f}") for arm in arms)


def _describe_state(store: "Store") -> str:
    return {True: "playing", False: "not playing", None: "unknown"}[store.is_playing()]


def describe_progress(stores: "Sequence[Store]") -> str:
    """Say how many units are finished, and whether a process plays."""
    from rsso_dspy.store.run_log import list_planned_units

    done = sum(1 for store in stores for _ in (store.folder / "units").glob("*/*/*.json"))
    planned = sum(len(set(list_planned_units(store))) for store in stores)
    states = ", ".join(dict.fromkeys(map(_describe_state, stores)))
    return f"{done} of {max(done, planned)} units, {states}"
