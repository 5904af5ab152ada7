"""The program as optimizers of DSPy see it, and the frame of a search by one of them: every candidate that the
optimizer makes is played as rollouts of the compile.

    search = Search(agent, rollouts)
    yield from search.run(lambda: dspy.GEPA(...), list_shown)
"""

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from functools import partialmethod
from io import StringIO
from math import ceil
from statistics import fmean
from typing import Any
from unittest.mock import patch

import dspy
import tqdm
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError, LMError

from rsso_dspy.errors import BackendFailure, NotRecorded, Stopped
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts, log_calls
from rsso_dspy.optimize.verdict import Rollout, TracedCall, estimate_score, is_hopeless, is_solved, measure_deviation
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.programs.trial import ROLLOUTS_PER_SEED

NOTHING_LEFT = "the optimizer had nothing left to propose"
ALL_SOLVED = "a candidate solved every val variant at its first trial"
BUDGET_SPENT = "the budget was too small for another candidate"

PROPOSAL_CHARACTERS = 9000  # maximum of a proposed instruction, which is in every prompt of its role
BLOCKS = 4  # that `val` is played in

SENTENCES = (
    "What stands above is said here once.",
    "These words are one way of putting it, and others would have done.",
    "The above is written in plain English.",
    "There is nothing further in this paragraph.",
    "The lines above and this one belong together.",
    "This line ends the description.",
)
"""Each becomes a paragraph of its own at the end of a placebo's instructions. None says what to do."""


class Search(BaseCallback):
    """One search: the program to improve, its rollouts, and whom the optimizer asks. Copies of a student share it."""

    def __init__(self, agent: Agent, rollouts: Rollouts):
        self.agent, self.rollouts = agent, rollouts
        self.calibration: Calibration = rollouts.wanted.calibration
        self.seed: int = rollouts.wanted.seed
        self.open: set[str] = set(ROLE_OF)  # predictors that the optimizer sees
        self.adapter = ProposerAdapter(rollouts, self.seed)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Search":
        return self

    def run(
        self, make: Callable[[], Any], list_shown: Callable[[Rollout], list[TracedCall]], **settings: Any
    ) -> Iterator[Agent]:
        """Let an optimizer of DSPy's compile a student, and yield its choice. Its questions go to the proposer role;
        its prints, bars and warnings are dropped."""
        student = Student(self, list_shown)
        if not student.predictors():
            return
        stand_in = dspy.BaseLM("the proposer role")  # optimizers inspect and copy a model; nothing is sent to this one
        ours = {"lm": stand_in, "adapter": self.adapter, "callbacks": [*dspy.settings.callbacks, self]}
        data = {"trainset": build_examples(self.calibration.train), "valset": build_examples(self.calibration.val)}
        with dspy.context(**ours), silence_output():
            chosen = make().compile(student, **data, **settings).get_program()
        yield chosen  # not inside the block, whose settings would be the caller's meanwhile

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        """DSPy calls this before every evaluation. On `val` the program races first. Where the budget does not cover
        other variants, the first ones are played, so that threads do not decide which."""
        rollouts, program = self.rollouts, inputs["program"].get_program()
        keys = dict.fromkeys(each.variant for each in inputs.get("devset") or instance.devset)
        variants = [rollouts.find_variant(key) for key in keys]
        if set(variants) == set(rollouts.val):
            self.race(program)
            return
        asked = [each for each in variants if each not in rollouts.val and not rollouts.is_free(each)]
        if rollouts.count_missing(program, asked) > rollouts.rollouts_left:
            rollouts.play_all(program, asked)

    def race(self, program: Agent) -> None:
        """Play a candidate on `val` in blocks, paired with the best so far, until it is hopeless. Raises
        `CompileStopped` when nothing better can be found or the budget does not cover all of it.

        The order of blocks depends on no score. Variants on which earlier programs differed are those on which the
        best one was lucky, so an equally good candidate would fall behind on them by chance alone."""
        rollouts, known = self.rollouts, self.rollouts.candidates.get(fingerprint_program(program))
        missing = 0 if known and known.dropped else rollouts.count_missing(program, rollouts.val, rollouts.seeds)
        if self.is_done(missing):
            raise CompileStopped
        if not missing:
            return
        candidate, best = rollouts.register_candidate(program), rollouts.best_candidate
        order, seeds = rollouts.val, rollouts.seeds
        deviation = measure_deviation(list(rollouts.candidates.values()), order, seeds)
        size = ceil(len(order) / BLOCKS)
        for begin in range(0, len(order), size):
            rollouts.play_all(program, order[begin : begin + size], seeds)
            met, left = order[: begin + size], order[begin + size :]
            if left and best and best is not candidate and is_hopeless(candidate, best, met, left, seeds, deviation):
                candidate.dropped = True
                return

    def close_uncalled(self) -> None:
        """Hide predictors that were never called: they have nothing to learn from."""
        played = [each.list_rollouts(one) for each in self.rollouts.candidates.values() for one in each.rollouts]
        self.open &= {call[0] for rollouts in played for rollout in rollouts for call in rollout.calls}

    def is_done(self, needed: int = 0) -> bool:
        """Whether the search should end instead of beginning `needed` more rollouts, because a candidate solved every
        val variant at its first trial or the budget does not cover them. The reason is noted."""
        rollouts, best = self.rollouts, self.rollouts.best_candidate
        if best is not None and is_solved(best, rollouts.val):
            rollouts.end_search(ALL_SOLVED)
        elif needed and (rollouts.rollouts_left < needed or rollouts.has_spent_search_share):
            rollouts.end_search(BUDGET_SPENT)
        else:
            return False
        return True


class Student(Agent):
    """An `Agent` whose rollouts are those of the search, as its copies' are. Its trace, which optimizers sample from,
    holds only the calls that `list_shown` returns. Only instructions and demonstrations of an optimizer's changes are
    played; predictors that must not change are not among the named ones."""

    def __init__(self, search: Search, list_shown: Callable[[Rollout], list[TracedCall]]):
        super().__init__(search.agent.method.name)
        self.load_state(search.agent.dump_state())
        self.search = search
        self.list_shown = list_shown

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        return [(name, predictor) for name, predictor in self.predictors_by_name.items() if name in self.search.open]

    def get_program(self) -> Agent:
        program, changed = Agent(self.method.name), dict(self.named_predictors())
        for name, original in self.search.agent.predictors_by_name.items():
            predictor, now = program.predictors_by_name[name], changed.get(name, original)
            said = now.signature.instructions.strip()
            same = said == original.signature.instructions.strip()
            predictor.signature = original.signature if same else original.signature.with_instructions(said)
            predictor.demos = now.demos
        return program

    def forward(self, variant: str) -> dspy.Prediction:  # type: ignore[override]
        """The rollout on a calibration variant: ``trials``, per trial ``progress``, and ``score``, the mean over all
        seeds that were played; ``benchmark`` where it is not the default one. On a val variant that a dropped candidate
        did not play, an estimate without trials. Raises `CompileStopped` when nothing better can be found."""
        if self.search.is_done():
            raise CompileStopped
        rollouts, program = self.search.rollouts, self.get_program()
        chosen, candidate = rollouts.find_variant(variant), rollouts.register_candidate(program)
        if candidate.dropped and chosen in rollouts.val and chosen not in candidate.rollouts:
            best = rollouts.best_candidate or candidate
            rollout = Rollout(chosen, estimate_score(candidate, best, chosen, rollouts.seeds), (), (), ())
        else:
            rollout = rollouts.play(program, chosen)
            played = candidate.list_rollouts(chosen, rollouts.seeds)
            rollout = replace(rollout, score=fmean(each.score for each in played))
        if dspy.settings.trace is not None:
            predictors = dict(self.named_predictors())
            dspy.settings.trace.extend(
                (predictors[name], _intern_texts(given), dspy.Prediction(**_intern_texts(said)))
                for name, given, said in self.list_shown(rollout)
                if name in predictors
            )
        said = {"trials": rollout.trials, "progress": rollout.progress, "score": rollout.score}
        name = rollouts.live.runtime.benchmark
        return dspy.Prediction(**said, **({"benchmark": name} if name else {}))


def _intern_texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with one object for equal texts. DSPy seeds its sampling with a pickle of the demonstrations, which
    would differ between a rollout that was played and one read from a file."""
    return {sys.intern(name): sys.intern(v) if type(v) is str else v for name, v in fields.items()}


@contextmanager
def silence_output() -> Iterator[None]:
    """Inside the block, print nothing, draw no tqdm bar, and let only errors of the optimizers' logs through."""
    loggers = {logging.getLogger(name): logging.getLogger(name).level for name in ("dspy", "gepa")}
    no_bar = partialmethod(tqdm.tqdm.__init__, disable=True)
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with redirect_stdout(StringIO()), patch.object(tqdm.tqdm, "__init__", no_bar), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*experimental feature")  # optuna's
            yield
    finally:
        for logger, level in loggers.items():
            logger.setLevel(level)


class ProposerAdapter(dspy.Adapter):
    """Takes the adapter's place in DSPy's settings, so that every question of an optimizer goes to the backend's
    proposer role, booked on the compile's account and logged. Questions are numbered, so that equal ones get different
    answers, and a repeated compile the same ones. An answer that cannot be read or is too long proposes the instruction
    as it is."""

    def __init__(self, rollouts: Rollouts, seed: int):
        super().__init__()
        self.rollouts, self.seed, self.asked = rollouts, seed, 0

    def __deepcopy__(self, memo: dict[int, Any]) -> "ProposerAdapter":
        return self

    def __call__(self, lm: Any, lm_kwargs: Any, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:  # noqa: ARG002
        """As many answers as were asked for, each as output fields by name. Raises `CompileStopped` when the model
        fails, which ends the compile."""
        current = str(inputs.get("current_instruction") or inputs.get("basic_instruction") or "")
        return [
            self._ask(signature, demos, inputs) or dict.fromkeys(signature.output_fields, current)
            for _ in range(lm_kwargs.get("n") or 1)
        ]

    def _ask(self, signature: Any, demos: list[Any], inputs: Mapping[str, Any]) -> dict[str, Any] | None:
        rollouts = self.rollouts
        if rollouts.is_halted:
            raise CompileStopped
        self.asked += 1
        lm = rollouts.live.runtime.lm("proposer", self.seed * ROLLOUTS_PER_SEED + self.asked)
        ledger = TrialLedger(rollouts.record_usage, trial=self.asked, recall=rollouts.recall_usage)
        log = rollouts.logs.proposals
        try:
            with log_calls(log), ledger.book_under_role("proposer"), dspy.context(lm=lm, trace=[]):
                (said,) = rollouts.live.backend.adapter(lm, {}, signature, demos, dict(inputs))
            texts = [str(value).encode("utf-8", "replace").decode() for value in said.values()]
            if not all(0 < len(text.strip()) <= PROPOSAL_CHARACTERS for text in texts):
                raise ValueError("no text, or one that is too long")
            return dict(zip(said, texts, strict=True))
        except (Stopped, NotRecorded, LMError) as error:
            cause = error.__cause__ or error
            if isinstance(error, LMError):
                cause = BackendFailure(f"the proposer failed: {type(error).__name__}: {error}")
                log.void(self.asked, str(cause))
            rollouts.stop_compile("error", cause)
            raise CompileStopped from error
        except (AdapterParseError, ValueError):
            ledger.count_malformed("proposer")
            return None


def make_placebo(agent: Agent, seed: int) -> Agent:
    """The program with a meaningless sentence, chosen by the seed, at the end of every instruction: what it gains on
    `val` is luck, and shows how much of a candidate's gain may be luck too."""
    placebo = agent.deepcopy()
    for predictor in placebo.predictors_by_name.values():
        said = f"{predictor.signature.instructions}\n\n{SENTENCES[seed % len(SENTENCES)]}"
        predictor.signature = predictor.signature.with_instructions(said)
    return placebo
