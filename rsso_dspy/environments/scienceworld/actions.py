"""How actions of ScienceWorld are worded and understood: the action templates, what is sent of an answer, and questions
about an action that fits several things.

An action is sent as written. If the parser does not know it, which takes no time and changes nothing, it is compared
with the valid actions, whose list is the most expensive request. (The SSO reference compares first. The outcome is the
same, see the tests, except for chance: listing draws random numbers, which changes the flight of bees in the genetics
tasks.)"""

import re
from collections.abc import Iterable

from rsso_dspy.environments.lessons import read_texts
from rsso_dspy.records import State

_TEXTS = read_texts(__package__)["templates"]
ACTION_TEMPLATES: str = _TEXTS["sso"]
USUAL = "\n".join([_TEXTS["complete"], *_TEXTS["notes"].values()])  # what all variants share under `complete`

_FIRST_WORDS = (
    "activate close connect deactivate disconnect dunk eat examine flush focus get go inventory look mix move open "
    "pick pour put read take task teleport turn use wait wait1 walk"
)
VERBS = tuple(_FIRST_WORDS.split())  # possible first words of an action, including words of no template
NOT_KNOWN = "No known action matches that input."  # nothing has happened, no time has passed
NO_EFFECT = "Unknown action."  # of an answer without an effect text, usually an unresolved ambiguous request
AMBIGUOUS = "Ambiguous request:"  # text of an answer that asks to choose among numbered readings of the action
CANCEL = "cancel"  # answer that cancels an ambiguous request; any text without a number would do
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})
LONGEST = 300  # maximum characters sent per action; the longest valid actions have less than half as many
_PUNCTUATION = ".,!?\"')(}{][:; \t\n"
_AROUND = re.compile(r"^\W*(?:(?:next )?(?:action|command|answer)\W*:\W*|\d+[.)]\s+\W*)?|[^\w)]+$")
NOTHING = re.compile(
    r"It'?s not clear|I'?m not sure how|Nothing happens|You (?:are|must|need)\b|There(?:'s| is| are) (?:no|nothing)\b"
    r"|.{0,80}\b(?:can'?t|cannot|isn'?t|doesn'?t|must be|appears to be (?:no|in))\b"
    r"|.{0,80}\b(?:is|are) (?:already|not|no longer)\b",
    re.I,
)
_PLACE = re.compile(
    r"(?:room|location) is called (?:the )?([a-z0-9 ]+)|You (?:arrive at|teleport to|move to) (?:the )?([a-z0-9 ]+)",
    re.I,
)


def describe_actions(offered: Iterable[str]) -> str:
    """Render the action_templates region of `complete` for a variant with these templates of the simulator: all but
    the one that no actor may use, with notes about some."""
    templates = [template for template in offered if template != "reset task"]

    lines = [_TEXTS["complete"]]
    lines += [note for template, note in _TEXTS["notes"].items() if template in templates]
    lines.append("Templates:")
    lines += [_TEXTS["slots"].get(template, template) for template in templates]
    return "\n".join(lines)


def clean_action(action: str) -> str:
    text = action[: 10 * LONGEST].encode("utf-8", "replace").decode()
    line = " ".join(text.lower().split())
    printable = "".join(character for character in line if character.isprintable())
    return printable[:LONGEST]


def strip_action(action: str) -> str:
    """Strip what surrounds a cleaned action: a label, a list mark, quotes, a final period."""
    return _AROUND.sub("", action)


def normalize_action(action: str) -> str:
    """Normalize an action for comparison: no case, punctuation around words, or fill words."""
    words = (word.strip(_PUNCTUATION) for word in action.lower().split())
    return " ".join(word for word in words if word and word not in FILL_WORDS)


def find_equal_action(action: str, valid: Iterable[str]) -> str | None:
    """Return the valid action, in the simulator's spelling, that equals the given one after normalization, or None."""
    normalized = normalize_action(action)
    for candidate in valid:
        if normalize_action(candidate) == normalized:
            return candidate
    return None


def is_task_reset(action: str) -> bool:
    """Return whether the simulator or the comparison could read this as ``reset task``, which resets reached goals, so
    that their points could be earned again. The parser skips all but letters and articles."""
    words = re.findall(r"[a-z]+", action.lower())
    return "".join(word for word in words if word not in FILL_WORDS) == "resettask"


def name_place(state: State) -> str:
    """The room that a state's texts name last; empty if they name none."""
    mentions = _PLACE.findall(f"{state.observation}\n{state.look}")
    if not mentions:
        return ""

    room, destination = mentions[-1]
    name: str = room or destination
    return name.strip().lower()


_OPTION = re.compile(r"^\s*(\d+):\s*(.+?)\s*$", re.M)
_PLACED = re.compile(r"([a-z0-9][a-z0-9 '%-]*?) \((in [^()]*)\)")
_NUMBER = re.compile(r"(?:option |number )?(\d+)(?:\s*[:.)].*)?")  # alone, or with the text of its option behind it
_INSIDE = r"\((?:[^()\n]|\([^()\n]*\))*\)"
_DETAILS = rf"(?=[ \t]*(\((?:[^()\n]|{_INSIDE})*\)|,[^.\n]*)?)"  # parentheses, or a clause up to the next sentence


class Question:
    """An ambiguous request, with the surroundings and the inventory in which it was asked. Options of equal words are
    told apart by the content or appearance of the things in the listing, since the simulator asks in the order in which
    it lists."""

    def __init__(self, answer: str, look: str, inventory: str):
        self._answer = answer.rstrip()
        self._look = look.lower()
        self._inventory = inventory.lower()
        self.options = {number: text.lower() for number, text in _OPTION.findall(answer)}
        self.marks: dict[str, str] = {}  # number of an option to its mark among options of equal words
        for text in dict.fromkeys(self.options.values()):
            alike = [number for number, option in self.options.items() if option == text]
            if len(alike) > 1:
                marks = self._tell_apart(text, len(alike))
                self.marks.update(zip(alike, marks, strict=False))

    @property
    def is_idle(self) -> bool:
        """Whether no visible difference exists between the options."""
        return len(set(self.options.values())) == 1 and not self.marks

    def render(self) -> str:
        lines = self._answer.splitlines()
        for place, line in enumerate(lines):
            option = _OPTION.match(line)
            if option is None:
                continue
            if mark := self.marks.get(option[1]):
                lines[place] = f"{line.rstrip()}: the {mark}"
        return "\n".join(lines)

    def choose(self, action: str) -> str | None:
        """Return the number of the option that an answer means: by its number, else by its words or some that no other
        option has. None if it is another action."""
        match = _NUMBER.fullmatch(action)
        if match and match[1] in self.options:
            return match[1]

        answer_words = _list_words(action)
        fitting = self._find_equal_options(answer_words) or self._find_containing_options(answer_words)
        readings = {(self.options[number], self.marks.get(number)) for number in fitting}
        return fitting[0] if len(readings) == 1 else None

    def _find_equal_options(self, answer_words: frozenset[str]) -> list[str]:
        """The numbers of the options that have just these words, with or without the places of things."""
        numbers = []
        for number, text in self.options.items():
            text_without_places = _PLACED.sub(r"\1", text)
            if answer_words in (_list_words(text), _list_words(text_without_places)):
                numbers.append(number)
        return numbers

    def _find_containing_options(self, answer_words: frozenset[str]) -> list[str]:
        """The numbers of the options that have all these words and maybe others, in their text or mark."""
        if not answer_words:
            return []

        numbers = []
        for number, text in self.options.items():
            mark = self.marks.get(number, "")
            if answer_words <= _list_words(f"{text} {mark}"):
                numbers.append(number)
        return numbers

    def _tell_apart(self, text: str, count: int) -> list[str]:
        """Return the listed things of that name at the option's place, if their number matches and they differ."""
        for name, place in _PLACED.findall(text):
            listing = self._list_things_in(place)
            words = name.split()
            for start in range(len(words)):
                marks = _find_mentions(" ".join(words[start:]), listing)
                if len(marks) == count and len(set(marks)) > 1:
                    return marks
        return []

    def _list_things_in(self, place: str) -> str:
        """Return the part of the listing about a place such as ``in inventory, in agent, in kitchen``."""
        inner, *outer = [part.removeprefix("in ").strip() for part in place.split(", in ")]
        if inner == "inventory":
            return self._inventory

        lines = [line.strip() for line in self._look.splitlines() if line.startswith(("\t", " "))]
        if not outer:  # in the room itself
            return "\n".join(map(_cut_content, lines))

        holder = re.escape(inner)
        content = re.compile(rf"(?:in|on) the {holder} is: (.*)|{holder} \(containing (.*)\)")
        matches = [content.search(line) for line in lines]
        return "\n".join(match[1] or match[2] for match in matches if match)


def _find_mentions(name: str, listing: str) -> list[str]:
    """Each mention of a thing of this name in a listing, with its content or appearance."""
    thing = re.escape(name)
    pattern = rf"(?m)(?:^|,\s*|\s)(?:an?|some|the)\s+(?:substance called )?({thing})(?=[\s,.(]|$){_DETAILS}"
    mentions = []
    for subject, details in re.findall(pattern, listing):
        gap = " " if details.startswith("(") else ""
        mention = f"{subject}{gap}{details}"
        mentions.append(mention.strip(" .,"))
    return mentions


def _cut_content(line: str) -> str:
    """The subject of a line of a room's listing with its parentheses, without what is in or on it."""
    return re.split(r"\.\s+(?:in|on) the [a-z0-9 ]+ is:", line, maxsplit=1)[0]


def _list_words(text: str) -> frozenset[str]:
    words = frozenset(re.findall(r"[a-z0-9]+", text.lower()))
    return words - FILL_WORDS - {"into", "of", "is", "that", "which", "and"}
