"""An action as a call of a tool: one line of Python's form or of JSON's, read without being run.

    read_call('refuel_data(customer_id="C1001", line_id="L1002", gb_amount=2.0)', tools)
    read_call('{"name": "toggle_roaming", "arguments": {}}', tools)

Arguments are literals. What cannot be read, or does not fit the tool, is a `CallError`: it says what is expected.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

FORM = 'tool_name(argument="value", other=3)'
NAMED = 3  # tools that a message suggests, at most

KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}
"""JSON's name of a type to Python's."""


class CallError(ValueError):
    """A text is no call, or the tool does not take it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    kinds: tuple[str, ...]  # JSON's names of the types that it takes; empty if it takes any
    required: bool
    default: Any = None
    members: tuple[str, ...] = ()  # texts that it is meant to be, or keys of an object

    def describe(self, name: str) -> str:
        text = f"{name}: {' or '.join(self.kinds) or 'any'}"
        if self.members:
            text += f" of {', '.join(self.members)}"
        return text if self.required else f"{text} = {self.default!r}"

    def takes(self, value: Any) -> bool:
        if not self.kinds:
            return True
        if isinstance(value, bool):
            return "boolean" in self.kinds
        return any(isinstance(value, KINDS.get(kind, ())) for kind in self.kinds)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    about: str  # one line
    parameters: Mapping[str, Parameter]

    @property
    def signature(self) -> str:
        """Name and parameters. With a blank between, so that a tool without parameters is no action as it stands."""
        parameters = ", ".join(parameter.describe(name) for name, parameter in self.parameters.items())
        return f"{self.name} ({parameters})" if parameters else f"{self.name} (no arguments)"

    def check(self, call: "Call") -> None:
        """Raise `CallError` unless the tool takes the arguments of a call."""
        unknown = [name for name in call.arguments if name not in self.parameters]
        if unknown:
            raise CallError(f"{self.name} has no argument {', '.join(unknown)}; expected: {self.signature}")

        missing = [
            name for name, parameter in self.parameters.items() if parameter.required and name not in call.arguments
        ]
        if missing:
            raise CallError(f"{self.name} lacks {', '.join(missing)}; expected: {self.signature}")

        for name, value in call.arguments.items():
            if not self.parameters[name].takes(value):
                kinds = " or ".join(self.parameters[name].kinds)
                raise CallError(f"{name} of {self.name} has to be of the type {kinds}; expected: {self.signature}")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool with its arguments. As a text it is an action."""

    name: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={_quote(value)}' for name, value in self.arguments.items())})"


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def read_call(text: str, tools: Mapping[str, Tool]) -> Call:
    """Return the call that a text is, in either form, for one of the tools. Raises `CallError`."""
    text = text.strip()
    call = _read_json(text) if text.startswith("{") else _read_python(text, tools)
    if call.name not in tools:
        raise CallError(_name_unknown(call.name, tools))

    tools[call.name].check(call)
    try:
        json.dumps(call.arguments, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise CallError(f"an argument of {call.name} is no value of JSON; expected: texts and numbers") from None
    return call


def _name_unknown(name: str, tools: Mapping[str, Tool]) -> str:
    near = get_close_matches(name, tools, NAMED)
    hint = f"did you mean {' or '.join(near)}?" if near else "expected: one of the tools that are listed"
    return f"there is no tool {name}; {hint}"


def _read_json(text: str) -> Call:
    form = '{"name": "tool_name", "arguments": {"argument": "value"}}'
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise CallError(f"this is no JSON; expected: {form}") from None

    name = fields.get("name")
    arguments = fields.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or set(fields) - {"name", "arguments"}:
        raise CallError(f"this is no call; expected: {form}")
    return Call(name, arguments)


def _read_python(text: str, tools: Mapping[str, Tool]) -> Call:
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CallError(f"this is no call of a tool; expected: {FORM}") from None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise CallError(f"this is no call of a tool; expected: {FORM}")

    name = node.func.id
    if name not in tools:
        raise CallError(_name_unknown(name, tools))
    arguments = _read_positional(node, tools[name])
    for keyword in node.keywords:
        if keyword.arg is None:
            raise CallError(f"arguments have names; expected: {FORM}")
        if keyword.arg in arguments:
            raise CallError(f"{keyword.arg} of {name} is there twice; expected: {tools[name].signature}")
        arguments[keyword.arg] = _read_literal(keyword.value)
    return Call(name, arguments)


def _read_positional(node: ast.Call, tool: Tool) -> dict[str, Any]:
    """Return arguments without names, by the names of the parameters in their order."""
    names: Sequence[str] = list(tool.parameters)
    if len(node.args) > len(names):
        raise CallError(f"{tool.name} takes {len(names)} arguments, not {len(node.args)}; expected: {tool.signature}")
    return {name: _read_literal(value) for name, value in zip(names, node.args, strict=False)}


def _read_literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise CallError("an argument is no literal; expected: texts in quotes, numbers, True or False") from None
