"""What stands on the page of a run: its views, the prompts of its compiled programs, the requests of its units."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rsso_dspy.cli.exchanges import load_exchanges
from rsso_dspy.cli.options import print_status
from rsso_dspy.errors import NotInstalled, UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.optimize.program_comparison import RoleDifference
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis, RunRecords
    from rsso_dspy.report.figures import FigureSize, ReportFigure
    from rsso_dspy.report.page import Exchanges, PageFigure, PageSection, PromptChange
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.unit_store import Store

T = TypeVar("T")

TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"
NO_PROGRAM = "the program that played is not in the folder of the run"


def get_page_title(stores: "Sequence[Store]") -> str:
    """Return the names of the folders."""
    return ", ".join(store.folder.resolve().name for store in stores)


def build_sections(
    stores: "Sequence[Store]", found: "RunRecords", analysis: "Analysis", price_of: "PriceOf", with_paper: bool = False
) -> "list[PageSection]":
    """Build the views of the page; without figures if matplotlib is not installed."""
    from rsso_dspy.report.figures import render_figure_svg
    from rsso_dspy.report.page import PageFigure
    from rsso_dspy.report.page_sections import build_page_sections

    drawn, candidates = {}, []
    try:
        for picture in draw_run_figures(found, analysis, price_of, with_paper):
            drawn[picture.name] = PageFigure(
                picture.title, picture.alt, render_figure_svg(picture.figure, picture.name, themed=True)
            )
        candidates = [
            drawing for store in stores for drawing in _build_per_program(store.folder, "candidates", _draw_candidates)
        ]
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    listed = (each for store in stores for each in _build_per_program(store.folder, "prompts", _list_prompt_changes))
    changes = [change for each in listed for change in each]
    return build_page_sections(analysis, drawn, candidates, with_paper, changes)


class RequestFinder:
    """Finds what models were sent for a record: recorded, else rebuilt, for `left` steps in all."""

    def __init__(self, pool: "PooledRuns", left: int):
        from rsso_dspy.workflows.rebuilt_requests import RequestRebuilder

        self.left = left
        self._pool = pool
        self._seconds = {store: store.read_seconds() for store in pool.stores}
        self._rebuilders = {
            store: RequestRebuilder.of(store, partial(_load_agents, store.folder)) for store in pool.stores
        }

    def find(self, record: "UnitRecord | TrainingRecord") -> "Exchanges":
        """Return the exchanges of a record, without any why, and how long its trials took."""
        from rsso_dspy.store.usage_ledger import get_job_key

        sources = dict(self._pool.find_sources(record))
        seconds = {
            number: took
            for store, own in sources.items()
            for (unit, number), took in self._seconds[store].items()
            if unit == get_job_key(own)
        }
        return replace(self._find_exchanges(sources, record), seconds=seconds)

    def _find_exchanges(
        self, sources: "Mapping[Store, UnitRecord | TrainingRecord]", record: "UnitRecord | TrainingRecord"
    ) -> "Exchanges":
        from rsso_dspy.report.page import Exchanges

        if found := next(filter(None, (load_exchanges(store, own) for store, own in sources.items())), None):
            return Exchanges(found)
        steps = sum(len(played.steps) for played in record.trajectories)
        if steps > self.left:
            return Exchanges(why_not=TOO_MANY)
        rebuilders = [(self._rebuilders[store], own) for store, own in sources.items()]
        if made := next(filter(None, (rebuilder.rebuild(own) for rebuilder, own in rebuilders)), None):
            self.left -= steps
            return Exchanges(made, rebuilt=True)
        return Exchanges(why_not=next((each.why_not for each, _ in rebuilders if each.why_not), NO_PROGRAM))


def _load_agents(folder: Path, name: str) -> "list[Agent]":
    """Load a compiled program of a run by its name, and the candidate beside it."""
    from rsso_dspy.optimize.program_file import load

    compiled = load(folder / "given" / "programs" / f"{name}.json")
    return [compiled.agent(), compiled.select_candidate().agent()]


def _build_per_program(folder: Path, what: str, build: "Callable[[Path, Compiled], T]") -> "Iterator[T]":
    """Build something of each compiled program of a run; `what` of those for which that fails is not in the page."""
    from rsso_dspy.optimize.program_file import load

    for file in sorted((folder / "given" / "programs").glob("*.json")):
        try:
            yield build(file, load(file))
        except UsageError as error:
            print_status(f"not in the page: the {what} of {file} ({error})")


def _list_prompt_changes(file: Path, compiled: "Compiled") -> "list[PromptChange]":
    """Compare a compiled program with the zero-shot one, role by role; equal roles are left out."""
    from rsso_dspy.optimize.description import describe_verdict
    from rsso_dspy.optimize.program_comparison import build_side, compare_programs
    from rsso_dspy.report.page import PromptChange

    sides = build_side(None, "zero-shot", compiled.method), build_side(compiled, file.stem)
    changed = [role for role in compare_programs(*sides) if role.changed]
    told = f"It changes {', '.join(role.name for role in changed)}." if changed else "It changes no prompt."
    if compiled.candidate:
        told += " What is shown is its candidate, which plays only with --unconfirmed."
    head = PromptChange(f"{file.stem}, {describe_verdict(compiled)}", ((("same", told),),))
    return [head, *(_build_change(f"{file.stem}, {role.name}", role, compiled) for role in changed)]


def _build_change(title: str, role: "RoleDifference", compiled: "Compiled") -> "PromptChange":
    from rsso_dspy.report.page import PromptChange

    rows = tuple(
        row.words or (((row.op, row.a),) if row.op == "same" else _pair_texts(row.a, row.b)) for row in role.rows
    )
    demos = [("Dropped", demo) for demo in role.removed] + [("Added", demo) for demo in role.added]
    told = tuple(
        (f"{sign} demonstration", "\n\n".join(f"{key}: {text}" for key, text in demo.items())) for sign, demo in demos
    )
    state = compiled.chosen_state.get(role.name)
    return PromptChange(title, rows, told, state["signature"]["instructions"] if state else "")


def _pair_texts(removed: str, added: str) -> tuple[tuple[str, str], ...]:
    return tuple((op, text) for op, text in (("removed", removed), ("added", added)) if text)


def draw_run_figures(
    found: "RunRecords",
    analysis: "Analysis",
    price_of: "PriceOf",
    with_paper: bool = False,
    size: "FigureSize" = "page",
) -> "list[ReportFigure]":
    """Draw every figure that the run has data for. Raises `UsageError` if matplotlib is not installed."""
    from rsso_dspy.report.figures import draw_report_figures, use_figure_size
    from rsso_dspy.report.metrics import group_by_arm

    comparisons = [finding.comparison for finding in analysis.findings]
    with use_figure_size(size):
        return draw_report_figures(group_by_arm(found.records), price_of, analysis.main_pair, with_paper, comparisons)


def _draw_candidates(file: Path, compiled: "Compiled") -> "PageFigure":
    """Draw what the compile of a program tried."""
    from rsso_dspy.cli.candidate_figure import describe_program_candidates, draw_program_candidates
    from rsso_dspy.optimize.description import describe_program
    from rsso_dspy.report.figures import render_figure_svg
    from rsso_dspy.report.page import PageFigure

    found = describe_program(compiled)
    drawn = render_figure_svg(draw_program_candidates(found, file.name), f"candidates-{file.stem}", themed=True)
    return PageFigure(file.stem, describe_program_candidates(found, file.name), drawn)
