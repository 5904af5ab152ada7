"""Clauses by task type: the proposer is asked once for each unsolved type, all answers go into one instruction, and
only clauses that raise their own type on `val` are kept.

    round 1   a clause for every open type; the program with all of them plays `val` of those types, and a spare variant
    merge     the types that got better keep theirs; that program races on all of `val`
    round 2   the other types are asked about again, told what was tried

A clause says for which tasks it holds, so types can be judged apart from each other: a round costs two rollouts
for each val variant at most, and as many for spare ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from rsso_dspy.optimize.acceptance import is_solved, race_on_val
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.candidates import CandidateProgram, Rollout
from rsso_dspy.optimize.optimizers.search import ALL_SOLVED, NOTHING_LEFT, find_search_end, has_perfect_candidate
from rsso_dspy.optimize.proposing.client import PROPOSAL_CHARACTERS
from rsso_dspy.optimize.proposing.edits import add_lines
from rsso_dspy.optimize.proposing.instructions import get_sent_instruction, keep_instructions
from rsso_dspy.optimize.proposing.proposer import EditProposer
from rsso_dspy.optimize.proposing.task_types import make_topic
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.teacher import GOLD_SHOWN, SHOWN
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant

ROUNDS = 3
"""How often a type is asked about, at most."""
STUDIED = 2
"""Variants of a type that the program itself plays for feedback, where nobody teaches."""
PRACTICE = 1
"""Spare variants of a type that clauses are judged by, beside those of val: nothing was learned from them."""
LEAST = 0.02
"""What a clause must gain on average, and may lose on one variant; more than a few steps are worth."""
ACTOR = "actor"
_SCOPE = "In tasks about "


@dataclass
class ClauseSearch:
    """One search."""

    agent: Agent
    calibration: Calibration
    rollouts: Rollouts
    jobs: int
    proposer: EditProposer
    evidence: Mapping[str, Sequence[Rollout]]
    """Task type to the rollouts that its clause is drawn from."""
    practice: Mapping[str, Sequence[Variant]] = field(default_factory=dict)
    """Task type to spare variants that clauses are judged by too."""
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Task type to the lines that raised it."""
    failed: set[str] = field(default_factory=set)
    """Lines that did not."""

    def list_open_types(self) -> list[str]:
        """Task types that have no clause yet and whose val variants the program to improve did not all solve at its
        first trial."""
        start = next(iter(self.rollouts.candidates.values()))
        val = self.group_val()
        return [
            kind for kind in self.evidence if kind not in self.kept and kind in val and not is_solved(start, val[kind])
        ]

    def list_judges(self, kind: str) -> list[Variant]:
        """The variants that clauses of a type are judged by."""
        return [*self.group_val()[kind], *self.practice.get(kind, ())]

    def group_val(self) -> dict[str, list[Variant]]:
        """Task type to its val variants."""
        found: dict[str, list[Variant]] = {}
        for variant in self.rollouts.val:
            found.setdefault(variant.task, []).append(variant)
        return found

    def draft_clauses(self, kinds: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Task type to the lines that the proposer would add for it; types without an answer are left out."""
        predictor = self.agent.predictors_by_name[ACTOR]
        interface = self.rollouts.live.runtime.rules.interface
        base = get_sent_instruction(predictor.signature.instructions, interface)
        drafts = {}
        for kind in kinds:
            edits, wordings = self.proposer.propose_lines(ACTOR, predictor, base, self.evidence[kind], self.failed)
            topic = make_topic(wordings.get(kind, ""))
            scoped = (line if line.startswith(_SCOPE) else f"{_SCOPE}{topic}: {line}" for line in edits if topic)
            if lines := tuple(line for line in scoped if line not in self.failed):
                drafts[kind] = lines
        return drafts

    def make_program(self, clauses: Mapping[str, Sequence[str]]) -> Agent:
        """The program with these lines below the actor's instruction, as many as fit."""
        program = Agent(self.agent.method.name)
        program.load_state(self.agent.dump_state())
        interface = self.rollouts.live.runtime.rules.interface
        predictor = program.predictors_by_name[ACTOR]
        text = get_sent_instruction(predictor.signature.instructions, interface)
        for kind in self.evidence:
            longer = add_lines(text, clauses.get(kind, ()))
            text = longer if len(longer) <= PROPOSAL_CHARACTERS else text
        predictor.signature = predictor.signature.with_instructions(text)
        keep_instructions(program, interface)
        return program

    def select_fitting(self, drafts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return the drafts that the instruction has room for: others would be judged without being read."""
        program = self.make_program({**self.kept, **drafts})
        text = program.predictors_by_name[ACTOR].signature.instructions
        return {kind: lines for kind, lines in drafts.items() if all(line in text for line in lines)}

    def judge_drafts(self, drafts: Mapping[str, tuple[str, ...]]) -> None:
        """Play the program with all clauses on val of the types with a new one, and keep the clauses that helped."""
        program = self.make_program({**self.kept, **drafts})
        candidate = self.rollouts.register_candidate(program)
        touched = [variant for kind in drafts for variant in self.list_judges(kind)]
        self.rollouts.play_all(self.agent, touched, self.jobs, self.rollouts.seeds)
        self.rollouts.play_all(program, touched, self.jobs, self.rollouts.seeds)
        start = next(iter(self.rollouts.candidates.values()))
        for kind, lines in drafts.items():
            gains = _list_gains(candidate, start, self.list_judges(kind), self.rollouts.seeds)
            if fmean(gains) >= LEAST and min(gains) > -LEAST:
                self.kept[kind] = lines
            else:
                self.failed.update(lines)
        if self.make_program(self.kept).dump_state() != program.dump_state():
            candidate.dropped = True

    def run(self) -> None:
        """Play rounds of drafts, as far as the budget goes."""
        for _ in range(ROUNDS):
            kinds = self.list_open_types()
            if not kinds:
                perfect = has_perfect_candidate(self.rollouts)
                return self.rollouts.end_search(ALL_SOLVED if perfect else NOTHING_LEFT)
            judges = [variant for kind in kinds for variant in self.list_judges(kind)]
            new = self.rollouts.count_missing(self.agent, judges, self.rollouts.seeds)
            needed = new + (len(judges) + len(self.rollouts.val)) * self.rollouts.seeds
            if why := find_search_end(self.rollouts, needed):
                return self.rollouts.end_search(why)
            drafts = self.select_fitting(self.draft_clauses(kinds))
            if not drafts:
                return self.rollouts.end_search(NOTHING_LEFT)
            before = len(self.kept)
            self.judge_drafts(drafts)
            if len(self.kept) > before:
                race_on_val(self.rollouts, self.make_program(self.kept), self.jobs)
        return None


def run_clauses(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Try a clause for every unsolved task type, and keep it if it raised its type on val."""
    if ACTOR not in rollouts.tuned:
        return agent
    start = next(iter(rollouts.candidates.values()))
    open_ = {variant.task for variant in rollouts.val if not is_solved(start, [variant])}
    free = all(map(rollouts.is_free, calibration.train))
    shown = GOLD_SHOWN if free else SHOWN if rollouts.has_teacher else STUDIED
    studied = [each for each in calibration.list_studied(shown) if each.task in open_]
    practice: dict[str, list[Variant]] = {}
    for variant in calibration.spare:
        if variant not in studied and variant.task in open_ and len(practice.get(variant.task, ())) < PRACTICE:
            practice.setdefault(variant.task, []).append(variant)
    rollouts.fresh += [variant for variant in studied if variant not in calibration.train]
    rollouts.fresh += [variant for each in practice.values() for variant in each]
    rollouts.play_all(agent, studied, jobs)
    played = rollouts.taught or start.rollouts
    evidence: dict[str, list[Rollout]] = {}
    for variant in studied:
        if variant in played:
            evidence.setdefault(variant.task, []).append(played[variant])
    ClauseSearch(agent, calibration, rollouts, jobs, EditProposer(rollouts, seed), evidence, practice).run()
    return agent


def count_least_rollouts(calibration: Calibration) -> int:
    """Rollouts of zero-shot on val, of the clauses of every type on val, and of the race of the merged program."""
    return 3 * calibration.val_rollouts


def count_proposals(calibration: Calibration, rollouts: int) -> int:  # noqa: ARG001
    """One proposal for each type and round."""
    return ROUNDS * len({variant.task for variant in calibration.val})


def _list_gains(
    candidate: CandidateProgram, start: CandidateProgram, judges: Sequence[Variant], seeds: int
) -> list[float]:
    pairs = [(candidate.mean_on(each, seeds), start.mean_on(each, seeds)) for each in judges]
    return [(one or 0.0) - (other or 0.0) for one, other in pairs]
