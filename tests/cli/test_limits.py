"""What a run may cost, on the command line; and parts of a run put together."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.records import Usage
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import FAST

RUN = ("run", "--methods", "react-sso,reflexion-sso", "--trials", "2", *FAST)
ONE = (*RUN, "--variants", "lifespan-longest-lived::98")
PRICED = ("--set", 'prices."embedded/explorer".input=3', "--set", 'prices."embedded/explorer".output=15')

DOLLAR = ("--set", 'prices."embedded/explorer".input=1', "--set", 'prices."embedded/explorer".output=1')

pytestmark = pytest.mark.usefixtures("at_hand")


def units(folder: str) -> list[dict[str, Any]]:
    return list(map(dump_record, Store(Path(folder), read_only=True).units()))


def sum_by_role(store: Store) -> dict[str, Usage]:
    total: dict[str, Usage] = {}
    for role, usage in store.read_spending():
        total[role] = total.get(role, Usage()) + usage
    return total


def test_a_run_stops_at_its_limit_and_goes_on_with_a_higher_one_to_the_same_end(rsso):
    assert rsso(*ONE, "--out", "whole")[0] == 0
    code, out, err = rsso(*ONE, *PRICED, "--max-cost", "0.16", "--out", "run")
    assert code == 1
    assert "of $0.1600 are spent (--max-cost)" in err
    assert "(rule-based, offline, priced as configured)" in " ".join(err.split())
    assert "higher limit" in err
    assert "billed" in out
    assert len(units("run")) == 1
    store = Store(Path("run"))
    assert store.read_under_way(), "the trial that was cut short was paid for"
    data = json.loads(rsso("report", "run", "--json", *PRICED)[1])["bill"]
    paid = sum(usage.input * 3 + usage.output * 15 for _, usage in store.read_spending()) / 1e6
    assert data["billed"] + data["abandoned_billed"] == pytest.approx(paid)
    assert paid > 0.16
    code, out, err = rsso(*ONE, *PRICED, "--max-cost", "0.16", "--out", "run")
    assert code == 1, "what was spent before counts"
    code, out, err = rsso(*ONE, *PRICED, "--max-cost", "9", "--out", "run")
    assert code == 0
    assert units("run") == units("whole")
    assert "The tables leave out " not in out
    assert sum_by_role(store) == sum_by_role(Store(Path("whole"))), "nothing is paid for twice"
    bill = json.loads(rsso("report", "run", "--json")[1])["bill"]
    assert bill["billed"] == pytest.approx(json.loads(rsso("report", "run", "--json", *PRICED)[1])["bill"]["billed"])
    assert bill["billed"] > 0, "the prices that the run was played with"
    assert not bill["abandoned"]
    free = [word.partition("=")[0] + "=0" if "=" in word else word for word in PRICED]
    assert json.loads(rsso("report", "run", "--json", *free)[1])["bill"]["billed"] == 0.0


def test_a_disk_that_is_full_in_the_middle_of_a_run_is_named_with_what_is_kept(rsso, monkeypatch):
    def full(_store: Store, path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", f"run/{path.name}")

    monkeypatch.setattr(Store, "append_text", full)
    code, _, err = rsso(*ONE, "--out", "run")
    assert code == 1
    kept = "finished work is kept: free disk space, then repeat the command"
    assert err.endswith(f"error: run/98-s0.jsonl: No space left on device; {kept}\n")


def test_the_commands_to_look_at_a_run_can_be_typed_into_a_shell(rsso):
    variant = "lifespan-longest-lived::98"
    words = ("--methods", "react", "--trials", "1", "--variants", variant, "--out", "my $(runs)")
    code, out, _ = rsso("run", *FAST, *words)
    assert code == 0
    said = f"rsso-dspy report 'my $(runs)'; rsso-dspy show 'my $(runs)' {variant}"
    assert out.splitlines()[-1] == f"run: my $(runs)  ({said})"


def test_a_model_without_a_price_can_not_be_limited_in_dollars_and_nothing_is_played(rsso):
    mine = ("--set", "backend=mine", "--set", "backends.mine.model=hosted_vllm/x")
    code, _, err = rsso(*ONE, *mine, "--max-cost", "1", "--out", "none")
    assert code == 2
    assert 'set [prices."hosted_vllm/x"]' in err
    assert not Path("none").exists()


def test_shards_reported_together_are_the_run(rsso):
    two = (*RUN, "--variants", "lifespan-longest-lived::98,lifespan-longest-lived::111")
    assert rsso(*two, "--out", "whole")[0] == 0
    for number in (1, 2):
        assert rsso(*two, "--shard", f"{number}/2", "--out", f"part-{number}")[0] == 0
    assert sorted(units("part-1") + units("part-2"), key=str) == sorted(units("whole"), key=str)
    assert "This is without shard 2/2 of the run." in rsso("report", "part-1")[1].replace("\n", " ")
    assert json.loads(rsso("report", "part-1", "--json")[1])["missing_shards"] == ["2/2"]
    parts, whole = (json.loads(rsso("report", *dirs, "--json")[1]) for dirs in (("part-1", "part-2"), ("whole",)))
    assert parts["missing_shards"] == []
    for table in ("arms", "comparisons", "bill"):
        assert parts[table] == whole[table], table


def test_a_bill_can_be_seen_before_any_unit_is_finished(rsso):
    assert rsso(*ONE, "--methods", "react-sso", *DOLLAR, "--max-cost", "0.03", "--out", "run")[0] == 1
    assert not units("run")
    code, out, _ = rsso("report", "run", *PRICED)
    assert code == 0
    assert "No unit is finished yet." in out
    assert "The tables leave out " in out
    assert "trials that were interrupted" in " ".join(out.split())
