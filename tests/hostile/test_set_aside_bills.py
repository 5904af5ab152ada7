"""What was paid for a log that is damaged stays on the bill: of the report, and of the next start."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

from rsso_dspy.executor import SpendLimit
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.records import Usage
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso
from tests.hostile.test_logs import RECORDED, SOLVED, UNREAD

__all__ = ["rsso"]

PAID = Usage(calls=16, input=19_931, output=118)  # what the calls of UNREAD took
ZEROS = b"\0" * 512 + b"\n"  # what a crash of the machine may leave


@pytest.fixture
def folder(tmp_path) -> Path:
    """A run of two units of a real model, in one of which a line became zeros."""
    shutil.copy(RECORDED / "run.json", tmp_path)
    for name in (SOLVED, UNREAD):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(gzip.decompress((RECORDED / f"{name}.gz").read_bytes()))
    with (tmp_path / UNREAD).open("ab") as file:
        file.write(ZEROS)
    return tmp_path


def sum_spending(folder: Path) -> Usage:
    return sum((usage for _, usage in Store(folder, read_only=True).read_spending()), Usage())


def test_the_bill_of_a_damaged_log_counts_where_it_lies_set_aside_and_packed(folder):
    whole = sum_spending(folder)
    others = [usage for unit in Store(folder, read_only=True).units() for usage in unit.trials]
    assert whole.calls == PAID.calls + sum(usage.calls for trial in others for usage in trial.usage.values())

    assert len(list(Store(folder).units())) == 1, "and the other is renamed"
    aside = folder / f"{UNREAD}.damaged"
    assert aside.exists()
    assert sum_spending(folder) == whole

    packed = aside.with_name(f"{aside.name}.gz")
    packed.write_bytes(gzip.compress(aside.read_bytes()))
    aside.unlink()
    assert sum_spending(folder) == whole

    packed.rename(aside)  # as a packed log that cannot be read is renamed
    assert sum_spending(folder) == whole
    aside.write_bytes(aside.read_bytes()[:-40])
    assert 0 < sum_spending(folder).calls <= whole.calls, "and what can be unpacked of it"


def test_a_limit_counts_what_was_paid_for_a_damaged_log(folder):
    lookup = make_price_lookup({})
    limit = SpendLimit(None, 1_000_000, {}, lookup)
    for role, usage in Store(folder, read_only=True).read_spending():
        limit.add_usage(role, usage)
    assert limit.tokens == sum_spending(folder).input + sum_spending(folder).output
    assert limit.tokens > PAID.input + PAID.output


def test_the_report_says_what_damaged_logs_cost_and_what_cannot_be_known(rsso, folder):
    code, out, err = rsso("report", folder)
    assert code == 0
    text = " ".join(out.split())
    assert "The tables leave out 16 calls, 19,931 tokens in and 118 out" in text
    assert "of damaged logs." in text
    assert "1 line of damaged logs cannot be read, so the bill may be short." in text
    assert "cannot be read (line" in err

    bill = json.loads(rsso("report", folder, "--json")[1])["bill"]
    (entry,) = bill["set_aside"]
    assert (entry["arm"], entry["role"], entry["usage"]["calls"]) == ("react", "actor", 16)
    assert bill["unreadable_lines"] == 1


def test_a_line_that_stands_twice_is_paid_once_and_a_call_without_numbers_is_counted_as_unreadable(folder):
    damaged = folder / UNREAD
    lines = damaged.read_bytes().splitlines(keepends=True)
    call = next(number for number, line in enumerate(lines) if line.startswith(b'{"call"'))
    spoiled = json.dumps({"call": 99, "answer": ["go"], "usage": 5}).encode() + b"\n"
    damaged.write_bytes(b"".join([*lines[: call + 1], *lines[call:], spoiled]))
    store = Store(folder, read_only=True)
    assert [unit.key for unit in store.units()] == ["OpenDoorsOrderN4Debug::1237"]
    (aside,) = store.read_set_aside()
    assert aside.usage["actor"].calls == PAID.calls
    assert aside.unreadable_lines == 2


def test_a_folder_or_a_pipe_of_that_name_costs_nothing(folder):
    (folder / f"{SOLVED}.damaged").mkdir()
    assert sum_spending(folder).calls > PAID.calls
