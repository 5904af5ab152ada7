"""What can be learned from an episode without a model, and rules about these worlds that hold whatever the goal.

They go by the goal, the actions and the observations: no scores, and no facts that were not said.
"""

import re
from collections.abc import Iterator
from functools import cached_property

from rsso_dspy.environments.benchmark import NO_ACTION, Episode, LessonPattern, LessonTable, Words
from rsso_dspy.environments.pddl.wording import GOAL, LOOK, NOT_AN_ACTION, NOT_POSSIBLE, split_words
from rsso_dspy.records import Lesson, Step

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

    @property
    def is_effective(self) -> bool:
        """Whether the newest step changed something."""
        return self.took_effect(len(self.steps) - 1)

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
_BALL = re.compile(r"\b(drop)\b.*?\b(ball\w*)\b.*?\b(room\w*)\b")
_ON = re.compile(r"^(\S+) is on (\S+?)\.$")


def _says_everything(first: str) -> bool:
    """Whether every observation tells the whole state, by the first one."""
    return not _TOLD_BY_DIFFERENCES.search(first)


def _is_undone(condition: str, verb: str, words: set[str]) -> bool:
    if not any(said in condition and verb in verbs for said, verbs in _UNDOES.items()):
        return False
    named = split_words(condition)
    return bool({named[0], *named[2:3]} & words)


def _is_repeated_in_vain(episode: _Episode) -> bool:
    twice = episode.steps[-2:]
    return len(twice) > 1 and not any(step.understood for step in twice) and twice[0].action == twice[1].action


def _find_need(episode: _Episode) -> Words | None:
    verb = episode.find_verb(episode.newest)
    return {"verb": verb, "need": _NEEDS[verb]} if verb else None


def _find_undoing(episode: _Episode) -> Words | None:
    """A condition of the goal held, and does no longer."""
    if not episode.is_effective or len(episode.steps) < 2:
        return None
    before = _Episode(episode.task, episode.states[:-1], episode.steps[:-1]).reached
    return {"verb": episode.find_verb(episode.newest)} if set(before) - set(episode.reached) else None


def _is_circle(episode: _Episode) -> bool:
    """Everything is again as it was before."""
    seen = [state.observation for state in episode.states[:-1]]
    return _says_everything(seen[0]) and episode.is_effective and episode.answer in seen


def _is_wrong_room(episode: _Episode) -> bool:
    """A ball was dropped where the goal does not want it."""
    found = _BALL.search(episode.newest.action.lower())
    if found is None or not episode.is_effective:
        return False
    wanted = [text for text in episode.conditions if text.startswith(found[2].capitalize() + " ")]
    return bool(wanted) and not any(f"{found[3]}." in text for text in wanted)


def _is_wrong_order(episode: _Episode) -> bool:
    """A block was stacked on one that does not stand where it shall."""
    if episode.find_verb(episode.newest) != "stack" or not episode.is_effective:
        return False
    missing = (_ON.match(text) for text in episode.conditions if text not in episode.reached)
    words = split_words(episode.newest.action)
    below = next((word for word in reversed(words) if f"on {word}." in episode.answer), "")
    return below in [found[1].lower() for found in missing if found]


_MISTAKES: tuple[LessonPattern[_Episode], ...] = (
    NO_ACTION,
    LessonPattern(_is_repeated_in_vain, "Did again what had just taken no effect.",
        "Bring about what it needs first, or do something else."),
    LessonPattern(lambda e: e.answer == NOT_AN_ACTION and _find_need(e),
        "Asked for '{verb}' when it could not be taken with anything.", "{need}"),
    LessonPattern(lambda e: e.answer == NOT_AN_ACTION, "Wrote something that names no action of this world.",
        "Begin with the verb of a template, written as there, and name every object it takes."),
    LessonPattern(lambda e: e.answer == NOT_POSSIBLE and _find_need(e),
        "Took '{verb}' while its conditions were not met.", "{need}"),
    LessonPattern(_is_wrong_room, "Dropped a ball in a room where the goal does not want it.",
        "Carry each ball to the room that the goal names for it, and drop it there only."),
    LessonPattern(_is_wrong_order, "Stacked a block on one that does not stand yet where the goal wants it.",
        "Build each tower from the bottom up: a tower cannot be moved as a whole."),
    LessonPattern(_find_undoing, "Undid a condition of the goal that held already, by '{verb}'.",
        "Leave alone what is as the goal wants it, unless something below it or before it is still wrong."),
    LessonPattern(_is_circle, "Came back to a state that had been there before.",
        "Do not take back what was just done: choose the next condition that does not hold, and work towards it."),
)  # fmt: skip


def _tell_progress(episode: _Episode) -> Iterator[Lesson]:
    done = episode.reached
    left = [text for text in episode.conditions if text not in done]
    if done:
        yield Lesson("progress", f"Done: {' '.join(done)}")
    if left:
        yield Lesson("progress", f"Not done yet: {' '.join(left)}")


draw_lessons = LessonTable(_Episode, _MISTAKES, _tell_progress)
