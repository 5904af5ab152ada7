"""A run as one HTML file that opens without a network: tables and figures in views, a viewer for every trial. It holds
head, views, the list of trials, then one compressed chunk per record (see below); these go through a temporary
file, so memory does not grow with the run. The page allows no network and only its own style and scripts, by hash.
Figures are drawn by its scripts from the data of `drawings.py`."""

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

from rsso_dspy.calls import Call
from rsso_dspy.files import atomic_path, check_output_path, make_marked_kind
from rsso_dspy.records import Lesson, Step, TrainingRecord, Trajectory, TrialResult, TrialsRecord, UnitRecord
from rsso_dspy.redact import make_redactor, redact_json
from rsso_dspy.report.analysis import Analysis, describe_unreported_costs
from rsso_dspy.report.drawings import Drawings
from rsso_dspy.report.metrics import CONSTITUTION, REFLECTIONS, split_reflections
from rsso_dspy.report.published import load_data
from rsso_dspy.report.requests import MessageTable, list_regions
from rsso_dspy.report.sheets import Sheet, merge_columns
from rsso_dspy.report.tables import build_tables
from rsso_dspy.report.terminal import replace_controls

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("dom", "data", "list", "prompt", "learnt", "unit", "figures", "charts", "main")
"""Files in assets/, without their ending, joined in this order into one script."""
UNMERGED = ("tasks",)  # tables whose columns are arms, each of which a reader looks for


@dataclass(frozen=True, slots=True)
class PageSection:
    name: str  # of its route, `#/name`: small letters, digits and hyphens
    title: str
    lead: str  # one or two sentences of plain text
    sheets: tuple[Sheet, ...] = ()
    figures: tuple[str, ...] = ()  # names of the figures above the tables
    figures_below: tuple[str, ...] = ()


def build_page_sections(found: Analysis, drawings: Drawings, with_paper: bool = False) -> list[PageSection]:
    sheets = {}
    for sheet in build_tables(found, with_paper):
        sheets[sheet.name] = sheet if sheet.name in UNMERGED else merge_columns(sheet)
    drawn = drawings.names

    sections = []
    for name, view in load_data("texts.toml")["views"].items():
        sentences = [view["lead"]]
        if name == "cost":
            sentences += describe_unreported_costs(found.bill)
        section = PageSection(
            name,
            view["title"],
            lead=" ".join(sentences),
            sheets=tuple(sheets[table] for table in view["tables"] if table in sheets),
            figures=tuple(figure for figure in view["figures"] if figure in drawn),
            figures_below=tuple(figure for figure in view["below"] if figure in drawn),
        )
        if section.sheets or section.figures or section.figures_below:
            sections.append(section)
    return sections or [PageSection("overview", "Overview", "No unit is finished yet.")]


PAGE = make_marked_kind("page", b'<meta name="generator" content="rsso-dspy">')


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says beside the trials."""

    title: str
    sections: Sequence[PageSection] = ()
    headline: str = ""  # what came out, in a few sentences
    notes: Sequence[str] = ()  # they stand at the top of every view
    facts: Sequence[tuple[str, str]] = ()  # labels and values of where the run came from
    drawings: Drawings = field(default_factory=Drawings)


@dataclass(frozen=True, slots=True)
class PageCalls:
    by_trial: Mapping[int, Sequence[Call]] = field(default_factory=dict)
    why_not: str = ""  # why there are none, as the end of a sentence
    seconds: Mapping[int, float] = field(default_factory=dict)  # how long each trial took, as far as the run noted it


NONE = PageCalls()
SHORT = 40  # characters of a text that stands where it is
MARK = "\x01"  # what a longer one begins with
FIGURES = ("accumulator", "environment_score", "solved", "invalid_actions", "asked_back", "no_effect")  # of a trial


def write_page(
    path: Path,
    page: Page,
    records: Iterable[UnitRecord | TrainingRecord],
    find_calls: Callable[[UnitRecord | TrainingRecord], PageCalls] = lambda _: NONE,
) -> None:
    """Write the page, whole or not at all. `records` are read once, one at a time. A page of this kind that is there is
    replaced, and an empty file; `UsageError` is raised for any other."""
    check_output_path(path, "--html", PAGE)
    with atomic_path(path) as temporary, temporary.open("wb") as file, TemporaryFile(dir=path.parent) as chunks:
        entries = []
        for number, record in enumerate(records):
            entries.append(build_list_entry(record))
            chunks.write(b'<script type="application/octet-stream" id="unit-%d">' % number)
            chunks.write(compress_record(record, find_calls(record)))
            chunks.write(b"</script>\n")
        file.write(_render_shell(page, entries).encode("utf-8", "replace"))
        chunks.seek(0)
        shutil.copyfileobj(chunks, file, 1 << 20)
        file.write(b"</body>\n</html>\n")


def _render_shell(page: Page, entries: Sequence[dict[str, Any]]) -> str:
    """Return everything before the chunks: values are escaped, and keys and acting characters taken out."""
    from markupsafe import Markup

    style = (ASSETS / "page.css").read_text(encoding="utf-8")
    script = _read_script()
    sources = f"script-src 'sha256-{_hash_source(script)}'; style-src 'sha256-{_hash_source(style)}'; img-src data:"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"

    figures = _replace_all_controls(asdict(page.drawings))
    index = redact_json(json.dumps({"units": entries, "figures": figures}))
    index = index.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return _render_template(
        page=page,
        units=len(entries),
        policy=Markup(policy),
        style=Markup(style),
        script=Markup(script),
        index=Markup(index),
    )


def _read_script() -> str:
    parts = [(ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return base64.b64encode(digest).decode()


def _render_template(**values: Any) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    strike = make_redactor()

    def clean(value: Any) -> Any:
        if type(value) is str:  # what is marked as safe is another type
            return strike(replace_controls(value))
        return value

    environment = Environment(
        loader=PackageLoader("rsso_dspy.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=clean,
    )
    environment.filters["visible"] = replace_controls
    return environment.get_template("page.html.j2").render(**values)


def _replace_all_controls(data: Any) -> Any:
    if isinstance(data, str):
        return replace_controls(data)
    if isinstance(data, dict):
        return {replace_controls(name): _replace_all_controls(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_replace_all_controls(value) for value in data]
    return data


# A record for the viewer: a line of the list, and a compressed chunk that is opened on demand. A chunk holds every
# distinct message of its requests once, and every distinct paragraph of its long texts; characters with an effect in a
# browser are replaced by marks. What was learned in which trial, and which prompts contained it, is read off the
# record: the final snapshot of memories, texts in prompts, ids recalled by steps. Items that no trial of the record
# produced have trial 0.


def build_list_entry(record: UnitRecord | TrainingRecord) -> dict[str, Any]:
    """What the list shows of a record. ``scores`` are accumulators, None where a trial errored; ``marks`` one letter a
    trial: s solved, n not, e errored."""
    trajectories = [trial.trajectory for trial in record.trials]
    return {
        "arm": replace_controls(record.arm),
        "key": replace_controls(record.key),
        "seed": record.seed,
        "training": isinstance(record, TrainingRecord),
        "scores": [trajectory.accumulator if trajectory else None for trajectory in trajectories],
        "marks": "".join(_mark_trial(trajectory) for trajectory in trajectories),
    }


def _mark_trial(trajectory: Trajectory | None) -> str:
    if trajectory is None:
        return "e"
    return "s" if trajectory.solved else "n"


def compress_record(record: UnitRecord | TrainingRecord, calls: PageCalls = NONE) -> bytes:
    """The whole record, base64 of gzip of JSON; the same record gives the same bytes."""
    data = redact_json(json.dumps(build_record_data(record, calls), separators=(",", ":")))
    return base64.b64encode(gzip.compress(data.encode("ascii"), 6, mtime=0))


def build_record_data(record: UnitRecord | TrainingRecord, calls: PageCalls = NONE) -> dict[str, Any]:
    """The whole record as JSON data, before it is compressed, with the calls of its trials. A long text is a mark and
    the numbers of its paragraphs in ``texts``, where each stands once."""
    texts: dict[str, int] = {}

    def pack(data: Any) -> Any:
        if isinstance(data, str):
            return pack_text(replace_controls(data))
        if isinstance(data, dict):
            return {replace_controls(name): pack(value) for name, value in data.items()}
        if isinstance(data, list | tuple):
            return [pack(value) for value in data]
        return data

    def pack_text(text: str) -> str:
        if len(text) < SHORT:
            return text
        numbers = []
        for paragraph in text.split("\n\n"):
            number = texts.setdefault(paragraph, len(texts))
            numbers.append(str(number))
        return MARK + " ".join(numbers)

    data = {name: getattr(record, name) for name in ("model", "program", "protocol", "start")}
    if isinstance(record, TrainingRecord):
        data["budgets"] = record.budgets
    else:
        data["budgets"] = [record.budget] * len(record.trials)

    table = MessageTable(list_regions(record))
    data["trials"] = [_build_trial(result, calls, table) for result in record.trials]
    data["messages"] = []
    for role, parts in table.messages:
        named_texts = [(part.name, part.text) for part in parts]
        data["messages"].append((role, named_texts))
    data["why_not"] = calls.why_not
    data["learnt"] = [asdict(item) for item in trace_learnt_items(record)]
    return {**pack(data), "texts": list(texts)}


def _build_trial(result: TrialResult, calls: PageCalls, table: MessageTable) -> dict[str, Any]:
    """A trial without the texts of its prompts, which stand in its requests."""
    data = asdict(result)
    del data["shown"]
    if result.trajectory:
        del data["trajectory"]["task"]
        del data["trajectory"]["start"]
        data |= {name: getattr(result.trajectory, name) for name in FIGURES}

    data["error"] = result.error if result.trajectory is None else None
    data["seconds"] = calls.seconds.get(result.trial)
    data["exchanges"] = _build_exchanges(calls.by_trial.get(result.trial, ()), table)
    return data


def _build_exchanges(calls: Sequence[Call], table: MessageTable) -> list[dict[str, Any]]:
    """The calls of a trial, the actor's first. ``messages`` are numbers in the table."""
    actor_first = sorted(calls, key=lambda call: call.role != "actor")
    return [_build_exchange(call, table) for call in actor_first]


def _build_exchange(call: Call, table: MessageTable) -> dict[str, Any]:
    answer = call.text
    if call.error:
        answer = f"{call.error.get('kind')}: {call.error.get('message')}"
    return {
        "step": call.step,
        "role": call.role,
        "model": call.served,
        "seconds": call.seconds,
        "tokens": [_sum_counts(call, "prompt_tokens"), _sum_counts(call, "completion_tokens")],
        "failed": len(call.failed),
        "parameters": json.dumps({"model": call.request["model"], **call.request["parameters"]}),
        "messages": table.add_request(call),
        "answer": answer,
        "error": call.error is not None,
    }


def _sum_counts(call: Call, name: str) -> int:
    """Sum a count of the usage that the provider reported; 0 where it reported none."""
    total = 0
    for usage in call.usage:
        count = usage.get(name)
        if isinstance(count, int):
            total += count
    return total


LearntKind = Literal["plan", "skill", "rule", "entry"]
StepRange = tuple[int, int, int]  # trial, first step and last step. Steps count from 1.
Origin = tuple[str, int]  # variant and trial that an entry was learned from


@dataclass(frozen=True, slots=True)
class LearntItem:
    """A plan, a skill, a rule, or an entry of another memory."""

    kind: LearntKind
    id: str
    name: str
    text: str
    trial: int  # trial in or after which it was written; 0 if it existed before the first
    step: int = 0  # of a rule that was written in a trial: the first step whose prompt held it. 0: after the trial.
    drawn: tuple[StepRange, ...] = ()  # places of its examples in this record
    reads: tuple[StepRange, ...] = ()  # prompts that contained it


def trace_learnt_items(record: TrialsRecord) -> list[LearntItem]:
    """Trace all items, in order of trials, skipping unexpected snapshots."""
    items: list[LearntItem] = []
    for part in (_trace_plans, _trace_skills, _trace_rules, _trace_entries):
        try:
            items += part(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue  # another version's snapshot: the trials themselves can still be read
    return sorted(items, key=lambda item: (item.trial, item.step or 1_000_000))


def _trace_plans(record: TrialsRecord) -> Iterator[LearntItem]:
    """Those still remembered, and those that are forgotten but stood in a prompt."""
    prompts = [(where, split_reflections(text)) for where, text in _list_region_reads(record, REFLECTIONS)]
    plans: dict[int, str] = {}
    for _, reflections in reversed(prompts):
        plans |= reflections
    for entry in record.memories.get("reflections", {}).get("plans", ()):
        plans[entry["trial"]] = entry["plan"]

    writing_trials = {result.trial for result in record.trials if result.learnt.get(REFLECTIONS, {}).get("written")}
    for trial, plan in sorted(plans.items()):
        reads = tuple(where for where, reflections in prompts if reflections.get(trial) == plan.strip())
        is_own = trial in writing_trials and all(where[0] > trial for where in reads)
        yield LearntItem("plan", f"attempt-{trial}", f"Attempt {trial}", plan, trial if is_own else 0, reads=reads)


def _trace_skills(record: TrialsRecord) -> Iterator[LearntItem]:
    memory = record.memories.get("skills", {})
    for skill in memory.get("skills", ()):
        drawn = tuple(_locate_windows(skill["windows"], memory, record))
        reads = _find_reads(record, skill["id"])
        trial = max((stretch[0] for stretch in drawn), default=0)
        if reads:  # windows may move to later trials that say the same
            trial = min(trial, reads[0][0] - 1)

        lines = [f"Target: {skill['target']}"]
        for number, instruction in enumerate(skill["instructions"], start=1):
            lines.append(f"  {number}. {instruction}")
        text = "\n".join(lines)
        yield LearntItem("skill", skill["id"], skill["name"], text, trial, drawn=drawn, reads=reads)


def _locate_windows(
    windows: Sequence[Sequence[int]], memory: Mapping[str, Any], record: TrialsRecord
) -> Iterator[StepRange]:
    """Yield windows as steps of their trials, without those that come from another record."""
    steps_by_trial = {result.trial: _get_trial_steps(result) for result in record.trials}
    for piece, start, end in windows:
        stored = memory["pieces"][piece]
        actions = [memory["texts"][index] for index in stored["actions"][start + 1 : end]]
        offset = stored["offset"] + start
        last = offset + len(actions)
        steps = steps_by_trial.get(stored["trial"], ())[offset:last]
        if actions and [step.action for step in steps] == actions:
            yield stored["trial"], offset + 1, last


def _trace_rules(record: TrialsRecord) -> Iterator[LearntItem]:
    """Yield rules that were first said while a variant of this record was played, and those that others told it."""
    prompts = list(_list_region_reads(record, CONSTITUTION))
    keys = {trajectory.variant.key for trajectory in record.trajectories}
    for rule in record.memories.get("constitution", {}).get("rules", ()):
        line = Lesson(rule.get("category"), str(rule["text"]), str(rule.get("solution", ""))).line
        places = [where for where, text in prompts if f"- {line}" in text.splitlines()]
        sources = str(rule.get("source", "")).split(" + ")

        trial = 0
        step = 0
        is_own = not keys.isdisjoint(sources)
        if is_own and not places:
            trial = max(result.trial for result in record.trials)
        elif is_own and places[0][:2] != prompts[0][0][:2]:
            trial, step, _ = places[0]
            if step == 1:  # it was written after the trial before
                trial -= 1
                step = 0
        yield LearntItem("rule", rule["id"], rule["id"], line, trial, step, reads=_join_ranges(places))


def _list_region_reads(record: TrialsRecord, region: str) -> Iterator[tuple[StepRange, str]]:
    """Where which text stood in the region."""
    for result in record.trials:
        end = len(_get_trial_steps(result))
        marks = {}  # first step to the name of what stood in the region from then on
        for name in result.shown:
            if name.startswith(f"{region}@"):
                marks[int(name.rpartition("@")[2])] = name
        if region in result.shown:
            marks[1] = region

        following_starts = [*list(marks)[1:], end + 1]
        for first, following in zip(marks, following_starts, strict=False):
            if first < following:
                yield (result.trial, first, following - 1), result.shown[marks[first]]


def _trace_entries(record: TrialsRecord) -> Iterator[LearntItem]:
    """Yield entries of other memories, in the order in which they were written. One that the trials here did not write
    is named with the trial that did."""
    step_counts = {}
    for result in record.trials:
        if result.trajectory:
            step_counts[result.trajectory.variant.key, result.trial] = len(result.trajectory.steps)

    for snapshot in record.memories.values():
        for entry in snapshot.get("entries", ()):
            yield _trace_entry(entry, record, step_counts)


def _trace_entry(entry: Mapping[str, Any], record: TrialsRecord, step_counts: Mapping[Origin, int]) -> LearntItem:
    origins = [(str(variant), int(trial)) for variant, trial in entry["learned"]]
    own_origins = [origin for origin in origins if origin in step_counts]
    reads = _find_reads(record, entry["id"])
    trial = own_origins[0][1] if own_origins else 0
    if own_origins and reads:  # worded anew here, and read before
        trial = min(trial, reads[0][0] - 1)

    name = entry["id"]
    about = entry.get("data") or {}
    title = about.get("title") or about.get("target")
    if title:
        name = f"{name}: {title}"
    if origins and not own_origins:
        variant, number = origins[0]
        name += f", from {variant} trial {number}"

    drawn = []
    for origin in own_origins:
        if step_counts[origin]:
            drawn.append((origin[1], 1, step_counts[origin]))
    return LearntItem("entry", entry["id"], name, entry["text"], trial, drawn=tuple(drawn), reads=reads)


def _find_reads(record: TrialsRecord, name: str) -> tuple[StepRange, ...]:
    """Return the steps whose prompts held what has this id."""
    places = []
    for result in record.trials:
        for number, step in enumerate(_get_trial_steps(result), start=1):
            if name in step.recalled:
                places.append((result.trial, number, number))
    return _join_ranges(places)


def _join_ranges(stretches: Sequence[StepRange]) -> tuple[StepRange, ...]:
    """Stretches that follow on each other as one."""
    joined: list[StepRange] = []
    for trial, first, last in stretches:
        if joined and (joined[-1][0], joined[-1][2] + 1) == (trial, first):
            first = joined.pop()[1]
        joined.append((trial, first, last))
    return tuple(joined)


def _get_trial_steps(result: TrialResult) -> tuple[Step, ...]:
    return result.trajectory.steps if result.trajectory else ()
