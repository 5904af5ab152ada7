"""Rows of memories played: what a stream hands on, that an interruption changes nothing, and a memory from outside."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.executor import Executor, list_pending_jobs
from rsso_dspy.memory import Memory, Recall
from rsso_dspy.memory_files import get_stream_position
from rsso_dspy.plan import arrange_streams, forecast_calls, plan_held_out
from rsso_dspy.programs.methods import MEMORIES, METHODS, Method, add_method
from rsso_dspy.report.page import trace_learnt_items
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso  # noqa: F401 - a fixture
from tests.live import Engine, is_asked, model, says
from tests.records import describe_logs
from tests.runs.test_transfer import play_in_two, run_of
from tests.toy_package import installed

TOY = ["benchmark=toy", "embedder.model=hash", "protocol.preset=sso-adapt/3-cap60", "protocol.trials=2"]
SETTINGS = [*TOY, "protocol.stream_trials=2"]
ROWS = tuple(name for name in MEMORIES if name not in ("reflections", "skills", "constitution"))
WRITTEN = {
    "insight_edits": '[{"operation": "ADD", "number": 0, "text": "Count by ones."}]',
    "workflows": '[{"description": "Arrive", "steps": ["add 1"]}]',
    "strategies": '[{"title": "Count", "description": "How", "content": "Add what is left."}]',
    "bullet_tags": '[{"id": "B1", "tag": "helpful"}]',
    "new_cheatsheet": "Add until you are there.",
}


class OutsideMemory(Memory):
    """Counts trials."""

    region, about = "counted", "trials so far"

    def __init__(self, services):  # noqa: ARG002
        self.trials = 0

    def preamble(self):
        return Recall(f"- {self.trials} trials so far" if self.trials else "")

    def learn(self, trajectory):  # noqa: ARG002
        self.trials += 1
        return {"trials": self.trials}

    def snapshot(self):
        return {"trials": self.trials}

    def restore(self, data):
        self.trials = data["trials"]


def answer(prompt: str) -> str:
    """Goes wrong first where it counts to 3, and is right elsewhere; any writer writes what it always does."""
    for field, value in WRITTEN.items():
        if is_asked(prompt, field):
            more = {"new_bullets": '["Numbers add up."]'} if field == "bullet_tags" else {}
            return says(**{field: value}, **more)
    wrong = "Count from 0 to 3." in prompt and "That is no action" not in prompt
    action = "fly 1" if wrong else "add 1"
    return says(thought="One.", action=action)


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """The toy benchmark is installed, and a script has added a memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(installed(tmp_path / "site"))
    get_benchmark.cache_clear()
    before = dict(METHODS), dict(MEMORIES)
    add_method(Method("outside", "flat", ("counter",), "a script"), counter=OutsideMemory)
    yield tmp_path
    get_benchmark.cache_clear()
    for table, kept in zip((METHODS, MEMORIES), before, strict=True):
        table.clear()
        table.update(kept)


def play(live, out, row, cut=0):
    engine = Engine(answer)
    with run_of(live, out, SETTINGS, [row], ["up"], lm=lambda *_: model(engine)) as (plan, store, player):
        variants = [replace(plan.units[0].variant, index=index) for index in (9, 10, 12)]
        units = tuple(replace(plan.units[0], variant=variant, budget=3, place="") for variant in variants)
        plan = replace(arrange_streams(replace(plan, units=units)), stream_trials=2)

        def run() -> None:
            Executor(player).run(plan, list_pending_jobs(plan, store), jobs=1)

        play_in_two(player, run, after=cut) if cut else run()
        assert not list_pending_jobs(plan, store)
    return engine.prompts


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_played_handed_on_and_resumed_byte_for_byte(toy, row):
    with session(load_config(overrides=SETTINGS)) as live:
        prompts = play(live, toy / "whole", row)
        again = play(live, toy / "cut", row, cut=2)
    assert describe_logs(toy / "whole") == describe_logs(toy / "cut")
    assert prompts == again
    units = sorted(Store(toy / "whole").units(), key=lambda unit: (get_stream_position(unit), unit.variant.index))
    assert [bool(unit.stream) for unit in units] == [bool(METHODS[row].streamed)] * 3
    for before, after in pairwise(units if METHODS[row].streamed else ()):
        assert after.learnt_on == (*before.learnt_on, before.key)
        shown = {entry for step in after.trials[0].trajectory.steps for entry in step.recalled}
        entries = [entry for snapshot in before.memories.values() for entry in snapshot.get("entries", ())]
        learned = {entry["id"]: {key for key, _ in entry["learned"]} for entry in entries}
        assert shown <= learned.keys()
        assert not any(after.key in learned[name] for name in shown)
        assert shown or not learned or row == "awm"
    kept = [item for unit in units for item in trace_learnt_items(unit) if item.kind == "entry"]
    assert kept
    assert any(entry.reads for entry in kept) or row == "awm"


def test_rows_with_empty_memories_send_the_same_bytes(toy):
    with session(load_config(overrides=SETTINGS)) as live:
        first = {row: play(live, toy / row, row) for row in ("react", "react-sso", *ROWS)}
    for row in ROWS:
        control = "react" if METHODS[row].scaffold == "flat" else "react-sso"
        assert first[row][0] in first[control]


@pytest.mark.usefixtures("toy")
def test_a_plan_counts_the_calls_of_writers_and_puts_lasting_memories_into_streams():
    config = load_config(overrides=SETTINGS)
    plan = plan_held_out(config, ["react", "cheatsheet", "long-context"], ["up"], per_task=2)
    assert {unit.arm.name for unit in plan.units if unit.place} == {"cheatsheet"}
    assert forecast_calls(plan).calls["advisor"] == 2 * 2


@pytest.mark.usefixtures("toy")
def test_a_memory_that_a_script_added_is_run_and_shown(rsso):  # noqa: F811
    run = ("run", "--methods", "react,outside,exprag", "--tasks", "up", "--per-task", "2", "--out", "run")
    code, out, err = rsso(*run, *(word for setting in TOY for word in ("--set", setting)))
    assert (code, "outside" in out) == (0, True), err
    units = sorted(unit.key for unit in Store(Path("run"), read_only=True).units() if unit.arm == "exprag")
    texts = [rsso("show", "run", unit, "--arm", "exprag")[1] for unit in units]
    assert any("learned, entry X2 (X2; read at " in text for text in texts)
    assert any("held from the start, entry X1, from up::" in text for text in texts)
