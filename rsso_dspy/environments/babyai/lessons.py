"""What can be learned from an episode of BabyAI without a model: the conditions of its lessons, see `LessonTable`."""

import re
from collections.abc import Iterable
from functools import cached_property

from rsso_dspy.environments import lessons
from rsso_dspy.environments.babyai.view import COMPLETED
from rsso_dspy.environments.lessons import LessonTable, Words, name_all

_THING = re.compile(r"There is an? ((?:[a-z]+ )+)\d+ ")
_CARRIED = re.compile(r"You are carrying a ((?:\w+ )*\w+)\.")
_NAMED = re.compile(r"(?:go to|pick up|open) (?:the|an|a) ((?:(?:red|green|blue|purple|yellow|grey) )?\w+)")


class Episode(lessons.Episode):
    @cached_property
    def views(self) -> list[str]:
        """Observations that show a view."""
        return [text for state in self.states if (text := state.observation).startswith(("In front", "You cannot see"))]

    @cached_property
    def seen(self) -> list[str]:
        return list(dict.fromkeys(name.strip() for view in self.views for name in _THING.findall(view)))

    @cached_property
    def wanted(self) -> dict[str, bool]:
        """The things that the mission is about, in its order, and whether each was seen."""
        named = [name.removesuffix(" object") for name in _NAMED.findall(self.task)]
        return {name: any(set(name.split()) <= set(thing.split()) for thing in self.seen) for name in named}

    @property
    def carried(self) -> str:
        found = _CARRIED.search(self.views[-1]) if self.views else None
        return found[1] if found else ""

    @property
    def is_circling(self) -> bool:
        """Nothing but turns for more than a full one."""
        return len(self.steps) >= 5 and all(step.action.lower().startswith("turn") for step in self.steps[-5:])

    sees_nothing_new = property(lambda self: len(self.views) >= 8 and len(set(self.views[-6:])) <= 2)
    ended = property(lambda self: COMPLETED.strip() in self.answer)

    def name_unless_ended(self, names: Iterable[str]) -> Words | None:
        return None if self.ended else name_all(names)

    found = property(lambda self: self.name_unless_ended(name for name, seen in self.wanted.items() if seen))
    missing = property(lambda self: self.name_unless_ended(name for name, seen in self.wanted.items() if not seen))
    in_hand = property(lambda self: self.name_unless_ended(filter(None, [self.carried])))
    locked = property(lambda self: self.name_unless_ended(name for name in self.seen if " locked " in name))

    @property
    def closed_doors(self) -> Words | None:
        return name_all(name for name in self.seen if name.endswith("closed door")) if self.missing else None


LESSONS = LessonTable(__package__, Episode)
