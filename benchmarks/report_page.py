"""How big a run's HTML page is, how long it takes to build, and how soon a browser shows it.

    python benchmarks/report_page.py                       # plays four units, repeats them to 1,000 and 3,280 trials
    python benchmarks/report_page.py runs/first --trials 1000

Units of a run are repeated under other seeds until there are so many trials (3,280 are 164 variants, 5 trials, 4 arms).
Chunks are compressed one by one, so that a repeated unit costs as much as a new one. Memory is what the process grew by
at most while it built the page. The browser opens the file from disk: first contentful paint; from there to the last
unit of the file shown by its address; from a click in the list to the unit shown; medians of `--rounds`. The last line
is one JSON object; its ratio is the size of the page to the size of the run's logs (target: first paint below 2 s
for 1,000 trials).
"""

import json
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.script import exit_lacking, make_parser, parse_options, print_head, print_row
from rsso_dspy.cli.results import load_calls
from rsso_dspy.config import load_config
from rsso_dspy.playing import playing
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import RULE_BASED_NOTE, UnitRecord
from rsso_dspy.report.page import Page, PageCalls, PageSection, write_page
from rsso_dspy.report.sheets import build_sheet, format_text
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store

TARGET = 2000.0
"""Milliseconds to the first paint."""

KEYS = ("find-plant::229", "boil::22", "lifespan-longest-lived::98", "chemistry-mix::30")

OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")

WATCH = """new MutationObserver(() => {
  if (document.querySelector("#step > *")) performance.mark("unit open");
}).observe(document, { childList: true, subtree: true });"""


@dataclass(frozen=True, slots=True)
class PageMeasurement:
    """What was measured of one page. Sizes are in bytes, times in milliseconds."""

    trials: int
    units: int
    size: int
    run_size: int
    build: float
    memory: int
    paint: float
    by_address: float
    by_click: float


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="folder of a run; four units are played without one")
    parser.add_argument("--variants", default=",".join(KEYS), help="what is played without a folder")
    parser.add_argument("--trials", type=int, nargs="+", default=[1000, 3280])
    parser.add_argument("--rounds", type=int, default=5)
    given = parse_options(parser, variants="lifespan-longest-lived::98", trials=[12], rounds=1)
    if find_browser() is None or find_spec("playwright") is None:
        exit_lacking("playwright, and chromium or google-chrome on PATH")
    print_head("trials", "units", "page, MB", "run, MB", "build, s", "memory, MB", "first paint, ms", "by address",
               "by click")  # fmt: skip
    with TemporaryDirectory() as folder:
        source = given.run or play_small_run(Path(folder) / "run", given.variants.split(","))
        measured = [measure_page(source, Path(folder) / "page.html", trials, given.rounds) for trials in given.trials]
    first = measured[0]
    result = {
        "ratio": round(first.size / first.run_size, 3),
        "trials": first.trials,
        "first_paint_ms": round(first.paint),
        "target_ms": TARGET,
        "met": first.paint < TARGET,
    }
    print(json.dumps(result))


def play_small_run(folder: Path, keys: Sequence[str]) -> Path:
    """A small run of rsso on the embedded backend."""
    store = Store(folder)
    store.open({"benchmark": "report_page"}, {"rsso": "zero-shot"})
    with session(load_config(overrides=["embedder.model=hash", "protocol.preset=sso-adapt/3-cap60"])) as live:
        for key in keys:
            variant = live.runtime.variant(key)
            about = {"protocol": "sso-adapt/3-cap60", "program": "zero-shot", "backend": "embedded", "rule_based": True}
            about |= {"arm": "rsso", "method": "rsso", "model": "embedded/explorer", "seed": 0, "budget": 60}
            record = UnitRecord(**about, trials=(), variant=variant, trials_allowed=3)
            log = store.open_log(record)
            log.add_head(record, stops=True)
            with live.activate_for_run(), live.runtime.activate(), playing(calls=log):
                Agent("rsso")(variant=variant, trials=3, on_trial=lambda result, get_memories, log=log: log.add_trial(
                    result, get_memories(), 1.0))  # fmt: skip
    return folder


def measure_page(source: Path, target: Path, trials: int, rounds: int) -> PageMeasurement:
    store = Store(source, read_only=True)
    records = [(record, store.path_of(record).stat().st_size) for record in store.units()]
    chosen = list(repeat_records(records, trials))
    before = reset_peak_memory()
    started = time.perf_counter()
    page = Page(source.name, build_sections(chosen), "", [RULE_BASED_NOTE], [("Trials", f"{trials:,}")])
    write_page(
        target,
        page,
        (record for record, _ in chosen),
        lambda record: PageCalls(load_calls(store, replace(record, seed=0))),
    )
    build, memory = time.perf_counter() - started, read_peak_memory() - before
    times = [time_browser(target, chosen[-1][0]) for _ in range(rounds)]
    paint, by_address, by_click = (statistics.median(column) for column in zip(*times, strict=True))
    run_size = sum(size for _, size in chosen)
    page = PageMeasurement(
        trials, len(chosen), target.stat().st_size, run_size, build, memory, paint, by_address, by_click
    )
    print_row(f"{trials:,}", f"{page.units:,}", f"{page.size / 1e6:.1f}", f"{run_size / 1e6:.1f}", f"{build:.1f}",
              f"{memory / 1e6:.0f}", f"{paint:.0f}", f"{by_address:.0f}", f"{by_click:.0f}")  # fmt: skip
    return page


def repeat_records(records: Sequence[tuple[UnitRecord, int]], trials: int) -> Iterator[tuple[UnitRecord, int]]:
    """The records again and again, each time under another seed, until there are so many trials."""
    left = trials
    for seed in count():
        for record, size in records:
            if left <= 0:
                return
            left -= len(record.trials)
            yield replace(record, seed=seed), size


def build_sections(records: Sequence[tuple[UnitRecord, int]]) -> list[PageSection]:
    """As many rows as a real report has, of arms and of tasks."""
    arms: dict[str, list[int]] = {}
    for record, _ in records:
        arms.setdefault(record.arm, []).append(max((t.accumulator for t in record.trajectories), default=0))
    rows = [(arm, len(best), sum(best) / len(best)) for arm, best in arms.items()]
    tasks = sorted({record.variant.task for record, _ in records})
    means = build_sheet("means", "Means", ("arm", "units", "Mean"), rows)
    each = build_sheet("tasks", "Tasks", ("task",), [(format_text(task, task=task),) for task in tasks])
    return [PageSection("overview", "Overview", "Means.", (means,)), PageSection("tasks", "Tasks", "", (each,))]


def time_browser(file: Path, last: UnitRecord) -> tuple[float, float, float]:
    """Milliseconds to the first paint, from the start to the last unit by its address, and from a click to a unit."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(OPTIONS))
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(file.as_uri())
        paint = wait_for_entry(page, "first-contentful-paint")
        page.goto("about:blank")
        page.goto(f"{file.as_uri()}#/trials/{last.arm}/{last.key}/s{last.seed}")
        by_address = wait_for_entry(page, "unit open")
        page.evaluate("performance.clearMarks()")
        page.evaluate("performance.mark('click'); document.querySelector('.rows a:not([aria-current])').click()")
        by_click = wait_for_entry(page, "unit open") - wait_for_entry(page, "click")
        browser.close()
    return paint, by_address, by_click


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def wait_for_entry(page: Any, name: str) -> float:
    """When it happened, in milliseconds since the page began to load."""
    page.wait_for_function("name => performance.getEntriesByName(name).length", arg=name)
    return float(page.evaluate("name => performance.getEntriesByName(name)[0].startTime", name))


def reset_peak_memory() -> int:
    """Resident bytes now, from which the peak is counted anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return read_peak_memory()


def read_peak_memory() -> int:
    """Most bytes resident since then."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
