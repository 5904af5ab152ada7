"""DSPy's optimizers by name, each set up for programs that play episodes. Adding one is a function and a row.

An optimizer only tries candidates; `compile_agent` chooses among all that were played. None sees anything of `val` but
scores: what it learns from is played on `train`.
"""

import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.optimize.acceptance import Rollout, TracedCall, is_solved
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.feedback import find_answer_steps
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.rollouts import Rollouts, race_on_val
from rsso_dspy.optimize.student import (
    ALL_SOLVED,
    ProposerAdapter,
    Search,
    SearchDone,
    Student,
    find_search_end,
    has_perfect_candidate,
)
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.records import TrialResult, Variant
from rsso_dspy.signatures.proposing import PROPOSING

MINIBATCH = 3
"""Rollouts that GEPA studies before it proposes, and on which a proposal must do better (gepa's own default)."""

PROPOSALS = 12
"""Maximum instructions per predictor that MIPROv2 combines (its "medium" setting)."""

DEMONSTRATIONS = 4
"""Maximum demonstrations per predictor (BootstrapFewShot's own default)."""

WORTH_SHOWING = 0.5
"""Lowest metric of a rollout that demonstrations are taken from."""

CIRCLES = 2
"""Some optimizers count recalled rollouts too. One that goes in circles ends at this many times the budget."""

LONGEST_INPUT = 1200
"""Maximum characters of an input field in an example that a proposer is shown; the feedback digests the trials."""

TRAIN_SOLVED = "every train variant was solved at the first trial, and no fresh one was left to draw"
NOTHING_TAUGHT = "the teacher did nothing that is short enough and good enough to show"


@dataclass(frozen=True, slots=True)
class Optimizer:
    """One row."""

    name: str
    source: str
    least: Callable[[Calibration], int]
    """Fewest rollouts with which one candidate can be compared with the program to improve."""
    most: Callable[[Calibration], int | None]
    """Most rollouts that it can use; None for any number."""
    proposals: Callable[[Calibration, int], int]
    """Maximum proposer calls per predictor, given the rollouts."""
    run: Callable[[Agent, Calibration, Rollouts, int, int], Agent]
    """Takes program to improve, calibration, rollouts, seed and jobs; returns the optimizer's own choice."""
    searches: bool = True
    """Whether it tries anything but the program to improve."""
    needs: str | None = None
    """The package that it needs, in the extra of the optimizer's name."""


def get_optimizer(name: str) -> Optimizer:
    """The optimizer called `name`. Raises `UnknownName` with the nearest, and `UsageError` when a package that it needs
    is not installed."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    row = OPTIMIZERS[name]
    if row.needs is not None and find_spec(row.needs) is None:
        raise UsageError(f"{name} needs the package {row.needs}; pip install 'rsso-dspy[{name}]'")
    return row


# GEPA: instructions that evolve by reflection on feedback.


def run_gepa(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Evolve the instructions of every role that was called, by reflection."""
    candidate = compute_minibatch_size(calibration) + calibration.val_rollouts
    search = Search(agent, rollouts, seed, narrow=False)

    def is_search_done(_: Any) -> bool:
        if why := find_search_end(rollouts, candidate):
            rollouts.end_search(why)
        return why is not None

    def compile_student(student: Student) -> None:
        dspy.GEPA(
            metric=metric,
            max_metric_calls=CIRCLES * rollouts.limits.rollouts,
            reflection_minibatch_size=None,
            instruction_proposer=_make_instruction_proposer(search.adapter),
            component_selector=select_called_predictors,
            use_merge=False,
            num_threads=jobs,
            perfect_score=SOLVED,
            seed=seed,
            gepa_kwargs={
                "stop_callbacks": [is_search_done],
                "batch_sampler": UnsolvedBatches(calibration, rollouts, seed),
            },
        ).compile(
            student,
            trainset=build_examples((*calibration.train, *calibration.spare)),
            valset=build_examples(calibration.val),
        )

    search.run(Student(search, lambda rollout: list(rollout.calls)), compile_student)
    return agent


def count_gepa_least(calibration: Calibration) -> int:
    """Rollouts of zero-shot and one candidate on the val variants and a minibatch each."""
    return 2 * calibration.val_rollouts + 2 * compute_minibatch_size(calibration)


def count_gepa_proposals(calibration: Calibration, rollouts: int) -> int:
    """One proposal for every two minibatches, recalled ones included."""
    return ceil((CIRCLES * rollouts - calibration.val_rollouts) / (2 * compute_minibatch_size(calibration)))


def compute_minibatch_size(calibration: Calibration) -> int:
    """Rollouts in a minibatch."""
    return min(MINIBATCH, len(calibration.train))


def _make_instruction_proposer(adapter: ProposerAdapter) -> Callable[..., dict[str, str]]:
    """DSPy's own proposer with this project's request, which is shown short inputs: one call of a rollout, with the
    feedback that tells the trials."""
    ask = InstructionProposer(base_instructions=PROPOSING, adapter=adapter)

    def propose(
        candidate: dict[str, str], reflective_dataset: Mapping[str, Any], components_to_update: list[str]
    ) -> dict[str, str]:
        shown = {
            name: [
                {**example, "Inputs": {key: _shorten(text) for key, text in example["Inputs"].items()}}
                for example in examples
            ]
            for name, examples in reflective_dataset.items()
        }
        proposed: dict[str, str] = ask(candidate, shown, components_to_update)
        return proposed

    return propose


def _shorten(text: object) -> str:
    said = str(text)
    half = LONGEST_INPUT // 2
    return said if len(said) <= LONGEST_INPUT else f"{said[:half]} ... {said[-half:]}"


class UnsolvedBatches:
    """GEPA's batch sampler: train variants in a shuffled order, round by round, without those that the best candidate
    solved at its first trial. When fewer are left than a minibatch holds, fresh ones are drawn from the spare variants.
    When there are none, solved ones fill it up, on which a proposal must not get worse. Raises `SearchDone` when all
    train variants are solved and none is spare."""

    def __init__(self, calibration: Calibration, rollouts: Rollouts, seed: int):
        self.variants = (*calibration.train, *calibration.spare)
        self.size = compute_minibatch_size(calibration)
        self.at_hand = list(range(len(calibration.train)))
        """Indices of the variants drawn so far."""
        self.rollouts = rollouts
        self._dice = random.Random(seed)
        self._round: list[int] = []

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:  # noqa: ARG002
        """Indices of the next minibatch's variants in the trainset."""
        open_ = self._draw_until_open()
        self._round = [place for place in self._round if place in open_]
        taken: list[int] = []
        while len(taken) < min(self.size, len(open_)):
            if not self._round:
                self._round = [place for place in self._dice.sample(open_, len(open_)) if place not in taken]
            taken.append(self._round.pop(0))
        rest = [place for place in self.at_hand if place not in taken]
        return taken + self._dice.sample(rest, min(len(rest), self.size - len(taken)))

    def _draw_until_open(self) -> list[int]:
        """Indices of the drawn variants that are not known to be solved, after drawing fresh ones where needed."""
        while True:
            best = self.rollouts.best_candidate
            open_ = [p for p in self.at_hand if best is None or not is_solved(best, [self.variants[p]])]
            if len(open_) >= self.size or len(self.at_hand) == len(self.variants):
                break
            self.at_hand.append(len(self.at_hand))
            self.rollouts.fresh.append(self.variants[self.at_hand[-1]])
        if not open_:
            self.rollouts.end_search(TRAIN_SOLVED)
            raise SearchDone
        return open_


def select_called_predictors(
    state: Any,  # noqa: ARG001
    trajectories: Sequence[Any],
    subsample_scores: Sequence[float],  # noqa: ARG001
    candidate_idx: int,  # noqa: ARG001
    candidate: dict[str, str],
) -> list[str]:
    """GEPA's component selector: every predictor that was called in these rollouts. The others have nothing to learn
    from."""
    said = {call[0].signature.instructions for data in trajectories for call in data["trace"]}
    return [name for name, instruction in candidate.items() if instruction in said]


# MIPROv2: instructions that a model writes from demonstrations, in combination with them.


def run_mipro(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:
    """Bayesian search for the best combination of instructions and demonstrations. Every candidate is played on the val
    variants."""
    if has_perfect_candidate(rollouts):
        return agent
    rollouts.play_all(agent, calibration.train, jobs)

    def compile_student(student: Student) -> None:
        trials = rollouts.rollouts_left // calibration.val_rollouts
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*experimental feature")  # optuna's
            dspy.MIPROv2(
                metric=metric,
                metric_threshold=WORTH_SHOWING,
                max_bootstrapped_demos=DEMONSTRATIONS,
                max_labeled_demos=0,
                auto=None,
                num_candidates=count_combined_instructions(trials),
                num_threads=jobs,
                seed=seed,
                track_stats=False,
            ).compile(
                student,
                trainset=build_examples(calibration.train),
                valset=build_examples(calibration.val),
                num_trials=CIRCLES * trials,
                minibatch=False,
                program_aware_proposer=False,  # the program's code says nothing of the task
                data_aware_proposer=False,  # the data are only keys of variants
            )

    search = Search(agent, rollouts, seed)
    search.run(Student(search, list_exemplary_calls), compile_student)
    return agent


def count_combined_instructions(trials: int) -> int:
    """How many instructions per predictor, and sets of demonstrations, to combine in this many trials."""
    return max(2, min(2 * trials // 3, PROPOSALS))


def count_mipro_proposals(calibration: Calibration, rollouts: int) -> int:
    """The first of them is replaced by the instruction as it is."""
    left = rollouts - calibration.val_rollouts - len(calibration.train)
    return count_combined_instructions(left // calibration.val_rollouts)


# Demonstrations from rollouts that went well. No instruction is changed and no proposer asked.


def run_bootstrap(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """Try one set of demonstrations: of the actor, actions that earned points; of the reflector, plans after which the
    next trial did better."""
    few_shot = dspy.BootstrapFewShot(
        metric=metric, metric_threshold=WORTH_SHOWING, max_bootstrapped_demos=DEMONSTRATIONS, max_labeled_demos=0
    )
    shuffled = random.Random(seed).sample(calibration.train, len(calibration.train))
    made = [agent]

    def compile_student(student: Student) -> None:
        made.append(few_shot.compile(student, trainset=build_examples(shuffled)).get_program())

    search = Search(agent, rollouts, seed, narrow=False)
    search.run(Student(search, list_exemplary_calls), compile_student)
    return made[-1]


def count_one_set_rollouts(calibration: Calibration) -> int:
    """Rollouts to play the train variants and one set of demonstrations."""
    return 2 * calibration.val_rollouts + len(calibration.train)


def list_exemplary_calls(rollout: Rollout) -> list[TracedCall]:
    """The calls that are worth showing."""
    return [call for call in rollout.calls if is_exemplary(rollout.trials, call)]


def is_exemplary(results: Sequence[TrialResult], call: TracedCall) -> bool:
    """Whether a call in these trials is worth showing: an action that earned points, a plan after which the next trial
    did better, or any other predictor's answer."""
    name, given, said = call
    trials = [result.trajectory for result in results if result.trajectory]
    if name == "actor":
        return any(step.reward > 0 for step in find_answer_steps(said, results))
    if name == "reflector":
        about = [number for number, trial in enumerate(trials) if is_transcript_of(given["transcript"], trial)]
        return any(trials[n + 1].accumulator > trials[n].accumulator for n in about if n + 1 < len(trials))
    return True


# Demonstrations from a teacher's play, short enough for the prompt of a small model: each is a single step with the
# task, what was seen lately and the answer. The set is spread over task types.

CHARACTERS_PER_TOKEN = 4
"""Used to estimate the length of a lesson, since not every model has a tokenizer here."""

RECENT = 600
"""Maximum characters of earlier steps in a demonstration's history, beside the present state."""

ELSEWHERE = "(as in the task at hand)"
"""Stands for the action templates, which a demonstration would only repeat."""

DROPPED = ("constitution", "plans_from_past_attempts", "progress", "skills")
"""Regions of a memory that the student does not have."""

_ACTED = re.compile(r"^(?:Next action|Action): .*\n\n", re.M)


@dataclass(frozen=True)
class Lesson:
    """One demonstration that a set may hold."""

    predictor: str
    task: str
    earns: bool
    """Whether it earned points by itself."""
    demo: Mapping[str, str]

    @property
    def tokens(self) -> int:
        """Estimated tokens, field names included."""
        return -(-sum(len(key) + len(value) for key, value in self.demo.items()) // CHARACTERS_PER_TOKEN)


def try_lessons(agent: Agent, rollouts: Rollouts, train: Sequence[Variant], tokens: int, seed: int, jobs: int) -> None:
    """Have the teacher play, and race a set of demonstrations of at most `tokens` tokens a predictor."""
    if has_perfect_candidate(rollouts):
        return rollouts.end_search(ALL_SOLVED)
    rollouts.play_all(agent, train, jobs)
    lessons = [each for variant in train for each in list_lessons(rollouts.taught[variant], rollouts.tuned)]
    chosen = choose_lessons(lessons, tokens, f"{seed} 0")
    if not chosen:
        return rollouts.end_search(NOTHING_TAUGHT)
    program = Agent(agent.method.name)
    program.load_state(agent.dump_state())
    for name, taught in chosen.items():
        program.predictors_by_name[name].demos = [dspy.Example(augmented=True, **each.demo) for each in taught]
    if why := find_search_end(rollouts, rollouts.count_missing(program, rollouts.val, rollouts.seeds)):
        return rollouts.end_search(why)
    race_on_val(rollouts, program, jobs)
    return None


def list_lessons(rollout: Rollout, tuned: Sequence[str]) -> list[Lesson]:
    """The lessons in a rollout that went well: of the actor, actions that earned points and all actions of a trial that
    solved the variant; of other predictors, calls that helped."""
    solved = [trial for trial in rollout.trials if trial.trajectory and trial.trajectory.solved]
    lessons = []
    for call in rollout.calls if rollout.score >= WORTH_SHOWING else ():
        name, given, said = call
        earns = is_exemplary(rollout.trials, call)
        solves = name == "actor" and any(step.understood for step in find_answer_steps(said, solved))
        if name in tuned and (earns or solves) and (demo := shorten_demo(name, given, said)) is not None:
            lessons.append(Lesson(name, rollout.variant.task, earns, demo))
    return lessons


def choose_lessons(lessons: Sequence[Lesson], tokens: int, dice: str) -> dict[str, list[Lesson]]:
    """Predictor to the lessons of a set, of at most `tokens` tokens. Task types take turns, and in every other turn an
    action that earned points comes first."""
    throw = random.Random(dice)
    chosen: dict[str, list[Lesson]] = {}
    for name in dict.fromkeys(each.predictor for each in lessons):
        own = [each for each in lessons if each.predictor == name]
        tasks = sorted({each.task for each in own})
        throw.shuffle(tasks)
        left = {task: _order_lessons([each for each in own if each.task == task], throw) for task in tasks}
        room, kept = tokens, []
        while any(left.values()):
            for task in tasks:
                if left[task] and (lesson := left[task].pop(0)).tokens <= room and lesson not in kept:
                    kept.append(lesson)
                    room -= lesson.tokens
        if kept:
            chosen[name] = kept
    return chosen


def shorten_demo(name: str, given: Mapping[str, Any], said: Any) -> dict[str, str] | None:
    """A call as a demonstration. Of an actor's call only the newest steps of the history remain, and no memory; None if
    the answer depends on a memory or is a bare number. Of any other predictor the whole call."""
    texts = {key: str(value) for key, value in {**given, **dict(said)}.items()}
    if name != "actor":
        return texts
    if "history" not in texts or texts.get("current_subgoal", "none").strip().lower() not in ("", "none"):
        return None
    if texts.get("next_action", texts.get("action", "")).strip().isdigit():
        return None
    if "action_templates" in texts:
        texts["action_templates"] = ELSEWHERE
    texts["history"] = cut_history(texts["history"])
    return {key: value for key, value in texts.items() if key not in DROPPED}


def cut_history(history: str) -> str:
    """The present state, and as many whole steps before it as fit `RECENT`."""
    starts = [0, *(match.end() for match in _ACTED.finditer(history))]
    return history[next(start for start in starts if starts[-1] - start <= RECENT) :]


def _order_lessons(lessons: Sequence[Lesson], throw: random.Random) -> list[Lesson]:
    """Shuffle the lessons, with those that earned points in every other place as long as there are any."""
    earning = [each for each in lessons if each.earns]
    others = [each for each in lessons if not each.earns]
    throw.shuffle(earning)
    throw.shuffle(others)
    pairs = [pair for both in zip(earning, others, strict=False) for pair in both]
    return [*pairs, *earning[len(others) :], *others[len(earning) :]]


def run_none(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """Return the program as it is: a baseline that is scored on the same variants and saved in the same form."""
    return agent


OPTIMIZERS = {
    row.name: row
    for row in (
        Optimizer(
            "gepa", "Agrawal et al. 2025, dspy.GEPA", count_gepa_least, lambda _: None, count_gepa_proposals, run_gepa
        ),
        Optimizer(
            "mipro",
            "Opsahl-Ong et al. 2024, dspy.MIPROv2",
            count_one_set_rollouts,
            lambda _: None,
            count_mipro_proposals,
            run_mipro,
            needs="optuna",
        ),
        Optimizer(
            "bootstrap",
            "Khattab et al. 2023, dspy.BootstrapFewShot",
            count_one_set_rollouts,
            count_one_set_rollouts,
            lambda _, __: 0,
            run_bootstrap,
        ),
        Optimizer(
            "none",
            "the program as it is",
            lambda c: c.val_rollouts,
            lambda c: c.val_rollouts,
            lambda _, __: 0,
            run_none,
            searches=False,
        ),
    )
}
