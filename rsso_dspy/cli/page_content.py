"""What stands on the page of a run: its views, the prompts of its compiled programs, the requests of its units."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from rsso_dspy.cli.calls import load_calls
from rsso_dspy.cli.options import print_status
from rsso_dspy.errors import NotInstalled, UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.optimize.program_comparison import RoleDifference
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis
    from rsso_dspy.report.figures import ReportFigure
    from rsso_dspy.report.page import PageSection, PromptChange
    from rsso_dspy.report.page_records import PageCalls
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"
NO_LOG = "its log is not in the folder of the run"


def get_page_title(stores: "Sequence[Store]") -> str:
    """Return the names of the folders."""
    return ", ".join(store.folder.resolve().name for store in stores)


def build_sections(stores: "Sequence[Store]", analysis: "Analysis", with_paper: bool = False) -> "list[PageSection]":
    """Build the views of the page; without figures if matplotlib is not installed."""
    from rsso_dspy.report.figures import draw_figures
    from rsso_dspy.report.page import build_page_sections

    drawn: list[ReportFigure] = []
    try:
        drawn = draw_figures(analysis, with_paper=with_paper)
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    changes = [change for store in stores for each in _list_changes_per_program(store) for change in each]
    return build_page_sections(analysis, drawn, with_paper, changes)


class CallFinder:
    """Finds the calls of a record's models, for `most_steps` steps in all."""

    def __init__(self, pool: "PooledRuns", most_steps: int):
        self.left = most_steps
        self._pool = pool

    def find(self, record: "UnitRecord | TrainingRecord") -> "PageCalls":
        """Return the calls of a record, or why the page has none, and how long its trials took."""
        from rsso_dspy.report.page_records import PageCalls

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


def _list_changes_per_program(store: "Store") -> "Iterator[list[PromptChange]]":
    """Compare each compiled program of a run; those for which that fails are not in the page."""
    from rsso_dspy.optimize.program_file import load
    from rsso_dspy.store.manifest import extract_given

    with TemporaryDirectory(prefix="rsso-dspy-") as folder:
        for file in extract_given(store, Path(folder), "programs"):
            try:
                yield _list_prompt_changes(file, load(file))
            except UsageError as error:
                print_status(f"not in the page: the prompts of {file.name} ({error})")


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
