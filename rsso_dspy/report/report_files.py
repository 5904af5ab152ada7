"""The tables of a report as files, and what a report says of its run."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rsso_dspy.files import FileKind
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.table_data import FORMS
from rsso_dspy.report.tables import build_tables


def build_table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    """Return file name to content of every table as Markdown, LaTeX and CSV."""
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in build_tables(found, with_paper)
        for ending, form in FORMS.items()
    }


def build_table_kind(text: str) -> FileKind:
    """Return the kind of files that hold the same table as `text`: their first lines begin alike, except numbers."""

    def parse_header(of: str) -> list[str]:
        return re.sub(r"[0-9,]+(?= )", "#", of.partition("\n")[0]).split(",")[:2]

    def is_same_table(path: Path) -> bool:
        with path.open(encoding="utf-8", errors="replace") as file:
            return parse_header(file.readline()) == parse_header(text)

    return FileKind("table", is_same_table)


def describe_facts(found: Analysis) -> dict[str, Sequence[str]]:
    """Return what the results depend on, by name, with consecutive seeds as ranges."""
    seeds = sorted(int(seed) for seed in found.facts.get("seed", ()))
    return {name: format_ranges(seeds) if name == "seed" else values for name, values in found.facts.items()}


def format_ranges(numbers: Sequence[int], least: int = 3) -> list[str]:
    """Format ascending numbers, `least` or more consecutive ones as a range: 1, 2, 3, 7 are `1-3` and `7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) >= least else map(str, run))]


def describe_run(found: Analysis) -> list[str]:
    """Describe in sentences what the numbers are and where they come from."""
    named = {name: ", ".join(values) for name, values in found.facts.items()}
    said = [f"Protocol {named.get('protocol', 'n/a')}. Actor {named.get('actor', 'n/a')}."]
    said.append("Scores are points of 100; best_of_t is the best accumulator of the first t trials.")
    return [" ".join(said), *([found.rule_based_note] if found.rule_based_note else [])]
