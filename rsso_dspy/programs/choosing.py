"""What the actor is told of the actions that can be taken now, and what its answer is held to.

    with offer_actions(environment, "constrained", seen) as seen:
        ...                     # asked in here, an adapter with a schema lets it answer one of them and nothing else

free         nothing beyond the templates, as in the papers
listed       all of them, after the history
constrained  nothing; ``dspy.settings.action_choices`` holds them, for the adapter

Such a list says what can be done, never what should be: it is what an environment compares misspelled actions with.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dspy

from rsso_dspy.environments import ActionChoice, Environment, ListsActions
from rsso_dspy.errors import EnvironmentFailure, UsageError

MOST_LISTED = 100
"""Actions that a prompt is given at most."""
MOST_HELD_TO = 2000
"""Actions that an answer is held to at most: a server compiles all of them for every step."""


@contextmanager
def offer_actions(environment: Environment, choice: ActionChoice, seen: str) -> Iterator[str]:
    """The history as the actor is to see it; inside the block, its answers are held to what can be taken now where the
    choice is constrained. Raises `EnvironmentFailure` where too much, or nothing, can be taken, or nobody says what."""
    if choice == "free":
        yield seen
        return
    actions = _list_actions(environment, MOST_LISTED if choice == "listed" else MOST_HELD_TO, choice)
    if choice == "listed":
        yield f"{seen}\n\nActions that can be taken now:\n" + "\n".join(f"- {action}" for action in actions)
        return
    if not getattr(dspy.settings.adapter, "holds_to_choices", False):
        raise UsageError(
            'action_choice = constrained needs an adapter with a schema: adapter = "schema" of the backend, and none '
            "that DSPy was configured with"
        )
    with dspy.context(action_choices=actions):
        yield seen


def _list_actions(environment: Environment, most: int, choice: ActionChoice) -> Sequence[str]:
    if not isinstance(environment, ListsActions):
        raise EnvironmentFailure(
            f"{type(environment).__name__} does not say which actions can be taken: action_choice = {choice} needs that"
        )
    actions = tuple(dict.fromkeys(environment.admissible_actions()))
    if not 0 < len(actions) <= most:
        raise EnvironmentFailure(
            f"{len(actions):,} actions can be taken now, and action_choice = {choice} takes 1 to {most:,}"
        )
    return actions
