"""Actions of any kind, as an environment of one's own takes them: a command, a call, a function of several lines.

    read_action('echo "hello world"', ActionForm())             # 'echo "hello world"'
    read_action("```python\\ndef f():\\n    pass\\n```", ActionForm("text"))       # "def f():\\n    pass"

An action is whole. Marks go only in pairs around it, and what else goes is known to be none of it. An object of several
lines is one line where an action is one.
"""

import re
from dataclasses import dataclass
from typing import Literal

from rsso_dspy.answers.fences import find_fences
from rsso_dspy.answers.objects import find_objects, join_lines

Form = Literal["line", "text"]
"""Whether an action is one line, or a text of any number."""


@dataclass(frozen=True, slots=True)
class ActionForm:
    """What is known of an environment's actions."""

    form: Form = "line"
    verbs: frozenset[str] = frozenset()
    """First words of actions that its templates name, in lower case. There may be others."""
    possible: frozenset[str] = frozenset()
    """The actions that are possible now, where they are listed."""
    keys: frozenset[str] = frozenset()
    """Keys of the objects that its templates show."""

    def fits(self, keys: frozenset[str]) -> bool:
        """Whether an object with these keys is an action as the templates show it."""
        return bool(keys) and keys <= self.keys

    def knows(self, action: str) -> bool:
        """Whether an action is possible, or begins with the verb of a template."""
        words = action.split()
        return bool(words) and (words[0].lower().rstrip(".!") in self.verbs or action in self.possible)


PAIRS = (("```", "```"), ("**", "**"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("‘", "’"))
"""Marks that may stand around an action, whatever it is."""
EMPHASIS = (("*", "*"), ("_", "_"))
"""Marks that stand around an action only if it begins with a known verb: they may be letters of another."""

LIST_MARK = re.compile(r"^(?:[-*•>+]\s+|\(?\d{1,2}[.)]\s+)")
"""What stands ahead of an item of a list."""

SHOWN_MARK = re.compile(r"^(?:Step \d+\. )?> +(?=\S)")
"""What stands ahead of an action where prompts show earlier attempts, and is copied with it."""

GIVEN = "given"
"""Key of a prediction with an action of which something was cut off: what the model gave as its action."""

LONGEST_LINE = 2000  # characters of an action that is one line


def read_action(text: str, form: ActionForm) -> str:
    """Return the action that a model gave as its own; an empty text if there is none, or more than one."""
    contents = [block.content for block in find_fences(text)]
    if len(contents) > 1:
        return ""
    if contents:
        text = contents[0]
    if form.form == "text":
        action = text.strip("\n").rstrip()
        return action if contents else _strip_pair(action, PAIRS[:1])

    lines = [line.strip() for line in join_lines(text).splitlines() if line.strip()]
    return _read_line(lines[0], form) if lines else ""


def find_action(text: str, form: ActionForm) -> str:
    """Return the action in an answer without labels; an empty text where it may be something else: a question, talk,
    several objects, or several lines of which none begins with a known verb."""
    if find_fences(text):
        return read_action(text, form)
    objects = [item for item in find_objects(text) if form.fits(item.keys)]
    if objects:
        return read_action(objects[0].content, form) if len(objects) == 1 else ""
    if _is_talk(text):
        return ""
    if form.form == "text":
        return read_action(text, form)

    lines = [line.strip() for line in join_lines(text).splitlines() if line.strip()]
    if len(lines) == 1:
        action = _read_line(lines[0], form)
        return "" if action.endswith("?") or len(action) > LONGEST_LINE else action
    for line in (*lines[:1], *lines[-1:]):
        action = _read_line(line, form)
        if form.knows(action):
            return action
    return ""


def find_ahead(text: str, action: str, form: ActionForm) -> str:
    """Return what stands in an answer without labels ahead of the block that is its action, or of its last line."""
    for block in find_fences(text):
        return text[: block.start]
    for item in find_objects(text):
        if form.fits(item.keys):
            return text[: item.start]
    place = text.rfind(action)
    return text[:place] if place > 0 else ""


def _read_line(line: str, form: ActionForm) -> str:
    line = SHOWN_MARK.sub("", line)
    possible = {action.lower(): action for action in form.possible}
    for candidate in (line, LIST_MARK.sub("", line)):
        action = _strip_pair(candidate, PAIRS)
        emphasized = _strip_pair(action, EMPHASIS)
        if form.knows(emphasized):
            action = emphasized

        stopped = action.rstrip(".! ")
        is_one_sentence = re.search(r"[.!?]\s", stopped) is None
        for spelling in (action, stopped):
            if spelling.lower() in possible:
                return possible[spelling.lower()]
        if form.knows(action):
            return stopped if is_one_sentence else action
    return _strip_pair(line, PAIRS)


def _strip_pair(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    """Return a text without marks that stand around all of it, and nowhere inside."""
    for begin, end in pairs:
        inner = text[len(begin) : -len(end)]
        is_around = text.startswith(begin) and text.endswith(end) and len(text) > len(begin) + len(end)
        if is_around and begin not in inner and end not in inner:
            return inner.strip()
    return text


FEWEST_WORDS_OF_TALK = 3
TALK = re.compile(r"(?i)\W*(?:i|i'?m|i'?ll|i'?d|i'?ve|we|let me|let's|sure|okay|ok|yes|certainly|of course|here)\b")
"""How a sentence begins that speaks of the answer."""
ADVICE = re.compile(r"(?i)\W*the (?:next|best|first)\b")
"""How one begins that advises an action in place of giving it."""


def _is_talk(text: str) -> bool:
    speaks = TALK.match(text) or ADVICE.match(text)
    return speaks is not None and len(text.split()) >= FEWEST_WORDS_OF_TALK
