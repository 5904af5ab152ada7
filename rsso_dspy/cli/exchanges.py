"""Print recorded exchanges with models."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rsso_dspy.recordings import Exchange
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.store.unit_store import Store


def load_exchanges(store: "Store", record: "UnitRecord | TrainingRecord") -> "Mapping[int, Sequence[Exchange]]":
    """Load the recorded exchanges of a unit or training by trial, without vectors; empty if there are none."""
    from rsso_dspy.errors import DamagedFile, NotRecorded
    from rsso_dspy.recordings import EMBEDDER, Recordings
    from rsso_dspy.store.taping import name_of

    if not store.recorded:
        return {}
    try:
        found = Recordings(store.recordings).trials(name_of(record))
        return {trial: [each for each in said if each.role != EMBEDDER] for trial, said in found.items()}
    except (NotRecorded, DamagedFile):
        return {}


class Shown:
    """Prints exchanges without repeating text from the previous request of the same role."""

    def __init__(self, exchanges: "Sequence[Exchange]"):
        self.exchanges = exchanges
        self._before: dict[tuple[str, int], str] = {}

    def print_step(self, step: int, actor: bool) -> None:
        """Print the exchanges of a step: those of the actor before it, or those of the other roles after it."""
        for exchange in self.exchanges:
            if exchange.step == step and (exchange.role == "actor") == actor:
                self._print(exchange)

    def _print(self, exchange: "Exchange") -> None:
        from rsso_dspy.recordings import text_of

        parameters = ", ".join(f"{name} {value}" for name, value in exchange.request["parameters"].items())
        echo(f"      [sent, {exchange.role}] {exchange.request['model']}; {parameters}", fg="cyan")
        for place, message in enumerate(exchange.request["messages"]):
            text, at = text_of(message.get("content")), (exchange.role, place)
            again = self._before.get(at) == text
            self._before[at] = text
            said = "as in the previous request" if again else f"\n{indent_text(text)}"
            echo(f"      [{message.get('role')}] {said}", fg="cyan")
        failed = f", {len(exchange.failed)} failed attempts before" if exchange.failed else ""
        name = f", {exchange.model}" if exchange.model else ""
        echo(f"      [answered{name}, {exchange.seconds:g} s{failed}]", dim=True)
        error = exchange.error and f"{exchange.error.get('kind')}: {exchange.error.get('message')}"
        echo(indent_text(error or exchange.text), dim=True)


def indent_text(text: str) -> str:
    return "\n".join(f"      {line}" for line in replace_controls(text).splitlines())
