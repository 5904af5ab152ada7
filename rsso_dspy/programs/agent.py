"""THE program: every role as a predictor, and the loop of trials. A method is a row of `methods.py`.

    agent = Agent("rsso")
    with rsso_dspy.session():
        result = agent(variant="find-plant::228", trials=3)
    result.score          # best accumulator over the trials
    result.trials         # one TrialResult per trial

The loop is `Agent.forward` over trials and `Agent.play` over steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import dspy
from dspy.utils.exceptions import LMError

from rsso_dspy.environments import Environment, Transition
from rsso_dspy.errors import BackendFailure, EnvironmentFailure, JavaMissing, SimulatorDied, Stopped, UsageError
from rsso_dspy.memory import Memory
from rsso_dspy.programs.methods import Method, method
from rsso_dspy.programs.roles import MEMORIES, ROLE_OF, Answer, Roles
from rsso_dspy.programs.runtime import Caller, Ledger, Runtime, Start, TrialRules
from rsso_dspy.programs.tracing import trial_trace
from rsso_dspy.programs.transcript import history
from rsso_dspy.signatures import (
    FlatActor,
    JudgeEquivalence,
    NameTarget,
    Reflect,
    SkillActor,
    SummarizeConstitution,
    SummarizeSkill,
    WriteInstructions,
    WriteRules,
)
from rsso_dspy.trajectory import SOLVED_SCORE, Outcome, State, Step, Trajectory, TrialResult, Variant

ROLLOUTS_PER_SEED = 1000
"""Trial t of seed s asks its models under rollout number 1000 s + t: repeats differ, replays do not."""

BEGINNING = Start()


class Agent(dspy.Module):
    """One program for every method. It holds predictors and plain configuration; all episode state is local to
    `forward`, so one object serves many threads."""

    def __init__(self, method_name: str = "rsso"):
        super().__init__()
        self.method: Method = method(method_name)
        self.actor = dspy.Predict(SkillActor if self.method.scaffold == "sso" else FlatActor)
        self.reflector = dspy.Predict(Reflect)
        self.skill_summary = dspy.Predict(SummarizeSkill)
        self.skill_instructions = dspy.Predict(WriteInstructions)
        self.skill_target = dspy.Predict(NameTarget)
        self.skill_equivalence = dspy.Predict(JudgeEquivalence)
        self.rule_writer = dspy.Predict(WriteRules)
        self.constitution_summarizer = dspy.Predict(SummarizeConstitution)

    @property
    def by_name(self) -> dict[str, dspy.Predict]:
        """Every predictor by its name, those too that an optimizer is not to see."""
        return {name: getattr(self, name) for name in ROLE_OF}

    def forward(
        self,
        variant: Variant | str,
        trials: int | None = None,
        seed: int = 0,
        start: Start = BEGINNING,
        on_trial: Callable[[TrialResult, Callable[[], dict[str, Any]]], None] | None = None,
    ) -> dspy.Prediction:
        """Play one variant up to trial number `trials`, from empty memories or from where `start` says.

        Returns a prediction with ``trials`` (TrialResults in order, those of `start` first), ``memories`` (snapshot per
        memory) and ``score`` (best accumulator of 0 to 100, None when infrastructure failed). `on_trial` is told every
        finished trial, with a function that gives the snapshots after it.
        """
        runtime = Runtime.current()
        variant = runtime.variant(variant) if isinstance(variant, str) else variant
        total = runtime.rules.trials if trials is None else trials
        if total < 1:
            raise UsageError(f"cannot play {total} trials; ask for at least 1")
        roles = Roles(self.by_name, self.method)
        memories = {name: MEMORIES[name](roles, runtime) for name in self.method.memories}
        for name in memories.keys() & start.memories.keys():
            memories[name].restore(start.memories[name])

        def snapshots() -> dict[str, Any]:
            return {name: memory.snapshot() for name, memory in memories.items()}

        results = list(start.played)
        for trial in range(len(results) + 1, total + 1):
            if results and _over(results[-1], runtime.rules):
                break
            retry = any(before.trajectory and before.trajectory.variant == variant for before in results)
            ledger = Ledger(runtime.spend, f"{self.method.name} {variant.key}")
            roles.call = Caller(runtime, seed * ROLLOUTS_PER_SEED + trial, ledger, retry)
            result = self._trial(runtime, roles, variant, list(memories.values()), trial, last=trial == total)
            results.append(result)
            if on_trial:
                on_trial(result, snapshots)
        best = max((r.trajectory.accumulator for r in results if r.trajectory), default=None)
        score = None if results[-1].trajectory is None else best
        return dspy.Prediction(trials=tuple(results), memories=snapshots(), score=score)

    def _trial(
        self, runtime: Runtime, roles: Roles, variant: Variant, memories: Sequence[Memory], trial: int, last: bool
    ) -> TrialResult:
        """Play, then learn. A simulator that dies is replaced and the trial played again once; what still fails is
        recorded as an error, which is not a score."""
        ledger = roles.call.ledger
        for replayed in (0, 1):
            try:
                with trial_trace() as trace:
                    with runtime.environments.lease() as environment:
                        trajectory = self.play(environment, roles, runtime, variant, memories, trial)
                    if trajectory.steps and all(step.malformed for step in trajectory.steps):
                        raise BackendFailure(f"none of the actor's {len(trajectory.steps)} answers could be read")
                    learning = [memory for memory in memories if _learns(memory, trajectory, last, runtime.rules)]
                    learnt = {memory.region: memory.learn(trajectory) for memory in learning}
                trace.publish(trajectory, self.actor)
                return TrialResult(
                    trial, trajectory, learnt, ledger.usage(), roles.shown, replayed=replayed, **ledger.told()
                )
            except JavaMissing:
                raise  # it would hit every unit
            except (EnvironmentFailure, BackendFailure, LMError) as error:
                if isinstance(error, SimulatorDied) and replayed == 0:
                    continue
                failure = f"{type(error).__name__}: {error}"
                return TrialResult(trial, None, {}, ledger.usage(), error=failure, replayed=replayed, **ledger.told())
        raise AssertionError("unreachable")

    def play(
        self,
        environment: Environment,
        roles: Roles,
        runtime: Runtime,
        variant: Variant,
        memories: Sequence[Memory],
        trial: int,
    ) -> Trajectory:
        """One trial: reset, then act until the environment or the protocol ends it (rSSO, Algorithm 1)."""
        budget = runtime.budget(variant)
        states: list[State] = [environment.reset(variant)]
        steps: list[Step] = []
        roles.begin(environment)
        preambles = {memory.region: memory.preamble() for memory in memories}
        outcome: Outcome | None = None
        while outcome is None:
            if runtime.stopped():
                raise Stopped
            recalls = {memory.region: memory.recall(states) for memory in memories}
            regions = {name: preambles[name].text or recall.text for name, recall in recalls.items()}
            regions["progress"] = "\n".join(recall.progress for recall in recalls.values() if recall.progress)
            roles.show(preambles, recalls, regions["progress"], len(steps) + 1)
            seen = history(states, steps, environment.render, self.method.scaffold, runtime.rules.layout)
            answer = roles.act(list(recalls.values()), task=environment.task, history=seen, **regions)
            step, transition = _take(environment, answer, states[-1], steps)
            recalled = tuple(item for recall in recalls.values() for item in recall.ids)
            steps.append(replace(step, recalled=recalled))
            states.append(step.state)
            outcome = _ending(steps, transition, runtime.rules, budget)
            if outcome is None and not runtime.rules.frozen:
                for memory in memories:
                    memory.notice(variant, environment.task, states, steps)
        return Trajectory(
            variant, trial, environment.task, states[0], environment.points_at_reset, tuple(steps), outcome
        )


def _take(
    environment: Environment, answer: Answer | None, state: State, steps: Sequence[Step]
) -> tuple[Step, Transition | None]:
    """The step an answer amounts to. A malformed answer is a step that does nothing: it costs budget, not the run."""
    if answer is None:
        score = steps[-1].score if steps else environment.points_at_reset
        nothing = replace(state, observation="Nothing happened: your answer held no action.")
        return Step("", "", nothing, 0, score, understood=False, malformed=True), None
    move = environment.step(answer.action)
    step = Step(
        proposed=answer.action,
        action=move.action,
        state=move.state,
        reward=move.reward,
        score=move.score,
        understood=move.understood,
        reasoning=answer.reasoning,
        subgoal=answer.subgoal,
    )
    return step, move


def _ending(steps: Sequence[Step], move: Transition | None, rules: TrialRules, budget: int) -> Outcome | None:
    """How the trial ended with the last step; None when it goes on."""
    if move is not None:
        if move.done or move.score >= SOLVED_SCORE:
            return "solved" if move.score >= SOLVED_SCORE else "failed"
        if move.stalled:
            return "stalled"
        if rules.max_ticks is not None and move.ticks > rules.max_ticks:
            return "budget"
    limit = rules.max_repeat
    if limit is not None and len(steps) > limit and len({step.action for step in steps[-limit:]}) == 1:
        return "repeated"
    idle = rules.max_idle
    if idle is not None and len(steps) >= idle and not any(step.reward > 0 for step in steps[-idle:]):
        return "budget"
    return "budget" if len(steps) >= budget else None


def _learns(memory: Memory, trajectory: Trajectory, last: bool, rules: TrialRules) -> bool:
    """A memory is told of the trial: somebody will read what it makes of it, or the protocol wants it anyway."""
    if rules.frozen:
        return False
    if trajectory.solved and rules.learn_after_success:
        return True
    read = memory.region in rules.lasting or not (last or _settled(trajectory, rules))
    return rules.learn_after_last or read


def _over(result: TrialResult, rules: TrialRules) -> bool:
    """No trial follows this one."""
    return result.trajectory is None or _settled(result.trajectory, rules)


def _settled(trajectory: Trajectory, rules: TrialRules) -> bool:
    """A solved variant is left alone."""
    return trajectory.solved and rules.stop_on_success
