"""Optimizers: functions that yield candidates for a better program; `compile_agent` chooses among all that were played.
Adding one is a function and a row. None sees anything of `val` but scores: what it learns from is played on `train`."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec
from inspect import cleandoc
from itertools import chain, pairwise, zip_longest
from math import ceil
from pathlib import Path
from typing import Any

import dspy
from dspy.teleprompt.gepa import InstructionProposer

from rsso_dspy.adapter import SAID
from rsso_dspy.errors import DamagedFile, UnknownName, UsageError
from rsso_dspy.files import read_toml
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.feedback import match_steps, metric
from rsso_dspy.optimize.rollouts import CompileStopped
from rsso_dspy.optimize.student import Search
from rsso_dspy.optimize.verdict import Rollout, TracedCall, is_solved
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.signatures.proposing import PROPOSING
from rsso_dspy.store.run_folder import flatten_keys

MINIBATCH = 3  # rollouts that GEPA studies before it proposes, and on which a proposal must do better (gepa's default)
PROPOSALS, DEMONSTRATIONS = 12, 4  # per predictor at most that MIPROv2 combines: its "medium" setting and its default
WORTH_SHOWING = 0.5  # lowest metric of a rollout that demonstrations are taken from
CIRCLES = 2  # optimizers that count recalled rollouts too may go in circles: they end at this many times the budget
LONGEST_INPUT = 1200  # maximum characters of an input field that a proposer is shown; the feedback digests the trials


@dataclass(frozen=True, slots=True)
class Optimizer:
    name: str
    propose: Callable[[Search], Iterator[Agent]]  # candidates; it may play them itself before, as DSPy's do
    least: Callable[[Calibration], int]  # fewest rollouts that compare one candidate with the program to improve
    proposals: Callable[[Calibration, int], int] = lambda _, __: 0  # maximum calls a predictor, given the rollouts
    searches: bool = True  # whether it tries anything but the program to improve
    most: Callable[[Calibration], int] | None = None  # rollouts beyond which it has no use for more, if any
    needs: str | None = None  # the package that it needs, in the extra of the optimizer's name
    settings: Mapping[str, Any] = field(default_factory=dict)  # what its proposals depend on, as JSON data
    notes: tuple[str, ...] = ()  # what a reader of the scores should know


def get_optimizer(name: str) -> Optimizer:
    """Raises `UnknownName` with the nearest, and `UsageError` when a package that it needs is not installed."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS, "--candidates FILE tries wordings of your own.")
    row = OPTIMIZERS[name]
    if row.needs is not None and find_spec(row.needs) is None:
        raise UsageError(f"{name} needs the package {row.needs}; pip install 'rsso-dspy[{name}]'")
    return row


def compute_minibatch_size(calibration: Calibration) -> int:
    return min(MINIBATCH, len(calibration.train))


def gepa(search: Search) -> Iterator[Agent]:
    """Evolve the instructions of every role that was called, by reflection on feedback (Agrawal et al. 2025)."""
    needed = compute_minibatch_size(search.calibration) + search.calibration.val_rollouts
    ends = {"stop_callbacks": [lambda _: search.is_done(needed)], "batch_sampler": UnsolvedBatches(search)}
    yield from search.run(
        lambda: dspy.GEPA(
            metric=metric,
            max_metric_calls=CIRCLES * search.rollouts.wanted.max_rollouts,
            reflection_minibatch_size=None,
            instruction_proposer=make_short_proposer(search.adapter),
            component_selector=select_called_predictors,
            use_merge=False,
            num_threads=search.rollouts.jobs,
            perfect_score=SOLVED,
            seed=search.seed,
            gepa_kwargs=ends,
        ),
        lambda rollout: list(rollout.calls),
    )


def count_gepa_proposals(calibration: Calibration, rollouts: int) -> int:
    """One proposal for every two minibatches, recalled ones included."""
    return ceil((CIRCLES * rollouts - calibration.val_rollouts) / (2 * compute_minibatch_size(calibration)))


def make_short_proposer(adapter: dspy.Adapter) -> Callable[..., dict[str, str]]:
    """DSPy's own proposer with this project's request, which is shown short inputs. (It is no subclass: GEPA would give
    that objects in place of texts.)"""
    ask = InstructionProposer(base_instructions=PROPOSING, adapter=adapter)

    def shorten(text: str) -> str:
        half = LONGEST_INPUT // 2
        return text if len(text) <= LONGEST_INPUT else f"{text[:half]} ... {text[-half:]}"

    def propose(candidate: Any, reflective_dataset: Any, components_to_update: list[str]) -> dict[str, str]:
        shown = {
            name: [{**one, "Inputs": {key: shorten(str(text)) for key, text in one["Inputs"].items()}} for one in told]
            for name, told in reflective_dataset.items()
        }
        return ask(candidate, shown, components_to_update)

    return propose


class UnsolvedBatches:
    """GEPA's batch sampler: train variants in a shuffled order, round by round, without those that the best candidate
    solved at its first trial. Raises `CompileStopped` when none is left."""

    def __init__(self, search: Search):
        self.search = search
        self._dice = random.Random(search.seed)
        self._round: list[int] = []

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:  # noqa: ARG002
        best, calibration = self.search.rollouts.best_candidate, self.search.calibration
        unsolved = [n for n, each in enumerate(calibration.train) if best is None or not is_solved(best, [each])]
        if not unsolved:
            self.search.rollouts.end_search("every train variant was solved at the first trial")
            raise CompileStopped
        size = min(compute_minibatch_size(calibration), len(unsolved))
        self._round = [place for place in self._round if place in unsolved]
        if len(self._round) < size:
            rest = [place for place in unsolved if place not in self._round]
            self._round += self._dice.sample(rest, len(rest))
        taken, self._round = self._round[:size], self._round[size:]
        return taken


def select_called_predictors(state: Any, trajectories: Any, scores: Any, index: int, candidate: Any) -> list[str]:  # noqa: ARG001
    """GEPA's component selector: every predictor that was called in these rollouts."""
    said = {call[0].signature.instructions for data in trajectories for call in data["trace"]}
    return [name for name, instruction in candidate.items() if instruction in said]


def mipro(search: Search) -> Iterator[Agent]:
    """Bayesian search for the best combination of instructions and demonstrations (Opsahl-Ong et al. 2024)."""
    calibration, rollouts = search.calibration, search.rollouts
    rollouts.play_all(search.agent, calibration.train)
    search.close_uncalled()
    trials = rollouts.rollouts_left // calibration.val_rollouts

    def list_shown_calls(rollout: Rollout) -> list[TracedCall]:
        return [(each.predictor, dict(each.given), dict(each.said)) for each in list_lessons(rollout, search.open)]

    yield from search.run(
        lambda: dspy.MIPROv2(
            metric=metric,
            metric_threshold=WORTH_SHOWING,
            max_bootstrapped_demos=DEMONSTRATIONS,
            max_labeled_demos=0,
            auto=None,
            num_candidates=count_combined_instructions(trials),
            num_threads=rollouts.jobs,
            seed=search.seed,
            track_stats=False,
        ),
        list_shown_calls,
        num_trials=CIRCLES * trials,
        minibatch=False,
        program_aware_proposer=False,  # the program's code says nothing of the task
        data_aware_proposer=False,  # the data are only keys of variants
    )


def count_combined_instructions(trials: int) -> int:
    """How many instructions per predictor, the present one included, and sets of demonstrations MIPROv2 combines."""
    return max(2, min(2 * trials // 3, PROPOSALS))


def count_mipro_proposals(calibration: Calibration, rollouts: int) -> int:
    left = rollouts - calibration.val_rollouts - len(calibration.train)
    return count_combined_instructions(left // calibration.val_rollouts)


# Demonstrations from play on train, by the program or its teacher: each is a single step with the task, what was seen
# and the answer, short enough for the prompt of a small model. The set is spread over task types.

CHARACTERS_PER_TOKEN = 4  # an estimate, since not every model has a tokenizer here
DEMO_TOKENS = 1500  # maximum of all demonstrations of a predictor: what the prompt of a small model has room for
SHOWN = ("task", "notice", "observation", "possible_actions")  # of an actor: what was asked and seen, and no memory


@dataclass(frozen=True)
class Lesson:
    predictor: str
    task: str
    earns: bool  # points by itself
    given: Mapping[str, Any]
    said: Mapping[str, Any]

    @property
    def tokens(self) -> int:
        fields = {**self.given, **self.said}
        return -(-sum(len(key) + len(str(value)) for key, value in fields.items()) // CHARACTERS_PER_TOKEN)


def bootstrap(search: Search) -> Iterator[Agent]:
    """One set of demonstrations from what went well on train (Khattab et al. 2023)."""
    program = search.agent.deepcopy()
    played = search.rollouts.play_all(search.agent, search.calibration.train)
    lessons = [lesson for rollout in played for lesson in list_lessons(rollout, search.open)]
    chosen = choose_lessons(lessons, DEMO_TOKENS, f"{search.seed} 0")
    for name, shown in chosen.items():
        demos = [dspy.Example(augmented=True, **lesson.given, **lesson.said) for lesson in shown]
        program.predictors_by_name[name].demos = demos
    if chosen:
        yield program
    else:
        search.rollouts.end_search("no rollout on train has anything that is short enough and good enough to show")


def list_lessons(rollout: Rollout, names: Collection[str]) -> list[Lesson]:
    """The lessons for these predictors in a rollout that went well: of the actor, actions that earned points and all
    actions of a trial that solved the variant; of the reflector, plans after which the next trial did better; of other
    predictors, every call."""
    trials, lessons = [result.trajectory for result in rollout.trials if result.trajectory], list[Lesson]()
    for name, given, said in rollout.calls if rollout.score >= WORTH_SHOWING else ():
        earns, solves = True, False
        if name == "actor":
            steps = [(trial.steps[index], trial.solved) for trial, index in match_steps(said, trials)]
            earns = any(step.reward > 0 for step, _ in steps)
            solves = any(step.understood for step, solved in steps if solved)
        elif name == "reflector":
            read = given["transcript"]
            earns = any(b.accumulator > a.accumulator and is_transcript_of(read, a) for a, b in pairwise(trials))
        if name in names and (earns or solves) and (short := shorten_call(name, given, said)):
            lessons.append(Lesson(name, rollout.variant.task, earns, *short))
    return lessons


def choose_lessons(lessons: Sequence[Lesson], tokens: int, dice: str) -> dict[str, list[Lesson]]:
    """Predictor to the lessons of a set, of at most `tokens` tokens. Task types take turns, and in every other turn an
    action that earned points comes first, as long as there are any."""
    throw = random.Random(dice)
    chosen: dict[str, list[Lesson]] = {}
    for name in dict.fromkeys(each.predictor for each in lessons):
        own = [each for each in lessons if each.predictor == name]
        tasks = sorted({each.task for each in own})
        throw.shuffle(tasks)
        ordered, room = [], tokens
        for task in tasks:
            piles = [[each for each in own if (each.task, each.earns) == (task, earns)] for earns in (True, False)]
            for pile in piles:
                throw.shuffle(pile)
            ordered.append([each for pair in zip_longest(*piles) for each in pair if each])
        for lesson in chain.from_iterable(zip_longest(*ordered)):
            if lesson and lesson.tokens <= room and lesson not in chosen.get(name, ()):
                chosen.setdefault(name, []).append(lesson)
                room -= lesson.tokens
    return chosen


def shorten_call(
    name: str, given: Mapping[str, Any], said: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The inputs and outputs of a call as a demonstration: of an actor's what it saw at this step; None if the answer
    depends on a memory or is a bare number. Of any other predictor the whole call."""
    outputs = {key: value for key, value in said.items() if key != SAID}
    if name != "actor":
        return dict(given), outputs
    rests_on_skill = str(outputs.get("subgoal") or "none").strip().lower() != "none"
    if rests_on_skill or str(outputs.get("action")).strip().isdigit():
        return None
    return {key: given[key] for key in SHOWN if given.get(key)}, outputs


# Wordings of a person's own.

CANDIDATES = "candidates"  # name of the optimizer that proposes them


def read_candidates(file: Path | str, agent: Agent, optimizer: str | None = None) -> Optimizer:
    """The optimizer that proposes the instructions in a TOML file for the predictors of an agent, one a candidate.
    Raises `UsageError` for a file without any, for one that stands there twice or that the agent has already, and where
    another optimizer was asked for."""
    if optimizer not in (None, CANDIDATES):
        raise UsageError(f"{file} is tried in place of an optimizer's proposals; leave out --optimizer {optimizer}")
    wordings = list(_read_wordings(Path(file), agent))
    per_role = ", ".join(f"{count} of {name}" for name, count in Counter(name for name, _ in wordings).items())

    def propose(search: Search) -> Iterator[Agent]:
        for name, text in wordings:
            program = search.agent.deepcopy()
            predictor = program.predictors_by_name[name]
            predictor.signature = predictor.signature.with_instructions(text)
            yield program

    return Optimizer(
        CANDIDATES,
        propose,
        lambda c: 2 * c.val_rollouts,
        most=lambda c: (1 + len(wordings)) * c.val_rollouts,
        settings={"candidates": sha256(repr(wordings).encode()).hexdigest()[:12]},
        notes=(f"instructions of {Path(file).name}: {per_role}; candidates are numbered in the order of the file",),
    )


def _read_wordings(file: Path, agent: Agent) -> Iterator[tuple[str, str]]:
    """The pairs of predictor and instruction in a file, whose ``[skill_verbalizer]`` with ``target`` is
    ``skill_verbalizer.target``."""
    form = 'write actor = ["an instruction", "another one"]'
    try:
        table = flatten_keys(read_toml(file))
    except (OSError, DamagedFile) as error:
        why = error.why if isinstance(error, DamagedFile) else error.strerror
        raise UsageError(f"cannot read the candidates {file}: {why}; {form} into it") from None
    if not table:
        raise UsageError(f"{file} holds no instruction; {form}")
    now = {name: each.signature.instructions for name, each in agent.predictors_by_name.items()}
    for name, texts in table.items():
        if name not in now:
            raise UnknownName(f"role in {file},", name, now, f"{agent.method.name} has no other.")
        if not (isinstance(texts, list) and texts and all(isinstance(each, str) and each.strip() for each in texts)):
            raise UsageError(f"{file}: {name} is no list of instructions; {form.replace('actor', name)}")
        met = {" ".join(now[name].split()): "the present instruction"}
        for number, text in enumerate(map(cleandoc, texts), 1):
            if same := met.get(words := " ".join(text.split())):
                raise UsageError(f"{file}: instruction {number} of {name} is {same} once more; leave it out")
            met[words] = f"instruction {number}"
            yield name, text.strip()


def count_train_and_two(calibration: Calibration) -> int:
    return 2 * calibration.val_rollouts + len(calibration.train)


_ROWS = (
    # Zero-shot and one candidate on val, and on a minibatch or on train.
    Optimizer("gepa", gepa, lambda c: 2 * (c.val_rollouts + compute_minibatch_size(c)), count_gepa_proposals),
    Optimizer("mipro", mipro, count_train_and_two, count_mipro_proposals, needs="optuna"),
    Optimizer("bootstrap", bootstrap, count_train_and_two, most=count_train_and_two),
    Optimizer("none", lambda _: iter(()), lambda c: c.val_rollouts, searches=False, most=lambda c: c.val_rollouts),
)
OPTIMIZERS = {row.name: row for row in _ROWS}
