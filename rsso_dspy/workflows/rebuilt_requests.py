"""The actor's requests of a run that was not recorded, made again by the code that made them.

    rebuilder = RequestRebuilder.of(store, load_program)          # says why it cannot, where it cannot
    rebuilder.rebuild(record)[2][4].request["messages"]           # trial 2, step 5

A record holds every text that memories put into prompts, and every state. Prompts and program must be those of the run,
which fingerprints tell. Only the first request of each step is rebuilt, and no answer: a record holds what was read of
it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import dspy

from rsso_dspy.config import Config, load_config
from rsso_dspy.environments import Environment, choose_interface
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import RssoError, UsageError
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.provenance import hash_prompts
from rsso_dspy.lm import make_adapter
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.transcript import render_history
from rsso_dspy.recordings import Exchange
from rsso_dspy.records import ZERO_SHOT, State, TrainingRecord, TrialResult, UnitRecord
from rsso_dspy.regions import TEMPLATES
from rsso_dspy.store.manifest import CONFIG
from rsso_dspy.store.unit_store import Store

Rebuilt = dict[int, list[Exchange]]
"""Trial to the actor's requests in order, without answers."""

ProgramLoader = Callable[[str], Sequence[Agent]]
"""The name of a compiled program to what its file holds: the program, and a candidate beside it."""


@dataclass(frozen=True)
class RequestRebuilder:
    """Rebuilds the requests of one run's records."""

    why_not: str = ""
    """Why this run's requests cannot be rebuilt; empty if they can."""
    rules: TrialRules | None = None
    adapter: dspy.Adapter | None = None
    environment: Environment | None = None
    """Never started: it only renders states."""
    load_program: ProgramLoader = lambda _: ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Arm to the fingerprint of its program."""
    agents: dict[str, Agent | None] = field(default_factory=dict)
    """Arm to its program, once it was needed."""

    @classmethod
    def of(cls, store: Store, load_program: ProgramLoader) -> "RequestRebuilder":
        """Prepare the rebuilding of a run's requests. Never raises for a run that can be read."""
        try:
            known, arms = store.read_identity()
            config = load_config(store.folder / "given" / CONFIG)
            return cls._prepare(config, known, arms, load_program)
        except (RssoError, OSError) as error:
            return cls(f"what this run was played with cannot be read here ({error})")

    @classmethod
    def _prepare(
        cls, config: Config, known: Mapping[str, Any], arms: Mapping[str, str], load_program: ProgramLoader
    ) -> "RequestRebuilder":
        rules = resolve_protocol(config).rules
        if known.get("prompts") != hash_prompts(config.active_benchmark, rules.interface):
            return cls("the prompts of this version of rsso-dspy are not those of the run")
        if rules.action_choice == "listed":
            return cls("its prompts listed the actions that could be taken, which records do not hold")
        environment = config.active_benchmark.environment(config.environment, lambda: False)
        choose_interface(environment, rules.interface)
        return cls("", rules, make_adapter(config.active_backend.adapter), environment, load_program, arms)

    def rebuild(self, record: UnitRecord | TrainingRecord) -> Rebuilt:
        """Return the actor's requests of every trial with a trajectory; empty where they cannot be rebuilt."""
        if self.why_not:
            return {}
        if record.arm not in self.agents:
            self.agents[record.arm] = self._find_agent(record)
        agent = self.agents[record.arm]
        if agent is None or not isinstance(agent.actor, dspy.Predict):
            return {}
        return {
            result.trial: list(self._rebuild_trial(agent, agent.actor, result, record.model))
            for result in record.trials
            if result.trajectory
        }

    def _find_agent(self, record: UnitRecord | TrainingRecord) -> Agent | None:
        """Return the program that played a record; None if no file of the run holds it."""
        try:
            found = [Agent(record.method)] if record.program == ZERO_SHOT else self.load_program(record.program)
            wanted = self.fingerprints.get(record.arm)
            return next((agent for agent in found if fingerprint_program(agent) == wanted), None)
        except UsageError:
            return None

    def _rebuild_trial(self, agent: Agent, actor: dspy.Predict, result: TrialResult, model: str) -> Iterator[Exchange]:
        assert self.rules is not None
        assert self.environment is not None
        assert result.trajectory is not None
        trajectory, scaffold, rules = result.trajectory, agent.method.scaffold, self.rules
        for number in range(1, len(trajectory.steps) + 1):
            states, steps = trajectory.states[:number], trajectory.steps[: number - 1]
            self._follow(states)
            seen = render_history(states, steps, self.environment.render, scaffold, rules.interface)
            regions = {name: _find_shown(result, name, number) for name in actor.signature.input_fields}
            said = {name: text for name, text in regions.items() if name != "history"}
            said |= {"task": trajectory.task, TEMPLATES: result.shown.get(TEMPLATES, get_benchmark().action_templates)}
            with dspy.context(interface=rules.interface):
                messages = self._format(actor, {**said, "history": seen})
            yield Exchange("actor", {"model": model, "messages": messages, "parameters": {}}, number)

    def _format(self, actor: dspy.Predict, inputs: dict[str, Any]) -> list[dict[str, Any]]:
        adapter: Any = self.adapter
        lm = SimpleNamespace(cache=False, kwargs={}, model="")
        signature = adapter._call_preprocess(lm, {}, actor.signature, inputs)
        messages: list[dict[str, Any]] = adapter.format(signature, actor.demos, inputs)
        return messages

    def _follow(self, states: Sequence[State]) -> None:
        """Show the states so far to an environment whose rendering depends on them."""
        follow: Any = getattr(self.environment, "follow", None)
        if follow is not None:
            follow(states)


def _find_shown(result: TrialResult, region: str, step: int) -> str:
    """Return the text of a region at a step; empty if it was absent. See `TrialResult.shown` for the names."""
    assert result.trajectory
    recalled = result.trajectory.steps[step - 1].recalled
    for name in (region, f"{region}:{','.join(recalled)}"):
        if name in result.shown:
            return result.shown[name]
    starts = [
        int(name.rpartition("@")[2])
        for name in result.shown
        if name.rpartition("@")[0] == region and name.rpartition("@")[2].isdigit()
    ]
    return result.shown[f"{region}@{max(past)}"] if (past := [start for start in starts if start <= step]) else ""
