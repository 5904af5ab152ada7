"""The result of a compile, as the content of its file."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from statistics import fmean
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.optimize.acceptance import choose_candidate, explain_no_choice, judge_candidate, measure_noise
from rsso_dspy.optimize.candidates import CandidateProgram
from rsso_dspy.optimize.compiled import Compiled, KeptCandidate, ProgramScores, TriedProgram
from rsso_dspy.optimize.optimizers.search import BUDGET_SPENT, NOTHING_LEFT
from rsso_dspy.optimize.program_schema import hash_schema
from rsso_dspy.optimize.request import CompileRequest
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import NamedProtocol, make_run_identity
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session
from rsso_dspy.store.guards import CompileEnvironment

ENDED = {
    "rollouts": "the rollouts of --max-rollouts were spent",
    "lm-calls": "the model calls of compile.max_lm_calls were spent",
    "cost": "the dollars of --max-cost were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}
"""How a compile was cut short, in words."""


def build_compiled(agent: Agent, live: Session, wanted: CompileRequest, rollouts: Rollouts) -> Compiled:
    """The content of the file of a compile, finished or cut short."""
    start = CandidateProgram(fingerprint_program(agent), agent.dump_state())  # in case nothing was begun
    start = rollouts.candidates.get(start.program, start)
    calibration, seeds = wanted.calibration, wanted.calibration.seeds
    chosen = choose_candidate(rollouts)
    cut_short = rollouts.unconfirmed or ENDED.get(rollouts.ended_by or "", "")
    candidates = sorted(rollouts.candidates.values(), key=lambda each: each.number)
    none_chosen = explain_no_choice(candidates, rollouts.val, seeds)
    confirmation = judge_candidate(start, chosen, calibration.confirm, seeds, cut_short, none_chosen)
    if chosen:
        parts = {"val": rollouts.val, "confirm": calibration.confirm}
        losses = {
            name: (start.count_losses(part, seeds), chosen.count_losses(part, seeds)) for name, part in parts.items()
        }
        confirmation = replace(confirmation, losses=losses)
    improved = confirmation.verdict == "confirmed"
    best = chosen or start
    kept = best if improved else start
    models, played = live.backend.models, live.config.active_benchmark
    return Compiled(
        method=wanted.method.name,
        improved=improved,
        ended_by=rollouts.ended_by,
        optimizer=wanted.optimizer.name,
        trials=wanted.trials,
        steps=wanted.steps,
        seed=wanted.seed,
        notes=(
            *calibration.notes,
            *(wanted.teacher.notes if wanted.teacher else ()),
            *_note_deaf_roles(wanted, live, rollouts),
        ),
        max_rollouts=wanted.limits.rollouts,
        max_lm_calls=wanted.limits.lm_calls,
        max_cost=wanted.limits.cost,
        roles=wanted.tuned,
        start=wanted.start,
        seen=wanted.seen,
        max_idle=wanted.max_idle,
        train=tuple(variant.key for variant in calibration.train),
        val=tuple(variant.key for variant in calibration.val),
        confirm=tuple(variant.key for variant in calibration.confirm),
        fresh=tuple(variant.key for variant in rollouts.fresh),
        seeds=seeds,
        placebos=wanted.placebos,
        before=_compute_scores(start, rollouts.val, seeds),
        after=_compute_scores(best, rollouts.val, seeds),
        tried=tuple(tried for each in candidates if (tried := _describe_candidate(each, rollouts.val, seeds))),
        confirmation=confirmation,
        noise=measure_noise(candidates, rollouts.val, seeds),
        candidate=None if improved or chosen is None else KeptCandidate(chosen.program, chosen.state),
        search_end=_explain_search_end(rollouts),
        rollouts=rollouts.spent,
        lm_calls=rollouts.lm_calls,
        usage=dict(sorted(rollouts.usage.items())),
        abandoned=rollouts.abandoned,
        model=models["actor"],
        proposer=models["proposer"],
        rule_based=live.backend.rule_based,
        environment=CompileEnvironment.of(live.config),
        signatures=hash_schema(agent),
        identity=make_compile_identity(live.config, live.protocol, wanted),
        versions={**{name: version(name) for name in ("dspy", "gepa")}, played.name: played.version},
        program=kept.program,
        state=kept.state,
        teacher=wanted.teacher.model if wanted.teacher else None,
        demo_tokens=wanted.teacher.demo_tokens if wanted.teacher else None,
    )


def make_compile_identity(config: Config, protocol: NamedProtocol, wanted: CompileRequest) -> dict[str, Any]:
    """What the result of a compile depends on besides its request: what a run depends on, and how a teacher answers."""
    taught = {"teacher": wanted.teacher.describe()} if wanted.teacher else {}
    return {**make_run_identity(config, protocol), **taught}


def _note_deaf_roles(wanted: CompileRequest, live: Session, rollouts: Rollouts) -> tuple[str, ...]:
    deaf = live.backend.deaf_roles & {ROLE_OF[name] for name in Agent(wanted.method.name).predictors_by_name}
    if rollouts.tuned == wanted.tuned or not deaf:
        return ()
    return (f"left as they are, since the rule-based model hardly heeds instructions there: {', '.join(sorted(deaf))}",)


def _explain_search_end(rollouts: Rollouts) -> str:
    if rollouts.search_end:
        return rollouts.search_end
    if rollouts.ended_by == "rollouts":
        return BUDGET_SPENT
    return ENDED.get(rollouts.ended_by or "", NOTHING_LEFT)


def _describe_candidate(candidate: CandidateProgram, val: Sequence[Variant], seeds: int) -> TriedProgram | None:
    """The row of a candidate that was played on all of `val`, or dropped there; None for any other."""
    met = [variant for variant in val if variant in candidate.rollouts] if candidate.dropped else val
    scores = _compute_scores(candidate, met, seeds)
    if scores is None:
        return None
    per_variant = {
        variant.key: round(fmean(each.score for each in candidate.list_rollouts(variant, seeds)), 4)
        for variant in sorted(candidate.rollouts, key=str)
    }
    return TriedProgram(candidate.program, scores, per_variant, candidate.number, candidate.placebo, candidate.dropped)


def _compute_scores(candidate: CandidateProgram, val: Sequence[Variant], seeds: int) -> ProgramScores | None:
    metric = candidate.mean_over(val, seeds=seeds)
    mean = candidate.mean_over(val, "accumulator", seeds)
    return None if metric is None or mean is None else ProgramScores(metric, mean)
