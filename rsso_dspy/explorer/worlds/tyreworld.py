"""Plays a world of wheels that are changed with the tools in a boot."""

import re
from collections.abc import Iterator, Sequence

from rsso_dspy.explorer.worlds.world import Deed, Fact, Habit, View, Wording, World, find_ended, has_failed

_WORDING = Wording(
    {
        "ground": "hub {} is on the ground",
        "raised": "hub {} is not on the ground",
        "inflated": "wheel {} is inflated",
        "flat": "wheel {} is not inflated",
        "fastened": "hub {} is fastened",
        "unfastened": "hub {} is unfastened",
        "intact": "wheel {} is intact",
        "loose": "the nut {} on the hub {} is loose",
        "tight": "the nut {} on the hub {} is tight",
        "have": "you have {}",
        "in": "{} is in {}",
        "open": "{} is open",
        "closed": "{} is closed",
        "unlocked": "{} is unlocked",
        "free": "{} is free",
        "on": "{} is on {}",
    }
)
_NAME = r"([\w-]+)"
_ENDS = (
    (rf"^open {_NAME}", ("closed {0}",)),
    (rf"^close {_NAME}", ("open {0}",)),
    (rf"^fetch {_NAME} from {_NAME}", ("in {0} {1}",)),
    (rf"^put-away {_NAME}", ("have {0}",)),
    (rf"^loosen the nut {_NAME} on the hub {_NAME}", ("tight {0} {1}",)),
    (rf"^tighten the nut {_NAME} on the hub {_NAME}", ("loose {0} {1}",)),
    (rf"^jack-up the hub {_NAME}", ("ground {0}", "have jack")),
    (rf"^jack-down the hub {_NAME}", ("raised {0}",)),
    (rf"^undo the fastening of the nut {_NAME} on the hub {_NAME}", ("fastened {1}", "loose {0} {1}")),
    (rf"^do-up the nut {_NAME} on the hub {_NAME}", ("unfastened {1}", "have {0}")),
    (rf"^remove-wheel {_NAME} from the hub {_NAME}", ("on {0} {1}",)),
    (rf"^put-on-wheel {_NAME} on the hub {_NAME}", ("free {1}", "have {0}")),
    (rf"^inflate the wheel {_NAME}", ("flat {0}",)),
)
"""Facts that an action ends although no observation says so."""


def _update(facts: frozenset[Fact], action: str, answer: str) -> frozenset[Fact]:
    return (facts - find_ended(_ENDS, action)) | set(_WORDING.read(answer))


def _propose(view: View) -> Iterator[tuple[str, str]]:
    goals = _WORDING.read(view.task)
    left = [fact for fact in goals if fact not in view.facts]
    garage = _Garage(view, goals)
    wheels = [fact for fact in left if fact[0] == "on"]
    raised = {fact[1] for fact in view.select("raised")}
    wheels.sort(key=lambda fact: (fact[2] not in raised, view.draw(fact[2])))
    for _, wheel, hub in wheels:
        yield from ((action, hub) for action in garage.change_wheel(wheel, hub))
    for fact in sorted((each for each in left if each[0] == "tight"), key=lambda each: each[2] not in raised):
        yield from ((action, fact[2]) for action in garage.tighten(fact[1], fact[2]))
    for fact in (each for each in left if each[0] == "inflated"):
        yield from ((action, fact[1]) for action in garage.inflate(fact[1]))
    for fact in (each for each in left if each[0] == "in"):
        yield from ((action, fact[1]) for action in garage.put_away(fact[1], fact[2]))


class _Garage:
    """The work for one part of the goal."""

    def __init__(self, view: View, goals: list[Fact]):
        self.view, self.goals = view, goals
        self.nuts = {fact[2]: fact[1] for each in ("tight", "loose") for fact in view.select(each)}

    def change_wheel(self, wheel: str, hub: str) -> Iterator[str]:
        view = self.view
        nut = self.nuts.get(hub, "")
        mounted = next((fact[1] for fact in view.select("on") if fact[2] == hub), "")
        if view.holds("fastened", hub):
            yield from self._get("wrench")
            if view.holds("tight", nut, hub) and "loosen first" in view.habits:
                if view.holds("raised", hub):
                    yield f"jack-down the hub {hub}"
                yield f"loosen the nut {nut} on the hub {hub}"
            yield from self._raise(hub)
            yield f"undo the fastening of the nut {nut} on the hub {hub}"
            return
        yield from self._raise(hub)
        if mounted:
            yield f"remove-wheel {mounted} from the hub {hub}"
            return
        yield from self._get(wheel)
        yield f"put-on-wheel {wheel} on the hub {hub}"

    def tighten(self, nut: str, hub: str) -> Iterator[str]:
        view = self.view
        yield from self._get("wrench")
        if not view.holds("fastened", hub):
            yield from self._raise(hub)
            yield from self._get(nut)
            yield f"do-up the nut {nut} on the hub {hub}"
            return
        if view.holds("raised", hub) and "lower first" in view.habits:
            yield f"jack-down the hub {hub}"
        yield f"tighten the nut {nut} on the hub {hub}"

    def inflate(self, wheel: str) -> Iterator[str]:
        yield from self._get("pump")
        if any(fact[1] == wheel for fact in self.view.select("in")):
            yield from self._get(wheel)
        yield f"inflate the wheel {wheel}"

    def put_away(self, thing: str, boot: str) -> Iterator[str]:
        yield from self._open(boot)
        if thing == "jack":
            yield from (f"jack-down the hub {fact[1]}" for fact in self.view.select("raised"))
        yield f"put-away {thing} in {boot}"

    def _raise(self, hub: str) -> Iterator[str]:
        if not self.view.holds("raised", hub):
            for fact in self.view.select("raised"):
                if "one hub" in self.view.habits:
                    yield from self._finish(fact[1])
            yield from self._get("jack")
            yield f"jack-up the hub {hub}"
            yield from (f"jack-down the hub {fact[1]}" for fact in self.view.select("raised"))

    def _finish(self, hub: str) -> Iterator[str]:
        """Do up the nut of a hub that will be lowered, if the goal wants it tight."""
        wanted = next((fact[1] for fact in self.goals if fact[0] == "tight" and fact[2] == hub), "")
        if wanted and self.view.holds("have", wanted):
            yield from self._get("wrench")
            yield f"do-up the nut {wanted} on the hub {hub}"
        yield f"jack-down the hub {hub}"

    def _get(self, thing: str) -> Iterator[str]:
        """Fetch a thing, unless the player has it."""
        for _, _, boot in (fact for fact in self.view.select("in") if fact[1] == thing):
            yield from self._open(boot)
            yield f"fetch {thing} from {boot}"

    def _open(self, boot: str) -> Iterator[str]:
        if self.view.holds("closed", boot):
            yield f"open {boot}"


def _lowered_unfastened(deeds: Sequence[Deed]) -> bool:
    """Whether a hub was lowered and raised again."""
    raised = [deed.action for deed in deeds if not deed.failed and deed.action.startswith("jack-up")]
    return len(raised) > len(set(raised))


WORLD = World(
    "tyreworld",
    re.compile(
        r"hub \w+ is (?:un)?fastened|undo the fastening|jack-up|jack-down|loosen the nut"
        r"|(?:remove|put-on)-wheel|inflate the wheel|fetch \w+ from"
    ),
    _WORDING,
    _update,
    _propose,
    (
        Habit(
            "loosen first",
            r"loosen (?:the|each|every|all|a tight) (?:nuts? |tight ){1,2}(?:[\w ]{0,20})?(?:while|before|first)"
            r"|loosen the nut [^\n]*\n(?:[^\n]*\n){0,3}[^\n]*jack-up",
            "Loosen the nut while its hub is on the ground, before jack-up.",
            has_failed("^undo"),
        ),
        Habit(
            "lower first",
            r"lower the hub|jack down, and only then tighten|jack-down [^\n]*\n(?:[^\n]*\n){0,3}[^\n]*tighten",
            "Lower the hub to the ground before you tighten its nut.",
            has_failed("^tighten"),
        ),
        Habit(
            "one hub",
            r"do up, jack down|finish one hub|do (?:up )?the nut up|do-up [^\n]*\n(?:[^\n]*\n){0,2}[^\n]*jack-down",
            "Finish one hub before the next: do the nut up before jack-down.",
            _lowered_unfastened,
        ),
    ),
)
