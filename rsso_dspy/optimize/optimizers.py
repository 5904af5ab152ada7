"""Optimizers: functions that yield candidates for a better program; `compile_agent` chooses among all that were played.
Adding one is a function and a row. None sees anything of `val` but scores: what it learns from is played on `train`."""

import logging
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partialmethod
from hashlib import sha256
from importlib.util import find_spec
from inspect import cleandoc
from io import StringIO
from itertools import chain, pairwise, zip_longest
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import dspy
import tqdm
from dspy.teleprompt.gepa import InstructionProposer
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError, LMError

from rsso_dspy.adapter import SAID
from rsso_dspy.errors import BackendFailure, DamagedFile, NotRecorded, Stopped, UnknownName, UsageError
from rsso_dspy.files import explain_absence, read_toml
from rsso_dspy.optimize.calibration import Calibration, build_examples
from rsso_dspy.optimize.feedback import match_steps, metric
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts, log_calls
from rsso_dspy.optimize.verdict import (
    Rollout,
    TracedCall,
    estimate_score,
    explain_drop,
    is_hopeless,
    is_solved,
    measure_deviation,
)
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.programs.roles import TrialLedger
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.programs.trial import ROLLOUTS_PER_SEED, find_callers_trace
from rsso_dspy.records import estimate_tokens
from rsso_dspy.store.run_folder import flatten_keys

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
        """Let an optimizer of DSPy's compile a student, and yield its choice. Its questions go to the proposer role."""
        student = Student(self, list_shown)
        if not student.predictors():
            return
        stand_in = dspy.BaseLM("the proposer role")  # optimizers inspect and copy a model; nothing is sent to this one
        ours = {"lm": stand_in, "adapter": self.adapter, "callbacks": [*dspy.settings.callbacks, self]}
        ours["trace"] = find_callers_trace()
        data = {"trainset": build_examples(self.calibration.train), "valset": build_examples(self.calibration.val)}
        with dspy.context(**ours), silence_output():
            program = make().compile(student, **data, **settings).get_program()
        yield program  # not inside the block, whose settings would be the caller's meanwhile

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        """DSPy calls this before every evaluation. On `val` the program races first. Where the budget does not cover
        other variants, the first ones are played, so that threads do not decide which."""
        rollouts = self.rollouts
        program = inputs["program"].get_program()
        keys = dict.fromkeys(example.variant for example in inputs.get("devset") or instance.devset)
        variants = [rollouts.find_variant(key) for key in keys]
        if set(variants) == set(rollouts.val):
            self.race(program)
            return
        costly = [variant for variant in variants if variant not in rollouts.val and not rollouts.is_free(variant)]
        if rollouts.count_missing(program, costly) > rollouts.rollouts_left:
            rollouts.play_all(program, costly)

    def race(self, program: Agent) -> None:
        """Play a candidate on `val` in blocks, paired with the best so far, until it is hopeless. Raises
        `CompileStopped` when nothing better can be found or the budget does not cover all of it. The order of blocks
        depends on no score: where earlier programs differed, the best one was lucky, and an equal one falls behind."""
        rollouts = self.rollouts
        earlier = rollouts.candidates.get(fingerprint_program(program))
        missing = 0 if earlier and earlier.dropped else rollouts.count_missing(program, rollouts.val, rollouts.seeds)
        if self.is_done(missing):
            if earlier and missing:
                earlier.left = f"not raced on val: {rollouts.search_end}"
            raise CompileStopped
        if not missing:
            return

        candidate = rollouts.register_candidate(program)
        best = rollouts.best_candidate
        order, seeds = rollouts.val, rollouts.seeds
        deviation = measure_deviation(list(rollouts.candidates.values()), order, seeds)
        size = ceil(len(order) / BLOCKS)
        for begin in range(0, len(order), size):
            rollouts.play_all(program, order[begin : begin + size], seeds)
            covered = order[: begin + size]
            rest = order[begin + size :]
            if (
                rest
                and best
                and best is not candidate
                and is_hopeless(candidate, best, covered, rest, seeds, deviation)
            ):
                candidate.dropped = True
                candidate.left = explain_drop(candidate, best, covered, rest, seeds)
                return

    def close_uncalled(self) -> None:
        """Hide predictors that were never called: they have nothing to learn from."""
        called: set[str] = set()
        for candidate in self.rollouts.candidates.values():
            for variant in candidate.rollouts:
                for rollout in candidate.list_rollouts(variant):
                    called.update(call[0] for call in rollout.calls)
        self.open &= called

    def is_done(self, needed: int = 0) -> bool:
        """Whether the search should end instead of beginning `needed` more rollouts, because a candidate solved every
        val variant at its first trial or the budget does not cover them. The reason is noted."""
        rollouts, best = self.rollouts, self.rollouts.best_candidate
        if best is not None and is_solved(best, rollouts.val):
            rollouts.end_search("a candidate solved every val variant at its first trial")
        elif needed and (rollouts.rollouts_left < needed or rollouts.has_spent_search_share):
            rollouts.end_search(BUDGET_SPENT)
        else:
            return False
        return True


class Student(Agent):
    """An `Agent` whose rollouts are those of the search, as its copies' are. Its trace, which optimizers sample from,
    holds only the calls that `list_shown` returns. Predictors that must not change are not among the named ones."""

    def __init__(self, search: Search, list_shown: Callable[[Rollout], list[TracedCall]]):
        super().__init__(search.agent.method.name)
        self.load_state(search.agent.dump_state())
        self.search, self.list_shown = search, list_shown

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        return [(name, predictor) for name, predictor in self.predictors_by_name.items() if name in self.search.open]

    def get_program(self) -> Agent:
        program = Agent(self.method.name)
        changed = dict(self.named_predictors())
        for name, original in self.search.agent.predictors_by_name.items():
            predictor = program.predictors_by_name[name]
            current = changed.get(name, original)
            instructions = current.signature.instructions.strip()
            same = instructions == original.signature.instructions.strip()
            predictor.signature = original.signature if same else original.signature.with_instructions(instructions)
            predictor.demos = current.demos
        return program

    def forward(self, variant: str) -> dspy.Prediction:  # type: ignore[override]
        """The rollout on a calibration variant; ``score`` is the mean over all seeds that were played. On a val variant
        that a dropped candidate did not play, an estimate without trials."""
        if self.search.is_done():
            raise CompileStopped
        rollouts = self.search.rollouts
        program = self.get_program()
        target = rollouts.find_variant(variant)
        candidate = rollouts.register_candidate(program)
        if candidate.dropped and target in rollouts.val and target not in candidate.rollouts:
            best = rollouts.best_candidate or candidate
            rollout = Rollout(target, estimate_score(candidate, best, target, rollouts.seeds), (), (), ())
        else:
            rollout = rollouts.play(program, target)
            repeats = candidate.list_rollouts(target, rollouts.seeds)
            rollout = replace(rollout, score=fmean(repeat.score for repeat in repeats))
        if dspy.settings.trace is not None:
            predictors = dict(self.named_predictors())
            dspy.settings.trace.extend(
                (predictors[name], intern_texts(inputs), dspy.Prediction(**intern_texts(outputs)))
                for name, inputs, outputs in self.list_shown(rollout)
                if name in predictors
            )
        fields = {"trials": rollout.trials, "progress": rollout.progress, "score": rollout.score}
        return dspy.Prediction(**fields, benchmark=rollouts.live.runtime.benchmark)


def intern_texts(value: Any) -> Any:
    """A copy with one object for equal texts, and none for equal lists. DSPy seeds its sampling with a pickle of the
    demonstrations, which would differ between a rollout that was played and one read from a file."""
    if isinstance(value, dspy.History):
        return dspy.History(messages=intern_texts(value.messages))
    if isinstance(value, dict):
        return {sys.intern(name): intern_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(intern_texts, value)]
    return sys.intern(value) if type(value) is str else value


@contextmanager
def silence_output() -> Iterator[None]:
    """Inside the block, print nothing, draw no tqdm bar, and let only errors of the optimizers' logs through."""
    no_bar = partialmethod(tqdm.tqdm.__init__, disable=True)
    with ExitStack() as undo, patch.object(tqdm.tqdm, "__init__", no_bar), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*experimental feature")  # optuna's
        for logger in map(logging.getLogger, ("dspy", "gepa")):
            undo.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        with redirect_stdout(StringIO()):
            yield


class ProposerAdapter(dspy.Adapter):
    """Takes the adapter's place in DSPy's settings, so that every question of an optimizer goes to the backend's
    proposer role, booked and logged. Questions are numbered, so that equal ones get different answers, and a repeated
    compile the same ones. An answer that cannot be read or is too long proposes the instruction as it is."""

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
                (answer,) = rollouts.live.backend.adapter(lm, {}, signature, demos, dict(inputs))
            texts = [str(value).encode("utf-8", "replace").decode() for value in answer.values()]
            if not all(0 < len(text.strip()) <= PROPOSAL_CHARACTERS for text in texts):
                raise ValueError("no text, or one that is too long")
            return dict(zip(answer, texts, strict=True))
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
    """The program with a meaningless sentence at the end of every instruction: what it gains on `val` is luck."""
    placebo = agent.deepcopy()
    for predictor in placebo.predictors_by_name.values():
        instructions = f"{predictor.signature.instructions}\n\n{SENTENCES[seed % len(SENTENCES)]}"
        predictor.signature = predictor.signature.with_instructions(instructions)
    return placebo


# The optimizers.

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
    origin: str = "proposed"  # how its candidates come about, in a word or two


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


PROPOSING = """\
You improve the instruction of one role of an agent that plays text games. You are given the present instruction, and
calls of that role: what it read, what it answered, and feedback that tells how the trials around the call went. Facts
are evidence about one variant of a task; advice holds for others too, and what begins with "Perhaps" rests on a single
variant.

Write the whole new instruction. The same instruction serves every task type, and variants of them that nobody has seen
yet: other objects, other rooms, other answers.
- Keep word for word what already works, above all how the answer is to be given. Add, change or drop a few lines.
- Every added line is one short order that can be followed without knowing these calls.
- A line that holds for one kind of task begins with the words of that kind: In tasks about WORDS: ...
- Never name an object, a box or a result of one variant. Say what it is in the task's words: the thing named in the
  task.
- Points may come long after the action that earned them."""


def make_short_proposer(adapter: dspy.Adapter) -> Callable[..., dict[str, str]]:
    """DSPy's own proposer with this project's request, which is shown short inputs. (It is no subclass: GEPA would give
    that objects in place of texts.)"""
    ask = InstructionProposer(base_instructions=PROPOSING, adapter=adapter)

    def shorten(text: str) -> str:
        half = LONGEST_INPUT // 2
        return text if len(text) <= LONGEST_INPUT else f"{text[:half]} ... {text[-half:]}"

    def shorten_inputs(record: dict[str, Any]) -> dict[str, Any]:
        return {**record, "Inputs": {key: shorten(str(text)) for key, text in record["Inputs"].items()}}

    def propose(candidate: Any, reflective_dataset: Any, components_to_update: list[str]) -> dict[str, str]:
        examples = {
            name: [shorten_inputs(record) for record in records] for name, records in reflective_dataset.items()
        }
        return ask(candidate, examples, components_to_update)

    return propose


class UnsolvedBatches:
    """GEPA's batch sampler: train variants in a shuffled order, round by round, without those that the best candidate
    solved at its first trial."""

    def __init__(self, search: Search):
        self.search, self._dice, self._round = search, random.Random(search.seed), list[int]()

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:  # noqa: ARG002
        best = self.search.rollouts.best_candidate
        calibration = self.search.calibration
        unsolved = [n for n, variant in enumerate(calibration.train) if best is None or not is_solved(best, [variant])]
        if not unsolved:
            self.search.rollouts.end_search("every train variant was solved at the first trial")
            raise CompileStopped
        size = min(compute_minibatch_size(calibration), len(unsolved))
        self._round = [place for place in self._round if place in unsolved]
        if len(self._round) < size:
            rest = [place for place in unsolved if place not in self._round]
            self._round += self._dice.sample(rest, len(rest))
        batch = self._round[:size]
        self._round = self._round[size:]
        return batch


def select_called_predictors(state: Any, trajectories: Any, scores: Any, index: int, candidate: Any) -> list[str]:  # noqa: ARG001
    """GEPA's component selector: every predictor that was called in these rollouts."""
    instructions = {call[0].signature.instructions for data in trajectories for call in data["trace"]}
    return [name for name, instruction in candidate.items() if instruction in instructions]


def mipro(search: Search) -> Iterator[Agent]:
    """Bayesian search for the best combination of instructions and demonstrations (Opsahl-Ong et al. 2024)."""
    calibration, rollouts = search.calibration, search.rollouts
    rollouts.play_all(search.agent, calibration.train)
    search.close_uncalled()
    trials = rollouts.rollouts_left // calibration.val_rollouts
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
        lambda rollout: [
            (lesson.predictor, lesson.given, lesson.said) for lesson in list_lessons(rollout, search.open)
        ],
        num_trials=CIRCLES * trials,
        minibatch=False,
        program_aware_proposer=False,  # the program's code says nothing of the task
        data_aware_proposer=False,  # the data are only keys of variants
    )


def count_combined_instructions(trials: int) -> int:
    """How many instructions per predictor, the present one included, and sets of demonstrations MIPROv2 combines."""
    return max(2, min(2 * trials // 3, PROPOSALS))


def count_mipro_proposals(calibration: Calibration, rollouts: int) -> int:
    remaining = rollouts - calibration.val_rollouts - len(calibration.train)
    return count_combined_instructions(remaining // calibration.val_rollouts)


# Demonstrations from play on train, by the program or its teacher: each is a single step with the task, what was seen
# and the answer, short enough for the prompt of a small model. The set is spread over task types.

DEMO_TOKENS = 1500  # maximum of all demonstrations of a predictor: what the prompt of a small model has room for
SHOWN = ("task", "notice", "observation", "possible_actions")  # of an actor: what was asked and seen, and no memory


@dataclass(frozen=True)
class Lesson:
    predictor: str
    task: str
    earns: bool  # points by itself
    given: dict[str, Any]
    said: dict[str, Any]

    @property
    def tokens(self) -> int:
        fields = {**self.given, **self.said}
        return estimate_tokens("".join(f"{key}{value}" for key, value in fields.items()))


def bootstrap(search: Search) -> Iterator[Agent]:
    """One set of demonstrations from what went well on train (Khattab et al. 2023)."""
    program = search.agent.deepcopy()
    rollouts = search.rollouts.play_all(search.agent, search.calibration.train)
    lessons = [lesson for rollout in rollouts for lesson in list_lessons(rollout, search.open)]
    selection = choose_lessons(lessons, DEMO_TOKENS, f"{search.seed} 0")
    for name, selected in selection.items():
        demos = [dspy.Example(augmented=True, **lesson.given, **lesson.said) for lesson in selected]
        program.predictors_by_name[name].demos = demos
    if selection:
        yield program
    else:
        search.rollouts.end_search("no rollout on train has anything that is short enough and good enough to show")


def list_lessons(rollout: Rollout, names: Collection[str]) -> list[Lesson]:
    """The lessons for these predictors in a rollout that went well: of the actor, actions that earned points and all
    actions of a trial that solved the variant; of the reflector, plans after which the next trial did better; of other
    predictors, every call."""
    lessons: list[Lesson] = []
    trials = [result.trajectory for result in rollout.trials if result.trajectory]
    for name, inputs, outputs in rollout.calls if rollout.score >= WORTH_SHOWING else ():
        earns = True
        solves = False
        if name == "actor":
            steps = [(trial.steps[index], trial.solved) for trial, index in match_steps(outputs, trials)]
            earns = any(step.reward > 0 for step, _ in steps)
            solves = any(step.understood for step, solved in steps if solved)
        elif name == "reflector":
            transcript = inputs["transcript"]
            earns = any(b.accumulator > a.accumulator and is_transcript_of(transcript, a) for a, b in pairwise(trials))
        if name in names and (earns or solves) and (short := shorten_call(name, inputs, outputs)):
            lessons.append(Lesson(name, rollout.variant.task, earns, *short))
    return lessons


def choose_lessons(lessons: Sequence[Lesson], tokens: int, dice: str) -> dict[str, list[Lesson]]:
    """Predictor to the lessons of a set, of at most `tokens` tokens. Task types take turns, and in every other turn an
    action that earned points comes first, as long as there are any."""
    throw = random.Random(dice)
    selection: dict[str, list[Lesson]] = {}
    for name in dict.fromkeys(lesson.predictor for lesson in lessons):
        available = [lesson for lesson in lessons if lesson.predictor == name]
        tasks = sorted({lesson.task for lesson in available})
        throw.shuffle(tasks)
        room = tokens
        ordered = []
        for task in tasks:
            piles = [
                [lesson for lesson in available if (lesson.task, lesson.earns) == (task, earns)]
                for earns in (True, False)
            ]
            for pile in piles:
                throw.shuffle(pile)
            ordered.append([lesson for pair in zip_longest(*piles) for lesson in pair if lesson])
        for lesson in chain.from_iterable(zip_longest(*ordered)):
            if lesson and lesson.tokens <= room and lesson not in selection.get(name, ()):
                selection.setdefault(name, []).append(lesson)
                room -= lesson.tokens
    return selection


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
    Raises `UsageError` for a file without any or with a repeated one, and where another optimizer was asked for."""
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
        origin="hand-written",
    )


def _read_wordings(file: Path, agent: Agent) -> Iterator[tuple[str, str]]:
    """The pairs of predictor and instruction; ``target`` in ``[skill_verbalizer]`` is ``skill_verbalizer.target``."""
    form = 'write actor = ["an instruction", "another one"]'
    try:
        table = flatten_keys(read_toml(file))
    except (OSError, DamagedFile) as error:
        why = error.why if isinstance(error, DamagedFile) else error.strerror
        raise UsageError(f"cannot read the candidates {file}: {why}; {form} into it{explain_absence(file)}") from None
    if not table:
        raise UsageError(f"{file} holds no instruction; {form}")
    present = {name: predictor.signature.instructions for name, predictor in agent.predictors_by_name.items()}
    for name, texts in table.items():
        if name not in present:
            raise UnknownName(f"role in {file},", name, present, f"{agent.method.name} has no other.")
        if not (isinstance(texts, list) and texts and all(isinstance(text, str) and text.strip() for text in texts)):
            raise UsageError(f"{file}: {name} is no list of instructions; {form.replace('actor', name)}")
        origins = {" ".join(present[name].split()): "the present instruction"}
        for number, text in enumerate(map(cleandoc, texts), 1):
            words = " ".join(text.split())
            if same := origins.get(words):
                raise UsageError(f"{file}: instruction {number} of {name} is {same} once more; leave it out")
            origins[words] = f"instruction {number}"
            yield name, text.strip()


def count_train_and_two(calibration: Calibration) -> int:
    return 2 * calibration.val_rollouts + len(calibration.train)


_ROWS = (
    # Zero-shot and one candidate on val, and on a minibatch or on train.
    Optimizer("gepa", gepa, lambda c: 2 * (c.val_rollouts + compute_minibatch_size(c)), count_gepa_proposals),
    Optimizer("mipro", mipro, count_train_and_two, count_mipro_proposals, needs="optuna", origin="combined"),
    Optimizer("bootstrap", bootstrap, count_train_and_two, most=count_train_and_two, origin="bootstrapped"),
    Optimizer("none", lambda _: iter(()), lambda c: c.val_rollouts, searches=False, most=lambda c: c.val_rollouts),
)
OPTIMIZERS = {row.name: row for row in _ROWS}
