"""THE program: an actor, the modules its memories need, and the loop of trials (`Agent.forward`) and of their steps
(`Agent.play`). A method is a row of `methods.py`; what a trial needs beside its steps is `trial.py`.

    result = Agent("rsso")(variant="find-plant::228", trials=3)
    result.score          # 0 to 1, as `rsso_dspy.metric` says it
    result.trials         # one TrialResult per trial
"""

import threading
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from rsso_dspy.environments import get_place_reader
from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Memory
from rsso_dspy.playing import get_playing, playing
from rsso_dspy.programs.methods import MODULES, Method, actor_signature, get_method, load_memory
from rsso_dspy.programs.prediction import AgentPrediction
from rsso_dspy.programs.replaced import check_replacement
from rsso_dspy.programs.roles import Roles, find_users_lm
from rsso_dspy.programs.runtime import ResumeState, Runtime
from rsso_dspy.programs.state import count_unshown_demos
from rsso_dspy.programs.trial import TrialRun
from rsso_dspy.records import Outcome, State, Step, Trajectory, TrialResult, Variant

BEGINNING = ResumeState()
STREAMED = (dspy.ChatAdapter, dspy.JSONAdapter, dspy.XMLAdapter)  # whose answers DSPy finds fields in while they come


class Agent(dspy.Module):
    """One program for every method: an actor and the modules that the method's memories need. All episode state is
    local to `forward`, so one object serves many threads. Any module may be replaced, ``agent.actor =
    dspy.ChainOfThought(MySignature)``, by one with the inputs and outputs that its method needs; `UsageError` says what
    is missing. An agent for a `benchmark` plays in no session of another one."""

    benchmark: str | None = None

    def __init__(self, method_name: str = "rsso", benchmark: str | None = None):
        super().__init__()
        self.benchmark = benchmark
        self.method: Method = get_method(method_name)
        self.actor: dspy.Module = dspy.Predict(actor_signature(self.method))
        for name in self.method.list_modules():
            setattr(self, name, MODULES[name].make())

    def forward(
        self,
        variant: Variant | str,
        trials: int | None = None,
        seed: int = 0,
        start: ResumeState = BEGINNING,
        on_trial: Callable[[TrialResult, Callable[[], dict[str, Any]]], None] | None = None,
    ) -> AgentPrediction:
        """Play one variant up to trial number `trials`, from empty memories or from where `start` says. `on_trial` is
        told every finished trial, with a function that gives the snapshots after it."""
        self._warn_of_unshown_demos()
        _check_streaming(self.predictors_by_name.values())
        with Runtime.get_current(self.benchmark) as runtime:
            if not isinstance(variant, Variant):
                variant = runtime.variant(str(variant))
            total = runtime.rules.trials if trials is None else trials
            if total < 1:
                raise UsageError(f"cannot play {total} trials; ask for at least 1")

            roles = Roles(self.modules, self.method, runtime)
            memories = _load_memories(roles, self.method.memories, start)
            results = list(start.played)
            while len(results) < total:
                if results and runtime.rules.stops_after(results[-1]):
                    break
                trial = TrialRun(roles, memories.values(), variant, seed, results)
                is_last = trial.number == total
                result = trial.run(self.play, partial(self.learn, is_last=is_last))
                results.append(result)
                if on_trial:
                    on_trial(result, partial(_take_snapshots, memories))

            snapshots = _take_snapshots(memories)
            return AgentPrediction.from_trials(self.method.name, variant, results, snapshots, runtime.benchmark)

    async def aforward(self, *args: Any, **named: Any) -> AgentPrediction:
        """As `forward`, in a thread of its own. Once it is cancelled, the thread asks no model any more and gives its
        environment back before the next step."""
        ended = threading.Event()
        is_outer_cancelled = get_playing().is_cancelled
        with playing(is_cancelled=lambda: ended.is_set() or is_outer_cancelled()):
            try:
                prediction: AgentPrediction = await dspy.asyncify(type(self).forward)(self, *args, **named)
                return prediction
            finally:
                ended.set()

    def _warn_of_unshown_demos(self) -> None:
        for name, unshown in count_unshown_demos(self).items():
            total = len(self.predictors_by_name[name].demos)
            warnings.warn(
                f"{unshown} of {total} demonstrations of {name} have no answer in its "
                "fields, so no prompt shows them: dspy.LabeledFewShot puts examples of the training set there, which "
                "are variants; dspy.BootstrapFewShot and `rsso-dspy compile` make demonstrations of play",
                stacklevel=3,
            )

    def get_lm(self) -> dspy.BaseLM | None:
        """The model that all predictors have of their own; without one the user's, otherwise the session's actor's."""
        lm: dspy.BaseLM | None = super().get_lm() or find_users_lm()
        if lm is not None:
            return lm
        with Runtime.get_current(self.benchmark) as runtime:
            return runtime.lm("actor", 0)

    def play(self, trial: TrialRun) -> Trajectory:
        """One trial: reset, then act until the environment or the protocol ends it (rSSO, Algorithm 1)."""
        environment = trial.environment
        rules = trial.rules
        memories = trial.memories

        states: list[State] = [environment.reset(trial.variant)]
        steps: list[Step] = []
        for memory in memories:
            memory.begin_trial(trial.variant, environment.task)
        plans = {memory.region: memory.preamble() for memory in memories}  # once a trial

        outcome: Outcome | None = None
        while outcome is None:
            trial.begin_step(len(steps) + 1)
            recalled = {memory.region: memory.recall(states, steps) for memory in memories}  # before every step
            answer = trial.choose_action(states, steps, plans, recalled)
            step, move = trial.take_step(answer, states, steps, recalled)
            steps.append(step)
            states.append(step.state)

            outcome = rules.find_ending(steps, move, trial.budget, get_place_reader(environment))
            if outcome is None and not rules.frozen:
                for memory in memories:
                    memory.observe(states, steps)

        return Trajectory(
            variant=trial.variant,
            trial=trial.number,
            task=environment.task,
            start=states[0],
            points_at_reset=environment.points_at_reset,
            steps=tuple(steps),
            outcome=outcome,
        )

    def learn(self, trial: TrialRun, trajectory: Trajectory, is_last: bool) -> dict[str, dict[str, Any]]:
        learning = [memory for memory in trial.memories if trial.rules.teaches(memory.region, trajectory, is_last)]
        return {memory.region: memory.learn(trajectory) for memory in learning}

    def __setattr__(self, name: str, value: Any) -> None:
        present = self.__dict__.get(name)
        is_replaced = isinstance(value, dspy.Module) and isinstance(present, dspy.Module)
        if is_replaced and name in ("actor", *MODULES):
            check_replacement(name, self.method, value)
        super().__setattr__(name, value)

    @property
    def modules(self) -> dict[str, dspy.Module]:
        names = ("actor", *self.method.list_modules())
        return {name: self.__dict__[name] for name in names}

    @property
    def predictors_by_name(self) -> dict[str, dspy.Predict]:
        """Every predictor by its name, those too that an optimizer is not to see."""
        return dict(dspy.Module.named_predictors(self))

    def save(self, path: Path | str, *args: Any, **options: Any) -> None:
        """As `dspy.Module.save`; a JSON file also says which method it is of."""
        super().save(path, *args, **options)
        if Path(path).suffix == ".json":
            from rsso_dspy.programs.state import write_method

            write_method(Path(path), self.method.name)

    def load(self, path: Path | str, *args: Any, **options: Any) -> None:
        """As `dspy.Module.load`, also of compiled programs (`rsso-dspy compile`). Raises `UsageError` for a JSON file
        of another method, or with other predictors."""
        if Path(path).suffix != ".json":
            super().load(path, *args, **options)
        else:
            from rsso_dspy.programs.state import merge_state, read_state

            saved = read_state(Path(path))
            merged = merge_state(Path(path), saved, self.method.name, self.dump_state())
            self.load_state(merged)


def _load_memories(roles: Roles, names: Iterable[str], start: ResumeState) -> dict[str, Memory]:
    """The memories of these names, empty or as they were at the start."""
    memories = {name: load_memory(name)(roles) for name in names}
    for name in memories.keys() & start.memories.keys():
        memories[name].restore(start.memories[name])
    return memories


def _take_snapshots(memories: dict[str, Memory]) -> dict[str, Any]:
    return {name: memory.snapshot() for name, memory in memories.items()}


def _check_streaming(predictors: Iterable[dspy.Predict]) -> None:
    """Raise `UsageError` if a field of these is to be streamed from answers without DSPy's marks of fields."""
    if dspy.settings.send_stream is None or isinstance(dspy.settings.adapter, STREAMED):
        return

    ids = [id(predictor) for predictor in predictors]
    for listener in dspy.settings.stream_listeners or ():
        if id(listener.predict) in ids:
            raise UsageError(
                f"the field {listener.signature_field_name} cannot be streamed from the short form of answer that "
                "agents are asked for: set dspy.configure(adapter=dspy.ChatAdapter()), under which it streams"
            )
