"""The report of a run as files, to be kept elsewhere or put into a paper."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rsso_dspy.money import PriceOf
from rsso_dspy.report.analysis import Analysis, Played, analyse, as_json
from rsso_dspy.report.bills import Abandoned
from rsso_dspy.report.sheets import FORMS, markdown
from rsso_dspy.report.tables import methods_table, tables
from rsso_dspy.trajectory import Record, TrainingRecord, UnitRecord
from rsso_dspy.whole import Kind


def report_files(
    records: Sequence[UnitRecord],
    trainings: Sequence[TrainingRecord],
    price_of: PriceOf,
    abandoned: Sequence[Abandoned] = (),
    begun: Sequence[Record] = (),
) -> dict[str, str]:
    """File name to content: the report as JSON data, and its main table as Markdown. They hold numbers and names,
    nothing that was said; of an error only the kind, because its text may quote what was sent."""
    found = analyse(Played(records, trainings, begun, abandoned), price_of)
    kinds = tuple(replace(each, error=each.kind) for each in found.errored)
    found = replace(found, errored=kinds)
    return {
        "report.json": json.dumps(as_json(found), indent=1) + "\n",
        "report.md": "\n".join([markdown(methods_table(found)), *about(found)]) + "\n",
    }


def table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    """File name to content of every table, as Markdown, LaTeX and CSV."""
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in tables(found, with_paper)
        for ending, form in FORMS.items()
    }


def table_kind(text: str) -> Kind:
    """Files of the table that `text` is: whose first line begins as this one does. Numbers in it may differ."""

    def beginning(of: str) -> list[str]:
        return re.sub(r"[0-9,]+(?= )", "#", of.partition("\n")[0]).split(",")[:2]

    def holds(path: Path) -> bool:
        with path.open(encoding="utf-8", errors="replace") as file:
            return beginning(file.readline()) == beginning(text)

    return Kind("table", holds)


def about(found: Analysis) -> list[str]:
    """In words, what the numbers are and where they come from."""
    named = {name: ", ".join(values) for name, values in found.facts.items()}
    said = [f"Protocol {named.get('protocol', 'n/a')}. Actor {named.get('actor', 'n/a')}."]
    said.append("Scores are points of 100; best_of_t is sequential.")
    return [" ".join(said), *([found.note] if found.note else [])]
