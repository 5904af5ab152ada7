"""Shows the actor the currently possible actions.

    seen = list_actions(environment, "listed", seen)

free    shows nothing beyond the templates, as in the papers
listed  shows all possible actions after the history

The list says what can be done, never what should be done: environments use it to repair misspelled actions.
"""

from collections.abc import Callable, Sequence

from rsso_dspy.environments import ActionChoice, Environment
from rsso_dspy.errors import EnvironmentFailure

MOST_LISTED = 100
"""Maximum number of actions listed in a prompt."""


def list_actions(environment: Environment, choice: ActionChoice, seen: str) -> str:
    """Return the history as the actor sees it. Raises `EnvironmentFailure` if no or too many actions are possible, or
    the environment does not list them."""
    if choice == "free":
        return seen
    list_possible: Callable[[], Sequence[str]] | None = getattr(environment, "admissible_actions", None)
    if list_possible is None:
        raise EnvironmentFailure(
            f"{type(environment).__name__} does not list the possible actions, which action_choice = {choice} needs"
        )
    actions = tuple(dict.fromkeys(list_possible()))
    if not 0 < len(actions) <= MOST_LISTED:
        raise EnvironmentFailure(
            f"{len(actions):,} actions are possible now, but action_choice = {choice} supports 1 to {MOST_LISTED:,}"
        )
    return f"{seen}\n\nActions that can be taken now:\n" + "\n".join(f"- {action}" for action in actions)
