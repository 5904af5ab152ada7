"""The metric for DSPy's optimizers, and its feedback on one predictor's call, for an optimizer that proposes
instructions: facts name what was done; advice is imperative sentences about play in general, which name no object of
the variant. The variant's key, the step budget and the goals' wording are in neither. docs/COMPILING.md explains each
rule."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from dspy.teleprompt.gepa.gepa_utils import ScoreWithFeedback

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.records import Step, Trajectory, TrialResult

FACTS = "Facts:"
ADVICE = "Advice:"
PERHAPS = "Perhaps: "
MOST = 4  # maximum entries of each list
REPEATED = 3  # how often the same action is taken in vain before that is reported
LINES = 10  # maximum lines of steps of a digested trial; later trials of the rollout get half
ON_TEMPLATES = "Always use a template, with names as the observations give them."
ON_REPEATING = "Do not repeat an action that changed nothing."

_ENDINGS = {
    "solved": "solved the task",
    "failed": "was ended by the environment",
    "budget": "ended with the task undone",
    "stalled": "brought the simulator to a standstill",
    "repeated": "was ended because one action was repeated over and over",
    "exhausted": "was ended because it went in circles",
    "error": "was cut short",
}
_LED = 3  # steps named before a gain
_QUOTE = 80  # characters shown of an observation
_THOUGHT = 110  # of a thought
_START = 300  # of the start
_UNKNOWN = 80  # characters of the longest unknown action that is reported
_NOTES = re.compile(r"\bNotes?:.*", re.S)


def metric(
    example: Any,  # noqa: ARG001 - the signature is DSPy's
    prediction: Any,
    trace: Any = None,  # noqa: ARG001
    pred_name: str | None = None,
    pred_trace: Sequence[tuple[Any, dict[str, Any], Any]] | None = None,
) -> float | ScoreWithFeedback:
    """The score of a prediction, from 0 to 1: its own ``score`` if it has one, else that of its ``trials``. When a
    predictor is named, with feedback on that predictor's call, which reads ``progress`` (the goals of every trial) and
    ``benchmark`` (its name). None, which SIMBA gives for a program that raised, scores 0."""
    if prediction is None:
        return 0.0
    score = prediction.get("score")
    number = score_trials(prediction.trials) if score is None else float(score)
    if pred_name is None:
        return number

    inputs: Mapping[str, Any] = {}
    outputs: Any = {}
    if pred_trace:
        _, inputs, outputs = pred_trace[0]

    benchmark = get_benchmark(prediction.get("benchmark") or DEFAULT)
    progress = prediction.get("progress") or ()
    feedback = build_feedback(pred_name, inputs, outputs, prediction.trials, progress, benchmark)
    return ScoreWithFeedback(score=number, feedback=feedback)


class Advice(str):
    """A sentence that holds for every variant, and so names nothing of this one."""


class Guess(Advice):
    """A sentence that only one variant supports."""


@dataclass(frozen=True)
class PredictorCall:
    inputs: Mapping[str, Any]
    outputs: Any
    trials: tuple[Trajectory, ...]
    goals: Sequence[Sequence[Goal]]  # per trial; empty when unknown
    benchmark: Benchmark


def build_feedback(
    name: str,
    inputs: Mapping[str, Any],
    outputs: Any,
    results: Sequence[TrialResult],
    progress: Sequence[Sequence[Goal]] = (),
    of: Benchmark | None = None,
) -> str:
    """How one call of the predictor ``name`` affected the trials, and what to do better. ``progress`` is the goals of
    every trial, empty when unknown; ``of`` is the benchmark, the default one when None. A predictor without a rule of
    its own gets the result of the trials alone, a solved variant only facts, the actor also a digest of the trials."""
    trials = tuple(result.trajectory for result in results if result.trajectory is not None)

    sentences: list[str] = []
    rule = RULES.get(name)
    if rule:
        call = PredictorCall(inputs, outputs, trials, progress, of or get_benchmark())
        sentences += rule(call)
    for trial in trials:
        ending = _ENDINGS[trial.outcome]
        sentences.append(f"Trial {trial.trial} {ending}, at {trial.environment_score} of 100 points.")

    facts = []
    advice = []
    for sentence in dict.fromkeys(sentences):
        if isinstance(sentence, Guess):
            advice.append(f"- {PERHAPS}{sentence}")
        elif isinstance(sentence, Advice):
            advice.append(f"- {sentence}")
        else:
            facts.append(sentence)

    lines: list[str] = []
    if facts:
        lines += [FACTS, *facts]
    if name == "actor":
        lines += digest_trials(trials)
    if advice and not any(trial.solved for trial in trials):
        lines += [ADVICE, *advice]
    return "\n".join(lines)


# The actor.


def judge_actor(call: PredictorCall) -> Iterator[str]:
    """This answer first, then the trials; what the variant suggests for others are guesses."""
    yield from _judge_answer(call)
    yield from report_goals(call)

    steps = [step for trial in call.trials for step in trial.steps if step.action]
    yield from _report_changes(steps)

    worded = [step for step in steps if not step.action.isdigit()]
    yield from _report_unknown(worded)
    yield from _report_repeated(worded)


def _report_changes(steps: Sequence[Step]) -> Iterator[str]:
    rises = dict.fromkeys(f"{step.action} ({step.reward:+d})" for step in steps if step.reward > 0)
    falls = dict.fromkeys(f"{step.action} ({step.reward:+d})" for step in steps if step.reward < 0)
    if rises:
        first_rises = ", ".join(list(rises)[: 2 * MOST])
        yield f"The score rose at: {first_rises}. What came before may have brought it."
    if falls:
        first_falls = ", ".join(list(falls)[: 2 * MOST])
        yield f"The score fell at: {first_falls}."


def _report_unknown(steps: Sequence[Step]) -> Iterator[str]:
    understood = {step.action for step in steps if step.understood}
    unknown = Counter(step.action for step in steps if step.action not in understood and len(step.action) <= _UNKNOWN)
    if unknown:
        actions = ", ".join(action for action, _ in unknown.most_common(MOST))
        yield f"Never understood: {actions}."
        yield Guess(ON_TEMPLATES)


def _report_repeated(steps: Sequence[Step]) -> Iterator[str]:
    """The actions that were taken again and again and never earned points."""
    paid = {step.action for step in steps if step.reward > 0}
    vain = Counter(step.action for step in steps if step.action not in paid)
    repeated = [(action, times) for action, times in vain.most_common(MOST) if times >= REPEATED]
    for action, times in repeated:
        yield f"The action {action} was taken {times} times and earned nothing."
    if repeated:
        yield Guess(ON_REPEATING)


def report_goals(call: PredictorCall) -> Iterator[str]:
    """How many required goals were reached over all trials and which kinds were reached and missed; then guesses for
    the kinds that no trial reached. A goal's description, which names the answer, and its class are never said: a
    phrase of the benchmark stands for every goal of a class."""
    hints = call.benchmark.hints.goals
    reached: list[Goal] = []
    missed: list[Goal] = []
    for states in zip(*call.goals, strict=False):
        if any(goal.done for goal in states):
            reached.append(states[0])
        else:
            missed.append(states[0])

    required_reached = [goal for goal in reached if goal.required]
    required_missed = [goal for goal in missed if goal.required]
    required_count = len(required_reached) + len(required_missed)
    if required_count:
        yield f"The trials reached {len(required_reached)} of {required_count} goals that the task requires."
    for what, goals in (("reached", required_reached), ("missed", required_missed)):
        phrases = dict.fromkeys(hints[goal.kind][0] for goal in goals if goal.kind in hints)
        if phrases:
            yield f"These kinds of goals were {what}: {', '.join(phrases)}."

    kinds_reached = {goal.kind for goal in reached}
    for goal in sorted(missed, key=lambda goal: not goal.required):
        is_worth_advice = goal.required or goal.kind not in kinds_reached
        if goal.kind in hints and is_worth_advice:
            _, sentences = hints[goal.kind]
            yield from map(Guess, sentences)


def match_steps(outputs: Any, trials: Iterable[Trajectory]) -> list[tuple[Trajectory, int]]:
    """The steps that an actor's answer became, each as its trial and index."""
    thought = outputs.get("thought") or ""
    action = str(outputs.get("action") or "")
    matches = []
    for trial in trials:
        for index, step in enumerate(trial.steps):
            if not step.malformed and step.reasoning == thought and step.proposed in action:
                matches.append((trial, index))
    return matches


def _judge_answer(call: PredictorCall) -> Iterator[str]:
    action = str(call.outputs.get("action") or "")
    if not action.strip():
        yield "This answer held no action."
        yield Advice("Always give one action in the form of a template.")
        return

    match = _choose_match(call)
    if match is None:
        return
    trial, index = match
    step = trial.steps[index]
    earlier_steps = trial.steps[:index]

    if step.reward:
        verb = "rose" if step.reward > 0 else "fell"
        yield f"The score {verb} by {abs(step.reward)} points at this action."
    preceding = [prior.action for prior in earlier_steps[-_LED:] if prior.action]
    if step.reward > 0 and preceding:
        yield f"It came after: {', '.join(preceding)}; they may have brought the points."

    if not step.understood:
        yield "This action was not understood."
        yield Advice(ON_TEMPLATES)
    elif not step.reward and any(_is_same_move(prior, step) for prior in earlier_steps):
        yield "This action repeated an earlier one, with the same answer and to no effect."
        yield Advice(ON_REPEATING)

    if index + 1 == len(trial.steps):
        yield "It was the last action of its trial."


def _choose_match(call: PredictorCall) -> tuple[Trajectory, int] | None:
    """The step that the answer became: of several, the first that comes after the last answer in the history that the
    call read."""
    turns = getattr(call.inputs.get("history"), "messages", ())
    last_action = turns[-1].get("action") if turns else None

    matches = match_steps(call.outputs, call.trials)
    for trial, index in matches:
        action_before = trial.steps[index - 1].action if index else None
        if action_before == last_action:
            return trial, index
    return matches[0] if matches else None


def _is_same_move(step: Step, other: Step) -> bool:
    return step.action == other.action and step.state.observation == other.state.observation


# A digest of trials.


def digest_trials(trials: Sequence[Trajectory]) -> list[str]:
    """Each trial in a few lines: its start, what was done, how the score changed, what failed, and what the player
    thought where it mattered (docs/COMPILING.md shows one)."""
    lines = []
    if trials:
        lines.append(f"Task: {_squeeze(trials[0].task)}")
    for number, trial in enumerate(trials):
        header = f"Trial {trial.trial}, {len(trial.steps)} steps."
        if number == 0:
            start = _squeeze(trial.start.look or trial.start.observation)
            header += f" It began: {start[:_START]}"
        lines.append(header)

        limit = LINES if number == 0 else LINES // 2
        lines += _digest_steps(trial, limit)
    return lines


@dataclass(frozen=True)
class _Entry:
    """Steps that share one line of a digest: equal actions in a row without reward."""

    first: int  # index
    last: int
    weight: int
    text: str


def _digest_steps(trial: Trajectory, limit: int) -> list[str]:
    """The lines of the weightiest steps, in order, and which are left out between them."""
    by_weight = sorted(_list_entries(trial), key=lambda entry: (-entry.weight, entry.first))
    entries = sorted(by_weight[:limit], key=lambda entry: entry.first)

    lines = []
    next_index = 0
    for entry in entries:
        if entry.first > next_index:
            lines.append(f"... left out: {_number_steps(next_index, entry.first - 1)}")
        lines.append(entry.text)
        next_index = entry.last + 1
    if next_index < len(trial.steps):
        lines.append(f"... left out: {_number_steps(next_index, len(trial.steps) - 1)}")
    return lines


def _list_entries(trial: Trajectory) -> Iterator[_Entry]:
    gains = [index for index, step in enumerate(trial.steps) if step.reward > 0]
    losses = [index for index, step in enumerate(trial.steps) if step.reward < 0]
    decisive = {len(trial.steps) - 1, *gains[-1:], *losses[:1]}

    for first, last in _group_alike(trial.steps):
        step = trial.steps[first]
        matters = not decisive.isdisjoint(range(first, last + 1))
        failed = not step.understood or step.no_effect or step.reward < 0
        if matters:
            weight = 3
        elif step.reward or failed:
            weight = 2
        else:
            weight = 0

        action = f"{_number_steps(first, last)} {step.action or '(no action)'}"
        if last > first:
            action += f" x{last - first + 1}"
        if step.reward:
            action += f" {step.reward:+d}"
        parts = [action]
        quote = _squeeze(step.state.observation)[:_QUOTE]
        if failed and quote:
            parts.append(f'"{quote}"')
        thought = _squeeze(_NOTES.sub("", trial.steps[last].reasoning))[:_THOUGHT]
        if matters and thought and not trial.solved:
            parts.append(f'it thought: "{thought}"')
        yield _Entry(first, last, weight, " | ".join(parts))


def _group_alike(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """First and last index of equal actions in a row without reward; a step with a reward stands by itself."""

    def find_key(index: int) -> tuple[str, int]:
        step = steps[index]
        return step.action, index if step.reward else -1

    for _, group in groupby(range(len(steps)), find_key):
        indexes = list(group)
        yield indexes[0], indexes[-1]


def _number_steps(first: int, last: int) -> str:
    if first == last:
        return f"{first + 1}."
    return f"{first + 1}-{last + 1}."


def _squeeze(text: str) -> str:
    """The text in one line, with single spaces."""
    return " ".join(text.split())


# The reflector.


def judge_reflector(call: PredictorCall) -> Iterator[str]:
    """Judge a plan by the trial whose transcript was read and the next one, which read the plan."""
    index = _find_read_trial(call)
    if index is None:
        return
    before = call.trials[index]
    plan = str(call.outputs.get("plan") or "")
    mistakes = str(call.outputs.get("mistakes") or "")

    repeated: set[str] = set()
    if index + 1 < len(call.trials):
        after = call.trials[index + 1]
        yield _compare_trials(before, after)
        repeated.update(_list_mistakes(after))

    for action in _list_mistakes(before)[:MOST]:
        if not _names_action(f"{mistakes}\n{plan}", action):
            yield f"The action {action} was a mistake, and the answer does not name it."
            yield Advice("Always name every action that cost points or was not understood.")
        elif action in repeated:
            yield f"The answer names the mistake {action}, and it was made again."
            yield Advice("Always forbid a mistake in the plan itself, as a sentence of its own.")

    earned = dict.fromkeys(step.action for step in before.steps if step.reward > 0 and step.action)
    forgotten = [action for action in earned if not _names_action(plan, action)]
    if forgotten:
        yield f"The plan leaves out actions that earned points, such as {', '.join(forgotten[:MOST])}."
        yield Advice("Always list, in their order, the actions that earned points, word for word.")


def _find_read_trial(call: PredictorCall) -> int | None:
    """The index of the trial whose transcript was read."""
    transcript = str(call.inputs.get("transcript") or "")
    for index, trial in enumerate(call.trials):
        if is_transcript_of(transcript, trial):
            return index
    return None


def _compare_trials(before: Trajectory, after: Trajectory) -> str:
    """The verdict, by points earned and by final score: points that are lost again are no gain."""
    earned_more = after.accumulator - before.accumulator
    ended_higher = after.environment_score - before.environment_score
    if earned_more == 0 and ended_higher == 0:
        verdict = "no better and no worse"
    elif earned_more >= 0 and ended_higher >= 0:
        verdict = "better"
    elif earned_more > 0:
        verdict = "better on the way and worse in the end"
    elif ended_higher > 0:
        verdict = "less was earned and less was lost"
    else:
        verdict = "worse"
    return (
        f"The trial reflected on earned {before.accumulator} points and ended at {before.environment_score}, the next "
        f"one, which read the plan, earned {after.accumulator} and ended at {after.environment_score}: {verdict}."
    )


def _list_mistakes(trial: Trajectory) -> list[str]:
    """Actions that cost points or were not understood. A bare number answers a question and names no action."""
    mistakes = []
    for step in trial.steps:
        is_mistake = step.reward < 0 or not step.understood
        if is_mistake and step.action and not step.action.isdigit():
            mistakes.append(step.action)
    return list(dict.fromkeys(mistakes))


def _names_action(text: str, action: str) -> bool:
    """Whether a text holds an action word for word, without regard to capitals and marks."""
    text_words = " ".join(re.findall(r"[^\W_]+", text.lower()))
    action_words = " ".join(re.findall(r"[^\W_]+", action.lower()))
    return f" {action_words} " in f" {text_words} "


RULES: dict[str, Callable[[PredictorCall], Iterator[str]]] = {"actor": judge_actor, "reflector": judge_reflector}
