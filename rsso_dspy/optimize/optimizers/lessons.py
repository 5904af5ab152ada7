"""Demonstrations from a teacher's play, short enough for the prompt of a small model.

A demonstration is a single step: the task, what was seen lately, the answer. Sets of them differ in seed and size, are
spread over task types, and go through the race, the choice and the confirmation of any candidate.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from rsso_dspy.optimize.acceptance import Rollout, TracedCall
from rsso_dspy.optimize.feedback.actor import find_answer_steps
from rsso_dspy.optimize.optimizers.demonstrations import WORTH_SHOWING, is_worth_showing
from rsso_dspy.optimize.optimizers.search import ALL_SOLVED, find_search_end, has_perfect_candidate
from rsso_dspy.optimize.rollouts import Rollouts, race_on_val
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.records import Variant

CHARACTERS_PER_TOKEN = 4
"""Used to estimate the length of a lesson, since not every model has a tokenizer here."""

NOTHING_TAUGHT = "the teacher did nothing that is short enough and good enough to show"

SIZES = (1.0, 0.5, 0.25)
"""Shares of the token bound that sets use in turn."""

RECENT = 600
"""Maximum characters of earlier steps in a demonstration's history, beside the present state."""

ELSEWHERE = "(as in the task at hand)"
"""Stands for text that a demonstration would only repeat."""

REPEATED = ("action_templates",)
DROPPED = ("constitution", "plans_from_past_attempts", "progress", "skills")
"""Regions of a memory that the student does not have."""

NO_SUBGOAL = ("", "none")

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
        """Estimated tokens; there is no tokenizer for every model."""
        return count_tokens(self.demo)


def try_lessons(
    agent: Agent, rollouts: Rollouts, train: Sequence[Variant], tokens: int, seed: int, sets: int, jobs: int
) -> None:
    """Have the teacher play, and race `sets` sets of demonstrations, as far as the budget goes."""
    if has_perfect_candidate(rollouts):
        return rollouts.end_search(ALL_SOLVED)
    rollouts.play_all(agent, train, jobs)
    lessons = [each for variant in train for each in list_lessons(rollouts.taught[variant], rollouts.tuned)]
    for number in range(sets):
        chosen = choose_lessons(lessons, int(tokens * SIZES[number % len(SIZES)]), f"{seed} {number}")
        if not chosen:
            continue
        program = show_lessons(agent, chosen)
        if fingerprint_program(program) in rollouts.candidates:
            continue
        if why := find_search_end(rollouts, rollouts.count_missing(program, rollouts.val, rollouts.seeds)):
            return rollouts.end_search(why)
        race_on_val(rollouts, program, jobs)
    if len([each for each in rollouts.candidates.values() if not each.placebo]) == 1:
        rollouts.end_search(NOTHING_TAUGHT)
    return None


def list_lessons(rollout: Rollout, tuned: Sequence[str]) -> list[Lesson]:
    """The lessons in a rollout that went well: of the actor, actions that earned points and all actions of a trial that
    solved the variant; of other predictors, calls that helped."""
    if rollout.score < WORTH_SHOWING:
        return []
    found = []
    for call in rollout.calls:
        name, given, said = call
        earns = is_worth_showing(rollout.trials, call)
        if name in tuned and (earns or _is_step_of_solution(rollout, call)):
            demo = shorten_demo(name, given, said)
            if demo is not None:
                found.append(Lesson(name, rollout.variant.task, earns, demo))
    return found


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


def show_lessons(agent: Agent, chosen: Mapping[str, Sequence[Lesson]]) -> Agent:
    """The program with these demonstrations in place of those it has."""
    program = Agent(agent.method.name)
    program.load_state(agent.dump_state())
    for name, lessons in chosen.items():
        demos = [dspy.Example(augmented=True, **lesson.demo) for lesson in lessons]
        program.predictors_by_name[name].demos = demos
    return program


def shorten_demo(name: str, given: Mapping[str, Any], said: Any) -> dict[str, str] | None:
    """A call as a demonstration. Of an actor's call only the newest steps of the history remain, and no memory; None if
    the answer depends on a memory or is a bare number. Of any other predictor the whole call."""
    texts = {key: str(value) for key, value in {**given, **dict(said)}.items()}
    if name != "actor":
        return texts
    if "history" not in texts or texts.get("current_subgoal", "none").strip().lower() not in NO_SUBGOAL:
        return None
    if texts.get("next_action", texts.get("action", "")).strip().isdigit():
        return None
    texts |= dict.fromkeys(texts.keys() & set(REPEATED), ELSEWHERE)
    return {key: value for key, value in texts.items() if key not in DROPPED} | {
        "history": cut_history(texts["history"])
    }


def cut_history(history: str) -> str:
    """The present state, and as many whole steps before it as fit `RECENT`."""
    starts = [0, *(match.end() for match in _ACTED.finditer(history))]
    newest = starts[-1]
    return history[next(start for start in starts if newest - start <= RECENT) :]


def count_tokens(demo: Mapping[str, str]) -> int:
    """Estimated tokens of a demonstration, four characters each, field names included."""
    return -(-sum(len(key) + len(value) for key, value in demo.items()) // CHARACTERS_PER_TOKEN)


def _is_step_of_solution(rollout: Rollout, call: TracedCall) -> bool:
    name, _, said = call
    solved = [trial for trial in rollout.trials if trial.trajectory and trial.trajectory.solved]
    return name == "actor" and any(step.understood for step in find_answer_steps(said, solved))


def _order_lessons(lessons: Sequence[Lesson], throw: random.Random) -> list[Lesson]:
    """Shuffle the lessons, with those that earned points in every other place as long as there are any."""
    earning = [each for each in lessons if each.earns]
    others = [each for each in lessons if not each.earns]
    throw.shuffle(earning)
    throw.shuffle(others)
    pairs = [pair for both in zip(earning, others, strict=False) for pair in both]
    return [*pairs, *earning[len(others) :], *others[len(earning) :]]
