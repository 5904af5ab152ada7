"""What can be learned from an episode of BabyAI without a model: the conditions of its lessons, see `LessonTable`."""

import re
from collections.abc import Iterable
from functools import cached_property

from rsso_dspy.environments import lessons
from rsso_dspy.environments.babyai.view import COMPLETED
from rsso_dspy.environments.lessons import LessonTable, Words, name_all

_THING = re.compile(r"There is an? ((?:[a-z]+ )+)\d+ ")
_CARRIED = re.compile(r"You are carrying a ((?:\w+ )*\w+)\.")
_NAMED = re.compile(r"(go to|pick up|open) (?:the|an|a) ((?:(?:red|green|blue|purple|yellow|grey) )?\w+)")


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
        named = [name.removesuffix(" object") for _, name in _NAMED.findall(self.task)]
        return {name: any(is_meant(name, thing) for thing in self.seen) for name in named}

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

    def has_seen_door(self, color: str, state: str = "") -> bool:
        return any(name.startswith(color) and name.endswith(f"{state} door") for name in self.seen)

    @property
    def early_keys(self) -> Words | None:
        """Keys that were found before a door of their colour, and are not what the mission is about."""
        keys = [name for name in [*self.seen, self.carried] if name.endswith(" key")]
        early = (key for key in keys if not self.has_seen_door(key.split()[0]))
        return self.name_unless_ended(key for key in early if not any(is_meant(name, key) for name in self.wanted))

    @property
    def to_drop(self) -> Words | None:
        """What is in hand, of no use, while the hand is needed: for what the mission has picked up, or for the key of a
        locked door. A key is of use until its door is open."""
        color, _, kind = self.carried.partition(" ")
        if not self.carried or (kind == "key" and not self.has_seen_door(color, "open")):
            return None
        picked = [name.removesuffix("object") for verb, name in _NAMED.findall(self.task) if verb == "pick up"]
        meant = [is_meant(name, self.carried) for name in picked]
        locks = {name.split()[0] for name in self.seen if " locked " in name}
        bars = not any(meant) and not all(self.has_seen_door(lock, "open") for lock in locks)
        return self.name_unless_ended([self.carried] if bars or not all(meant) else [])

    @property
    def closed_doors(self) -> Words | None:
        return name_all(name for name in self.seen if name.endswith("closed door")) if self.missing else None


def is_meant(name: str, thing: str) -> bool:
    """Whether a thing may be what a mission names, with or without its colour."""
    return set(name.split()) <= set(thing.split())


LESSONS = LessonTable(__package__, Episode)
