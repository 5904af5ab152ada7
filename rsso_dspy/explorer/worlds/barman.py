"""Plays a world of drinks in shot glasses and cocktails from a shaker, with two hands."""

import re
from collections.abc import Iterator

from rsso_dspy.explorer.worlds.world import Fact, Habit, View, Wording, World, find_ended, has_failed

_WORDING = Wording(
    {
        "used": "pour {} from a shot glass to a used shaker {}",
        "part1": "{} part1 ingredient is {}",
        "part2": "{} part2 ingredient is {}",
        "dispenses": "{} dispenses {}",
        "handempty": "handempty {}",
        "next": "level {} is next to level {}",
        "bottom": "{} is at empty level {}",
        "level": "{} is at level {}",
        "table": "{} is on the table",
        "clean": "{} is clean",
        "empty": "{} is empty",
        "contains": "{} contains {}",
        "unshaked": "{} is unshaked",
        "shaked": "{} is shaked",
        "holds": "{} holds {}",
    }
)
_NAME = r"([\w-]+)"
_GRASP = rf"^{_NAME} grasp {_NAME}"
_ENDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (_GRASP, ("handempty {0}", "table {1}")),
    (rf"^{_NAME} leave {_NAME}", ("holds {0} {1}",)),
    (rf"^fill-shot glass {_NAME}", ("clean {0}", "empty {0}")),
    (rf"^refill-shot {_NAME}", ("empty {0}",)),
    (rf"empty-shot glass {_NAME} with beverage {_NAME}", ("contains {0} {1}",)),
    (rf"clean-shot glass {_NAME} with {_NAME}", ("used {0} {1}",)),
    (
        rf"pour-shot-to-\w+-shaker from a shot glass {_NAME} with {_NAME} to a \w+ shaker {_NAME} .*from level {_NAME}",
        ("contains {0} {1}", "clean {2}", "empty {2}", "level {2} {3}"),
    ),
    (
        rf"^shake a cocktail \S+ with ingredient {_NAME} and ingredient {_NAME} in a shaker {_NAME}",
        ("unshaked {2}", "contains {2} {0}", "contains {2} {1}"),
    ),
    (
        rf"^pour-shaker-to-shot .*ingredient {_NAME} with .*shaker {_NAME} from level {_NAME}",
        ("clean {0}", "empty {0}", "level {1} {2}"),
    ),
    (
        rf"empty-shaker {_NAME} with ingredient {_NAME} from level {_NAME}",
        ("shaked {0}", "contains {0} {1}", "level {0} {2}"),
    ),
)
"""Facts that an action ends although no observation says so."""


def _update(facts: frozenset[Fact], action: str, answer: str) -> frozenset[Fact]:
    begun = set(_WORDING.read(answer))
    if match := re.search(_GRASP, action):
        begun.add(("holds", match[1], match[2]))
    return (facts - find_ended(_ENDS, action)) | begun


def _propose(view: View) -> Iterator[tuple[str, str]]:
    goals = [fact for fact in _WORDING.read(view.task) if fact[0] == "contains" and fact not in view.facts]
    bar = _Bar(view)
    goals.sort(key=lambda goal: (not bar.is_ready(goal[2]), not bar.is_mixed(goal[2]), view.draw(" ".join(goal))))
    for _, glass, drink in goals:
        serve = bar.serve_cocktail if bar.is_mixed(drink) else bar.serve_ingredient
        yield from ((action, drink) for action in serve(glass, drink))


class _Bar:
    """The work for one drink."""

    def __init__(self, view: View):
        self.view = view
        self.parts = {fact[1]: [fact[2]] for fact in view.select("part1")}
        for _, cocktail, part in view.select("part2"):
            self.parts[cocktail].append(part)
        self.hands = {fact[2]: fact[1] for fact in view.select("holds")}
        self.shaker = next((fact[1] for fact in view.select("bottom")), "")
        self.inside = [fact[2] for fact in view.select("contains") if fact[1] == self.shaker]
        self.taken = {fact[1] for fact in _WORDING.read(view.task) if fact[0] == "contains"}

    def is_mixed(self, drink: str) -> bool:
        return drink in self.parts

    def is_ready(self, drink: str) -> bool:
        """Whether the shaker holds it, shaken."""
        return drink in self.inside and self.view.holds("shaked", self.shaker)

    def serve_ingredient(self, glass: str, drink: str) -> Iterator[str]:
        yield from self._take(glass)
        yield from self._fill(glass, drink)

    def serve_cocktail(self, glass: str, drink: str) -> Iterator[str]:
        shaker, view = self.shaker, self.view
        if self.is_ready(drink):
            yield from self._make_clean(glass)
            yield from self._take(shaker)
            hand, (low, high) = self.hands[shaker], self._find_pouring(down=True)
            yield (
                f"pour-shaker-to-shot to a shot glass {drink} the ingredient {glass} with hand {hand} from shaker "
                f"{shaker} from level {low} to level {high}"
            )
            return
        missing = [part for part in self.parts[drink] if part not in self.inside]
        if view.holds("shaked", shaker):
            yield from self._empty_shaker()
        elif not missing:
            yield from self._take(shaker)
            if "empty hand" in view.habits:
                yield from self._free_other(shaker)
            first, second = self.parts[drink]
            hand = self.hands[shaker]
            yield (
                f"shake a cocktail {drink} with ingredient {first} and ingredient {second} in a shaker {shaker} with "
                f"hand {hand} and hand {self._find_other(hand)}"
            )
        elif not self.inside and not view.holds("clean", shaker) and "clean shaker" in view.habits:
            yield from self._take(shaker)
            yield from self._free_other(shaker)
            hand = self.hands[shaker]
            yield f"use hand {hand} and hand {self._find_other(hand)} to clean-shaker {shaker}"
        else:
            yield from self._add(missing, glass)

    def _add(self, missing: list[str], glass: str) -> Iterator[str]:
        """Bring an ingredient into the shaker, with a glass that no drink is in or meant for, if there is one."""
        glasses = sorted({fact[1] for each in ("empty", "contains") for fact in self.view.select(each)} - {self.shaker})
        spare = [each for each in glasses if each not in self.taken] or [glass]
        held = [each for each in spare if each in self.hands]
        tool = (held or spare)[0]
        inside = next((fact[2] for fact in self.view.select("contains") if fact[1] == tool), "")
        if inside not in missing:
            yield from self._take(tool)
            yield from self._fill(tool, missing[0])
            return
        yield from self._take(tool)
        low, high = self._find_pouring()
        state = "used" if self.inside else "clean"
        yield (
            f"pour-shot-to-{state}-shaker from a shot glass {tool} with {inside} to a {state} shaker {self.shaker} "
            f"with hand {self.hands[tool]} from level {low} to level {high}"
        )

    def _fill(self, glass: str, part: str) -> Iterator[str]:
        hand = self.hands[glass]
        yield from self._free_other(glass) if "empty hand" in self.view.habits else ()
        tap = next((fact[1] for fact in self.view.select("dispenses") if fact[2] == part), "")
        poured = next((fact[2] for fact in self.view.select("contains") if fact[1] == glass), "")
        if poured:
            yield f"use hand {hand} to empty-shot glass {glass} with beverage {poured}"
        used = [fact[2] for fact in self.view.select("used") if fact[1] == glass]
        if part in used and not self.view.holds("clean", glass):
            yield f"refill-shot {glass} with {part} with {hand} and {self._find_other(hand)} holding {tap}"
        if used and "clean glass" in self.view.habits:
            yield from self._wash(glass, used[0])
        yield f"fill-shot glass {glass} with {part} with {hand} and {self._find_other(hand)} holding {tap}"
        yield from self._free_other(glass)

    def _make_clean(self, glass: str) -> Iterator[str]:
        view = self.view
        if "clean glass" not in view.habits or (view.holds("clean", glass) and view.holds("empty", glass)):
            return
        yield from self._take(glass)
        for _, _, drink in (fact for fact in view.select("contains") if fact[1] == glass):
            yield f"use hand {self.hands[glass]} to empty-shot glass {glass} with beverage {drink}"
        for _, _, drink in (fact for fact in view.select("used") if fact[1] == glass):
            yield from self._wash(glass, drink)

    def _wash(self, glass: str, drink: str) -> Iterator[str]:
        yield from self._free_other(glass)
        hand = self.hands[glass]
        other = self._find_other(hand)
        yield f"clean-shot glass {glass} with {drink} with hand {hand} holding shot glass and {other}"

    def _empty_shaker(self) -> Iterator[str]:
        yield from self._take(self.shaker)
        now, bottom = self._find_height(), next(fact[2] for fact in self.view.select("bottom"))
        hand = self.hands[self.shaker]
        yield (
            f"use hand {hand} to empty-shaker {self.shaker} with ingredient {self.inside[0]} from level {now} to "
            f"level {bottom}"
        )

    def _take(self, vessel: str) -> Iterator[str]:
        """Take a vessel, unless it is in hand. Afterwards `hands` holds it: the next action can name the hand."""
        if vessel in self.hands:
            return
        free = [fact[1] for fact in self.view.select("handempty")]
        for hand in free:
            yield f"{hand} grasp {vessel}"
        for held, hand in self.hands.items():
            yield f"{hand} leave {held}"
        self.hands = {**self.hands, vessel: "left"}

    def _free_other(self, vessel: str) -> Iterator[str]:
        for held, hand in self.hands.items():
            if held != vessel:
                yield f"{hand} leave {held}"

    def _find_other(self, hand: str) -> str:
        return "right" if hand == "left" else "left"

    def _find_height(self) -> str:
        return next((fact[2] for fact in self.view.select("level") if fact[1] == self.shaker), "")

    def _find_pouring(self, down: bool = False) -> tuple[str, str]:
        """The level of the shaker, and the level after pouring."""
        now = self._find_height()
        pairs = [(fact[2], fact[1]) if down else (fact[1], fact[2]) for fact in self.view.select("next")]
        return now, next((to for begin, to in pairs if begin == now), now)


WORLD = World(
    "barman",
    re.compile(r"part1 ingredient is|fill-shot|clean-shot|pour-sh|shake a cocktail|(?:left|right) (?:grasp|leave) "),
    _WORDING,
    _update,
    _propose,
    (
        Habit(
            "clean glass",
            r"clean(?:-shot)? (?:the |each |a )?(?:shot )?glass|clean-shot|glass that is clean"
            r"|clean it for anything else",
            "Clean the glass before it takes another ingredient.",
            has_failed(r"\bfill-shot|pour-shaker-to-shot"),
        ),
        Habit(
            "empty hand",
            r"other hand (?:has to be |must be |is )?empty|put it down|put (?:the )?glass down"
            r"|leave (?:the )?(?:shot\w*|glass)",
            "Keep the other hand empty for filling, cleaning and shaking: leave what it holds.",
            has_failed(r"\bshake\b|clean-sh|fill-shot"),
        ),
        Habit(
            "clean shaker",
            r"clean(?:-shaker)? the shaker|clean-shaker|shaker has to be clean",
            "Empty and clean the shaker before the next cocktail.",
            has_failed(r"pour-shot-to-"),
        ),
    ),
)
