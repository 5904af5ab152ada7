"""Print calls of models, as a unit's log holds them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rsso_dspy.calls import Call
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.store.run_folder import Store


def load_calls(store: "Store", record: "UnitRecord | TrainingRecord") -> "Mapping[int, Sequence[Call]]":
    """Load the calls of a unit or training by trial, without vectors; empty if there is no log of it."""
    from rsso_dspy.errors import NotRecorded

    try:
        log = store.read_log(record)
    except NotRecorded:
        return {}
    return {trial: list(map(log.decode, calls)) for trial, calls in log.make_answers("").trials.items()}


class CallPrinter:
    """Prints calls without repeating text from the previous request of the same role."""

    def __init__(self, calls: "Sequence[Call]"):
        self.calls = calls
        self._before: dict[tuple[str, int], str] = {}

    def print_step(self, step: int, actor: bool) -> None:
        """Print the calls of a step: those of the actor before it, or those of the other roles after it."""
        for call in self.calls:
            if call.step == step and (call.role == "actor") == actor:
                self._print(call)

    def _print(self, call: "Call") -> None:
        from rsso_dspy.calls import text_of

        parameters = ", ".join(f"{name} {value}" for name, value in call.request["parameters"].items())
        echo(f"      [sent, {call.role}] {call.request['model']}; {parameters}", fg="cyan")
        for place, message in enumerate(call.request["messages"]):
            text, at = text_of(message.get("content")), (call.role, place)
            again = self._before.get(at) == text
            self._before[at] = text
            said = "as in the previous request" if again else f"\n{indent_text(text)}"
            echo(f"      [{message.get('role')}] {said}", fg="cyan")
        failed = f", {len(call.failed)} failed attempts before" if call.failed else ""
        name = f", {call.served}" if call.served else ""
        echo(f"      [answered{name}, {call.seconds:g} s{failed}]", dim=True)
        error = call.error and f"{call.error.get('kind')}: {call.error.get('message')}"
        echo(indent_text(error or call.text), dim=True)


def indent_text(text: str) -> str:
    return "\n".join(f"      {line}" for line in replace_controls(text).splitlines())
