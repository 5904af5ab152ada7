"""Reads a conversation as the regions of one prompt: each in its present state, and a history of all turns.

Understands how prompts under the layout `append` tell changes: a repeated field replaces its text, "none" empties it,
items may be marked as added, and the lines below an item may be left out if they were given before.
"""

import re
from collections.abc import Mapping, Sequence

SEEN = "seen"

_TAKEN = re.compile(r"^(Step #?\d+:\n)?Taken as: (.*)\n?", re.M)
_ADDED = "Added to what stands above:\n"
_ABOVE = "  (as above)"
_NUMBER = re.compile(r"^(\w+) \d+(?=:)")
_EXPLAINED = re.compile(r"^\([^\n]*\)\n")
_LABELS = {
    "thought": "Thought",
    "action": "Action",
    "reasoning": "Reasoning",
    "current_subgoal": "Current subgoal",
    "next_action": "Next action",
}


def find_beginning(messages: Sequence[Mapping[str, str]]) -> int | None:
    """Index of the message that a conversation begins with, of messages in regions; None when there is none."""
    return next((index for index, regions in enumerate(messages) if SEEN in regions), None)


def join_turns(messages: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The regions after these messages, which are questions and answers in turn, and ``history``."""
    standing: dict[str, str] = {}
    bodies: dict[str, list[str]] = {}
    parts: list[str] = []
    answer: dict[str, str] = {}
    for regions in messages:
        if SEEN not in regions:
            answer = {name: text for name, text in regions.items() if name in _LABELS}
            continue
        for name in (name for name in regions if name != SEEN):
            standing[name] = _read_change(standing.get(name, ""), regions[name], bodies)
        seen = regions[SEEN]
        if taken := _TAKEN.match(seen):
            seen = (taken.group(1) or "") + seen[taken.end() :]
            answer |= {name: taken.group(2) for name in ("action", "next_action") if name in answer}
        parts += ["\n".join(f"{_LABELS[name]}: {text}" for name, text in answer.items())] if answer else []
        parts.append(seen)
        answer = {}
    return {**{name: text for name, text in standing.items() if text}, "history": "\n\n".join(parts)}


def _read_change(before: str, said: str, bodies: dict[str, list[str]]) -> str:
    """A region's new text, from its old text and the change. `bodies` collects the lines below each item."""
    said = _EXPLAINED.sub("", said)
    if said == "none":
        return ""
    if said.startswith(_ADDED):
        return f"{before}\n{said.removeprefix(_ADDED)}"
    lines: list[str] = []
    for head, body in _split_items(said):
        key = _NUMBER.sub(r"\1", head)
        bodies[key] = bodies.get(key, []) if body == [_ABOVE] else body
        lines += [head, *bodies[key]]
    return "\n".join(lines)


def _split_items(text: str) -> list[tuple[str, list[str]]]:
    """The lines that are not indented, each with the indented ones below it."""
    items: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if items and line.startswith((" ", "\t")):
            items[-1][1].append(line)
        else:
            items.append((line, []))
    return items
