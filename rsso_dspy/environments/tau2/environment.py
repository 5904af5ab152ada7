"""A ticket of tau2-bench's telecom domain as an `Environment`, in solo mode, played in a process of its own.

An action is a call of a tool (`calls.py`), the observation its result. The package gives a reward of 1 when the agent
stops and everything is met that the ticket asks for, and 0 otherwise: also where the calls run out, and after ten calls
that a tool refused. So it is here: 100 points come with the call of `done`, if all is met, and the episode ends. Until
then the score is the share of assertions, and of scored actions, that are met now, at most 99. It is a function of the
state: what holds at the start counts, and points go when something holds no more.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rsso_dspy.environments import STALLED, Goal, Transition, lessons, require_played
from rsso_dspy.environments.lessons import LessonTable, TaughtEnvironment, Words, name_all, read_texts
from rsso_dspy.environments.pool import Process
from rsso_dspy.environments.tau2.calls import Call, CallError, Parameter, Tool, read_call
from rsso_dspy.environments.tau2.tasks import DONE, MOST_STEPS, load_ticket, make_table
from rsso_dspy.errors import SimulatorDied, Stopped
from rsso_dspy.records import SOLVED_SCORE, State, Variant
from rsso_dspy.replies import make_encodable

WORKER = Path(__file__).with_name("worker.py")
LOAD_SECONDS = 120.0  # for a reset, the start of the process included; usually that takes one
MOST_ERRORS = 10  # refused calls after which the source ends a simulation
MOST_UNSOLVED = SOLVED_SCORE - 1  # points before the episode ends

ACTION_FORM: str = read_texts(__package__)["templates"]["all"]
OPENED = "The ticket is open. No tool was called yet."
ENDED = "The ticket is closed."
TOO_MANY = f"The ticket is closed: {MOST_ERRORS} calls were refused."


def make_tool(described: Mapping[str, Any]) -> Tool:
    """Return a tool, given its name, what it does, and the JSON schema of its parameters."""
    schema = described["schema"]
    required = schema.get("required", ())
    definitions = schema.get("$defs", {})
    parameters = {}
    for name, row in schema.get("properties", {}).items():
        parameters[name] = _make_parameter(row, definitions, name in required)
    return Tool(described["name"], described["about"], parameters)


def _make_parameter(row: Mapping[str, Any], definitions: Mapping[str, Any], is_required: bool) -> Parameter:
    kinds: dict[str, None] = {}  # as sets that keep their order
    members: dict[str, None] = {}
    for choice in _list_choices(row, definitions):
        if "type" in choice:
            kinds[choice["type"]] = None
        members |= dict.fromkeys(choice.get("enum", ()))
        members |= dict.fromkeys(choice.get("properties", ()))
    return Parameter(tuple(kinds), is_required, row.get("default"), tuple(members))


def _list_choices(row: Mapping[str, Any], named: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of which a value may follow any. `named`: schemas that others refer to."""
    if "anyOf" in row:
        choices: list[Mapping[str, Any]] = []
        for part in row["anyOf"]:
            choices += _list_choices(part, named)
        return choices

    if "$ref" in row:
        name = row["$ref"].rpartition("/")[2]
        return _list_choices(named[name], named)

    return [row]


def write_templates(tools: Sequence[Tool], policy: str) -> str:
    """Return what an actor reads of the tools, and the whole policy."""
    lines = [f"- {tool.signature}: {tool.about}" for tool in tools]
    return "\n".join([ACTION_FORM, "Tools:", *lines, "", "The policy, which every ticket is handled by:", policy])


class Episode(lessons.Episode):
    @cached_property
    def name(self) -> str:
        """The tool of the newest call."""
        return self.action.partition("(")[0]

    @property
    def previous_action(self) -> str:
        """The call before the newest one; empty if there is none."""
        return self.steps[-2].action if len(self.steps) > 1 else ""

    @property
    def called(self) -> Words | None:
        return {"name": self.name} if self.newest.understood else None

    @property
    def is_unknown(self) -> bool:
        return not self.newest.understood and "there is no tool" in self.answer

    @property
    def is_misread(self) -> bool:
        return not self.newest.understood and "expected: " in self.answer

    @property
    def is_refused(self) -> bool:
        return self.newest.understood and self.answer.startswith("Error: ")

    @property
    def is_repeated(self) -> bool:
        return len(self.steps) > 1 and self.previous_action == self.newest.action

    @property
    def has_ended(self) -> bool:
        return self.newest.understood and self.name == DONE

    @property
    def is_early(self) -> bool:
        """Whether the ticket was closed without a look at how things are since something was changed."""
        is_look = self.previous_action.startswith(("check_", "get_", "run_", "can_"))
        return self.has_ended and not is_look

    @property
    def tools_called(self) -> Words | None:
        actions = [step.action for step in self.steps if step.understood]
        return name_all(action.partition("(")[0] for action in actions)


LESSONS = LessonTable(__package__, Episode)


class Telecom(TaughtEnvironment):
    """Plays one ticket after the other. ``step_seconds``: time limit of a call. ``stopped``: polled during a reset."""

    teaches = LESSONS
    table = make_table()
    knows_all_verbs = False  # a call in the form of JSON begins with no template
    action_templates = ACTION_FORM

    def __init__(self, step_seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False):
        self._step_seconds = step_seconds
        self._stopped = stopped
        self._process: Process | None = None
        self._closed = False
        self._ticket: Mapping[str, Any] | None = None  # the one that is played
        self._tools: dict[str, Tool] = {}
        self.task = ""

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return not self._closed and (self._process is None or self._process.alive)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises ``SimulatorDied`` and ``Stopped``."""
        self._ticket = None
        self._variant = None
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        if self._process is None or not self._process.alive:
            self._end_process()
            self._process = _start_worker()

        ticket = load_ticket(variant)
        try:
            answer = self._ask({"ticket": ticket}, LOAD_SECONDS, self._stopped)
        except TimeoutError:
            raise SimulatorDied(f"a reset took over {LOAD_SECONDS:g} s") from None

        tools = [make_tool(described) for described in answer["tools"]]
        tools.append(Tool(DONE, "Close the ticket. Nothing can be done after it.", {}))
        self._tools = {tool.name: tool for tool in tools}
        self.action_templates = write_templates(tools, answer["policy"])
        self.task = ticket["ticket"]

        self._errors = 0
        self._steps = 0
        self._checks = answer["checks"]
        self._score = self._count_points()
        self.points_at_reset = self._score

        self._ticket = ticket
        self._variant = variant
        return State(OPENED, "", "")

    def step(self, action: str) -> Transition:
        """Call a tool. A text that is no call of one changes nothing and counts as refused, as in the source."""
        require_played(self._ticket)
        self._steps += 1
        try:
            call = read_call(action, self._tools)
        except CallError as error:
            self._errors += 1
            return self._describe(action, f"Error: {make_encodable(str(error))}", understood=False)
        if call.name == DONE:
            return self._end(call)

        try:
            answer = self._ask({"name": call.name, "arguments": call.arguments}, self._step_seconds)
        except TimeoutError:
            return Transition(
                state=State(STALLED, "", ""),
                action=str(call),
                reward=0,
                score=self._score,
                understood=True,
                done=False,
                stalled=True,
            )

        self._checks = answer["checks"]
        self._errors += answer["refused"]
        return self._describe(str(call), make_encodable(answer["content"]), no_effect=answer["refused"])

    def close(self) -> None:
        self._closed = True
        self._end_process()

    def _count_points(self) -> int:
        share = SOLVED_SCORE * sum(self._checks) // len(self._checks)
        return min(share, MOST_UNSOLVED)

    def _end(self, call: Call) -> Transition:
        old_score = self._score
        self._score = SOLVED_SCORE if all(self._checks) else self._count_points()

        return Transition(
            state=State(ENDED, "", ""),
            action=str(call),
            reward=self._score - old_score,
            score=self._score,
            understood=True,
            done=True,
        )

    def _describe(self, action: str, text: str, understood: bool = True, no_effect: bool = False) -> Transition:
        old_score = self._score
        self._score = self._count_points()

        is_lost = self._errors >= MOST_ERRORS
        if is_lost:
            text += f"\n{TOO_MANY}"
        return Transition(
            state=State(text, "", ""),
            action=make_encodable(action),
            reward=self._score - old_score,
            score=self._score,
            understood=understood,
            done=is_lost or self._steps >= MOST_STEPS,
            no_effect=no_effect,
        )

    def _list_goals(self) -> Sequence[Goal]:
        criteria = require_played(self._ticket)["evaluation_criteria"]
        kinds = [assertion["func_name"].removeprefix("assert_") for assertion in criteria["env_assertions"]]
        kinds += ["action"] * (len(self._checks) - len(kinds))

        goals = []
        for kind, is_met in zip(kinds, self._checks, strict=True):
            goals.append(Goal(kind, done=is_met, required=False))
        goals.append(Goal("ticket", done=self._score == SOLVED_SCORE, required=True))
        return goals

    def _ask(
        self, request: Mapping[str, Any], seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> Mapping[str, Any]:
        """Return the worker's answer. Raises ``TimeoutError``, ``Stopped`` and ``SimulatorDied``; each ends the
        process."""
        process = require_played(self._process)
        line = b""
        try:
            process.write(json.dumps(request).encode())
            line = process.read_line(seconds, stopped)
        except (TimeoutError, Stopped):
            self._end_process()
            raise
        except OSError:  # it has ended, and said nothing
            pass

        if not line.endswith(b"\n"):
            status = process.wait()
            errors = process.read_errors()
            self.close()
            last_error = f": {errors[-1]}" if errors else ""
            raise SimulatorDied(f"the process of tau2 ended (exit code {status}){last_error}")

        answer: Mapping[str, Any] = json.loads(line)
        error = answer.get("error")
        if error:
            self._end_process()  # what it left behind is not known
            raise SimulatorDied(f"tau2 cannot do this: {error}")
        return answer

    def _end_process(self) -> None:
        process = self._process
        self._process = None
        if process is not None:
            process.end()


def _start_worker() -> Process:
    environment = {**os.environ, "PYTHON_DOTENV_DISABLED": "1"}  # else importing the package reads a file of keys
    return Process([sys.executable, "-P", str(WORKER)], env=environment)
