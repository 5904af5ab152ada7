"""A stand-in for a model that answers with a gold path, one action at a time. The whole agent is played, so its prompts
are complete."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage

from rsso_dspy.programs.methods import Scaffold

FIELDS: dict[Scaffold, tuple[str, ...]] = {
    "flat": ("thought", "action"),
    "sso": ("reasoning", "current_subgoal", "next_action"),
}
"""Output fields of a scaffold's actor, the thought first and the action last."""

IDLE = "wait"
"""Answered when the path has ended and the trial has not."""

QUESTION = "mbiguous request"
"""Part of the simulator's question when an action has several meanings; a path answers it with a number."""

_ACTED = "ction: "
"""Ends every answer in the history."""

_OPTION = re.compile(r"^\d+:", re.M)


class GoldPlayer:
    """Follows a path. It starts from the beginning whenever the history shows no action yet, because a trial may be
    played again. A number in the path answers a question and is left out where none is asked; a question that the path
    does not expect is answered with its first option."""

    def __init__(self, path: Sequence[str], scaffold: Scaffold):
        self._path = tuple(path)
        self._fields = FIELDS[scaffold]
        self._left: Iterator[str] = iter(())
        self._ahead = ""

    def complete(self, request: Request) -> Response:
        """The next action, in the chat format."""
        action = self._choose_action((request.messages[-1].text or "").rpartition("[[ ## history ## ]]")[2])
        thought, *between, last = self._fields
        said = {thought: f"The next step towards what the task asks for is to {action}."}
        said |= dict.fromkeys(between, "none") | {last: action}
        text = "\n\n".join([*(f"[[ ## {name} ## ]]\n{value}" for name, value in said.items()), "[[ ## completed ## ]]"])
        return Response(None, request.model, Message.assistant([TextPart(text)]), "stop", Usage())

    def _choose_action(self, history: str) -> str:
        _, acted, newest = history.rpartition(_ACTED)
        if not acted:
            self._left = iter(self._path)
            self._take()
        if QUESTION in newest and _OPTION.search(newest):
            return self._take() if self._ahead.isdigit() else "0"
        while self._ahead.isdigit():
            self._take()
        return self._take() or IDLE

    def _take(self) -> str:
        now, self._ahead = self._ahead, next(self._left, "")
        return now

    def close(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "GoldPlayer":
        return self
