"""The report of a run as files, to be kept elsewhere or put into a paper."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rsso_dspy.atomic import FileKind
from rsso_dspy.pricing import PriceOf
from rsso_dspy.records import RoleUsage, TrainingRecord, TrialsRecord, UnitRecord
from rsso_dspy.report.analysis import Analysis, RunRecords, analyze_run, serialize_analysis
from rsso_dspy.report.table_data import FORMS, to_markdown
from rsso_dspy.report.tables import build_methods_table, build_tables


def build_report_files(
    records: Sequence[UnitRecord],
    trainings: Sequence[TrainingRecord],
    price_of: PriceOf,
    abandoned: Sequence[RoleUsage] = (),
    begun: Sequence[TrialsRecord] = (),
) -> dict[str, str]:
    """File name to content: the report as JSON data, and its main table as Markdown. They hold numbers and names,
    nothing that was said; of an error only the kind, because its text may quote what was sent."""
    found = analyze_run(RunRecords(records, trainings, begun, abandoned), price_of)
    kinds = tuple(replace(each, error=each.kind) for each in found.errored)
    found = replace(found, errored=kinds)
    return {
        "report.json": json.dumps(serialize_analysis(found), indent=1) + "\n",
        "report.md": "\n".join([to_markdown(build_methods_table(found)), *describe_run(found)]) + "\n",
    }


def build_table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    """File name to content of every table, as Markdown, LaTeX and CSV."""
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in build_tables(found, with_paper)
        for ending, form in FORMS.items()
    }


def build_table_kind(text: str) -> FileKind:
    """Files of the table that `text` is: whose first line begins as this one does. Numbers in it may differ."""

    def parse_header(of: str) -> list[str]:
        return re.sub(r"[0-9,]+(?= )", "#", of.partition("\n")[0]).split(",")[:2]

    def is_same_table(path: Path) -> bool:
        with path.open(encoding="utf-8", errors="replace") as file:
            return parse_header(file.readline()) == parse_header(text)

    return FileKind("table", is_same_table)


def describe_run(found: Analysis) -> list[str]:
    """In words, what the numbers are and where they come from."""
    named = {name: ", ".join(values) for name, values in found.facts.items()}
    said = [f"Protocol {named.get('protocol', 'n/a')}. Actor {named.get('actor', 'n/a')}."]
    said.append("Scores are points of 100; best_of_t is sequential.")
    return [" ".join(said), *([found.rule_based_note] if found.rule_based_note else [])]
