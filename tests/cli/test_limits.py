"""What a run may cost, on the command line; and parts of a run put together."""

import errno
import io
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import FAST
from tests.provider_formats import Said
from tests.provider_server import provider

RUN = ("run", "--methods", "react-sso,reflexion-sso", "--trials", "2", *FAST)
ONE = (*RUN, "--variants", "lifespan-longest-lived::98")


def price(dollars_in: float, dollars_out: float) -> tuple[str, ...]:
    prices = {"input": dollars_in, "output": dollars_out}
    return tuple(
        word for name, each in prices.items() for word in ("--set", f'prices."embedded/explorer".{name}={each}')
    )


PRICED = price(3, 15)

pytestmark = pytest.mark.usefixtures("at_hand")


def units(folder: str) -> list[dict[str, Any]]:
    return list(map(dump_record, Store(Path(folder), read_only=True).units()))


def count_tokens(folder: str) -> Counter[str]:
    spent: Counter[str] = Counter()
    for role, usage in Store(Path(folder), read_only=True).read_spending():
        spent.update({role: usage.calls, f"{role} in": usage.input, f"{role} out": usage.output})
    return spent


def test_a_run_stops_at_its_limit_and_goes_on_with_a_higher_one_to_the_same_end(rsso):
    def read_bill(*more: str) -> dict[str, Any]:
        return json.loads(rsso("report", "run", "--json", *more)[1])["bill"]

    assert rsso(*ONE, "--out", "whole")[0] == 0
    code, out, err = rsso(*ONE, *PRICED, "--max-cost", "0.16", "--out", "run")
    assert code == 1
    for text in ("of $0.1600 are spent (--max-cost)", "(rule-based, offline, priced as configured)", "higher limit"):
        assert text in " ".join(err.split())
    assert "billed" in out
    assert len(units("run")) == 1
    store = Store(Path("run"))
    assert store.read_under_way(), "the trial that was cut short was paid for"
    paid = sum(usage.input * 3 + usage.output * 15 for _, usage in store.read_spending()) / 1e6
    assert read_bill(*PRICED)["billed"] + read_bill(*PRICED)["abandoned_billed"] == pytest.approx(paid)
    assert paid > 0.16
    assert rsso(*ONE, *PRICED, "--max-cost", "0.16", "--out", "run")[0] == 1, "what was spent before counts"
    code, out, err = rsso(*ONE, *PRICED, "--max-cost", "9", "--out", "run")
    assert (code, "The tables leave out " in out) == (0, False)
    assert units("run") == units("whole")
    assert count_tokens("run") == count_tokens("whole"), "nothing is paid for twice"
    assert read_bill()["billed"] == pytest.approx(read_bill(*PRICED)["billed"]), "the prices that it was played with"
    assert (read_bill()["billed"] > 0, read_bill()["abandoned"]) == (True, [])
    assert read_bill(*price(0, 0))["billed"] == 0.0


def test_a_disk_that_is_full_in_the_middle_of_a_run_is_named_with_what_is_kept(rsso, monkeypatch):
    def full(_store: Store, path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", f"run/{path.name}")

    monkeypatch.setattr(Store, "append_text", full)
    code, _, err = rsso(*ONE, "--out", "run")
    kept = "finished work is kept: free disk space, then repeat the command"
    assert (code, err.endswith(f"error: run/98-s0.jsonl: No space left on device; {kept}\n")) == (1, True)


def test_a_model_without_a_price_can_not_be_limited_in_dollars_and_nothing_is_played(rsso):
    mine = ("--set", "backend=mine", "--set", "backends.mine.model=hosted_vllm/x")
    code, _, err = rsso(*ONE, *mine, "--max-cost", "1", "--out", "none", "--dry-run")
    assert (code, 'set [prices."hosted_vllm/x"]' in err, Path("none").exists()) == (2, True, False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "words", "code", "said"),
    [
        (None, (), 2, "error: this may cost $103.46 and 34.49M tokens: add --yes to start it"),
        ("n\n", (), 1, "This may cost $103.46 and 34.49M tokens. Start it? [y/N]"),
        (None, ("--dry-run", "--max-cost", "2"), 0, "; --max-cost $2.00 is less, and stops it there"),
        (None, ("--dry-run", "--max-cost", "110"), 0, "$103.46 uncached"),
    ],
)
def test_a_run_that_may_cost_much_is_asked_for_before_anything_is_sent(rsso, monkeypatch, typed, words, code, said):
    priced = ("--set", 'prices."hosted_vllm/x"={input = 3.0, output = 3.0}')
    if typed:
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
    with provider(lambda _: Said("look around")) as served:
        mine = ("--model", "hosted_vllm/x", "--base-url", served.url, *priced)
        ended, out, err = rsso("run", "--methods", "react", "--per-task", "2", *FAST, *mine, *words, "--out", "out")
    assert (ended, out.strip(), said in " ".join(err.split()), served.requests) == (code, "", True, []), err
    assert ("is less" in err) == ("2" in words)
    assert not Path("out").exists()


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


def test_the_plan_says_the_hours_of_a_language_model_and_none_of_the_embedded_player(rsso):
    small = ("run", "--benchmark", "pddl", "--methods", "react", "--per-task", "1", "--trials", "2", "--dry-run")
    _, _, err = rsso(*small, "--model", "hosted_vllm/x", "--base-url", "http://127.0.0.1:9/v1")
    calls = int(re.search(r"at most ([\d,]+) model calls", err)[1].replace(",", ""))
    assert f"{calls * 3 / 60:.0f} minutes at 3 s an answer" in err or f"{calls * 3 / 3600:.1f} hours at 3 s" in err
    assert "an answer" not in rsso(*small)[2].replace("no answer", "")


def test_a_quick_run_asks_one_question_of_fourteen_task_types(rsso):
    code, _, err = rsso("run", "--quick", "--dry-run")
    assert (code, "2 arms x 56 variants = 112 units, 3 trials each" in err, "into runs/quick" in err) == (0, True, True)
    assert "finds a difference of 20 points or more" in " ".join(err.split())
    for words in (("--methods", "sso"), ("--per-task", "2"), ("--benchmark", "pddl")):
        code, _, err = rsso("run", "--quick", *words, "--dry-run")
        assert (code, "leave out --quick" in err) == (2, True)
