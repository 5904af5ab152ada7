"""The conversation of an actor with its environment in one trial: the actor's history, and the inputs of each step.

conversation = Conversation(environment, rules)
turn = conversation.begin_turn(states, steps, skills=[], progress="")
answer = roles.choose_action([], history=conversation.history, task=environment.task, **turn)
conversation.end_turn(turn, answer)
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import dspy

from rsso_dspy.environments import Environment
from rsso_dspy.errors import EnvironmentFailure
from rsso_dspy.programs.render import UNREADABLE
from rsso_dspy.programs.roles import Answer
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import State, Step

HISTORY_STATES = 10
"""States in the history window of the layout `paper` (SSO reference, max_history)."""

LONGEST_CONVERSATION = 60_000
"""Characters of a conversation, about 15,000 tokens; a longer one loses its older half at once, so that the rest of it
can be cached again."""

MOST_LISTED = 100
"""Maximum number of actions listed in a prompt."""

REFUSED = "The last action was refused. Take one that is possible."
WITHOUT_EFFECT = "That changed nothing. Take another action."
AGAIN = "{action}: tried here {times} times now, and nothing changed. Take another action."

Turn = dict[str, Any]
"""The inputs of one step, the outputs of the answer to it, and the answer's text as `said`."""


class Conversation:
    """What an actor and its environment have said in a trial. In the layout `conversation` nothing that was said ever
    changes; in the layout `paper` it is made anew from the last states."""

    def __init__(self, environment: Environment, rules: TrialRules):
        self._environment, self._rules = environment, rules
        self._turns: list[Turn] = []
        self._shown: dict[str, Any] = {}
        self._tried: dict[tuple[str, ...], list[str]] = {}

    def begin_turn(self, states: Sequence[State], steps: Sequence[Step], **changing: Any) -> Turn:
        """Return the inputs of the next step; ``states[i + 1]`` follows ``steps[i]``. Of the texts `changing` from step
        to step, those are left out that the conversation holds already."""
        if steps and not steps[-1].malformed:
            self._tried.setdefault(_name_situation(states[-2]), []).append(steps[-1].action)
        if self._rules.layout == "paper":
            self._render_window(states, steps)
            said = {"observation": self._turns.pop()["observation"], **changing}
        else:
            self._forget()
            new = {name: value for name, value in changing.items() if value and value != self._shown.get(name)}
            self._shown |= new
            observation = self._environment.render(states)[-1]
            said = {"observation": observation, "notice": self._find_notice(states, steps), **new}
        said |= {"possible_actions": self._list_actions(states[-1])}
        return {name: value for name, value in said.items() if value or name == "observation"}

    def end_turn(self, turn: Turn, answer: Answer | None, unasked: Collection[str] = ()) -> None:
        """Add a step's inputs and the answer, which stands in the history as it was said; what could not be read is
        left out of it."""
        outputs = {}
        if answer is not None:
            outputs = {"thought": answer.thought, "subgoal": answer.subgoal or "none", "action": answer.action}
        given = {name: text for name, text in outputs.items() if name not in unasked}
        self._turns.append({**turn, **given, "said": answer.said if answer else ""})

    @property
    def history(self) -> dspy.History:
        return dspy.History(messages=list(self._turns))

    def _render_window(self, states: Sequence[State], steps: Sequence[Step]) -> None:
        """Make the turns anew from the last states, as the sources show them."""
        first = max(0, len(states) - HISTORY_STATES)
        self._turns = [{"observation": text} for text in self._environment.render(states[first:])]
        for turn, step in zip(self._turns, steps[first:], strict=False):
            named = {"subgoal": step.subgoal} if step.subgoal else {}
            turn |= {"thought": step.reasoning, **named, "action": step.action or UNREADABLE}

    def _forget(self) -> None:
        if sum(len(str(value)) for turn in self._turns for value in turn.values()) > LONGEST_CONVERSATION:
            del self._turns[: len(self._turns) // 2]
            self._shown = {}

    def _find_notice(self, states: Sequence[State], steps: Sequence[Step]) -> str:
        if not steps or steps[-1].malformed:
            return ""
        step = steps[-1]
        if not step.understood:
            return REFUSED
        if step.reward or _name_situation(states[-1]) != _name_situation(states[-2]):
            return ""
        times = self._tried.get(_name_situation(states[-2]), []).count(step.action)
        return AGAIN.format(action=step.action, times=times) if times > 1 else WITHOUT_EFFECT

    def _list_actions(self, present: State) -> list[str]:
        """Return the actions that can be taken now, those last that were taken in the very same situation before. They
        say what can be done, never what should be. Empty where the protocol lists none.

        Raises `EnvironmentFailure` if no or too many actions are possible, or the environment does not list them."""
        if self._rules.action_choice == "free":
            return []
        list_possible: Callable[[], Sequence[str]] | None = getattr(self._environment, "admissible_actions", None)
        if list_possible is None:
            raise EnvironmentFailure(
                f"{type(self._environment).__name__} does not list the possible actions, which action_choice = listed "
                "needs"
            )
        actions = tuple(dict.fromkeys(list_possible()))
        if not 0 < len(actions) <= MOST_LISTED:
            raise EnvironmentFailure(
                f"{len(actions):,} actions are possible now, but action_choice = listed supports 1 to {MOST_LISTED:,}"
            )
        tried = self._tried.get(_name_situation(present), [])
        return sorted(actions, key=tried.count)


def _name_situation(state: State) -> tuple[str, ...]:
    """What tells two situations apart: what is in sight and carried, or the observation where it is all there is."""
    return (state.look, state.inventory) if state.look or state.inventory else (state.observation,)
