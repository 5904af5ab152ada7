"""Earlier proposals of a compile, and what they gained on the same train variants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rsso_dspy.optimize.acceptance import CandidateProgram
from rsso_dspy.optimize.proposing.edits import Edit
from rsso_dspy.optimize.proposing.instructions import read_instructions
from rsso_dspy.optimize.proposing.task_types import make_topic
from rsso_dspy.optimize.rollouts import Rollouts

SHOWN = 6
"""How many earlier proposals a proposer is shown, the newest ones."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Edits of one predictor's instruction."""

    name: str
    """The predictor."""
    before: str
    after: str
    edits: tuple[Edit, ...]


class ProposalHistory:
    """The proposals of one search."""

    def __init__(self, rollouts: Rollouts):
        self.rollouts = rollouts
        self.made: list[Proposal] = []

    def add_proposal(self, proposal: Proposal) -> None:
        self.made.append(proposal)

    def describe_proposals(self, name: str, wordings: Mapping[str, str]) -> str:
        """The newest proposals for a predictor with what they gained or lost; empty when there are none. Proposals that
        were never played are left out."""
        told = [text for each in self.made if each.name == name if (text := self._describe(each, wordings))]
        return "\n".join(told[-SHOWN:])

    def _describe(self, proposal: Proposal, wordings: Mapping[str, str]) -> str:
        before, after = (self._find_candidates(proposal.name, text) for text in (proposal.before, proposal.after))
        pairs = _pair_scores(before, after, set(self.rollouts.val))
        if not pairs:
            return ""
        old, new = (fmean(column) for column in zip(*(scores for _, scores in pairs), strict=True))
        gains = {kind: fmean(s[1] - s[0] for k, s in pairs if k == kind) for kind in dict.fromkeys(k for k, _ in pairs)}
        changed = [f"{make_topic(wordings.get(k, 'other tasks'))} {gain:+.2f}" for k, gain in gains.items() if gain]
        each = "; ".join(changed) or "no type changed"
        kept = any(set(self.rollouts.val) <= candidate.rollouts.keys() for candidate in after)
        lines = "\n".join(str(edit) for edit in proposal.edits)
        verdict = "kept" if kept else "not kept"
        return f"{lines}\n  {len(pairs)} variants: {old:.2f} -> {new:.2f} ({each}), {verdict}"

    def _find_candidates(self, name: str, instruction: str) -> list[CandidateProgram]:
        """Candidates with this instruction of the predictor."""
        interface = self.rollouts.live.runtime.rules.interface
        return [
            candidate
            for candidate in list(self.rollouts.candidates.values())
            if read_instructions(candidate.state, interface).get(name, "").strip() == instruction.strip()
        ]


def _pair_scores(
    before: Sequence[CandidateProgram], after: Sequence[CandidateProgram], choose: set[object]
) -> list[tuple[str, tuple[float, float]]]:
    """Task type and both metrics of every training variant that both played."""
    old, new = (
        {v: r.score for c in each for v, r in c.rollouts.items() if v not in choose} for each in (before, after)
    )
    return [(variant.task, (old[variant], new[variant])) for variant in old if variant in new]
