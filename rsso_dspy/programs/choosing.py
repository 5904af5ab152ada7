"""Shows the actor the currently possible actions, or restricts its answer to them.

    with offer_actions(environment, "constrained", seen) as seen:
        ...                     # in the block, an adapter with a schema allows only these actions as answer

free         shows nothing beyond the templates, as in the papers
listed       shows all possible actions after the history
constrained  shows nothing; ``dspy.settings.action_choices`` holds the actions for the adapter

The list says what can be done, never what should be done: environments use it to repair misspelled actions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import dspy

from rsso_dspy.environments import ActionChoice, Environment
from rsso_dspy.errors import EnvironmentFailure, UsageError

MOST_LISTED = 100
"""Maximum number of actions listed in a prompt."""
MOST_HELD_TO = 2000
"""Maximum number of actions that an answer is restricted to: a server compiles all of them for every step."""


@contextmanager
def offer_actions(environment: Environment, choice: ActionChoice, seen: str) -> Iterator[str]:
    """Yield the history as the actor sees it. If the choice is constrained, answers in the block are restricted to the
    possible actions. Raises `EnvironmentFailure` if there are none or too many, or the environment does not list
    them."""
    if choice == "free":
        yield seen
        return
    actions = _list_actions(environment, MOST_LISTED if choice == "listed" else MOST_HELD_TO, choice)
    if choice == "listed":
        yield f"{seen}\n\nActions that can be taken now:\n" + "\n".join(f"- {action}" for action in actions)
        return
    if not getattr(dspy.settings.adapter, "holds_to_choices", False):
        raise UsageError(
            'action_choice = constrained needs an adapter with a schema: set adapter = "schema" of the backend, and no '
            "adapter by dspy.configure"
        )
    with dspy.context(action_choices=actions):
        yield seen


def _list_actions(environment: Environment, most: int, choice: ActionChoice) -> Sequence[str]:
    list_actions: Callable[[], Sequence[str]] | None = getattr(environment, "admissible_actions", None)
    if list_actions is None:
        raise EnvironmentFailure(
            f"{type(environment).__name__} does not list the possible actions, which action_choice = {choice} needs"
        )
    actions = tuple(dict.fromkeys(list_actions()))
    if not 0 < len(actions) <= most:
        raise EnvironmentFailure(
            f"{len(actions):,} actions are possible now, but action_choice = {choice} supports 1 to {most:,}"
        )
    return actions
