"""One step of a trial: what an answer amounts to, whether the trial ends with it."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rsso_dspy.environments import Environment, Transition
from rsso_dspy.loops import find_loop, is_repeated, name_place
from rsso_dspy.memory import Memory
from rsso_dspy.programs.actor import Answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import SOLVED_SCORE, Outcome, State, Step, Trajectory


def apply_answer(
    environment: Environment, answer: Answer | None, state: State, steps: Sequence[Step], unread: str = ""
) -> tuple[Step, Transition | None]:
    """The step an answer amounts to. A malformed answer, whose text was `unread`, is a step that does nothing: it costs
    budget, not the run."""
    if answer is None:
        score = steps[-1].score if steps else environment.points_at_reset
        nothing = replace(state, observation="Nothing happened: your answer held no action.")
        return Step("", "", nothing, 0, score, understood=False, malformed=True, unread=unread), None
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
        rejected=answer.rejected,
        asked_back=move.asked_back,
        no_effect=move.no_effect,
        own_success=move.own_success,
    )
    return step, move


def stop_reason(
    steps: Sequence[Step],
    move: Transition | None,
    rules: TrialRules,
    budget: int,
    name_place: Callable[[State], str] = name_place,
) -> Outcome | None:
    """How the trial ended with the last step; None when it goes on. `name_place` tells the place of a state."""
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
    if (rules.exhausted_by_repeat and is_repeated(steps)) or (rules.exhausted_by_loop and find_loop(steps, name_place)):
        return "exhausted"
    idle = rules.max_idle
    if idle is not None and len(steps) >= idle and not any(step.reward > 0 for step in steps[-idle:]):
        return "budget"
    return "budget" if len(steps) >= budget else None


def should_learn(memory: Memory, trajectory: Trajectory, last: bool, rules: TrialRules) -> bool:
    """Whether a memory is told of a trial: somebody will read what it makes of it, or the protocol wants it anyway."""
    if rules.frozen:
        return False
    if trajectory.solved and rules.learn_after_success:
        return True
    read = memory.region in rules.lasting or not (last or stops_on_success(trajectory, rules))
    return rules.learn_after_last or read


def stops_on_success(trajectory: Trajectory, rules: TrialRules) -> bool:
    """Whether the variant is solved and then left alone."""
    return trajectory.solved and rules.stop_on_success
