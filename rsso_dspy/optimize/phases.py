"""The phases of a compile: search for candidates, choose one on `val`, confirm it on `confirm`."""

from contextlib import suppress

from rsso_dspy.optimize.acceptance import choose_candidate, confirm_candidate, race_on_val
from rsso_dspy.optimize.optimizers.demonstrations import SETS
from rsso_dspy.optimize.optimizers.lessons import try_lessons
from rsso_dspy.optimize.optimizers.search import has_perfect_candidate
from rsso_dspy.optimize.placebo import make_placebo
from rsso_dspy.optimize.request import CompileRequest
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts
from rsso_dspy.optimize.silence import silence_output
from rsso_dspy.optimize.student import race_in_evaluations
from rsso_dspy.programs.agent import Agent

NO_ROOM = "the budget left too few rollouts to confirm it"


def play_phases(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Play all phases of a compile, as far as its budget goes. `rollouts` holds the results."""
    with suppress(CompileStopped):
        search_candidates(agent, wanted, rollouts, jobs)
    confirm_choice(agent, wanted, rollouts, jobs)


def search_candidates(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Score the program to improve and the placebos, then let the optimizer try candidates."""
    calibration, optimizer = wanted.calibration, wanted.optimizer
    with silence_output(), race_in_evaluations(rollouts, jobs):
        rollouts.play_all(agent, calibration.val, jobs, calibration.seeds)
        play_placebos(agent, wanted, rollouts, jobs)
        if wanted.teacher:
            sets = 1 if optimizer.name == "bootstrap" else SETS
            try_lessons(agent, rollouts, calibration.train, wanted.teacher.demo_tokens, wanted.seed, sets, jobs)
            return
        found = optimizer.run(agent, calibration, rollouts, wanted.seed, jobs)
        race_on_val(rollouts, found, jobs)


def play_placebos(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Score placebos on all of `val`, as many as leave enough budget for one candidate."""
    calibration = wanted.calibration
    # This counts the program to improve, which was played already: as many rollouts as a placebo takes.
    needed = wanted.optimizer.least(calibration)
    for number in range(wanted.placebos):
        if has_perfect_candidate(rollouts) or rollouts.rollouts_left < needed:
            return
        placebo = make_placebo(agent, rollouts.tuned, wanted.seed + number, rollouts.live.runtime.rules.interface)
        rollouts.register_candidate(placebo, placebo=True)
        rollouts.play_all(placebo, calibration.val, jobs, calibration.seeds)


def confirm_choice(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Play the best candidate and the program to improve on `confirm`, if the budget covers all of it."""
    rollouts.release_reserve()
    chosen, calibration = choose_candidate(rollouts), wanted.calibration
    if chosen is None or rollouts.is_halted:
        return
    if rollouts.rollouts_left < calibration.confirm_rollouts:
        rollouts.unconfirmed = NO_ROOM
        return
    with suppress(CompileStopped):
        confirm_candidate(rollouts, agent, chosen, calibration.confirm, jobs)
