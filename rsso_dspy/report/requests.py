"""Requests to models as a page holds them: each distinct message of a unit once, in the parts that have headings.

    split_message("About: A house.\\n\\nTask: open a door", ["about", "task"])
    # [Part("about", "About: A house.\\n\\n"), Part("task", "Task: open a door")]

The texts of the parts, joined, are the message, whatever is taken for a heading.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
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
        return [self._add(str(sent.get("role")), text_of(sent.get("content"))) for sent in call.request["messages"]]

    def _add(self, role: str, text: str) -> int:
        number = self._numbers.setdefault((role, text), len(self.messages))
        if number == len(self.messages):
            parts = split_system(text, self.regions) if role == "system" else split_message(text, self.regions)
            self.messages.append((role, [Part("", text)] if role == "assistant" else parts))
        return number


def list_regions(record: TrialsRecord) -> list[str]:
    """Return the fields of the actor, and those that memories of other packages added in this record."""
    added = (re.split("[:@]", name)[0] for trial in record.trials for name in trial.shown)
    return list(dict.fromkeys([*REGIONS, *added]))


def split_system(text: str, regions: Collection[str]) -> list[Part]:
    """Split a system message: the instruction, fields below it, the form of the answer, and examples."""
    examples = _EXAMPLES.search(text)
    told = text[: examples.start()] if examples else text
    form = _FORM.search(told)
    above = told[: form.start()] if form else told

    parts = [Part(part.name or INSTRUCTION, part.text) for part in split_message(above, regions)]
    if form:
        parts.append(Part(FORM, told[form.start() :]))
    if examples:
        parts.append(Part(EXAMPLES, text[examples.start() :]))
    return parts


def split_message(text: str, regions: Collection[str]) -> list[Part]:
    """Split a message where a line begins with the label of a field. A label that stands there several times is a
    heading at its last place, as those before are quoted."""
    places = dict(_find_headings(text, regions))
    starts = sorted((start, name) for name, start in places.items() if not _is_in_history(name, places, text))
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, ""))
    ends = [*(start for start, _ in starts[1:]), len(text)]
    return [Part(name, text[start:end]) for (start, name), end in zip(starts, ends, strict=True) if start < end]


def _find_headings(text: str, regions: Iterable[str]) -> Iterator[tuple[str, int]]:
    names = {_label(name): name for name in regions}
    for found in _compile_labels(tuple(names)).finditer(text):
        yield names[found[1]], found.start()
    for found in _MARK.finditer(text):
        yield found[1], found.start()


def _is_in_history(name: str, places: dict[str, int], text: str) -> bool:
    """Whether a heading is that of an earlier step, within a history that is one text."""
    start, history, present = places[name], places.get(HISTORY), places.get(PRESENT)
    if history is None or present is None or not history < start < present:
        return False
    return name != NOTICE or _TURN.search(text[start:present]) is not None


@lru_cache(maxsize=64)
def _compile_labels(labels: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, labels), key=len, reverse=True)
    return re.compile(rf"^({'|'.join(map(re.escape, longest_first))})(?: \([^()\n]*\))?:(?=[ \n]|\Z)", re.M)


def _label(name: str) -> str:
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]
