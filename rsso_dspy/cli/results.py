"""What is printed and written of what was played: units, programs, constitutions, reports, exports, papers."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Call, text_of
from rsso_dspy.cli.options import echo, format_command, format_plural, indent_text, print_paragraph, print_status
from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark
from rsso_dspy.errors import NotInstalled, NotRecorded, UnknownName, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.memory.formats import ConstitutionFile
from rsso_dspy.optimize.program_file import (
    Compiled,
    RoleDifference,
    compare_states,
    describe_noise,
    describe_verdict,
    load,
)
from rsso_dspy.pricing import PriceOf, format_dollars, format_tokens
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import RULE_BASED_NOTE, Step, TrialResult, UnitRecord, Usage
from rsso_dspy.report import published, terminal
from rsso_dspy.report.analysis import Analysis, RunRecords, analyze
from rsso_dspy.report.figures import FORMATS, PICTURE, ReportFigure, draw_figures, save_figure
from rsso_dspy.report.headline import write_headline
from rsso_dspy.report.inspect_log import ExportedRun
from rsso_dspy.report.page import Page, PageCalls, build_page_sections, write_page
from rsso_dspy.report.page_records import LearntItem, trace_learnt_items
from rsso_dspy.report.sheets import Sheet, build_table_kind, to_rich_table
from rsso_dspy.report.tables import build_table_files, describe_facts, describe_run, render_analysis
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import RUN_FILE, Store
from rsso_dspy.store.unit_log import JobRecord

ABRIDGED = 160  # how many characters of a demonstration's field are printed
MOST_STEPS = 20_000  # maximum number of steps whose requests and answers a page holds
TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"
NO_LOG = "its log is not in the folder of the run"


def open_runs(folders: Sequence[Path]) -> PooledRuns:
    return PooledRuns([Store(folder, read_only=True) for folder in dict.fromkeys(folders)])


def print_left_out_files(store: Store) -> None:
    for why in store.set_aside.values():
        print_status(f"{why}: left out; the next run quarantines it")


# A unit


def show_unit(folder: Path, unit: str | None, arm: str | None, trial: int | None, prompts: bool) -> None:
    """Print a unit of a run step by step; without one, list the units."""
    store = Store(folder, read_only=True)
    records = [*store.records()]
    print_left_out_files(store)
    if not records:
        raise UsageError("no unit is finished yet; repeat the run's command")
    if unit is None:
        for record in records:
            scores = " ".join(str(trajectory.accumulator) for trajectory in record.trajectories) or "error"
            echo(f"{record.key}  {record.arm}  seed {record.seed}: {scores}")
        return
    record = _choose_record(records, unit, arm)
    chosen = [result for result in record.trials if trial in (None, result.trial)]
    if not chosen:
        raise UsageError(f"{unit} has trials 1 to {len(record.trials)}, not {trial}")
    taught = trace_learnt_items(record)
    echo(f"{record.key}  {record.arm}  seed {record.seed}  {record.protocol}", bold=True)
    if record.rule_based:
        echo(RULE_BASED_NOTE, dim=True)
    if record.trajectories:
        echo(record.trajectories[0].task.strip())
    for item in taught if trial is None else ():
        if item.trial == 0:
            _print_taught(record, item, "held from the start")
    calls = load_calls(store, record) if prompts else {}
    for result in chosen:
        _print_trial(record, result, calls.get(result.trial, ()))
        for item in taught:
            if item.trial == result.trial:
                _print_taught(record, item, f"learned{f' at step {item.step}' if item.step else ''}")


def _choose_record(records: Sequence[JobRecord], unit: str, arm: str | None) -> JobRecord:
    here = {record.arm: record for record in reversed(records) if record.key == unit}
    if not here:
        raise UnknownName("unit", unit, {record.key for record in records})
    if arm is not None and arm not in here:
        raise UnknownName("arm", arm, here)
    return next(record for record in records if record.key == unit and arm in (None, record.arm))


def _print_trial(record: JobRecord, result: TrialResult, calls: Sequence[Call]) -> None:
    echo()
    if result.trajectory is None:
        echo(f"Trial {result.trial}: error, no score: {result.error or ''}", fg="red")
        return
    trajectory = result.trajectory
    if isinstance(record, UnitRecord):
        where, budget = "", record.budget
    else:
        where, budget = f" ({trajectory.variant.key})", record.budgets[result.trial - 1]
    ending = "out of steps" if trajectory.outcome == "budget" else trajectory.outcome
    echo(
        f"Trial {result.trial}{where}: {ending} after {len(trajectory.steps)} of {budget} steps, "
        f"accumulator {trajectory.accumulator}, environment score {trajectory.environment_score}, "
        f"{trajectory.points_at_reset} points held at reset, {trajectory.invalid_actions} actions not understood"
        + (f", {trajectory.asked_back} asked back" if trajectory.asked_back else "")
        + (f", {trajectory.no_effect} without effect" if trajectory.no_effect else ""),
        bold=True,
    )
    printer = CallPrinter(calls)
    echo(indent_text(trajectory.start.look))
    for number, step in enumerate(trajectory.steps, start=1):
        printer.print_step(number, actor=True)
        _print_step(number, step)
        printer.print_step(number, actor=False)
    for role, texts in result.unread.items():
        for text in texts:
            echo(f"{role}, unreadable answer:\n{indent_text(text)}", dim=True)


def _print_step(number: int, step: Step) -> None:
    reward = f"  {step.reward:+d}" if step.reward else ""
    echo(f"{number:3d} > {step.action or '(malformed answer)'}{reward}", fg="green" if step.reward > 0 else None)
    if step.subgoal:
        echo(f"      subgoal: {step.subgoal}")
    if step.rejected:
        echo(indent_text(f"subgoal not offered: {step.rejected}"), dim=True)
    if step.unread:
        echo(indent_text(f"[unreadable] {step.unread}"), dim=True)
    echo(indent_text(step.state.observation))


def _print_taught(record: JobRecord, item: LearntItem, when: str) -> None:
    reads = ", ".join(f"trial {trial} steps {first}-{last}" for trial, first, last in item.reads) or "no step"
    name = "" if item.name == item.id and item.kind == "rule" else f" {item.name}"
    print_paragraph(f"{when}, {item.kind}{name} ({item.id}; read at {reads})", bold=True)
    for skill in record.memories.get("skills", {}).get("skills", ()) if item.kind == "skill" else ():
        if skill["id"] == item.id:
            print_paragraph(f"Summary: {skill['summary']}", "  ")
    for line in item.text.splitlines():
        print_paragraph(line, "  ")


def load_calls(store: Store, record: JobRecord) -> Mapping[int, Sequence[Call]]:
    try:
        log = store.read_log(record)
    except NotRecorded:
        return {}
    return {trial: list(map(log.decode, calls)) for trial, calls in log.make_answers("").trials.items()}


class CallPrinter:
    """Prints calls without repeating text from the previous request of the same role."""

    def __init__(self, calls: Sequence[Call]):
        self.calls = calls
        self._before: dict[tuple[str, int], str] = {}

    def print_step(self, step: int, actor: bool) -> None:
        """Print the calls of a step: those of the actor before it, or those of the other roles after it."""
        for call in self.calls:
            if call.step == step and (call.role == "actor") == actor:
                self._print(call)

    def _print(self, call: Call) -> None:
        parameters = ", ".join(f"{name} {value}" for name, value in call.request["parameters"].items())
        echo(f"      [sent, {call.role}] {call.request['model']}; {parameters}", fg="cyan")
        for place, message in enumerate(call.request["messages"]):
            text, at = text_of(message.get("content")), (call.role, place)
            again = self._before.get(at) == text
            self._before[at] = text
            content = "as in the previous request" if again else f"\n{indent_text(text)}"
            echo(f"      [{message.get('role')}] {content}", fg="cyan")
        failed = f", {len(call.failed)} failed attempts before" if call.failed else ""
        name = f", {call.served}" if call.served else ""
        echo(f"      [answered{name}, {call.seconds:g} s{failed}]", dim=True)
        error = call.error and f"{call.error.get('kind')}: {call.error.get('message')}"
        echo(indent_text(error or call.text), dim=True)


# A compiled program


def show_program(file: Path) -> None:
    compiled = load(file)
    print_paragraph(str(file), bold=True)
    for line in _describe_origin(file, compiled):
        print_paragraph(line)
    _print_candidates(compiled)
    for role in compare_states(Agent(compiled.method).dump_state(), compiled.chosen_state):
        _print_role(role)


def describe_compile(compiled: Compiled) -> Iterator[str]:
    before, after = compiled.before, compiled.after
    if before is None or after is None:
        scores = "the budget ended before the zero-shot program was scored"
    elif compiled.improved or compiled.candidate:
        scores = f"metric {100 * before.metric:.1f} -> {100 * after.metric:.1f}, Mean {before.mean:.1f} -> "
        scores += f"{after.mean:.1f}"
    else:
        scores = "nothing better than the zero-shot program was found "
        scores += f"(metric {100 * before.metric:.1f}, Mean {before.mean:.1f})"
    yield (
        f"{compiled.method}, {compiled.optimizer}: {scores}, on {format_plural(compiled.val, 'val variant')}; "
        f"{format_plural(compiled.tried, 'program')} compared; the search ended: {compiled.search_end}"
    )
    yield describe_verdict(compiled)
    yield from describe_noise(compiled)
    yield (
        f"spent: {compiled.rollouts} of {compiled.max_rollouts} rollouts, "
        f"{describe_spending(compiled.usage, calls=compiled.lm_calls)}; a rollout is {compiled.trials} trials of "
        f"{compiled.steps} steps at most"
    )
    if compiled.abandoned:
        yield f"attempts that were cut short cost more: {describe_spending(compiled.abandoned)}"
    if compiled.improved or compiled.candidate:
        yield f"{'changed' if compiled.improved else 'the candidate changes'}: {', '.join(compiled.changes)}"
    if not compiled.improved:
        beside = "the candidate beside it, which plays only by evaluate --candidate" if compiled.candidate else ""
        yield f"The file holds the zero-shot program{', and ' * bool(beside)}{beside or ', marked as such'}."
    yield from (f"note: {note}" for note in compiled.notes)
    if compiled.rule_based:
        yield RULE_BASED_NOTE


def describe_spending(usage: Mapping[str, Usage], amount: float | None = 0.0, calls: int | None = None) -> str:
    """Describe what was used by role, with the dollars unless it was free; None is an unknown price. `calls` are the
    requests sent, where some had no answer."""
    spent = sum(usage.values(), Usage())
    sent = spent.calls if calls is None else calls
    per_role = ", ".join(f"{role} {each.calls:,}" for role, each in usage.items())
    dollars = f", {format_dollars(amount)}" if amount is None or amount else ""
    return (
        f"{sent:,} model call{'s' * (sent != 1)} ({per_role}), "
        f"{format_tokens(spent.input)} tokens in, {format_tokens(spent.output)} out{dollars}"
    )


def _describe_origin(file: Path, compiled: Compiled) -> Iterator[str]:
    if compiled.is_made_elsewhere:
        yield f"{compiled.method}, made from an agent"
        yield (
            "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
            f"{format_command('evaluate', file)}"
        )
        yield f"differs from the zero-shot program in: {', '.join(compiled.changes) or 'nothing'}"
        yield from (f"note: {note}" for note in compiled.notes)
    else:
        yield from describe_compile(compiled)
        taught = f"; teacher: {compiled.teacher}" if compiled.teacher else ""
        yield f"model: {compiled.model}; proposer: {compiled.proposer}{taught}"
        yield f"protocol: {compiled.protocol}, seed {compiled.seed}"
    parts = {"train": compiled.train, "val": compiled.val, "confirm": compiled.confirm}
    yield from (f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys)}" for part, keys in parts.items() if keys)
    if of := compiled.environment:
        yield f"benchmark: {of.name} {of.version}" + (f", simplification {of.simplification}" * bool(of.simplification))


def _print_candidates(compiled: Compiled) -> None:
    if not compiled.tried:
        return
    title = f"\n{format_plural(compiled.tried, 'program')} compared, on the val variants; scores from 0 to 100"
    table = terminal.create_named_table(title, "program", "#", "metric", "Mean", "kind", words=("kind",))
    for place, each in enumerate(compiled.tried):
        number = place if each.number is None else each.number
        chosen = each.program == compiled.chosen_program
        kinds = {"start": number == 0, "placebo": each.placebo, "dropped": each.dropped, "chosen": chosen}
        kind = ", ".join(name for name, there in kinds.items() if there)
        scores = (f"{100 * each.scores.metric:.1f}", f"{each.scores.mean:.1f}")
        table.add_row(terminal.to_plain_text(each.program[:12]), str(number), *scores, kind)
    terminal.print_renderable(table)


def _print_role(role: RoleDifference) -> None:
    """Print the instruction of one role, sentence by sentence where it differs from the zero-shot one, and its
    demonstrations."""
    echo()
    print_paragraph(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}", bold=True)
    marks = {"same": ("", None), "removed": ("- ", "red"), "added": ("+ ", "green")}
    for op, text in role.rows:
        mark, color = marks[op]
        print_paragraph(f"{mark}{text}", "  ", color=color)
    if role.fields:
        print_paragraph(f"field descriptions that differ: {', '.join(role.fields)}", "  ")
    for number, demo in enumerate(role.added, start=1):
        print_paragraph(f"demonstration {number} of {len(role.added)}", "  ", bold=True)
        for field, text in demo.items():
            flat = " ".join(text.split())
            cut = f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)" if len(flat) > ABRIDGED else flat
            print_paragraph(f"{field}: {cut}", "    ")


def print_constitution(book: ConstitutionFile) -> None:
    for category in ("abstract", "error"):
        held = [rule for rule in book.constitution.rules if rule.lesson.category == category]
        echo(f"{category.capitalize()} rules: {len(held)}", bold=True)
        for rule in held:
            often = f" (said {rule.count} times)" if rule.count > 1 else ""
            echo(f"  {rule.id} {rule.lesson.line}{often}")
    if book.variants:
        echo(f"learned on {format_plural(book.variants, 'variant')}: {', '.join(book.variants)}")
    if book.provenance.get("rule_based"):
        echo(RULE_BASED_NOTE)


# Reports


def load_played(pool: PooledRuns) -> RunRecords:
    """Collect what was played, and name the files that cannot be read. Raises `UsageError` where there is nothing."""
    played = collect_played(pool)
    for store in pool.stores:
        print_left_out_files(store)
    if not (played.records or played.trainings or played.begun or played.abandoned or played.under_way):
        raise UsageError(f"{pool.stores[0].folder} holds no finished unit yet; repeat the command that made it")
    return played


def print_report(store: Store, price_of: PriceOf) -> None:
    print_analysis(analyze(collect_played(PooledRuns([store])), price_of), whole=False)


def print_analysis(analysis: Analysis, whole: bool = True, with_paper: bool = False) -> None:
    terminal.print_renderable(render_analysis(analysis, whole, with_paper))
    print_headline(analysis)


def print_headline(analysis: Analysis, note: str = "") -> None:
    terminal.print_renderable(terminal.to_plain_text(f"\n{write_headline(analysis)} {note}".rstrip()))


def write_tables_and_figures(
    analysis: Analysis, with_paper: bool, table_folder: Path | None, figure_folder: Path | None
) -> None:
    """Write tables and figures to their folders, where named. Raises `UsageError`, before writing anything, if one
    cannot be written or would replace a foreign file."""
    figures = draw_figures(analysis, with_paper=with_paper) if figure_folder else []
    tables = build_table_files(analysis, with_paper) if table_folder else {}
    pictures = [(figure, f"{figure.name}{ending}") for figure in figures for ending in FORMATS]
    if figure_folder:
        for _, name in pictures:
            check_output_path(figure_folder / name, "--figures", PICTURE)
    if table_folder:
        for file, text in tables.items():
            check_output_path(table_folder / file, "--tables", build_table_kind(text))
        for file, text in tables.items():
            atomic_write_text(table_folder / file, text)
        print_status(f"{format_plural(tables, 'file')} in {table_folder}")
    if figure_folder:
        for figure, name in pictures:
            save_figure(figure.figure, figure_folder / name)
        print_status(f"{format_plural(figures, 'figure')} in {figure_folder}, each as SVG, PDF and PNG")


def write_html(pool: PooledRuns, played: RunRecords, analysis: Analysis, with_paper: bool, file: Path) -> None:
    """Write the page; without figures if matplotlib is not installed."""
    figures: list[ReportFigure] = []
    try:
        figures = draw_figures(analysis, with_paper=with_paper)
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    records: list[JobRecord] = [*played.records, *played.trainings]
    page = Page(
        ", ".join(store.folder.resolve().name for store in pool.stores),
        build_page_sections(analysis, figures, with_paper),
        write_headline(analysis),
        describe_run(analysis),
        list(describe_facts(analysis).items()),
        get_benchmark().action_templates["sso"],
    )
    left = MOST_STEPS

    def find_calls(record: JobRecord) -> PageCalls:
        """Return the calls of a record, or why the page has none, and how long its trials took."""
        nonlocal left
        steps = sum(len(trajectory.steps) for trajectory in record.trajectories)
        for store, own in pool.find_sources(record):
            log = store.load_log(store.path_of(own))
            if log is not None and steps > left:
                return PageCalls(why_not=TOO_MANY, seconds=log.seconds)
            if log is not None:
                left -= steps
                return PageCalls(load_calls(store, own), seconds=log.seconds)
        return PageCalls(why_not=NO_LOG)

    write_page(file, page, records, find_calls)
    print_status(f"{file}: {format_plural(records, 'unit')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


def collect_export(pool: PooledRuns, price_of: PriceOf) -> ExportedRun:
    played, first = collect_played(pool), pool.stores[0]
    identity, _ = first.read_identity()
    made = datetime.fromtimestamp((first.folder / RUN_FILE).stat().st_mtime, UTC).date().isoformat()
    benchmark = identity.get("config", {}).get("benchmark", DEFAULT)
    created = f"{played.dates[0] if played.dates else made}T00:00:00+00:00"
    note = analyze(played, price_of).rule_based_note
    return ExportedRun(first.folder.resolve().name, benchmark, played.records, note, created)


# Papers


def print_paper_tables(name: str, json_: bool) -> None:
    tables = published.load_published_tables(name)
    if json_:
        recomputed = {"recomputed": asdict(published.recompute_statistics())} if name == "rsso" else {}
        echo(json.dumps({**tables, **recomputed}, indent=1))
    elif name == "rsso":
        _print_sheets(published.build_rsso_tables())
        echo("\n".join(published.describe_rsso_statistics()))
    else:
        if name == "omnireflect":
            _print_sheets(map(published.build_omnireflect_table, published.OMNIREFLECT_TABLES))
            echo(published.describe_omnireflect_cost())
        else:
            _print_sheets(published.build_example_tables(tables))
        echo(f"{tables['source']}.")
        echo(
            f"The files in examples/{name}/ of the repository play them: rsso-dspy run --config FILE --out DIR, then "
            "rsso-dspy report DIR"
        )


def _print_sheets(sheets: Iterable[Sheet]) -> None:
    for sheet in sheets:
        if sheet.rows:
            echo(sheet.title)
            terminal.print_renderable(to_rich_table(sheet))
            echo("\n".join((*sheet.notes, "")))
