"""What is printed and written of what was played: units, programs, constitutions, reports, exports, papers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Call, text_of
from rsso_dspy.cli.options import (
    echo,
    format_command,
    format_plural,
    indent_text,
    print_lines,
    print_paragraph,
    print_status,
)
from rsso_dspy.errors import NotRecorded, UnknownName, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.memory.formats import ConstitutionFile
from rsso_dspy.optimize import program_file
from rsso_dspy.optimize.program_file import Compiled, RoleChange, RoleDifference, TriedProgram
from rsso_dspy.pricing import PriceOf, format_dollars, format_tokens
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import RULE_BASED_NOTE, Step, TrialResult, UnitRecord, Usage
from rsso_dspy.report.analysis import Analysis, RunRecords, analyze
from rsso_dspy.report.drawings import build_drawings
from rsso_dspy.report.figures import FORMATS, PICTURE, draw_figures, save_figure
from rsso_dspy.report.intervals import Bars, group_values
from rsso_dspy.report.page import LearntItem, Page, PageCalls, build_page_sections, trace_learnt_items, write_page
from rsso_dspy.report.reflexion_logs import holds_reflexion_logs, parse_log_folder, read_reflexion_logs
from rsso_dspy.report.sheets import build_sheet, build_table_kind, format_number, print_parts
from rsso_dspy.report.tables import build_table_files, describe_facts, describe_run, render_analysis, write_headline
from rsso_dspy.report.terminal import to_plain_text
from rsso_dspy.store.commands import read_given
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import JobRecord

STEP_INDENT = " " * 6  # what belongs to a step stands below its action
ABRIDGED = 160  # how many characters of a demonstration's field are printed
MOST_NAMED = 3  # roles that a cell names
MOST_STEPS = 20_000  # maximum number of steps whose requests and answers a page holds
LOGS_ONLY = "logs of Reflexion hold none"
TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"


def open_runs(folders: Sequence[Path]) -> PooledRuns:
    return PooledRuns([Store(folder, read_only=True) for folder in dict.fromkeys(folders)])


def print_left_out_files(store: Store) -> None:
    for reason in store.set_aside.values():
        print_status(f"{reason}: left out; the next run quarantines it")


# A unit


def show_unit(folder: Path, unit: str | None, arm: str | None, trial: int | None, prompts: bool) -> None:
    """Print a unit of a run step by step; without one, list the units."""
    store = Store(folder, read_only=True)
    records = [*store.records()]
    print_left_out_files(store)
    if not records:
        raise UsageError("no unit is finished yet; repeat the run's command")
    if unit is None:
        _list_scores(records)
        return

    record = _choose_record(records, unit, arm)
    results = [result for result in record.trials if trial in (None, result.trial)]
    if not results:
        raise UsageError(f"{unit} has trials 1 to {len(record.trials)}, not {trial}")
    taught = group_values((item.trial, item) for item in trace_learnt_items(record))

    print_paragraph(f"{record.key}  {record.arm}  seed {record.seed}  {record.protocol}", bold=True)
    if record.rule_based:
        print_paragraph(RULE_BASED_NOTE, dim=True)
    for trajectory in record.trajectories[:1]:
        print_lines(trajectory.task.strip())
    if trial is None:
        for item in taught.get(0, ()):
            _print_taught(record, item, "held from the start")

    calls: Mapping[int, Sequence[Call]] = {}
    if prompts:
        try:
            calls = load_calls(store, record)
        except NotRecorded as error:
            print_status(f"no prompts: {error}")
    for result in results:
        _print_trial(record, result, calls.get(result.trial, ()))
        for item in taught.get(result.trial, ()):
            when = f"learned at step {item.step}" if item.step else "learned"
            _print_taught(record, item, when)


def _list_scores(records: Sequence[JobRecord]) -> None:
    for record in records:
        scores = " ".join(str(trajectory.accumulator) for trajectory in record.trajectories)
        echo(f"{record.key}  {record.arm}  seed {record.seed}: {scores or 'error'}")


def _choose_record(records: Sequence[JobRecord], unit: str, arm: str | None) -> JobRecord:
    """Return a unit's record of an arm, by default of the first one."""
    records_by_arm = {record.arm: record for record in reversed(records) if record.key == unit}
    if not records_by_arm:
        raise UnknownName("unit", unit, {record.key for record in records})
    if arm is not None and arm not in records_by_arm:
        raise UnknownName("arm", arm, records_by_arm)
    return records_by_arm[arm or [*records_by_arm][-1]]


def _print_trial(record: JobRecord, result: TrialResult, calls: Sequence[Call]) -> None:
    """Print a trial step by step: the actor's calls, the step, the calls of the other roles."""
    echo()
    if result.trajectory is None:
        print_paragraph(f"Trial {result.trial}: error, no score: {result.error or ''}", color="red")
        return

    trajectory = result.trajectory
    ending = "out of steps" if trajectory.outcome == "budget" else trajectory.outcome
    if isinstance(record, UnitRecord):
        budget = record.budget
        where = ""
    else:
        budget = record.budgets[result.trial - 1]
        where = f" ({trajectory.variant.key})"
    print_paragraph(
        f"Trial {result.trial}{where}: {ending} after {len(trajectory.steps)} of {budget} steps, "
        f"accumulator {trajectory.accumulator}, environment score {trajectory.environment_score}, "
        f"{trajectory.points_at_reset} points held at reset, {trajectory.invalid_actions} actions not understood, "
        f"{trajectory.asked_back} asked back, {trajectory.no_effect} without effect",
        bold=True,
    )

    previous_messages: dict[tuple[str, int], Any] = {}
    print_lines(trajectory.start.look, STEP_INDENT)
    for number, step in enumerate(trajectory.steps, start=1):
        for call in calls:
            if call.step == number and call.role == "actor":
                _print_call(call, previous_messages)
        _print_step(number, step)
        for call in calls:
            if call.step == number and call.role != "actor":
                _print_call(call, previous_messages)

    for role, texts in result.unread.items():
        for text in texts:
            print_paragraph(f"{role}, unreadable answer:", dim=True)
            print_lines(text, STEP_INDENT, dim=True)


def _print_step(number: int, step: Step) -> None:
    """Print an action with its reward, what the actor said beside it, and what it then saw."""
    reward = f"  {step.reward:+d}" if step.reward else ""
    color = "green" if step.reward > 0 else None
    first, *rest = (step.action or "(malformed answer)").splitlines()
    print_paragraph(f"{number:3d} > {first}{reward}", color=color, hanging=STEP_INDENT)
    print_lines("\n".join(rest), STEP_INDENT)
    for label, text in (
        ("thought:", step.reasoning),
        ("subgoal:", step.subgoal),
        ("subgoal not offered:", step.rejected),
        ("given as the action:", step.cut),
        ("[unreadable]", step.unread),
    ):
        if text:
            print_lines(f"{label} {text}", STEP_INDENT, dim=label == "[unreadable]" or None)
    print_lines(step.state.observation, STEP_INDENT)


def _print_call(call: Call, before: dict[tuple[str, int], Any]) -> None:
    """Print a call without the messages that repeat those of the previous request of its role, kept in `before`."""
    messages = [(message.get("role"), text_of(message.get("content"))) for message in call.request["messages"]]
    new_messages = []
    for place, message in enumerate(messages):
        if before.get((call.role, place)) != message:
            new_messages.append(message)
        before[call.role, place] = message

    parameters = ", ".join(f"{name} {value}" for name, value in call.request["parameters"].items())
    repetition = f"{len(messages) - len(new_messages)} of {len(messages)} messages as in the previous request"
    echo(f"      [sent, {call.role}] {call.request['model']}; {parameters}; {repetition}", fg="cyan")
    for role, text in new_messages:
        echo(f"      [{role}]\n{indent_text(text)}", fg="cyan")

    failed = f", {len(call.failed)} failed attempts before" if call.failed else ""
    name = f", {call.served}" if call.served else ""
    echo(f"      [answered{name}, {call.seconds:g} s{failed}]", dim=True)
    if call.error:
        answer = f"{call.error.get('kind')}: {call.error.get('message')}"
    else:
        answer = call.text
    echo(indent_text(answer), dim=True)


def _print_taught(record: JobRecord, item: LearntItem, when: str) -> None:
    reads = ", ".join(f"trial {trial} steps {first}-{last}" for trial, first, last in item.reads)
    is_named_by_id = item.name == item.id and item.kind == "rule"
    name = "" if is_named_by_id else f" {item.name}"
    print_paragraph(f"{when}, {item.kind}{name} ({item.id}; read at {reads or 'no step'})", bold=True)

    if item.kind == "skill":
        for skill in record.memories.get("skills", {}).get("skills", ()):
            if skill["id"] == item.id:
                print_paragraph(f"Summary: {skill['summary']}", "  ")
    for line in item.text.splitlines():
        print_paragraph(line, "  ")


def load_calls(store: Store, record: JobRecord) -> Mapping[int, Sequence[Call]]:
    """Return the calls of a record by trial. Raises `NotRecorded` where its log cannot be read."""
    log = store.read_log(record)
    calls_by_trial = {}
    for trial, calls in log.make_answers("").trials.items():
        calls_by_trial[trial] = [log.decode(lines) for lines in calls]
    return calls_by_trial


# A compiled program


def show_program(file: Path) -> None:
    compiled = program_file.load(file, to_play=False)
    print_paragraph(str(file), bold=True)
    for line in _describe_origin(file, compiled):
        print_paragraph(line)
    _print_candidates(compiled)
    for role in program_file.compare_states(Agent(compiled.method).dump_state(), compiled.chosen_state):
        _print_role(role)


def describe_compile(compiled: Compiled) -> Iterator[str]:
    yield f"{compiled.method}, {compiled.optimizer}: {compiled.confirmation or 'no verdict; it was made elsewhere'}"
    yield f"{_describe_val_scores(compiled)}; the search ended: {compiled.search_end}"
    yield _count_programs(compiled)
    yield from program_file.describe_noise(compiled)
    yield (
        f"spent: {compiled.rollouts} of {compiled.max_rollouts} rollouts, "
        f"{describe_spending(compiled.usage, calls=compiled.lm_calls)}; a rollout is "
        f"{format_plural(compiled.trials, 'trial')}, each of the protocol's steps, {compiled.steps} at most"
    )
    if compiled.abandoned:
        yield f"attempts that were cut short cost more: {describe_spending(compiled.abandoned)}"

    if compiled.improved or compiled.candidate:
        verb = "changed" if compiled.improved else "the candidate changes"
        yield f"{verb}: {', '.join(compiled.changes)}"
    if not compiled.improved:
        rest = "marked as such"
        if compiled.candidate:
            rest = f"and {_name_kept(compiled)} beside it, which plays only by evaluate --candidate"
        yield f"The file holds the zero-shot program, {rest}."
    for note in compiled.notes:
        yield f"note: {note}"
    if compiled.rule_based:
        yield RULE_BASED_NOTE


def _describe_val_scores(compiled: Compiled) -> str:
    """Say what the chosen candidate scored where it was chosen, which is too high for that very reason."""
    baseline = compiled.before
    candidate = compiled.after
    on = format_plural(compiled.val, "val variant")
    if baseline is None or candidate is None:
        return "the budget ended before the zero-shot program was scored"
    if not compiled.gained_on_val:
        means = f"metric {100 * baseline.metric:.1f}, Mean {baseline.mean:.1f}"
        return f"nothing better than the zero-shot program was found ({means}), on {on}"

    candidates = [tried for tried in compiled.tried[1:] if tried.scores and not tried.placebo]
    best = f"the best of {len(candidates)} candidates there" if len(candidates) > 1 else "the one candidate"
    metric = f"metric {100 * baseline.metric:.1f} -> {100 * candidate.metric:.1f}"
    mean = f"Mean {baseline.mean:.1f} -> {candidate.mean:.1f}"
    return f"on {on}, where it is {best}: {metric}, {mean}"


def _count_programs(compiled: Compiled) -> str:
    """How many programs were played, and how far which of them came. Every program is counted once."""
    groups: dict[str, list[int]] = {}
    compared = {tried.program for tried in compiled.compared}
    for number, tried in _number_programs(compiled):
        if tried.program in compared:
            stage = "on all of val"
        elif tried.dropped:
            stage = "dropped on val"
        elif compiled.count_val_played(tried):
            stage = "cut short on val"
        else:
            stage = "on train alone"
        groups.setdefault(stage, []).append(number)

    counts = [f"{len(numbers):,} {stage} ({_join_numbers(numbers)})" for stage, numbers in groups.items()]
    return f"{format_plural(compiled.tried, 'program')} tried: {', '.join(counts) or 'no rollout came to its end'}"


def _number_programs(compiled: Compiled) -> list[tuple[int, TriedProgram]]:
    """The programs with their numbers; files of early versions only have the order."""
    numbered = []
    for place, tried in enumerate(compiled.tried):
        number = place if tried.number is None else tried.number
        numbered.append((number, tried))
    return numbered


def _join_numbers(numbers: Sequence[int]) -> str:
    """Rising numbers as ranges: 0, 2-24."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ", ".join("-".join(map(str, bounds)) for bounds in ranges)


def _name_kept(compiled: Compiled) -> str:
    """The kept candidate by its number, where the file lists it."""
    for number, tried in _number_programs(compiled):
        if tried.program == compiled.chosen_program:
            return f"candidate {number}"
    return "the candidate"


def describe_spending(usage: Mapping[str, Usage], amount: float | None = 0.0, calls: int | None = None) -> str:
    """Describe what was used by role, with the dollars unless it was free; None is an unknown price. `calls` are the
    requests sent, where some had no answer."""
    total = sum(usage.values(), Usage())
    requests = format_plural(total.calls if calls is None else calls, "model call")
    per_role = ", ".join(f"{role} {role_usage.calls:,}" for role, role_usage in usage.items())
    dollars = f", {format_dollars(amount)}" if amount is None or amount else ""
    return (
        f"{requests} ({per_role}), {format_tokens(total.input)} tokens in, {format_tokens(total.output)} out{dollars}"
    )


def _describe_origin(file: Path, compiled: Compiled) -> Iterator[str]:
    if compiled.is_made_elsewhere:
        yield f"{compiled.method}, made from an agent"
        yield (
            "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
            f"{format_command('evaluate', file)}"
        )
        yield f"differs from the zero-shot program in: {', '.join(compiled.changes) or 'nothing'}"
        for note in compiled.notes:
            yield f"note: {note}"
    else:
        yield from describe_compile(compiled)
        teacher = f"; teacher: {compiled.teacher}" if compiled.teacher else ""
        yield f"model: {compiled.model}; proposer: {compiled.proposer}{teacher}"
        yield f"protocol: {compiled.protocol}, seed {compiled.seed}"

    for part in ("train", "val", "confirm"):
        if keys := getattr(compiled, part):
            yield f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys)}"
    if of := compiled.environment:
        simplification = f", simplification {of.simplification}" if of.simplification else ""
        yield f"benchmark: {of.name} {of.version}{simplification}"


def _print_candidates(compiled: Compiled) -> None:
    """Print every program that was tried, in a table, and below it why some were not played on all of val."""
    if not compiled.tried:
        return
    rows = [_list_cells(compiled, number, tried) for number, tried in _number_programs(compiled)]

    echo()
    many = format_plural(compiled.tried, "program")
    print_paragraph(f"{many} tried; scores from 0 to 100, over the val variants that each was played on", bold=True)
    columns = ("program", "#", "what it is", "changes", "nearest", "val", "metric", "Mean")
    print_parts([build_sheet("candidates", "", columns, rows)])
    print_paragraph(
        "changes: sentences and list lines that a prompt has (+) or lacks (-) beside the zero-shot one, and "
        "demonstrations shown; nearest: the earlier program that differs least, and in how many of these"
    )
    for number, tried in _number_programs(compiled):
        if tried.left:
            print_paragraph(f"{number}: {tried.left}", "  ")


def _list_cells(compiled: Compiled, number: int, tried: TriedProgram) -> list[Any]:
    """Return the cells of a program in the table of those that were tried."""
    scores = tried.scores
    metric = 100 * scores.metric if scores else None
    mean = scores.mean if scores else None
    nearest = "" if tried.nearest is None else f"{tried.nearest}: {tried.apart}"
    return [
        tried.program[:12],
        number,
        ", ".join(_describe_kind(compiled, number, tried)),
        _abridge_changes(tried.changes),
        nearest,
        (compiled.count_val_played(tried), len(compiled.val)),
        format_number(metric, ".1f"),
        format_number(mean, ".1f"),
    ]


def _abridge_changes(changes: Sequence[RoleChange]) -> str:
    """How much each role's prompt differs; roles that differ alike are named together, many of them by their number."""
    roles = group_values((change.counts, change.role) for change in changes)
    parts = []
    for counts, names in roles.items():
        together = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} roles"
        parts.append(f"{together} {counts}")
    return "; ".join(parts)


def _describe_kind(compiled: Compiled, number: int, tried: TriedProgram) -> Iterator[str]:
    """Where a program came from, and what became of it."""
    if tried.origin:
        yield tried.origin
    # Files of early versions do not say.
    elif number == 0:
        yield "start"
    elif tried.placebo:
        yield "placebo"
    else:
        yield "candidate"

    if tried.dropped:
        yield "dropped"
    if number > 0 and tried.program == compiled.chosen_program:
        yield "chosen" if compiled.gained_on_val else "kept"


def _print_role(role: RoleDifference) -> None:
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
            print_paragraph(f"{field}: {_abridge(text)}", "    ")


def _abridge(text: str) -> str:
    """Return a text on one line, a long one by its beginning and its length."""
    flat = " ".join(text.split())
    if len(flat) <= ABRIDGED:
        return flat
    return f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)"


def print_constitution(book: ConstitutionFile) -> None:
    if book.constitution.document:
        echo(book.constitution.document)
        return
    for category in ("abstract", "error"):
        rules = [rule for rule in book.constitution.rules if rule.lesson.category == category]
        echo(f"{category.capitalize()} rules: {len(rules)}", bold=True)
        for rule in rules:
            frequency = f" (said {rule.count} times)" if rule.count > 1 else ""
            echo(f"  {rule.id} {rule.lesson.line}{frequency}")
    if book.variants:
        echo(f"learned on {format_plural(book.variants, 'variant')}: {', '.join(book.variants)}")
    if book.provenance.get("rule_based"):
        echo(RULE_BASED_NOTE)


# Reports


def load_folders(folders: Sequence[Path]) -> tuple[PooledRuns, RunRecords]:
    """Load what was played in folders of runs, naming the files that cannot be read, or in those of logs of Reflexion.
    Raises `UsageError` where there is nothing."""
    log_folders = [parse_log_folder(folder) for folder in folders]
    logs = [folder for folder in log_folders if holds_reflexion_logs(folder.path)]
    if logs and len(logs) < len(folders):
        raise UsageError(
            f"{logs[0].path} holds logs of Reflexion, which only number their environments: nobody knows which of "
            "them a run played too, so nothing can be compared; report the folders apart"
        )
    if logs:
        reflexion_logs = read_reflexion_logs(logs)
        return PooledRuns([]), RunRecords(reflexion_logs.records, success_only=True, remarks=reflexion_logs.remarks)

    labelled = [folder for folder in log_folders if folder.name]
    if labelled and not labelled[0].path.is_dir():
        raise UsageError(f"{labelled[0].path} is no folder")
    if labelled:
        raise UsageError(
            f"{labelled[0].path} holds no logs of Reflexion. {labelled[0].name}= names the arm of such a folder; those "
            "of a run have names already"
        )

    pool = open_runs(folders)
    pooled = replace(collect_played(pool), advisors=dict(_find_advisors(pool)))
    for store in pool.stores:
        print_left_out_files(store)
    if not (pooled.records or pooled.trainings or pooled.begun or pooled.abandoned or pooled.under_way):
        raise UsageError(f"{folders[0]} holds no finished unit yet; repeat the command that made it")
    return pool, pooled


def _find_advisors(pool: PooledRuns) -> Iterator[tuple[str, str]]:
    """Yield the arms of folders that were given a constitution, and who wrote it."""
    for store in pool.stores:
        for path, text in read_given(store).items():
            kind, _, name = Path(path).parts[0].partition("+")
            if kind != "constitution":
                continue
            with suppress(ValueError, TypeError, AttributeError):
                advisor = _read_advisor(text)
                _, arms = store.read_identity()
                for arm in arms:
                    if not name or name in arm.split("+"):
                        yield pool.label_arm(store, arm), advisor


def _read_advisor(constitution: str) -> str:
    """Return who wrote a constitution, by its file. Raises `ValueError` and others where that is damaged."""
    provenance = json.loads(constitution).get("provenance", {})
    by_patterns = provenance.get("writer") == "omnireflect-symbolic"
    models = {} if by_patterns else provenance.get("models", {})
    without_model = "patterns" if "models" in provenance else "by hand"
    return str(models.get("advisor", without_model))


def print_report(store: Store, price_of: PriceOf) -> None:
    print_analysis(analyze(collect_played(PooledRuns([store])), price_of), whole=False)


def print_analysis(analysis: Analysis, whole: bool = True, with_paper: bool = False) -> None:
    print_parts(render_analysis(analysis, whole, with_paper))
    print_headline(analysis)


def print_headline(analysis: Analysis, note: str = "") -> None:
    print_parts([to_plain_text(f"\n{write_headline(analysis)} {note}".rstrip())])


def write_tables_and_figures(
    analysis: Analysis, with_paper: bool, bars: Bars, table_folder: Path | None, figure_folder: Path | None
) -> None:
    """Write tables and figures to their folders, where named. Raises `UsageError`, before writing anything, if one
    cannot be written or would replace a foreign file."""
    tables = {}
    if table_folder:
        for name, text in build_table_files(analysis, with_paper).items():
            tables[table_folder / name] = text
    figures = {}
    if figure_folder:
        for figure in draw_figures(analysis, with_paper, bars):
            for end in FORMATS:
                figures[figure_folder / f"{figure.name}{end}"] = figure

    for path, text in tables.items():
        check_output_path(path, "--tables", build_table_kind(text))
    for path in figures:
        check_output_path(path, "--figures", PICTURE)

    for path, text in tables.items():
        atomic_write_text(path, text)
    for path, figure in figures.items():
        save_figure(figure.figure, path)
    if table_folder:
        print_status(f"{format_plural(len(tables), 'file')} in {table_folder}")
    if figure_folder:
        print_status(f"{format_plural(len(figures), 'file')} in {figure_folder}")


def write_html(
    pool: PooledRuns, played: RunRecords, analysis: Analysis, with_paper: bool, bars: Bars, file: Path
) -> None:
    """Write the page."""
    records: list[JobRecord] = [*played.records, *played.trainings]
    drawings = build_drawings(analysis, played.records, with_paper, bars)
    folder_names = ", ".join(store.folder.resolve().name for store in pool.stores)
    page = Page(
        folder_names or "logs of Reflexion",
        build_page_sections(analysis, drawings, with_paper),
        write_headline(analysis),
        describe_run(analysis),
        list(describe_facts(analysis).items()),
        drawings,
    )
    remaining_steps = MOST_STEPS

    def find_calls(record: JobRecord) -> PageCalls:
        """Return the calls of a record, or why the page has none, and how long its trials took."""
        nonlocal remaining_steps
        steps = sum(len(trajectory.steps) for trajectory in record.trajectories)
        for store, stored_record in pool.find_sources(record):
            log = store.load_log(store.path_of(stored_record))
            if log is None:
                continue
            if steps > remaining_steps:
                return PageCalls(why_not=TOO_MANY, seconds=log.seconds)
            try:
                calls = load_calls(store, stored_record)
            except NotRecorded as error:
                print_status(f"the page has no prompts of {stored_record.arm} {stored_record.key}: {error}")
                return PageCalls(why_not="its log is damaged", seconds=log.seconds)
            remaining_steps -= steps
            return PageCalls(calls, seconds=log.seconds)
        return PageCalls(why_not=LOGS_ONLY if played.success_only else "its log is not in the folder of the run")

    write_page(file, page, records, find_calls)
    megabytes = file.stat().st_size / 1e6
    print_status(f"{file}: {format_plural(records, 'unit')}, {megabytes:.1f} MB; open it in a browser")
