"""Asks the backend's proposer role for better instructions, in the same form for every optimizer."""

from collections.abc import Mapping, Sequence

import dspy

from rsso_dspy.optimize.acceptance import CandidateProgram, Rollout
from rsso_dspy.optimize.proposing.client import PROPOSAL_CHARACTERS, ProposerClient
from rsso_dspy.optimize.proposing.edits import Edit, apply_edits
from rsso_dspy.optimize.proposing.history import Proposal, ProposalHistory
from rsso_dspy.optimize.proposing.instructions import read_instructions
from rsso_dspy.optimize.proposing.request import Evidence, build_request, find_benchmark, word_evidence
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.signatures.proposing import NAMED, ProposeEdits


class EditProposer:
    """Asks for edits of one instruction at a time, and remembers what was proposed."""

    def __init__(self, rollouts: Rollouts, seed: int):
        self.rollouts = rollouts
        self.client = ProposerClient(rollouts, seed)
        self.history = ProposalHistory(rollouts)
        self.benchmark = find_benchmark(rollouts.live.runtime.benchmark)

    def propose(
        self,
        name: str,
        predictor: dspy.Predict,
        instruction: str,
        rollouts: Sequence[Rollout] = (),
    ) -> str | None:
        """A better instruction of a predictor, from rollouts on train variants with the present instruction. None when
        the answer cannot be read or changes nothing. Raises what `ProposerClient.ask` raises."""
        turn = sum(each.name == name and each.before == instruction for each in self.history.made)
        evidence = Evidence(rollouts, self._list_tasks(), turn)
        tried = self.history.describe_proposals(name, word_evidence(evidence, self.benchmark))
        answer = self._ask_for_edits(name, predictor, instruction, evidence, tried)
        if answer is None:
            return None
        self.history.add_proposal(Proposal(name, instruction, answer[0], tuple(answer[1])))
        return answer[0]

    def _ask_for_edits(
        self, name: str, predictor: dspy.Predict, instruction: str, evidence: Evidence, tried: str
    ) -> tuple[str, list[Edit]] | None:
        request = build_request(name, predictor, instruction, evidence, tried, self.benchmark)
        role = self.benchmark.grammar.naming.kinds[0]
        words = ProposeEdits.instructions.replace(NAMED, NAMED.replace("thing", role))

        def ask_for_edits(lm: dspy.LM) -> tuple[str, list[Edit]]:
            with dspy.context(lm=lm, adapter=self.rollouts.live.backend.adapter, trace=[]):
                said = dspy.Predict(ProposeEdits.with_instructions(words))(
                    **{key: value for key, value in request.items() if value}
                )
            text, edits = apply_edits(instruction, [_clean(each) for each in said.edits or ()])
            if not edits or len(text) > PROPOSAL_CHARACTERS:
                raise ValueError("no edit that can be made")
            return text, edits

        return self.client.ask(ask_for_edits)

    def find_rollouts(self, instructions: Mapping[str, str]) -> list[Rollout]:
        """Rollouts on train variants of the candidate with these instructions; empty when there is none."""
        interface = self.rollouts.live.runtime.rules.interface
        for candidate in list(self.rollouts.candidates.values()):
            said = read_instructions(candidate.state, interface)
            if all(said.get(name, "").strip() == text.strip() for name, text in instructions.items()):
                return self.list_training_rollouts(candidate)
        return []

    def list_training_rollouts(self, candidate: CandidateProgram) -> list[Rollout]:
        """A candidate's rollouts without those on val variants, in an order that does not depend on threads."""
        choose = set(self.rollouts.val)
        kept = [rollout for variant, rollout in list(candidate.rollouts.items()) if variant not in choose]
        return sorted(kept, key=lambda rollout: rollout.variant.key)

    def _list_tasks(self) -> dict[str, list[str]]:
        """Task type to the task texts of its variants that were played so far, in a fixed order."""
        tasks: dict[str, dict[str, str]] = {}
        for candidate in list(self.rollouts.candidates.values()):
            for variant, rollout in list(candidate.rollouts.items()):
                for result in rollout.trials[:1]:
                    if result.trajectory is not None:
                        tasks.setdefault(variant.task, {})[variant.key] = result.trajectory.task
        for variant, rollout in self.rollouts.taught.items():
            for result in rollout.trials[:1]:
                if result.trajectory is not None:
                    tasks.setdefault(variant.task, {})[variant.key] = result.trajectory.task
        return {kind: [tasks[kind][key] for key in sorted(tasks[kind])] for kind in sorted(tasks)}


def _clean(text: object) -> str:
    """The text without characters that UTF-8 cannot encode."""
    return str(text).encode("utf-8", "replace").decode()
