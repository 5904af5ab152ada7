"""Names of things: finds them in an observation, and replaces them in a line that other variants read."""

import re

from rsso_dspy.environments.grammar import Grammar, extract_content_words, normalize_words
from rsso_dspy.environments.naming import Naming
from rsso_dspy.optimize.action_advice import find_destination
from rsso_dspy.records import State


def list_names(state: State, naming: Naming) -> list[str]:
    """The things that a state names, in the order of the text, each once. Taken from the surroundings, or from the
    observation where there are none."""
    text = re.sub(naming.places, "", (state.look or state.observation).lower())
    found = (normalize_words(match[1]) for match in re.finditer(naming.names, text))
    return list(dict.fromkeys(name for name in found if name and not re.fullmatch(naming.no_names, name)))


def is_named_by(task: str, part: str) -> bool:
    """Whether a task names a thing: it contains all of its words."""
    words = extract_content_words(part)
    return bool(words) and words <= extract_content_words(task)


def describe_role(task: str, part: str, naming: Naming) -> str:
    """The words that replace a thing that the task names: ``the container named in the task``."""
    head = (normalize_words(part).split() or [""])[-1]
    said = task.lower()
    role = head if head in naming.roles else next((each for each in naming.kinds if f"the {each}" in said), "thing")
    return f"the {role} named in the task"


def generalize_action(action: str, task: str, grammar: Grammar) -> str | None:
    """The action with roles in place of the names that the task contains; None when the task lacks one of the names, or
    the action names nothing."""
    done = grammar.parse_command(action)
    if done is None or not done.thing:
        return None
    text = done.text
    for part in sorted({done.thing, done.place} - {""}, key=len, reverse=True):
        if not is_named_by(task, part):
            return None
        role = (
            "the place named in the task"
            if find_destination(action, grammar)
            else describe_role(task, part, grammar.naming)
        )
        text = text.replace(part, role, 1)
    return text
