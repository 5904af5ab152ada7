"""THE program: an actor, the modules its memories need, and the loop of trials. A method is a row of `methods.py`.

    agent = Agent("rsso")
    result = agent(variant="find-plant::228", trials=3)
    result.score          # 0 to 1, as `rsso_dspy.metric` says it
    result.trials         # one TrialResult per trial

The loop is `Agent.forward` over trials and `Agent.play` over steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from rsso_dspy.environments import Environment, choose_interface, get_place_reader
from rsso_dspy.errors import BackendFailure, EnvironmentFailure, JavaMissing, SimulatorDied, Stopped, UsageError
from rsso_dspy.memory import Memory
from rsso_dspy.programs.choosing import list_actions
from rsso_dspy.programs.methods import MODULES, Method, get_method, load_memory
from rsso_dspy.programs.prediction import AgentPrediction
from rsso_dspy.programs.role_calls import RoleCalls, TrialLedger
from rsso_dspy.programs.roles import Roles, actor_signature, check_replacement
from rsso_dspy.programs.runtime import ResumeState, Runtime
from rsso_dspy.programs.shown_texts import ShownTexts, fill_regions
from rsso_dspy.programs.steps import apply_answer, should_learn, stop_reason, stops_on_success
from rsso_dspy.programs.tracing import collect_trial_trace
from rsso_dspy.programs.transcript import render_history
from rsso_dspy.records import Failure, Outcome, State, Step, Trajectory, TrialResult, Variant
from rsso_dspy.regions import PROGRESS

ROLLOUTS_PER_SEED = 1000
"""Trial t of seed s asks its models under rollout number 1000 s + t: repeats differ, replays do not."""

BEGINNING = ResumeState()


class Agent(dspy.Module):
    """One program for every method. It holds an actor and the modules that the method's memories need, and nothing
    else; all episode state is local to `forward`, so one object serves many threads.

    Any module may be replaced, ``agent.actor = dspy.ChainOfThought(MySignature)``, by one that takes the same inputs
    and gives the same outputs; `UsageError` says what is missing.
    """

    def __init__(self, method_name: str = "rsso"):
        super().__init__()
        self.method: Method = get_method(method_name)
        self.actor: dspy.Module = dspy.Predict(actor_signature(self.method))
        for name in self.method.list_modules():
            setattr(self, name, MODULES[name].make())

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, dspy.Module) and isinstance(before := self.__dict__.get(name), dspy.Module):
            check_replacement(name, before, value)
        super().__setattr__(name, value)

    @property
    def modules(self) -> dict[str, dspy.Module]:
        """The actor and the modules beside it, by name."""
        return {name: self.__dict__[name] for name in ("actor", *self.method.list_modules())}

    @property
    def predictors_by_name(self) -> dict[str, dspy.Predict]:
        """Every predictor by its name, those too that an optimizer is not to see."""
        return dict(dspy.Module.named_predictors(self))

    def forward(
        self,
        variant: Variant | str,
        trials: int | None = None,
        seed: int = 0,
        start: ResumeState = BEGINNING,
        on_trial: Callable[[TrialResult, Callable[[], dict[str, Any]]], None] | None = None,
    ) -> AgentPrediction:
        """Play one variant up to trial number `trials`, from empty memories or from where `start` says.

        Returns a prediction with ``trials`` (TrialResults in order, those of `start` first), ``memories`` (snapshot per
        memory), ``score`` (0 to 1, what `rsso_dspy.metric` says of it) and ``points`` (best accumulator, 0 to 100);
        both are None when infrastructure failed. `on_trial` is told every finished trial, with a function that gives
        the snapshots after it. Outside a session, a default one is opened and closed with the process.
        """
        with Runtime.get_current() as runtime:
            return self._play_trials(runtime, variant, trials, seed, start, on_trial)

    async def aforward(self, **inputs: Any) -> AgentPrediction:
        """`forward` in a worker thread: simulators and providers are waited for there."""
        prediction: AgentPrediction = await dspy.asyncify(self._call_forward)(**inputs)
        return prediction

    def _call_forward(self, **inputs: Any) -> AgentPrediction:
        return type(self).forward(self, **inputs)

    def _play_trials(
        self,
        runtime: Runtime,
        variant: Variant | str,
        trials: int | None,
        seed: int,
        start: ResumeState,
        on_trial: Callable[[TrialResult, Callable[[], dict[str, Any]]], None] | None,
    ) -> AgentPrediction:
        if not isinstance(variant, Variant):
            variant = runtime.variant(str(variant))
        total = runtime.rules.trials if trials is None else trials
        if total < 1:
            raise UsageError(f"cannot play {total} trials; ask for at least 1")
        if seed < 0:
            raise UsageError(f"seed {seed} is negative; seeds are 0 and up")
        roles = Roles(self.modules, self.method, runtime)
        memories = {name: load_memory(name).make(roles) for name in self.method.memories}
        for name in memories.keys() & start.memories.keys():
            memories[name].restore(start.memories[name])

        def take_snapshots() -> dict[str, Any]:
            return {name: memory.snapshot() for name, memory in memories.items()}

        results = list(start.played)
        for trial in range(len(results) + 1, total + 1):
            before = results[-1].trajectory if results else None
            if results and (before is None or stops_on_success(before, runtime.rules)):
                break
            retry = any(each.trajectory and each.trajectory.variant == variant for each in results)
            ledger = TrialLedger(runtime.spend, f"{self.method.name} {variant.key}", trial, runtime.recall)
            roles.call = RoleCalls(runtime, seed * ROLLOUTS_PER_SEED + trial, ledger, retry)
            result = self._play_trial(runtime, roles, variant, list(memories.values()), trial, trial == total)
            results.append(result)
            if on_trial:
                on_trial(result, take_snapshots)
        return AgentPrediction.from_trials(self.method.name, variant, results, take_snapshots(), runtime.benchmark)

    def save(self, path: Path | str, *args: Any, **options: Any) -> None:
        """As `dspy.Module.save`; a JSON file also says which method it is of."""
        super().save(path, *args, **options)
        if Path(path).suffix == ".json":
            from rsso_dspy.programs.state import write_method

            write_method(Path(path), self.method.name)

    def load(self, path: Path | str, *args: Any, any_method: bool = False, **options: Any) -> None:
        """As `dspy.Module.load`; reads compiled programs (`rsso-dspy compile`) as well as saved states.

        Raises `UsageError` for a JSON file of another method, or with other predictors. With `any_method`, it loads the
        predictors that the file and the agent both have.
        """
        if Path(path).suffix != ".json":
            super().load(path, *args, **options)
        else:
            from rsso_dspy.programs.state import merge_state, read_state

            saved = read_state(Path(path))
            self.load_state(merge_state(Path(path), saved, self.method.name, self.dump_state(), any_method))

    def _play_trial(
        self,
        runtime: Runtime,
        roles: Roles,
        variant: Variant,
        memories: Sequence[Memory],
        trial: int,
        last: bool,
    ) -> TrialResult:
        """Play, then learn. A simulator that dies is replaced and the trial played again once; what still fails is
        recorded as an error, which is not a score."""
        ledger = roles.call.ledger

        def make_result(trajectory: Trajectory | None, **told: Any) -> TrialResult:
            more = ledger.to_result_fields()
            return TrialResult(trial, trajectory, usage=ledger.usage_by_role(), replayed=ledger.attempt, **told, **more)

        for replayed in (0, 1):
            try:
                ledger.attempt, ledger.step = replayed, 0
                shown = ShownTexts()
                with collect_trial_trace() as trace, runtime.environments.lease() as environment:
                    trajectory = self.play(environment, roles, runtime, variant, memories, trial, shown)
                    if trajectory.steps and all(step.malformed for step in trajectory.steps):
                        raise BackendFailure(f"none of the actor's {len(trajectory.steps)} answers could be read")
                    # Still lent: roles ask it for the words of this variant, which another trial would change.
                    learning = [memory for memory in memories if should_learn(memory, trajectory, last, runtime.rules)]
                    learnt = {memory.region: memory.learn(trajectory) for memory in learning}
                trace.publish_calls(trajectory, self.actor)
                return make_result(trajectory, learnt=learnt, shown=shown.texts)
            except JavaMissing:
                raise  # it would hit every unit
            except (EnvironmentFailure, BackendFailure, LMError) as error:
                if isinstance(error, SimulatorDied) and replayed == 0:
                    continue
                return make_result(None, failure=Failure.of(error))
        raise AssertionError("unreachable")

    def play(
        self,
        environment: Environment,
        roles: Roles,
        runtime: Runtime,
        variant: Variant,
        memories: Sequence[Memory],
        trial: int,
        shown: ShownTexts,
    ) -> Trajectory:
        """One trial: reset, then act until the environment or the protocol ends it (rSSO, Algorithm 1). What memories
        put into prompts is noted in `shown`."""
        budget = runtime.budget(variant)
        interface = runtime.rules.interface
        choose_interface(environment, interface)
        states: list[State] = [environment.reset(variant)]
        steps: list[Step] = []
        roles.environment = environment
        shown.note_templates(environment.action_templates, runtime.implied_templates)
        for memory in memories:
            memory.begin_trial(variant, environment.task)
        preambles = {memory.region: memory.preamble() for memory in memories}
        outcome: Outcome | None = None
        while outcome is None:
            if runtime.stopped():
                raise Stopped
            roles.call.ledger.step = len(steps) + 1
            recalls = {memory.region: memory.recall(states, steps) for memory in memories}
            regions = fill_regions(preambles, recalls)
            shown.note_prompt(preambles, recalls, regions[PROGRESS], len(steps) + 1)
            history = render_history(states, steps, environment.render, self.method.scaffold, interface)
            history = list_actions(environment, runtime.rules.action_choice, history)
            answer = roles.act(list(recalls.values()), task=environment.task, history=history, **regions)
            unread = "" if answer else roles.call.ledger.last_unread("actor")
            step, transition = apply_answer(environment, answer, states[-1], steps, unread)
            recalled = tuple(item for each in recalls.values() for item in each.ids)
            steps.append(replace(step, recalled=recalled))
            states.append(step.state)
            outcome = stop_reason(steps, transition, runtime.rules, budget, get_place_reader(environment))
            if outcome is None and not runtime.rules.frozen:
                for memory in memories:
                    memory.observe(states, steps)
        return Trajectory(
            variant, trial, environment.task, states[0], environment.points_at_reset, tuple(steps), outcome
        )
