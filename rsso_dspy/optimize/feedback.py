"""The metric for DSPy's optimizers, and its feedback on one predictor's call, for an optimizer that proposes
instructions: facts name what was done; advice is imperative sentences about play in general, which name no object of
the variant. The variant's key, the step budget and the goals' wording are in neither. docs/COMPILING.md explains each
rule."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Any

from dspy.teleprompt.gepa.gepa_utils import ScoreWithFeedback

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.programs.render import is_transcript_of
from rsso_dspy.records import Trajectory, TrialResult

FACTS, ADVICE, PERHAPS = "Facts:", "Advice:", "Perhaps: "
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
_LED, _QUOTE, _THOUGHT, _START, _UNKNOWN = 3, 80, 110, 300, 80
"""Steps named before a gain; characters shown of an observation, a thought and the start; longest unknown action."""
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
    _, inputs, outputs = pred_trace[0] if pred_trace else (None, {}, {})
    of = get_benchmark(prediction.get("benchmark") or DEFAULT)
    feedback = build_feedback(pred_name, inputs, outputs, prediction.trials, prediction.get("progress") or (), of)
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
    rule = RULES.get(name)
    sentences = [*rule(PredictorCall(inputs, outputs, trials, progress, of or get_benchmark()))] if rule else []
    sentences += [f"Trial {t.trial} {_ENDINGS[t.outcome]}, at {t.environment_score} of 100 points." for t in trials]
    sentences = list(dict.fromkeys(sentences))
    facts = [sentence for sentence in sentences if not isinstance(sentence, Advice)]
    advice = [
        f"- {PERHAPS if isinstance(sentence, Guess) else ''}{sentence}"
        for sentence in sentences
        if isinstance(sentence, Advice)
    ]
    if any(trial.solved for trial in trials):
        advice = []
    digest = digest_trials(trials) if name == "actor" else []
    return "\n".join([*([FACTS, *facts] if facts else []), *digest, *([ADVICE, *advice] if advice else [])])


# The actor.


def judge_actor(call: PredictorCall) -> Iterator[str]:
    """This answer first, then the trials; what the variant suggests for others are guesses."""
    yield from _judge_answer(call)
    yield from report_goals(call)
    steps = [step for trial in call.trials for step in trial.steps if step.action]
    for verb, sign in (("rose", 1), ("fell", -1)):
        changes = dict.fromkeys(f"{step.action} ({step.reward:+d})" for step in steps if step.reward * sign > 0)
        if changes:
            led = ". What came before may have brought it" if sign > 0 else ""
            yield f"The score {verb} at: {', '.join(list(changes)[: 2 * MOST])}{led}."
    worded = [step for step in steps if not step.action.isdigit()]
    understood = {step.action for step in worded if step.understood}
    paid = {step.action for step in steps if step.reward > 0}
    unknown = Counter(step.action for step in worded if step.action not in understood and len(step.action) <= _UNKNOWN)
    if unknown:
        yield f"Never understood: {', '.join(action for action, _ in unknown.most_common(MOST))}."
        yield Guess(ON_TEMPLATES)
    vain = Counter(step.action for step in worded if step.action not in paid)
    repeated = [(action, times) for action, times in vain.most_common(MOST) if times >= REPEATED]
    yield from (f"The action {action} was taken {times} times and earned nothing." for action, times in repeated)
    if repeated:
        yield Guess(ON_REPEATING)


def report_goals(call: PredictorCall) -> Iterator[str]:
    """How many required goals were reached over all trials and which kinds were reached and missed; then guesses for
    the kinds that no trial reached. A goal's description, which names the answer, and its class are never said: a
    phrase of the benchmark stands for every goal of a class."""
    of_kind = call.benchmark.hints.goals
    outcomes = [(states[0], any(goal.done for goal in states)) for states in zip(*call.goals, strict=False)]
    required = [(goal, is_reached) for goal, is_reached in outcomes if goal.required]
    if required:
        reached = sum(is_reached for _, is_reached in required)
        yield f"The trials reached {reached} of {len(required)} goals that the task requires."
    for what, expected in (("reached", True), ("missed", False)):
        some = [goal.kind for goal, is_reached in required if is_reached is expected and goal.kind in of_kind]
        if phrases := dict.fromkeys(of_kind[kind][0] for kind in some):
            yield f"These kinds of goals were {what}: {', '.join(phrases)}."
    kinds_done = {goal.kind for goal, is_reached in outcomes if is_reached}
    missed = [goal for goal, is_reached in outcomes if not is_reached]
    for goal in sorted(missed, key=lambda goal: not goal.required):
        if goal.kind in of_kind and (goal.required or goal.kind not in kinds_done):
            yield from map(Guess, of_kind[goal.kind][1])


def match_steps(outputs: Any, trials: Iterable[Trajectory]) -> list[tuple[Trajectory, int]]:
    """The steps that an actor's answer became, each as its trial and index."""
    thought = outputs.get("thought") or ""
    action = str(outputs.get("action") or "")
    return [
        (trial, index)
        for trial in trials
        for index, step in enumerate(trial.steps)
        if not step.malformed and step.reasoning == thought and step.proposed in action
    ]


def _judge_answer(call: PredictorCall) -> Iterator[str]:
    if not str(call.outputs.get("action") or "").strip():
        yield "This answer held no action."
        yield Advice("Always give one action in the form of a template.")
        return
    # Of several steps, the first that comes after the last answer in the history that the call read.
    matches = match_steps(call.outputs, call.trials)
    turns = getattr(call.inputs.get("history"), "messages", ())
    last = turns[-1].get("action") if turns else None
    follows = [(trial, i) for trial, i in matches if (trial.steps[i - 1].action if i else None) == last]
    if not matches:
        return
    trial, index = (follows or matches)[0]
    step = trial.steps[index]
    if step.reward:
        yield f"The score {'rose' if step.reward > 0 else 'fell'} by {abs(step.reward)} points at this action."
    preceding = [prior.action for prior in trial.steps[max(0, index - _LED) : index] if prior.action]
    if step.reward > 0 and preceding:
        yield f"It came after: {', '.join(preceding)}; they may have brought the points."
    did = (step.action, step.state.observation)
    if not step.understood:
        yield "This action was not understood."
        yield Advice(ON_TEMPLATES)
    elif not step.reward and any((prior.action, prior.state.observation) == did for prior in trial.steps[:index]):
        yield "This action repeated an earlier one, with the same answer and to no effect."
        yield Advice(ON_REPEATING)
    if index + 1 == len(trial.steps):
        yield "It was the last action of its trial."


# A digest of trials.


def digest_trials(trials: Sequence[Trajectory]) -> list[str]:
    """Each trial in a few lines: its start, what was done, how the score changed, what failed, and what the player
    thought where it mattered (docs/COMPILING.md shows one)."""
    lines = [f"Task: {' '.join(trials[0].task.split())}"] if trials else []
    for number, trial in enumerate(trials):
        start = " ".join((trial.start.look or trial.start.observation).split())
        lines.append(f"Trial {trial.trial}, {len(trial.steps)} steps.{f' It began: {start[:_START]}' * (not number)}")
        limit = LINES if number == 0 else LINES // 2
        entries = sorted(sorted(_list_entries(trial), key=lambda entry: (-entry[2], entry[0]))[:limit])
        next_index = 0
        for first, last, _, text in [*entries, (len(trial.steps), 0, 0, "")]:
            lines += [f"... left out: {_number_steps(next_index, first - 1)}"] if first > next_index else []
            lines += [text] if text else []
            next_index = last + 1
    return lines


def _list_entries(trial: Trajectory) -> Iterator[tuple[int, int, int, str]]:
    """First and last index, weight and text of steps that share one line: equal actions in a row without reward."""
    steps = list(enumerate(trial.steps))
    gains = [index for index, step in steps if step.reward > 0]
    losses = [index for index, step in steps if step.reward < 0]
    decisive = {len(steps) - 1, *gains[-1:], *losses[:1]}
    for _, alike in groupby(steps, lambda entry: (entry[1].action, entry[0] if entry[1].reward else -1)):
        (first, step), (last, final) = itemgetter(0, -1)(list(alike))
        failed = not step.understood or step.no_effect or step.reward < 0
        times = f" x{last - first + 1}" if last > first else ""
        points = f" {step.reward:+d}" if step.reward else ""
        parts = [f"{_number_steps(first, last)} {step.action or '(no action)'}{times}{points}"]
        if failed and (quote := " ".join(step.state.observation.split())[:_QUOTE]):
            parts.append(f'"{quote}"')
        matters = not decisive.isdisjoint(range(first, last + 1))
        thought = " ".join(_NOTES.sub("", final.reasoning).split())[:_THOUGHT]
        if matters and thought and not trial.solved:
            parts.append(f'it thought: "{thought}"')
        yield first, last, 3 if matters else 2 if step.reward or failed else 0, " | ".join(parts)


def _number_steps(first: int, last: int) -> str:
    return f"{first + 1}." if first == last else f"{first + 1}-{last + 1}."


# The reflector.


def judge_reflector(call: PredictorCall) -> Iterator[str]:
    """Judge a plan by the trial whose transcript was read and the next one, which read the plan."""
    pairs = zip_longest(call.trials, call.trials[1:])
    transcript = str(call.inputs.get("transcript") or "")
    reads = ((trial, next_trial) for trial, next_trial in pairs if is_transcript_of(transcript, trial))
    before, after = next(reads, (None, None))
    if before is None:
        return
    plan = str(call.outputs.get("plan") or "")
    wrong = str(call.outputs.get("mistakes") or "")
    if after is not None:
        yield _compare_trials(before, after)
    again = set(_list_mistakes(after)) if after else set()
    for action in _list_mistakes(before)[:MOST]:
        if not _names_action(f"{wrong}\n{plan}", action):
            yield f"The action {action} was a mistake, and the answer does not name it."
            yield Advice("Always name every action that cost points or was not understood.")
        elif action in again:
            yield f"The answer names the mistake {action}, and it was made again."
            yield Advice("Always forbid a mistake in the plan itself, as a sentence of its own.")
    earned = dict.fromkeys(step.action for step in before.steps if step.reward > 0 and step.action)
    if forgotten := [action for action in earned if not _names_action(plan, action)]:
        yield f"The plan leaves out actions that earned points, such as {', '.join(forgotten[:MOST])}."
        yield Advice("Always list, in their order, the actions that earned points, word for word.")


def _compare_trials(before: Trajectory, after: Trajectory) -> str:
    """The verdict, by points earned and by final score: points that are lost again are no gain."""
    old, new = ((trial.accumulator, trial.environment_score) for trial in (before, after))
    if new == old:
        verdict = "no better and no worse"
    elif new[0] >= old[0] and new[1] >= old[1]:
        verdict = "better"
    elif new[0] > old[0]:
        verdict = "better on the way and worse in the end"
    else:
        verdict = "less was earned and less was lost" if new[1] > old[1] else "worse"
    return (
        f"The trial reflected on earned {old[0]} points and ended at {old[1]}, the next one, which read the plan, "
        f"earned {new[0]} and ended at {new[1]}: {verdict}."
    )


def _list_mistakes(trial: Trajectory) -> list[str]:
    """Actions that cost points or were not understood. A bare number answers a question and names no action."""
    wrong = (step.action for step in trial.steps if step.action and (step.reward < 0 or not step.understood))
    return list(dict.fromkeys(action for action in wrong if not action.isdigit()))


def _names_action(text: str, action: str) -> bool:
    """Whether a text holds an action word for word, without regard to capitals and marks."""
    text_words = " ".join(re.findall(r"[^\W_]+", text.lower()))
    action_words = " ".join(re.findall(r"[^\W_]+", action.lower()))
    return f" {action_words} " in f" {text_words} "


RULES: dict[str, Callable[[PredictorCall], Iterator[str]]] = {"actor": judge_actor, "reflector": judge_reflector}
