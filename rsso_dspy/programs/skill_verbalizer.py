"""The skill verbalizer: a module that turns excerpts into a skill in words (SSO, section 3.3)."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import dspy

from rsso_dspy.memory.skill_windows import Verbalization, Window
from rsso_dspy.programs.roles import first_line, split_words
from rsso_dspy.records import State
from rsso_dspy.signatures import NameTarget, SummarizeSkill, WriteInstructions

Part = Literal["whole", "actions", "ends"]  # what the summary, the instructions and the target are drawn from


class SkillVerbalizer(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.summary = dspy.Predict(SummarizeSkill)
        self.instructions = dspy.Predict(WriteInstructions)
        self.target = dspy.Predict(NameTarget)

    def forward(self, examples: Sequence[Window], action_templates: str = "", whole: bool = False) -> dspy.Prediction:
        """Describe what the windows have in common: the answers, and as ``skill`` a `Verbalization`; None if the
        instructions are no actions or no target was named. `whole`: each call reads every excerpt from its initial to
        its final state (SSO's released code); otherwise only what it needs, and what the excerpt before it lacks."""
        if whole:
            full_text = action_text = end_text = render_whole_excerpts(examples)
        else:
            full_text = render_excerpts(examples, "whole")
            action_text = render_excerpts(examples, "actions")
            end_text = render_excerpts(examples, "ends")

        summary = self.summary(examples=full_text)
        description = {"summary": summary.summary, "skill_name": summary.skill_name}

        answer = self.instructions(examples=action_text, **description, action_templates=action_templates)
        written = [line for line in map(first_line, answer.steps) if line]
        actions = [action for window in examples for action in window.actions]
        steps = filter_instructions(written, action_templates, actions)

        target = ""
        if steps:
            naming = self.target(examples=end_text, **description, steps=list(steps))
            target = " ".join((naming.target or "").split())

        skill = None
        if target:
            skill = Verbalization(summary.summary, summary.skill_name, steps, target)
        return dspy.Prediction(
            skill=skill, summary=summary.summary, skill_name=summary.skill_name, steps=list(steps), target=target
        )


INITIAL_STATE, FINAL_STATE = "Initial state:", "Final state:"
NEW = "Final state, where it is not as the initial state:"
GONE = "No longer there:"
AS_BEFORE = "(What is as in excerpt {number} is left out.)"


def render_excerpts(examples: Sequence[Window], part: Part = "whole") -> str:
    """Format examples, numbered from 1: a final state shows only differences from the first one, an excerpt only those
    from the previous one. ``ends`` are the changes by the last action."""
    texts = []
    previous: Window | None = None
    for number, window in enumerate(examples, start=1):
        texts.append(_render_excerpt(number, window, previous, part))
        previous = window
    return "\n\n".join(texts)


def _render_excerpt(number: int, window: Window, previous: Window | None, part: Part) -> str:
    lines = [f"Excerpt {number}"]
    if previous is not None:
        lines.append(AS_BEFORE.format(number=number - 1))

    if part == "whole":
        lines += _render_initial_state(window, previous)

    first_action = len(window.actions) - 1 if part == "ends" else 0
    lines += _render_actions(window, previous, first_action)

    if part != "actions":
        changes = _list_changes(window)
        if previous is None or changes != _list_changes(previous):
            lines += changes
    return "\n".join(lines)


def _render_initial_state(window: Window, previous: Window | None) -> list[str]:
    if previous is None:
        return [INITIAL_STATE, window.states[0].description]
    new = _subtract(_lines(window.states[0]), _lines(previous.states[0]))
    return [INITIAL_STATE, *new] if new else []


def render_whole_excerpts(examples: Sequence[Window]) -> str:
    """Format examples, numbered from 1, each from its initial to its final state."""
    texts = []
    for number, window in enumerate(examples, start=1):
        lines = [f"Excerpt {number}", INITIAL_STATE, window.states[0].description]
        lines += _render_actions(window, None, 0)
        lines += [FINAL_STATE, window.states[-1].description]
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def _render_actions(window: Window, before: Window | None, first: int) -> list[str]:
    """Format the actions from index `first` on, with observations that differ from those of the previous excerpt."""
    old_observations: dict[int, str] = {}
    if before is not None:
        old_observations = dict(enumerate(state.observation for state in before.states[1:]))

    lines = []
    for index in range(first, len(window.actions)):
        lines.append(f"Action {index + 1}: {window.actions[index]}")
        observation = window.states[index + 1].observation
        if observation != old_observations.get(index):
            lines.append(f"Observation {index + 1}: {observation}")
    return lines


def _list_changes(window: Window) -> list[str]:
    """List the lines added and removed between the initial and the final state; all lines if the room differs."""
    first = window.states[0]
    last = window.states[-1]
    if _read_room(first) != _read_room(last):
        return [FINAL_STATE, *_lines(last)]

    changes = []
    new = _subtract(_lines(last), _lines(first))
    if new:
        changes += [NEW, *new]
    gone = _subtract(_lines(first), _lines(last))
    if gone:
        changes += [GONE, *gone]
    return changes


def _read_room(state: State) -> str:
    return state.look.split("\n", 1)[0]


def _lines(state: State) -> list[str]:
    text = f"{state.look}\n{state.inventory}"
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _subtract(lines: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the lines that are not known, or occur more often than known."""
    counts = Counter(known)
    new = []
    for line in lines:
        if counts[line]:
            counts[line] -= 1
        else:
            new.append(line)
    return new


_HEADING = re.compile(r"^templates:\s*$", re.M | re.I)
_LEADS = re.compile(  # words before an action that do not change it; unlike "do not", which makes it none
    r"^(?:(?:first|second|third|next|then|now|finally|lastly|afterwards?|and|please|step\s+\d+|action|"
    r"you\s+(?:should|can|may|must|need\s+to))\b[\s,:.]*)+",
    re.I,
)
_ANSWER_TOLD = re.compile(r"\banswer\b[^.]*\bnumber\b", re.I)
_ANSWER = re.compile(
    r"(?:answer|choose|pick|select|reply|enter|give|say)\b.*\b(?:number|option|question)\b|answer\b.*\d", re.I
)


def filter_instructions(written: Sequence[str], templates: str, actions: Iterable[str]) -> tuple[str, ...]:
    """Return the instructions that are actions, without introductory words: of a template's form, or beginning like an
    example's action, as a simulator may understand more; or "answer the question with the number of the cup", where
    templates allow numbers. Empty if fewer than half are actions: then the answer was about something else."""
    if not templates:
        return tuple(written)

    forms = [*_list_template_heads(templates), *_list_beginnings(actions)]
    introduction = _HEADING.split(templates)[0]
    allows_answers = _ANSWER_TOLD.search(introduction) is not None

    instructions = []
    for text in written:
        instruction = _LEADS.sub("", text) or text
        is_answer = allows_answers and _ANSWER.match(instruction) is not None
        if is_answer or _has_form(instruction, forms):
            instructions.append(instruction)
    return tuple(instructions) if 2 * len(instructions) >= len(written) else ()


def _list_template_heads(templates: str) -> list[tuple[str, ...]]:
    """The words of each template before what an action fills in."""
    *_, forms = _HEADING.split(templates)
    heads = []
    for form in forms.splitlines():
        head = []
        for word in form.split():
            if word.isupper():
                break
            head.append(word.lower())
        if head:
            heads.append(tuple(head))
    return heads


def _list_beginnings(actions: Iterable[str]) -> list[tuple[str, ...]]:
    """The first word of each action; but a bare number answers a question of its episode only."""
    beginnings = []
    for action in actions:
        words = split_words(action)
        if words and words[0].isalpha():
            beginnings.append(words[:1])
    return beginnings


def _has_form(instruction: str, forms: Iterable[tuple[str, ...]]) -> bool:
    words = split_words(instruction)
    return any(words[: len(form)] == form for form in forms)
