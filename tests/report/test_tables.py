"""The tables as a person sees them."""

import re
from io import StringIO

import pytest
from rich.console import Console

from rsso_dspy.cli.report import print_report
from rsso_dspy.protocol.store import Store
from rsso_dspy.report.bills import unpriced
from rsso_dspy.report.tables import report_tables
from tests.records import record

ARM = "rsso+compiled-with-gepa-on-four-tasks"


def records():
    return [record(arm, "boil", index, [[10], [33]]) for arm in ("rsso", ARM) for index in (22, 27)]


def words(text: str) -> set[str]:
    return set(re.findall(r"[\d,.%+/-]+", text))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_digit_is_cut_off_however_narrow_the_terminal_or_long_the_name(monkeypatch, capsys, tmp_path, width):
    store = Store(tmp_path)
    store.open({}, {"rsso": "1", ARM: "2"})
    for each in records():
        store.save(each)
    whole = Console(width=500, file=StringIO())
    whole.print(report_tables(records()))
    monkeypatch.setenv("COLUMNS", str(width))
    print_report(store, unpriced)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert words(whole.file.getvalue()) <= words(printed) | {"-"}
