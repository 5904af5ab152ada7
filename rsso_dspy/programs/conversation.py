"""The growing conversation of a trial under `layout = "append"`.

    talk = Conversation("sso", complete=True, most=128_000)
    talk.ask(states, steps, regions, environment.render)       # before every step
    talk.turns                                                 # all turns so far; earlier ones never change

Earlier messages never change, with one exception: when the conversation gets too long, it starts again without its
older half, with the current regions, the oldest remaining state in full, and a line about what is left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.methods import Scaffold
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.transcript import LATEST, NO_SUBGOAL, UNREADABLE
from rsso_dspy.records import State, Step
from rsso_dspy.signatures.conversation import Turn
from rsso_dspy.signatures.layouts import HISTORY_STATES, SEEN

CHARACTERS_PER_TOKEN = 4
"""Used to estimate the length of a conversation, since not every model has a tokenizer here."""

TAKEN_AS = "Taken as: {action}"
"""Said before the result of an action that was sent in other words than the answer's."""

NOTHING_NOW = "none"
"""Text of a region that has become empty."""

ADDED = "Added to what stands above:"
ABOVE = "  (as above)"

_NUMBER = re.compile(r"^(\w+) \d+(?=:)")

Render = Callable[[Sequence[State]], list[str]]


class Conversation:
    """Questions to one actor and its answers in one trial. `most` is the maximum length in characters."""

    def __init__(self, scaffold: Scaffold, complete: bool, most: int) -> None:
        self.turns: tuple[Turn, ...] = ()
        self.first = 0
        """Index of the oldest state shown."""
        self._scaffold = scaffold
        self._complete = complete
        self._most = most
        self._standing: dict[str, str] = {}
        """Region to its text as of the last turn."""
        self._bodies: dict[str, str] = {}
        """First line of a region's item, without its number, to the text below it."""

    def ask(
        self, states: Sequence[State], steps: Sequence[Step], regions: Mapping[str, str], render: Render, more: str = ""
    ) -> None:
        """Add the turn before the next step. ``states[i + 1]`` follows ``steps[i]``; `regions` maps input fields to
        texts, also empty ones; `more` is added after the current state."""
        if not self.turns or self._changes_form(regions):
            self._open(states, steps, regions, render, more)
            return
        seen = self._describe(len(steps), render(states[self.first :])[-1], steps) + more
        *before, last = self.turns
        told = Turn({**self._tell_changes(regions), SEEN: seen}, reminds=steps[-1].malformed)
        self.turns = (*before, Turn(last.said, self._answer(steps[-1]), last.reminds), told)
        if measure(self.turns) > self._most:
            self.first = self._find_first(regions)
            self._open(states, steps, regions, render, more)

    def _changes_form(self, regions: Mapping[str, str]) -> bool:
        """Return whether subgoals are offered for the first time, which adds a field to the answers."""
        offered = self._complete and self._scaffold == "sso" and regions.get("skills")
        return bool(offered) and "skills" not in self.turns[0].said

    def _open(
        self, states: Sequence[State], steps: Sequence[Step], regions: Mapping[str, str], render: Render, more: str
    ) -> None:
        """Start the conversation at the oldest state shown, up to the current one."""
        self._standing, self._bodies = dict(regions), {}
        texts = render(states[self.first :])
        turns = []
        for index, text in enumerate(texts, start=self.first):
            begins, ends = index == self.first, index == len(steps)
            seen = self._describe(index, text, [] if begins else steps[:index]) + (more if ends else "")
            left_out = f"{LATEST.format(first=index + 1)}\n\n" if begins and index else ""
            said = {name: text for name, text in regions.items() if text and begins} | {SEEN: left_out + seen}
            reminds = begins or steps[index - 1].malformed
            turns.append(Turn(said, {} if ends else self._answer(steps[index]), reminds))
        self.turns = tuple(turns)
        for text in regions.values():
            self._bodies |= {_without_number(head): body for head, body in split_items(text)}

    def _find_first(self, regions: Mapping[str, str]) -> int:
        """Return the oldest state with which the conversation takes half of its maximum; keeps at least ten states."""
        left = self._most // 2 - sum(map(len, regions.values()))
        first = self.first + len(self.turns)
        for number, turn in enumerate(reversed(self.turns), start=1):
            left -= measure([turn])
            if left < 0 and number > HISTORY_STATES:
                break
            first -= 1
        return first

    def _describe(self, index: int, text: str, steps: Sequence[Step]) -> str:
        """Format the state before a step, under the step's number."""
        mark = "" if self._complete else "#"
        heading = f"Step {mark}{index + 1}:\n" if self._complete or self._scaffold == "sso" else ""
        taken = steps[-1].action if steps and steps[-1].action != steps[-1].proposed else ""
        return heading + (f"{TAKEN_AS.format(action=taken)}\n" if taken else "") + text

    def _answer(self, step: Step) -> dict[str, str]:
        action = UNREADABLE if step.malformed else step.proposed
        if self._scaffold == "flat":
            return {"thought": step.reasoning, "action": action}
        subgoal = step.subgoal or step.rejected or NO_SUBGOAL
        return {"reasoning": step.reasoning, "current_subgoal": subgoal, "next_action": action}

    def _tell_changes(self, regions: Mapping[str, str]) -> dict[str, str]:
        told = {}
        for name, text in regions.items():
            before = self._standing.get(name, "")
            if text != before:
                told[name] = self._tell_change(before, text) if text else NOTHING_NOW
        self._standing = dict(regions)
        return told

    def _tell_change(self, before: str, text: str) -> str:
        """Shorten a region's text by what was sent before: unchanged lines if lines are only added, and text below an
        item that was already sent."""
        old, new = before.splitlines(), text.splitlines()
        if old and _is_within(old, new):
            return "\n".join([ADDED, *_list_added(old, new)])
        lines = []
        for head, body in split_items(text):
            lines.append(head)
            known = bool(body) and self._bodies.get(_without_number(head)) == body
            lines += [ABOVE] if known else [body] if body else []
            self._bodies[_without_number(head)] = body
        return "\n".join(lines)


def begin_conversation(scaffold: Scaffold, rules: TrialRules) -> Conversation | None:
    """A trial's conversation; None under the other layouts. Raises `UsageError` where prompts are made by somebody who
    knows nothing of it."""
    if rules.layout != "append":
        return None
    adapter = dspy.settings.adapter
    if adapter is not None and not getattr(adapter, "sends_conversations", False):
        raise UsageError(
            f"layout = append needs the adapters of this package, and DSPy has {type(adapter).__name__}: "
            "leave dspy.configure(adapter=...) out and name the format in the backend's table (adapter = ...)"
        )
    return Conversation(scaffold, rules.interface == "complete", CHARACTERS_PER_TOKEN * rules.max_conversation)


@contextmanager
def continue_conversation(
    talk: Conversation | None,
    states: Sequence[State],
    steps: Sequence[Step],
    regions: Mapping[str, str],
    render: Render,
    more: str,
) -> Iterator[None]:
    """Inside the block, the actor is asked in the conversation, if there is one; see `Conversation.ask`."""
    if talk is None:
        yield
        return
    talk.ask(states, steps, regions, render, more)
    with dspy.context(conversation=talk.turns):
        yield


def measure(turns: Sequence[Turn]) -> int:
    return sum(len(text) for turn in turns for text in (*turn.said.values(), *turn.answer.values()))


def split_items(text: str) -> list[tuple[str, str]]:
    """The lines of a text that are not indented, each with the indented ones below it."""
    items: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if items and line.startswith((" ", "\t")):
            items[-1][1].append(line)
        else:
            items.append((line, []))
    return [(head, "\n".join(body)) for head, body in items]


def _without_number(line: str) -> str:
    return _NUMBER.sub(r"\1", line)


def _is_within(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether all old lines are among the new ones in the same order."""
    left = iter(new)
    return all(line in left for line in old)


def _list_added(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return the added lines, each list item below its heading."""
    left, added, heading = list(old), [], ""
    for line in new:
        listed = line.startswith(("- ", " ", "\t"))
        heading = heading if listed else line
        if left and line == left[0]:
            del left[0]
        elif line.strip():
            if listed and heading and heading not in added:
                added.append(heading)
            added.append(line)
    return added
