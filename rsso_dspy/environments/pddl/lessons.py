"""What can be learnt from an episode without a model, and rules about these worlds that hold whatever the goal.

They go by the goal, the actions and the observations: no scores, and no facts that were not said.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from rsso_dspy.environments import episode_lessons
from rsso_dspy.environments.episode_lessons import Episode, find_missing_action
from rsso_dspy.environments.pddl.game import NOT_AN_ACTION, NOT_POSSIBLE
from rsso_dspy.environments.pddl.phrases import GOAL, LOOK
from rsso_dspy.environments.pddl.wording import split_words
from rsso_dspy.records import Lesson, State, Step

__all__ = ["RULES_OF_THUMB", "draw_lessons"]

RULES_OF_THUMB: tuple[Lesson, ...] = tuple(
    Lesson("abstract", text)
    for text in (
        "The goal lists conditions that have to hold all at once: find those that do not hold yet, and work on one "
        "that no later one will undo.",
        "An action takes effect only when all its conditions hold. When it takes none, bring about what is missing "
        "before trying it again.",
        "Name every object that an action takes, in the order of its template, by the names in the observations.",
        "To ask for the valid actions costs a step: ask when an action failed for a reason you do not see.",
        "Where balls are carried: fill both arms before changing rooms, and leave alone what is where it belongs.",
        "Where blocks are stacked: build each tower from the bottom; what stands on a block that is needed has to go "
        "first. A block on the table is taken with pickup, one on another block with unstack.",
        "Where drinks are mixed: fill a clean glass, pour it into the clean shaker, clean the glass, fill it with the "
        "second ingredient, pour that too, clean the glass, put it down, take the shaker, shake with the other hand "
        "empty, and pour into a clean glass. Empty and clean the shaker before the next cocktail.",
        "Where wheels are changed: open the boot, take the tools, loosen the nuts while the hub is on the ground, jack "
        "up, undo, swap the wheels, do up, jack down, and only then tighten; inflate needs the pump.",
    )
)
"""Rules about these worlds."""

_NEEDS = {
    "move": "Move only from the room the robot is in.",
    "pick": "Be in the room of the ball, with that arm free.",
    "drop": "Be in the room where the ball shall be, and name the arm that carries it.",
    "pickup": "Pickup takes a clear block from the table with an empty arm; use unstack for one on another block.",
    "putdown": "Only what is held can be put down.",
    "stack": "Hold the block, and clear the one it shall stand on first.",
    "unstack": "Empty the arm, and unstack only the top block of a tower.",
    "grasp": "Empty the hand first, and grasp only what is on the table.",
    "leave": "Name the hand that holds it.",
    "fill-shot": "Hold a glass that is clean and empty, keep the other hand empty, and name the dispenser of that "
    "ingredient.",
    "refill-shot": "Refill only an empty glass with what was in it before; clean it for anything else.",
    "empty-shot": "Hold the glass, and name what is in it.",
    "clean-shot": "Hold the empty glass, keep the other hand empty, and name what was in it.",
    "pour-shot-to-clean-shaker": "The shaker has to be clean and empty, and the levels the present one and the next.",
    "pour-shot-to-used-shaker": "The shaker has to hold something that is not shaken yet, and be below its top level.",
    "shake": "Hold the shaker with both ingredients in it, part1 before part2, and keep the other hand empty.",
    "pour-shaker-to-shot": "Hold the shaken shaker, and pour into a clean, empty glass, naming the drink first.",
    "empty-shaker": "Only a shaken cocktail can be emptied out, back to the empty level.",
    "clean-shaker": "Hold the empty shaker, keep the other hand empty.",
    "open": "Open only what is closed.",
    "close": "Close only what is open.",
    "fetch": "Open the container, and fetch only what is in it.",
    "put-away": "Have the thing, and open the container first.",
    "loosen": "Have the wrench, and loosen a tight nut while its hub is on the ground.",
    "tighten": "Have the wrench, do the nut up, and lower the hub to the ground first.",
    "jack-up": "Have the jack, and raise only a hub that is on the ground.",
    "jack-down": "Lower only a hub that is raised.",
    "undo": "Have the wrench, loosen the nut, and raise the hub first.",
    "do-up": "Have the wrench and the nut, with the wheel on the raised hub.",
    "remove-wheel": "Raise the hub and undo its nut first.",
    "put-on-wheel": "Have the wheel, and free the raised hub first.",
    "inflate": "Have the pump, and inflate only an intact wheel that is flat.",
}
"""What each action needs."""

_UNDOES = {
    "is at": ("pick",),
    "is on": ("unstack", "remove-wheel"),
    "contains": ("empty-shot", "pour-shot-to-clean-shaker", "pour-shot-to-used-shaker"),
    "is in": ("fetch",),
    "is tight": ("loosen",),
}
"""What a condition says to the actions that end it, for worlds that tell only what became true."""


def draw_lessons(task: str, states: Sequence[State], steps: Sequence[Step]) -> list[Lesson]:
    """What the newest step teaches, one mistake at most, and how much of the goal is left. ``states[i + 1]`` follows
    ``steps[i]``."""
    return episode_lessons.draw_lessons(_Episode(task, states, steps), _MISTAKES, _tell_progress)


class _Episode(Episode):
    @cached_property
    def conditions(self) -> list[str]:
        """The sentences of the goal, as observations have them."""
        listed = self.task.removeprefix(GOAL).split(", ")
        return [" ".join(text.split()).capitalize() for text in listed if text.strip()]

    def find_verb(self, step: Step) -> str:
        return next((word for word in split_words(step.action) if word in _NEEDS), "")

    def took_effect(self, number: int) -> bool:
        """Whether this step changed something."""
        step, answer = self.steps[number], self.states[number + 1].observation
        asked = step.action.lower()
        return step.understood and "check" not in asked and LOOK not in asked and bool(answer)

    @cached_property
    def reached(self) -> list[str]:
        """Conditions that hold, as far as was said."""
        first = self.states[0].observation
        holding = {text for text in self.conditions if text in first}
        whole = _says_everything(first)
        for number, step in enumerate(self.steps):
            answer = self.states[number + 1].observation
            looked = LOOK in step.action.lower()
            if not looked and not self.took_effect(number):
                continue
            said = {text for text in self.conditions if text in answer}
            if whole or looked:
                holding = said
                continue
            verb, words = self.find_verb(step), set(split_words(step.action))
            ended = {text for text in holding if _is_undone(text, verb, words)}
            holding = (holding - ended) | said
        return [text for text in self.conditions if text in holding]


_TOLD_BY_DIFFERENCES = re.compile(r"Handempty |Hub ")


def _says_everything(first: str) -> bool:
    """Whether every observation tells the whole state, by the first one."""
    return not _TOLD_BY_DIFFERENCES.search(first)


def _is_undone(condition: str, verb: str, words: set[str]) -> bool:
    if not any(said in condition and verb in verbs for said, verbs in _UNDOES.items()):
        return False
    named = split_words(condition)
    return bool({named[0], *named[2:3]} & words)


def _find_repetition(episode: _Episode) -> Lesson | None:
    """The same action twice, and nothing came of it."""
    twice = episode.steps[-2:]
    if len(twice) < 2 or any(step.understood for step in twice) or twice[0].action != twice[1].action:
        return None
    return Lesson(
        "error", "Did again what had just taken no effect.", "Bring about what it needs first, or do something else."
    )


def _find_unread_action(episode: _Episode) -> Lesson | None:
    if episode.answer != NOT_AN_ACTION:
        return None
    verb = episode.find_verb(episode.newest)
    if verb:
        return Lesson("error", f"Asked for '{verb}' when it could not be taken with anything.", _NEEDS[verb])
    return Lesson(
        "error",
        "Wrote something that names no action of this world.",
        "Begin with the verb of a template, written as there, and name every object it takes.",
    )


def _find_unmet_condition(episode: _Episode) -> Lesson | None:
    verb = episode.find_verb(episode.newest)
    if episode.answer != NOT_POSSIBLE or not verb:
        return None
    return Lesson("error", f"Took '{verb}' while its conditions were not met.", _NEEDS[verb])


def _find_undoing(episode: _Episode) -> Lesson | None:
    """A condition of the goal held, and does no longer."""
    if not episode.took_effect(len(episode.steps) - 1) or len(episode.steps) < 2:
        return None
    before = _Episode(episode.task, episode.states[:-1], episode.steps[:-1]).reached
    if not set(before) - set(episode.reached):
        return None
    return Lesson(
        "error",
        f"Undid a condition of the goal that held already, by '{episode.find_verb(episode.newest)}'.",
        "Leave alone what is as the goal wants it, unless something below it or before it is still wrong.",
    )


def _find_circle(episode: _Episode) -> Lesson | None:
    """Everything is again as it was before."""
    seen = [state.observation for state in episode.states[:-1]]
    if not _says_everything(seen[0]) or not episode.took_effect(len(episode.steps) - 1) or episode.answer not in seen:
        return None
    return Lesson(
        "error",
        "Came back to a state that had been there before.",
        "Do not take back what was just done: choose the next condition that does not hold, and work towards it.",
    )


_BALL = re.compile(r"\b(drop)\b.*?\b(ball\w*)\b.*?\b(room\w*)\b")


def _find_wrong_room(episode: _Episode) -> Lesson | None:
    """A ball was dropped where the goal does not want it."""
    found = _BALL.search(episode.newest.action.lower())
    if found is None or not episode.took_effect(len(episode.steps) - 1):
        return None
    wanted = [text for text in episode.conditions if text.startswith(found[2].capitalize() + " ")]
    if not wanted or any(f"{found[3]}." in text for text in wanted):
        return None
    return Lesson(
        "error",
        "Dropped a ball in a room where the goal does not want it.",
        "Carry each ball to the room that the goal names for it, and drop it there only.",
    )


_ON = re.compile(r"^(\S+) is on (\S+?)\.$")


def _find_wrong_order(episode: _Episode) -> Lesson | None:
    """A block was stacked on one that does not stand where it shall."""
    words = split_words(episode.newest.action)
    if episode.find_verb(episode.newest) != "stack" or not episode.took_effect(len(episode.steps) - 1):
        return None
    left = [
        found[1].lower() for text in episode.conditions if text not in episode.reached and (found := _ON.match(text))
    ]
    below = next((word for word in reversed(words) if f"on {word}." in episode.answer), "")
    if below not in left:
        return None
    return Lesson(
        "error",
        "Stacked a block on one that does not stand yet where the goal wants it.",
        "Build each tower from the bottom up: a tower cannot be moved as a whole.",
    )


_MISTAKES: tuple[Callable[[_Episode], Lesson | None], ...] = (
    find_missing_action,
    _find_repetition,
    _find_unread_action,
    _find_unmet_condition,
    _find_wrong_room,
    _find_wrong_order,
    _find_undoing,
    _find_circle,
)


def _tell_progress(episode: _Episode) -> Iterator[Lesson]:
    done = episode.reached
    left = [text for text in episode.conditions if text not in done]
    if done:
        yield Lesson("progress", f"Done: {' '.join(done)}")
    if left:
        yield Lesson("progress", f"Not done yet: {' '.join(left)}")
