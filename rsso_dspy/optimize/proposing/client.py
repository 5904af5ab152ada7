"""Sends an optimizer's questions to the backend's proposer role, and books them on the compile's account."""

from collections.abc import Callable
from typing import TypeVar

import dspy
from dspy.utils.exceptions import AdapterParseError, LMError

from rsso_dspy.errors import BackendFailure, NotRecorded, Stopped
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.programs.trial import ROLLOUTS_PER_SEED

PROPOSAL_CHARACTERS = 9000
"""Maximum characters of a proposed instruction, which is in every prompt of its role."""

T = TypeVar("T")


class ProposerClient:
    """Asks the proposer role. Its questions are numbered, so that equal questions get different answers, and a repeated
    compile the same ones."""

    def __init__(self, rollouts: Rollouts, seed: int):
        self.rollouts = rollouts
        self.seed = seed
        self.asked = 0

    def ask(self, question: Callable[[dspy.LM], T]) -> T | None:
        """Return what `question` makes of the model's answer; None when the answer cannot be read, is empty or too
        long, which skips a proposal. Raises `CompileStopped` when the model fails, which ends the compile."""
        self.asked += 1
        lm = self.rollouts.live.runtime.lm("proposer", self.seed * ROLLOUTS_PER_SEED + self.asked)
        ledger = TrialLedger(self.rollouts.record_usage, trial=self.asked, recall=self.rollouts.recall_usage)
        log = self.rollouts.logs.log_proposals()
        try:
            with log, self.rollouts.count_requests(), ledger.book_under_role("proposer"), dspy.context(lm=lm):
                return question(lm)
        except (Stopped, NotRecorded) as error:
            self.rollouts.stop_compile("error", error.__cause__ or error)
            raise CompileStopped from error
        except LMError as error:
            failure = BackendFailure(f"the proposer failed: {type(error).__name__}: {error}")
            self.rollouts.logs.void_proposal(self.asked, str(failure))
            self.rollouts.stop_compile("error", failure)
            raise CompileStopped from error
        except (AdapterParseError, ValueError):
            ledger.count_malformed("proposer")
            return None
