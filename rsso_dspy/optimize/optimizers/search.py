"""The frame of a search by one of DSPy's optimizers: a student that shows only what it may, and an end when there is
nothing more to gain or to spend.
"""

import sys
import threading
from collections.abc import Callable, Collection
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Any

import dspy

from rsso_dspy.optimize.acceptance import Rollout, TracedCall, is_solved
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.proposing.adapter import ProposerAdapter
from rsso_dspy.optimize.proposing.instructions import get_kept_instruction
from rsso_dspy.optimize.proposing.proposer import EditProposer
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import Student, play_or_estimate
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.programs.scoring import SOLVED
from rsso_dspy.records import Variant

PERFECT = SOLVED
"""Lowest metric of a rollout whose first trial solved its variant."""

NOTHING_LEFT = "the optimizer had nothing left to propose"
ALL_SOLVED = "a candidate solved every val variant at its first trial"
TRAIN_SOLVED = "every train variant was solved at the first trial, and no fresh one was left to draw"
BUDGET_SPENT = "the budget was too small for another candidate"

CIRCLES = 2
"""Some optimizers count recalled rollouts too. One that goes in circles ends at this many times the budget."""


class SearchDone(BaseException):
    """Ends the search with what was tried so far. Not an `Exception`, because optimizers swallow those."""


def has_perfect_candidate(rollouts: Rollouts) -> bool:
    """Whether the best candidate solved every val variant at its first trial."""
    best = rollouts.best_candidate
    return best is not None and is_solved(best, rollouts.val)


def find_search_end(rollouts: Rollouts, needed: int) -> str | None:
    """Why a search should end instead of beginning `needed` more rollouts; None when it should not."""
    if has_perfect_candidate(rollouts):
        return ALL_SOLVED
    if rollouts.rollouts_left < needed or rollouts.has_spent_search_share:
        return BUDGET_SPENT
    return None


class Search:
    """One search: the program to improve, and which predictors it may change. Copies of a student share it.

    With `narrow` these are the predictors that were called so far: the others have nothing to learn from.
    """

    def __init__(self, agent: Agent, rollouts: Rollouts, seed: int, narrow: bool = True):
        self.rollouts = rollouts
        self.seed = seed
        self.agent = agent
        played = [rollout for candidate in rollouts.candidates.values() for rollout in candidate.rollouts.values()]
        self.open = {call[0] for rollout in played for call in rollout.calls} if narrow else set(rollouts.tuned)
        """Predictors that the optimizer sees."""
        self.proposer = EditProposer(rollouts, seed)
        self._lock = threading.Lock()
        self._paid: dict[str, bool] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> "Search":
        return self

    def run(self, student: "SearchStudent", compile: Callable[["SearchStudent"], Any]) -> None:
        """Let an optimizer compile the student. Its questions go to the proposer role, its prints are dropped."""
        if not student.predictors():
            return
        stand_in = dspy.BaseLM("the proposer role")  # optimizers inspect and copy a model; nothing is sent to this one
        settings = dspy.context(lm=stand_in, adapter=ProposerAdapter(self.proposer, student))
        with settings, redirect_stdout(StringIO()), suppress(SearchDone):
            compile(student)

    def check_worth_playing(self, program: Agent, variant: Variant) -> None:
        """Raise `SearchDone` when nothing better can be found, or when the program is new and the budget does not cover
        all val variants: playing it on some of them would be wasted."""
        if why := self.find_end(program, variant in self.rollouts.val):
            self.rollouts.end_search(why)
            raise SearchDone

    def find_end(self, program: Agent, on_val: bool) -> str | None:
        """Why the search should end rather than play a program; None when it should not."""
        if has_perfect_candidate(self.rollouts):
            return ALL_SOLVED
        if not on_val:
            return None
        name = fingerprint_program(program)
        with self._lock:
            if name not in self._paid:
                known = self.rollouts.candidates.get(name)
                missing = self.rollouts.count_missing(program, self.rollouts.val, self.rollouts.seeds)
                within = not missing or find_search_end(self.rollouts, missing) is None
                self._paid[name] = within or bool(known and known.dropped)
            return None if self._paid[name] else BUDGET_SPENT


class SearchStudent(Student):
    """A `Student` that shows only the predictors of its search. Of an optimizer's changes, only instructions and
    demonstrations are played: no prefixes, which are in no prompt and would make another candidate of the same words,
    and no models."""

    def __init__(self, search: Search, shown: Callable[[Rollout, TracedCall], bool]):
        super().__init__(search.agent, search.rollouts, shown)
        self.search = search

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """The predictors that may be changed and that the optimizer sees."""
        return [(name, predictor) for name, predictor in super().named_predictors() if name in self.search.open]

    def get_program(self) -> Agent:
        """The program that is played."""
        program, changed = Agent(self.method.name), dict(self.named_predictors())
        interface = self.rollouts.live.runtime.rules.interface
        for name, original in self.search.agent.predictors_by_name.items():
            predictor, now = program.predictors_by_name[name], changed.get(name, original)
            said = get_kept_instruction(now.signature.instructions, interface).strip()
            same = said == original.signature.instructions.strip()
            predictor.signature = original.signature if same else original.signature.with_instructions(said)
            predictor.demos = now.demos
        return program

    def may_play(self, program: Agent, variants: Collection[Variant]) -> bool:
        """Whether a program may be played on these variants."""
        return self.search.find_end(program, any(variant in self.rollouts.val for variant in variants)) is None

    def forward(self, variant: str) -> dspy.Prediction:  # type: ignore[override]
        """The rollout on a calibration variant: ``trials``, per trial ``progress``, and ``score``; ``benchmark`` where
        it is not the default one."""
        program, chosen = self.get_program(), self.rollouts.find_variant(variant)
        self.search.check_worth_playing(program, chosen)
        rollout = play_or_estimate(self.rollouts, program, chosen)
        if dspy.settings.trace is not None:
            predictors = dict(self.named_predictors())
            dspy.settings.trace.extend(
                (predictors[call[0]], _intern_texts(call[1]), dspy.Prediction(**_intern_texts(call[2])))
                for call in rollout.calls
                if call[0] in predictors and self.shown(rollout, call)
            )
        return self.make_prediction(rollout)


def count_affordable_candidates(calibration: Calibration, rollouts: int) -> int:
    """How many candidates this many rollouts cover, each played on all val variants."""
    return rollouts // calibration.val_rollouts


def _intern_texts(fields: Any) -> dict[str, Any]:
    """The fields with one object for equal texts. DSPy seeds its sampling with a pickle of the demonstrations, which
    differs between equal texts and one shared text, and so between a rollout that was played and one read from a
    file."""
    return {
        sys.intern(name): sys.intern(value) if type(value) is str else value for name, value in dict(fields).items()
    }
