"""Requests to models as a page holds them: each distinct message of a unit once, in the parts that have headings.

    split_message("About: A house.\\n\\nTask: open a door", ["about", "task"])
    # [Part("about", "About: A house.\\n\\n"), Part("task", "Task: open a door")]

The texts of the parts, joined, are the message, whatever is taken for a heading.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rsso_dspy.calls import Call, text_of
from rsso_dspy.records import TrialsRecord
from rsso_dspy.regions import HISTORY, NOTICE, REGIONS

INSTRUCTION = "instruction"  # what stands ahead of the first heading of a system message
FORM = "form_of_the_answer"
EXAMPLES = "examples"
PRESENT = "observation"  # the last one of a message is of the step itself; those before it are of the history

_FORM = re.compile(
    r"^(?:The [a-z_ ]+ (?:is|are) [^\n]*\n)*"
    r"Answer (?:with the [a-z_ ]+ alone|with one JSON object in this form:|in this form:)",
    re.M,
)
_EXAMPLES = re.compile(r"^Examples:$", re.M)
_MARK = re.compile(r"^\[\[ ## (\w+) ## \]\]", re.M)  # a heading of DSPy's own adapters
_TURN = re.compile(r"^Action:", re.M)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a message, with the name of the field that it shows; empty where it has no heading."""

    name: str
    text: str


@dataclass(slots=True)
class MessageTable:
    """The messages of a record, each distinct one once, by number from 0."""

    regions: Sequence[str]  # names of the fields whose labels are headings
    messages: list[tuple[str, list[Part]]] = field(default_factory=list)  # role and parts
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def add_request(self, call: Call) -> list[int]:
        """Return the numbers of a request's messages."""
        numbers = []
        for message in call.request["messages"]:
            numbers.append(self._add(str(message.get("role")), text_of(message.get("content"))))
        return numbers

    def _add(self, role: str, text: str) -> int:
        if (role, text) not in self._numbers:
            self._numbers[role, text] = len(self.messages)
            self.messages.append((role, self._split(role, text)))
        return self._numbers[role, text]

    def _split(self, role: str, text: str) -> list[Part]:
        if role == "assistant":
            return [Part("", text)]
        if role == "system":
            return split_system(text, self.regions)
        return split_message(text, self.regions)


def list_regions(record: TrialsRecord) -> list[str]:
    """Return the fields of the actor, and those that memories of other packages added in this record."""
    regions = dict.fromkeys(REGIONS)
    for trial in record.trials:
        for name in trial.shown:
            regions[re.split("[:@]", name)[0]] = None
    return list(regions)


def split_system(text: str, regions: Collection[str]) -> list[Part]:
    """Split a system message: the instruction, fields below it, the form of the answer, and examples."""
    examples = _EXAMPLES.search(text)
    head = text[: examples.start()] if examples else text
    form = _FORM.search(head)
    above = head[: form.start()] if form else head

    parts = [Part(part.name or INSTRUCTION, part.text) for part in split_message(above, regions)]
    if form:
        parts.append(Part(FORM, head[form.start() :]))
    if examples:
        parts.append(Part(EXAMPLES, text[examples.start() :]))
    return parts


def split_message(text: str, regions: Collection[str]) -> list[Part]:
    """Split a message where a line begins with the label of a field. A label that stands there several times is a
    heading at its last place, as those before are quoted."""
    places = _find_headings(text, regions)
    names = [name for name in places if not _is_in_history(name, places, text)]
    names.sort(key=lambda name: places[name])

    parts = []
    end = len(text)
    for name in reversed(names):
        start = places[name]
        parts.append(Part(name, text[start:end]))
        end = start
    if end > 0:
        parts.append(Part("", text[:end]))
    return parts[::-1]


def _find_headings(text: str, regions: Iterable[str]) -> dict[str, int]:
    """Return the last place of each field's label."""
    names = {_label(name): name for name in regions}
    places = {}
    for match in _compile_labels(tuple(names)).finditer(text):
        places[names[match[1]]] = match.start()
    for match in _MARK.finditer(text):
        places[match[1]] = match.start()
    return places


def _is_in_history(name: str, places: Mapping[str, int], text: str) -> bool:
    """Whether a heading is that of an earlier step, within a history that is one text."""
    if HISTORY not in places or PRESENT not in places:
        return False
    start = places[name]
    present = places[PRESENT]
    if not places[HISTORY] < start < present:
        return False
    belongs_to_present = name == NOTICE and not _TURN.search(text[start:present])
    return not belongs_to_present


@lru_cache(maxsize=64)
def _compile_labels(labels: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, labels), key=len, reverse=True)
    return re.compile(rf"^({'|'.join(map(re.escape, longest_first))})(?: \([^()\n]*\))?:(?=[ \n]|\Z)", re.M)


def _label(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]
