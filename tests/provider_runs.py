"""Runs against a local provider, on a benchmark that starts no simulator.

    with run_against("anthropic", tmp_path, faults={2: "overloaded"}) as run:
        run.play()
    run.records, run.served.requests

The environment must hold the planted key, as `VARIABLE`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rsso_dspy.config import BackendConfig, load_config
from rsso_dspy.executor import Executor, RunOutcome, UnitRunner, make_zero_shot_programs
from rsso_dspy.lm import Backend
from rsso_dspy.plan import Plan, plan_held_out
from rsso_dspy.protocol import make_provenance, make_run_identity
from rsso_dspy.records import UnitRecord
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store
from tests.live import FAST, says
from tests.provider_formats import WIRES, Said
from tests.provider_server import Answer, Provider, provider

KEY = "sk-planted-secret"
VARIABLE = "TEST_PROVIDER_KEY"

SHORT = "inclined-plane-determine-angle::163"
"""A variant of ScienceWorld that is quick to load, for commands."""
PLAYED = "gripper::50"
OFFLINE = (*FAST, "benchmark=pddl")
STEPS = 2
"""Of each unit; nothing in it is rewarded."""
UNITS = 4


def look(_: dict[str, Any]) -> Said:
    """An actor that looks around."""
    return Said(says(thought="hm", action="look around"))


def table(wire: str, served: Provider, base: str | None = None, **more: Any) -> dict[str, Any]:
    """The backend table of a wire that points at a server; `base` is the path there, the usual one when absent."""
    about = WIRES[wire]
    plain = {"retries": 0, "longest_wait": 0.01, "timeout": 20.0, "max_tokens": 77, "temperature": 0.25}
    return {
        "model": about.model,
        "base_url": served.root + (about.base if base is None else base),
        "key_variable": VARIABLE,
        **plain,
        **more,
    }


def backend(wire: str, served: Provider, base: str | None = None, **more: Any) -> Backend:
    """The backend of that table."""
    return Backend(BackendConfig(**table(wire, served, base, **more)))


@dataclass
class Run:
    """A run of UNITS units that differ in their seed alone, with react, whose only role is the actor."""

    plan: Plan
    store: Store
    executor: Executor
    served: Provider

    def play(self, units: int = UNITS) -> RunOutcome:
        return self.executor.run(self.plan, self.plan.units[:units], jobs=1)

    @property
    def records(self) -> list[UnitRecord]:
        """In the order of their seeds, which is that of playing."""
        return sorted(self.store.units(), key=lambda record: record.seed)


@contextmanager
def run_against(
    wire: str,
    out: Path,
    faults: Mapping[int, str] | None = None,
    answer: Answer = look,
    settings: Sequence[str] = (),
    **more: Any,
) -> Iterator[Run]:
    """A run in `out` whose model is a local server that speaks as the provider does. `more` goes to the backend."""
    with provider(answer, faults, wire) as served:
        config = load_config(
            overrides=[*OFFLINE, "protocol.trials=1", "backend=mine", 'backends.mine.model="openai/m"', *settings]
        )
        mine = BackendConfig(**table(wire, served, **more))
        config = config.model_copy(update={"backends": {"mine": mine}})
        plan = plan_held_out(config, ["react"], variants=[PLAYED])
        units = tuple(replace(plan.units[0], seed=seed, budget=STEPS) for seed in range(UNITS))
        plan, store = replace(plan, units=units), Store(out)
        with session(config) as live:
            store.open(make_run_identity(config, live.protocol))
            player = UnitRunner(live, store, make_zero_shot_programs(plan), make_provenance(config))
            yield Run(plan, store, Executor(player), served)


def files_with(text: str, folder: Path) -> list[Path]:
    """The files that hold a text."""
    return [file for file in folder.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]
