"""The package's own process: one ticket at a time, asked over stdin and answering over stdout, a line of JSON each.

Run by path (`environment.py`), so it imports nothing of this project. It ends when its stdin closes. A process of its
own, since importing the package reads a file `.env` and writes to stderr, and since the ids of new bills are random
there: here they count from one after each reset.

    {"ticket": {...}}                            a ticket as the package's file has it
    {"name": "toggle_roaming", "arguments": {}}  a call of a tool

Answers: {"content", "refused", "checks"}, at a reset with {"policy", "tools"} besides, or {"error"}. `checks` says of
each assertion, and of each action where the ticket scores actions, whether it is met now.
"""

import json
import os
import sys
from copy import deepcopy
from itertools import count
from types import SimpleNamespace
from typing import Any


class Worker:
    def __init__(self) -> None:
        from tau2.data_model.message import ToolCall
        from tau2.data_model.tasks import RewardType, Task
        from tau2.domains.telecom import tools
        from tau2.domains.telecom.environment import get_environment

        self._make_call: Any = ToolCall
        self._make_task: Any = Task
        self._scored = RewardType.ACTION
        self._package_tools: Any = tools
        self._pristine: Any = get_environment(solo_mode=True)
        self._played: Any = None
        self._task: Any = None
        self._calls: list[Any] = []

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "ticket" in request:
            self._reset(request["ticket"])
            described = {"policy": self._played.get_policy(), "tools": self._describe_tools()}
            return {"content": "", "refused": False, "checks": self._check(), **described}

        call = self._make_call(id=str(len(self._calls)), requestor="assistant", **request)
        self._calls.append(call)
        response = self._played.get_response(call)
        return {"content": response.content, "refused": response.error, "checks": self._check()}

    def _reset(self, ticket: dict[str, Any]) -> None:
        bills = count(1)
        self._package_tools.uuid = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{next(bills):08d}"))
        self._task = self._make_task.model_validate(ticket)
        self._calls = []
        self._played = deepcopy(self._pristine)
        start = self._task.initial_state
        self._played.set_state(start.initialization_data, start.initialization_actions, [])

    def _check(self) -> list[bool]:
        """Return what is met of that for which the package gives its reward."""
        criteria = self._task.evaluation_criteria
        checked = deepcopy(self._played)  # an assertion calls the tools
        checks = [
            checked.run_env_assertion(assertion, raise_assertion_error=False)
            for assertion in criteria.env_assertions or []
        ]
        if self._scored in criteria.reward_basis:
            for action in criteria.actions or []:
                checks.append(any(action.compare_with_tool_call(call) for call in self._calls))
        return checks

    def _describe_tools(self) -> list[dict[str, Any]]:
        tools = [*self._played.get_tools(), *self._played.get_user_tools()]
        described = []
        for tool in tools:
            about = " ".join(f"{tool.short_desc} {tool.long_desc}".split())
            described.append({"name": tool.name, "about": about, "schema": tool.params.model_json_schema()})
        return described


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the package prints is no answer
    worker = None
    for line in sys.stdin:
        try:
            worker = worker or Worker()
            answer = worker.answer(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
