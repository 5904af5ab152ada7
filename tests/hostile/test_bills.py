"""What a kill cut short is on every bill, once: that of the next start's limits, of `report`, of merged parts. A usage
that no bill can be made of is on none as if it were free."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.calls import read_cost
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.records import Usage, read_usage
from rsso_dspy.report.analysis import analyze, serialize_cost_report
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from tests.chaos.process import Process, python
from tests.chaos.setup import scripted
from tests.live import says
from tests.provider_formats import Said
from tests.provider_runs import backend
from tests.provider_server import Provider, completion, provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

VARIABLE = "HOSTILE_KEY"
INPUT, OUTPUT = 100, 10
"""Tokens of every request and answer, so that a bill is a number of answers."""
TASK = "gripper"
VARIANT = f"{TASK}::50"
"""Of a benchmark that starts no simulator."""
PATIENCE = 120.0


@dataclass
class Model:
    """The embedded model behind HTTP. It counts what a command in a process of its own pays for, and kills that."""

    served: Provider = field(init=False)
    given: int = 0
    """Answers given to a process that was alive."""
    before: Callable[[], object] = lambda: None
    """Called when a request has come and is not answered yet."""
    process: Process | None = None

    def answer(self, body: dict[str, Any]) -> Said:
        process = self.process
        self.before()
        if process is not None and process.alive:
            self.given += 1
        return Said(scripted(body).text, INPUT, OUTPUT)

    @property
    def settings(self) -> list[str]:
        """Options that have a command ask it."""
        about = {"model": "openai/m", "base_url": self.served.url, "key_variable": VARIABLE, "temperature": 0.5}
        settings = [f"backends.scripted.{name}={value}" for name, value in about.items()]
        settings += ["embedder.model=hash", "protocol.preset=sso-adapt/3-cap60", "protocol.stop_on_success=false"]
        settings += ["memory.constitution.r_freq=5", "benchmark=pddl"]
        settings += ['prices."openai/m".input=10000', 'prices."openai/m".output=0']  # a dollar an answer
        return ["--yes", "--backend", "scripted", *(word for setting in settings for word in ("--set", setting))]

    def start(self, *words: str | Path) -> Process:
        """Start a command."""
        code = "from rsso_dspy.cli import main; main()"
        self.process = Process(python(code, *map(str, words), *self.settings), {VARIABLE: "k", "COLUMNS": "400"})
        return self.process

    def kill(self) -> None:
        """Kill what plays, at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def counting() -> Iterator[Model]:
    """Serve the model for the time of the block; no process outlives it."""
    model = Model()
    os.environ.setdefault(VARIABLE, "k")
    with provider(model.answer) as model.served:
        try:
            yield model
        finally:
            if model.process is not None:
                model.kill()


RUN = ("run", "--methods", "reflexion", "--variants", VARIANT, "--trials", "2")
LATER = 3
"""Requests of its second trial, at the last of which the run is killed; the trial has six."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> Iterator[tuple[Path, Model, int]]:
    """A run that was killed in its second trial, its model, and how many answers it had by then."""
    folder, after = tmp_path_factory.mktemp("killed") / "run", []
    with counting() as model:

        def before() -> None:
            if Store(folder).load_begun():
                after.append(model.given)
            if len(after) == LATER:
                model.kill()

        model.before = before
        assert model.start(*RUN, "--out", folder).wait(PATIENCE) == -9
        model.before = lambda: None
        yield folder, model, model.given


def answers_on(bill: dict[str, Any]) -> int:
    """Answers that a report's bill tells of."""
    usage = [entry["usage"] for name in ("entries", "abandoned") for entry in bill[name]]
    assert sum(each["input"] for each in usage) == INPUT * sum(each["calls"] for each in usage)
    return sum(each["calls"] for each in usage)


def test_a_report_has_what_the_kill_cut_short_on_its_bill(killed, rsso):
    folder, model, paid = killed
    said = json.loads(rsso("report", folder, "--json", *model.settings[3:])[1])["bill"]
    assert answers_on(said) == paid
    assert said["billed"] + said["abandoned_billed"] == pytest.approx(paid)
    assert said["under_way"] == []
    assert "trials that were interrupted" in " ".join(rsso("report", folder)[1].split())


def test_the_next_start_counts_it_against_the_limit_and_asks_nothing(killed, tmp_path, rsso):
    folder, model, paid = killed
    asked = len(model.served.requests)
    words = (*RUN, *model.settings, "--out", shutil.copytree(folder, tmp_path / "run"))
    code, _, err = rsso(*words, "--max-cost", str(paid - 0.5))
    assert (code, "are spent (--max-cost)" in err) == (1, True), err
    assert len(model.served.requests) == asked


def test_played_to_its_end_every_answer_is_on_the_bill(killed, tmp_path):
    (folder, model, paid), before = killed, killed[1].given
    again = shutil.copytree(folder, tmp_path / "run")
    assert model.start(*RUN, "--out", again).wait(PATIENCE) == 0
    store = Store(again)
    bill = serialize_cost_report(analyze(collect_played(PooledRuns([store]))).bill)
    assert answers_on(bill) == paid + model.given - before
    assert not [*store.read_abandoned(), *store.read_under_way()], "what the kill cut short was not asked again"


CUT, MOST = 20, 35
"""Answers after which a compile that would take 44 is killed, and what it may cost in dollars."""


def test_a_compile_that_was_killed_costs_what_both_attempts_cost(tmp_path):
    words = ("compile", "--method", "react", "--optimizer", "none", "--max-cost", str(MOST), "--tasks", TASK)
    out = tmp_path / "file.json"
    with counting() as model:
        model.before = lambda: model.kill() if model.given == CUT else None
        assert model.start(*words, "-o", out).wait(PATIENCE) == -9
        model.before = lambda: None
        process = model.start(*words, "-o", out)
        assert process.wait(PATIENCE) == 0, process.said
    told = json.loads(out.read_text())
    usage = [*told["usage"].values(), *told["abandoned"].values()]
    assert sum(spent["calls"] for spent in usage) == model.given > CUT
    assert told["ended_by"] == "cost"
    assert model.given <= MOST + 1, "what the first attempt cost counts against --max-cost"


UNKNOWN = "the server does not report token counts, so no limit can be kept"
NO_COUNTS = [None, 0, -1000, "1000", "many", True, 9.5, 1e300, float("nan"), float("inf"), [1], {"n": 1}]
"""What stands where the number of a request's tokens should, and is none."""


@pytest.mark.parametrize("count", NO_COUNTS)
def test_an_input_that_is_no_count_is_what_the_total_leaves_or_unknown(count):
    total = {"prompt_tokens": count, "completion_tokens": 10, "total_tokens": 1010}
    assert read_usage(total) == Usage(calls=1, input=1000, output=10)
    assert read_usage({**total, "total_tokens": 10}) == Usage(calls=1, output=10, unmetered=1)
    assert read_usage({**total, "total_tokens": count}) == Usage(calls=1, output=10, unmetered=1)


@pytest.mark.parametrize("count", [count for count in NO_COUNTS if count])
def test_an_output_that_is_no_count_is_unknown_and_lowers_no_bill(count):
    usage = {"prompt_tokens": 1000, "completion_tokens": count, "total_tokens": 1010}
    assert read_usage(usage) == Usage(calls=1, input=1000, unmetered=1)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 1000, "completion_tokens": 10}, Usage(calls=1, input=1000, output=10)),
        ({"prompt_tokens": 1000.0, "completion_tokens": 10.0}, Usage(calls=1, input=1000, output=10)),
        ({"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}, Usage(calls=1, input=1000)),
        ({"prompt_tokens": 1000, "total_tokens": 1010}, Usage(calls=1, input=1000, output=10)),
        ({"completion_tokens": 10, "total_tokens": 1010}, Usage(calls=1, input=1000, output=10)),
        ({"prompt_tokens": 1000}, Usage(calls=1, input=1000, unmetered=1)),
        ({"total_tokens": 1010}, Usage(calls=1, input=1010, unmetered=1)),
        ({}, Usage(calls=1, unmetered=1)),
        (None, Usage(calls=1, unmetered=1)),
        ("1010 tokens", Usage(calls=1, unmetered=1)),
        ([1000, 10], Usage(calls=1, unmetered=1)),
    ],
)
def test_a_usage_is_read_whatever_its_form(usage, expected):
    assert read_usage(usage) == expected


@pytest.mark.parametrize(
    "details", [None, "x", [5], {"cached_tokens": -500}, {"cached_tokens": "x"}, {"cached_tokens": True}]
)
def test_details_that_are_no_counts_make_nothing_cheaper(details):
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": details}
    usage["completion_tokens_details"] = {"reasoning_tokens": -7}
    assert read_usage(usage) == Usage(calls=1, input=1000, output=10)


@pytest.mark.parametrize("usage", [None, "x", 5, {"prompt_tokens": -5}, [None], ["x"], [{"prompt_tokens": -5}]])
def test_a_logged_usage_of_a_wrong_type_is_unknown(usage):
    assert read_cost([{"call": 1, "answer": ["hi"], "usage": usage}]) == Usage(calls=1, unmetered=1)


LIVE = [
    ({"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}, (1000, 10, 0)),
    ({"completion_tokens": 10, "total_tokens": 1010}, (1000, 10, 0)),
    ({"prompt_tokens": 0, "completion_tokens": 10, "total_tokens": 1010}, (1000, 10, 0)),
    ({"prompt_tokens": -7, "completion_tokens": 10, "total_tokens": 1010}, (1000, 10, 0)),
    *(({"prompt_tokens": count, "completion_tokens": 10}, None) for count in NO_COUNTS),
    *(({"prompt_tokens": 1000, "completion_tokens": count}, None) for count in NO_COUNTS if count),
    (None, None),
    ([], None),
    ("x", None),
]


@pytest.mark.parametrize("more", [{}, {"top_k": 5}], ids=["own client", "LiteLLM"])
@pytest.mark.parametrize(("usage", "expected"), LIVE)
def test_what_a_server_reports_is_booked_alike_on_both_ways_to_it(usage, expected, more, provider_key):  # noqa: ARG001
    reply = {**completion("yes")[1], "usage": usage}
    spent = []
    ledger = TrialLedger(lambda _role, usage: spent.append(usage))
    with provider(lambda _: (200, reply)) as served, ledger.book_under_role("actor"):
        assert backend("vllm", served, **more).lm("actor", 0)("Is water wet?") == ["yes"]
    (booked,) = spent
    if expected is None:
        assert booked.unmetered == 1
    else:
        assert (booked.input, booked.output, booked.unmetered) == expected


@pytest.mark.parametrize(
    ("usage", "most", "asked"),
    [
        ({"completion_tokens": 10, "total_tokens": 110}, 3, 4),
        ({"prompt_tokens": -100, "completion_tokens": 10}, 3, 1),
        ({"prompt_tokens": 100, "completion_tokens": -10}, 3, 1),
    ],
)
def test_a_limit_is_kept_where_counts_are_missing(usage, most, asked, rsso, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "k")
    reply = {**completion(says(thought="hm", action="look around"))[1], "usage": usage}
    model = Model()
    with provider(lambda _: (200, reply)) as model.served:
        words = ("run", "--methods", "react", "--variants", VARIANT, "--trials", "2", *model.settings)
        code, _, err = rsso(*words, "--out", tmp_path / "run", "--max-cost", str(most))
        assert code == 1
        assert len(model.served.requests) == asked
    assert ("are spent (--max-cost)" if asked > 1 else UNKNOWN) in " ".join(err.split())


GEMINI = {"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 412}
DEEPSEEK = {
    "prompt_tokens": 1000,
    "completion_tokens": 10,
    "total_tokens": 1010,
    "prompt_cache_hit_tokens": 900,
    "prompt_cache_miss_tokens": 100,
}
PRICES = {"input": 10, "output": 30, "cached": 1}
"""Dollars for a million tokens."""


@pytest.mark.parametrize(
    ("usage", "counts", "dollars"),
    [
        (GEMINI, (100, 0, 312, 300), 0.01036),  # 100 at 10, 312 at 30
        (DEEPSEEK, (1000, 900, 10, 0), 0.0022),  # 100 at 10, 900 at 1, 10 at 30
    ],
    ids=["thoughts in the total alone", "cached tokens at the top"],
)
def test_the_bill_of_a_run_has_every_token_at_its_price(usage, counts, dollars, rsso, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "k")
    reply = {**completion(says(thought="hm", action="look around"))[1], "usage": usage}
    prices = [word for name, price in PRICES.items() for word in ("--set", f'prices."openai/m".{name}={price}')]
    model = Model()
    with provider(lambda _: (200, reply)) as model.served:
        words = ("run", "--methods", "react", "--variants", VARIANT, "--trials", "1", *model.settings, *prices)
        words += ("--set", "protocol.steps=3", "--set", "backends.scripted.max_tokens=77")
        code, _, err = rsso(*words, "--out", tmp_path / "run")
        assert code == 0, err

    bill = json.loads(rsso("report", tmp_path / "run", "--json", *prices)[1])["bill"]
    (entry,) = bill["entries"]
    calls = entry["usage"]["calls"]
    assert calls == len(model.served.requests) == 3
    names = ("input", "cached", "output", "reasoning")
    assert [entry["usage"][name] for name in names] == [calls * count for count in counts]
    assert entry["billed"] == pytest.approx(calls * dollars)
    assert entry["usage"]["truncated"] == 0, "thoughts beyond max_tokens cut nothing off"
