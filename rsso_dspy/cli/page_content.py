"""What stands on the page of a run: its views, the prompts of its compiled programs, the requests of its units."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

from rsso_dspy.cli.calls import load_calls
from rsso_dspy.cli.options import print_status
from rsso_dspy.errors import NotInstalled, UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.optimize.program_text import RoleDifference
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis, RunRecords
    from rsso_dspy.report.figures import FigureSize, ReportFigure
    from rsso_dspy.report.page import PageCalls, PageFigure, PageSection, PromptChange
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

T = TypeVar("T")

TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"
NO_LOG = "its log is not in the folder of the run"


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
            drawing for store in stores for drawing in _build_per_program(store, "candidates", _draw_candidates)
        ]
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    listed = (each for store in stores for each in _build_per_program(store, "prompts", _list_prompt_changes))
    changes = [change for each in listed for change in each]
    return build_page_sections(analysis, drawn, candidates, with_paper, changes)


class CallFinder:
    """Finds the calls of a record's models, for `most_steps` steps in all."""

    def __init__(self, pool: "PooledRuns", most_steps: int):
        self.left = most_steps
        self._pool = pool

    def find(self, record: "UnitRecord | TrainingRecord") -> "PageCalls":
        """Return the calls of a record, or why the page has none, and how long its trials took."""
        from rsso_dspy.report.page import PageCalls

        steps = sum(len(played.steps) for played in record.trajectories)
        for store, own in self._pool.find_sources(record):
            log = store.load_log(store.path_of(own))
            if log is None:
                continue
            if steps > self.left:
                return PageCalls(why_not=TOO_MANY, seconds=log.seconds)
            self.left -= steps
            return PageCalls(load_calls(store, own), seconds=log.seconds)
        return PageCalls(why_not=NO_LOG)


def _build_per_program(store: "Store", what: str, build: "Callable[[Path, Compiled], T]") -> "Iterator[T]":
    """Build something of each compiled program of a run; `what` of those for which that fails is not in the page."""
    from rsso_dspy.optimize.program_file import load
    from rsso_dspy.store.manifest import extract_given

    with TemporaryDirectory(prefix="rsso-dspy-") as folder:
        for file in extract_given(store, Path(folder), "programs"):
            try:
                yield build(file, load(file))
            except UsageError as error:
                print_status(f"not in the page: the {what} of {file.name} ({error})")


def _list_prompt_changes(file: Path, compiled: "Compiled") -> "list[PromptChange]":
    """Compare a compiled program with the zero-shot one, role by role; equal roles are left out."""
    from rsso_dspy.optimize.program_file import describe_verdict
    from rsso_dspy.optimize.program_text import build_side, compare_programs
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
    from rsso_dspy.optimize.program_text import describe_program
    from rsso_dspy.report.figures import render_figure_svg
    from rsso_dspy.report.page import PageFigure

    found = describe_program(compiled)
    drawn = render_figure_svg(draw_program_candidates(found, file.name), f"candidates-{file.stem}", themed=True)
    return PageFigure(file.stem, describe_program_candidates(found, file.name), drawn)
