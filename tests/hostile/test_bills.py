"""What a kill cut short is on every bill, once: that of the next start's limits, of `report`, of merged parts."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Place
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import Variant
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.cost import describe_unreported_costs, serialize_cost_report
from rsso_dspy.store.pooled_runs import PooledRuns, merge_shards
from rsso_dspy.store.run_folder import Arm, Store, Unit
from tests.cli.conftest import rsso
from tests.hostile.played import INPUT, PATIENCE, TASK, VARIANT, Model, counting
from tests.records import record
from tests.store.test_store import IDENTITY

__all__ = ["rsso"]

RUN = ("run", "--methods", "reflexion", "--variants", VARIANT, "--trials", "2")
LATER = 3
"""Requests of its second trial, at the last of which the run is killed; the trial has six."""


@dataclass
class Killed:
    """A run that was killed in its second trial, and what was said of it the moment before."""

    folder: Path
    model: Model
    paid: int = 0
    seen: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Iterator[Killed]:
    folder = tmp_path_factory.mktemp("killed") / "run"
    with counting() as model:
        run, after = Killed(folder, model), []

        def before() -> None:
            if Store(folder).load_begun():
                after.append(model.given)
            if len(after) == LATER:
                bill = analyze(collect_played(PooledRuns([Store(folder)]))).bill
                run.seen, run.words = serialize_cost_report(bill), describe_unreported_costs(bill)
                model.kill()

        model.before = before
        assert model.start(*RUN, "--out", folder).wait(PATIENCE) == -9
        model.before, run.paid = lambda: None, model.given
        yield run


def copy_of(killed: Killed, folder: Path) -> Path:
    return shutil.copytree(killed.folder, folder)


def answers_on(bill: dict[str, Any]) -> int:
    """Answers that a report's bill tells of."""
    usage = [entry["usage"] for name in ("entries", "abandoned") for entry in bill[name]]
    assert sum(each["input"] for each in usage) == INPUT * sum(each["calls"] for each in usage)
    return sum(each["calls"] for each in usage)


def test_a_report_while_it_plays_tells_apart_what_is_under_way(killed):
    (under_way,) = killed.seen["under_way"]
    assert under_way["usage"]["calls"] == LATER - 1
    assert answers_on(killed.seen) + LATER - 1 == killed.paid
    assert not killed.seen["abandoned"]
    assert any("of trials being played now" in line for line in killed.words)


def test_a_report_has_what_the_kill_cut_short_on_its_bill(killed, rsso):
    said = json.loads(rsso("report", killed.folder, "--json", *killed.model.settings[2:])[1])["bill"]
    assert answers_on(said) == killed.paid == killed.model.given
    assert said["billed"] + said["abandoned_billed"] == pytest.approx(killed.paid)
    assert said["under_way"] == []
    assert "trials that were interrupted" in " ".join(rsso("report", killed.folder)[1].split())


def test_the_next_start_counts_it_against_the_limit_and_asks_nothing(killed, tmp_path, rsso):
    folder, asked = copy_of(killed, tmp_path / "run"), len(killed.model.served.requests)
    code, _, err = rsso(*RUN, *killed.model.settings, "--out", folder, "--max-cost", str(killed.paid - 0.5))
    assert code == 1
    assert "are spent (--max-cost)" in err
    assert len(killed.model.served.requests) == asked


def test_merging_carries_it_once_however_often(killed, tmp_path):
    whole = Store(tmp_path / "whole")
    source = copy_of(killed, tmp_path / "run")
    for _ in range(2):
        merge_shards([source], whole)
        assert answers_on(serialize_cost_report(analyze(collect_played(PooledRuns([whole]))).bill)) == killed.paid
    Store(source).open_log(Unit(Arm(METHODS["reflexion"]), variant(VARIANT), 0, 60)).void(2, "it stalled")
    merge_shards([source], whole)
    assert answers_on(serialize_cost_report(analyze(collect_played(PooledRuns([whole]))).bill)) == killed.paid, (
        "the part has given it up itself meanwhile"
    )


def test_played_to_its_end_every_answer_is_on_the_bill(killed, tmp_path):
    folder, before = copy_of(killed, tmp_path / "run"), killed.model.given
    assert killed.model.start(*RUN, "--out", folder).wait(PATIENCE) == 0
    played, store = killed.model.given - before, Store(folder)
    assert answers_on(serialize_cost_report(analyze(collect_played(PooledRuns([store]))).bill)) == killed.paid + played
    assert not [*store.read_abandoned(), *store.read_under_way()], "what the kill cut short was not asked again"


def variant(key: str) -> Variant:
    task, _, index = key.partition("::")
    return Variant(task, int(index))


# What shards spent


UNIT = Unit(Arm(METHODS["rsso"]), Variant("boil", 22), 0, 60)


def write(store: Store, trials: list[list[int] | None], under_way: int = 0) -> None:
    """The log of a unit of two trials, each of two calls; equal trials have equal lines, as in a copy."""
    store.open(IDENTITY, {"rsso": "1"})
    unit = record("rsso", "boil", 22, trials, allowed=2)
    log = store.open_log(unit)
    log.add_head(unit, stops=False)
    for number in range(1, len(trials) + bool(under_way) + 1):
        scores = trials[number - 1] if number <= len(trials) else "under way"
        for call in range(2 if number <= len(trials) else under_way):
            request = {"model": "m", "parameters": {}, "messages": [{"role": "user", "content": f"{scores} {call}"}]}
            asked = log.begin(Place(number, 0, 1, "actor"), request)
            log.end(asked, answer=[f"{scores} {call}"], usage=[{"prompt_tokens": 5, "completion_tokens": 1}])
        if number <= len(trials):
            log.add_trial(unit.trials[number - 1], {}, 1.0)


def spent(store: Store) -> int:
    return sum(usage.calls for _, usage in store.read_spending())


CASES = {
    "errored here, finished there": ([[10], None], [[10], [30]], 6),
    "errored in the first of them": ([None], [[10], [30]], 6),
    "errored with a trial before": ([[10], None], None, 4),
    "begun in both, differently": ([[10]], [[20]], 4),
    "begun, then finished from there": ([[10]], [[10], [30]], 4),
    "finished in both, the same": ([[10], [30]], [[10], [30]], 4),
    "begun in both, and under way in one": ([[10]], [[20]], 7),
}


@pytest.mark.parametrize("case", CASES)
def test_a_merged_run_has_all_on_its_bill_that_its_parts_paid(tmp_path, case):
    *given, expected = CASES[case]
    parts = []
    for name, trials in zip("ab", given, strict=True):
        store = Store(tmp_path / name)
        store.open(IDENTITY, {"rsso": "1"})
        parts.append(store.folder)
        if trials:
            write(store, trials, under_way=3 * ("under way" in case and name == "b"))
    whole = Store(tmp_path / "whole")
    for _ in range(3):
        merge_shards(parts, whole)
        assert spent(whole) == expected
    merge_shards(parts[::-1], whole)
    assert spent(whole) == expected
    log = whole.open_log(UNIT)
    if log.has_error:
        log.void(len(log.results), "it is played again")
        assert spent(whole) == expected
        merge_shards(parts, whole)
        assert spent(whole) == expected


def test_a_part_that_plays_is_merged_with_its_trial_under_way_and_it_is_said(tmp_path):
    store, whole, said = Store(tmp_path / "a"), Store(tmp_path / "whole"), []
    with store.lock():
        write(store, [[10]], under_way=2)
        merge_shards([store.folder], whole, said.append)
    assert spent(whole) == 4
    assert "is being played" in said[0]
    merge_shards([store.folder], whole, said.append)
    assert spent(whole) == 4


# What is built before a run


BUILDS = {
    "constitution": (("constitution", "build", "--explore", "1"), 12),
    "program": (("compile", "--method", "react", "--optimizer", "none", "--max-cost", "35"), 20),
}
"""The command, and after how many answers it is killed. The build takes 23, the compile 44."""


@pytest.mark.parametrize("what", BUILDS)
def test_what_is_built_and_was_killed_costs_what_both_attempts_cost(what, tmp_path):
    words, answers = BUILDS[what]
    out = tmp_path / "file.json"
    with counting() as model:
        model.before = lambda: model.kill() if model.given == answers else None
        assert model.start(*words, "--tasks", TASK, "-o", out).wait(PATIENCE) == -9
        model.before = lambda: None
        process = model.start(*words, "--tasks", TASK, "-o", out)
        assert process.wait(PATIENCE) == 0, process.said
    told = json.loads(out.read_text())
    usage = [told["usage"], told["abandoned"]] if what == "program" else [told["provenance"]["usage"]]
    assert sum(spent["calls"] for each in usage for spent in each.values()) == model.given > answers
    if what == "program":
        assert told["ended_by"] == "cost"
        assert model.given <= 35 + 1, "what the first attempt cost counts against --max-cost"
