"""The skill verbalizer: a module that turns excerpts into a skill in words (SSO, section 3.3)."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

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
            full_text, action_text, end_text = (render_excerpts(examples, part) for part in get_args(Part))
        summary = self.summary(examples=full_text)
        description = {"summary": summary.summary, "skill_name": summary.skill_name}
        answer = self.instructions(examples=action_text, **description, action_templates=action_templates)
        lines = tuple(filter(None, map(first_line, answer.steps)))
        actions = [action for window in examples for action in window.actions]
        steps = filter_instructions(lines, action_templates, actions)
        target, skill = "", None
        if steps:
            naming = self.target(examples=end_text, **description, steps=list(steps))
            target = " ".join((naming.target or "").split())
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
    for number, window in enumerate(examples, start=1):
        previous = examples[number - 2] if number > 1 else None
        lines = [f"Excerpt {number}"]
        if previous is not None:
            lines.append(AS_BEFORE.format(number=number - 1))
        if part == "whole" and previous is None:
            lines += [INITIAL_STATE, window.states[0].description]
        elif part == "whole" and previous and (new := _subtract(_lines(window.states[0]), _lines(previous.states[0]))):
            lines += [INITIAL_STATE, *new]
        lines += _render_actions(window, previous, len(window.actions) - 1 if part == "ends" else 0)
        changes = _list_changes(window) if part != "actions" else []
        lines += [] if previous is not None and changes == _list_changes(previous) else changes
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


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
    old_observations = dict(enumerate(state.observation for state in before.states[1:])) if before else {}
    lines = []
    for index in range(first, len(window.actions)):
        lines.append(f"Action {index + 1}: {window.actions[index]}")
        observation = window.states[index + 1].observation
        lines += [] if old_observations.get(index) == observation else [f"Observation {index + 1}: {observation}"]
    return lines


def _list_changes(window: Window) -> list[str]:
    """List the lines added and removed between the initial and the final state; all lines if the room differs."""
    first, last = window.states[0], window.states[-1]
    if first.look.split("\n", 1)[0] != last.look.split("\n", 1)[0]:
        return [FINAL_STATE, *_lines(last)]
    new = _subtract(_lines(last), _lines(first))
    gone = _subtract(_lines(first), _lines(last))
    return [*([NEW, *new] if new else []), *([GONE, *gone] if gone else [])]


def _lines(state: State) -> list[str]:
    return [line.rstrip() for line in f"{state.look}\n{state.inventory}".splitlines() if line.strip()]


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
    # An example's bare number answers a question of its episode only.
    word_lists = [split_words(action) for action in actions]
    beginnings = {words[:1] for words in word_lists if words and words[0].isalpha()}
    forms = {*filter(None, _list_template_heads(templates)), *beginnings}
    bare = [_LEADS.sub("", text) or text for text in written]
    answers = _ANSWER_TOLD.search(_HEADING.split(templates)[0]) is not None
    instructions = tuple(
        text
        for text in bare
        if any(split_words(text)[: len(form)] == form for form in forms)
        or (answers and _ANSWER.match(text) is not None)
    )
    return instructions if 2 * len(instructions) >= len(written) else ()


def _list_template_heads(templates: str) -> Iterable[tuple[str, ...]]:
    *_, forms = _HEADING.split(templates)
    for line in filter(None, forms.splitlines()):
        words = line.split()
        fixed = next((place for place, word in enumerate(words) if word.isupper()), len(words))
        yield tuple(word.lower() for word in words[:fixed])
