"""The table `answers.jsonl.xz`: what is read of every answer that was recorded, and of actions in the forms and
wordings of `benchmarks/manners.py`. `tests/test_adapter.py` has the corpora of malformed ones.

    {"form": "chat", "fields": {"thought": "str", "action": "str"}, "answer": "...", "verbs": [...],
     "read": {"fields": {...}, "repaired": true} or {"malformed": true}}

`verbs` are the words that begin an action where the answer was given.
"""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import dspy
from benchmarks.manners import ANSWERS, RESTATED, chat
from dspy.utils.callback import BaseCallback

from rsso_dspy.playing import get_playing
from tests.guards import house

Data = dict[str, Any]

ACTIONS = ("pick up thermometer in inventory", "move metal pot containing water to stove", "look around")
WHY = "The door to the kitchen is closed, so I open it first."


class Listener(BaseCallback):
    """Notes every answer that an adapter reads, not what it reads of it."""

    def __init__(self) -> None:
        self.heard: list[Data] = []
        self._reading = 0

    def on_adapter_parse_start(self, call_id: str, instance: Any, inputs: Data) -> None:  # noqa: ARG002
        self._reading += 1
        if self._reading == 1:  # adapters read by asking the adapter that they are made of
            signature, completion = inputs.get("args") or (inputs["signature"], inputs["completion"])
            form = type(instance).__name__.removesuffix("Adapter").lower()
            verbs = sorted(get_playing().verbs)
            fields = house.list_fields(signature)
            self.heard.append({"form": form, "fields": fields, "answer": completion, "verbs": verbs})

    def on_adapter_parse_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:  # noqa: ARG002
        self._reading -= 1


@contextmanager
def listening() -> Iterator[list[Data]]:
    """Yield the list of all answers that are read inside the block, in any thread."""
    listener = Listener()
    dspy.configure(callbacks=[listener])
    try:
        yield listener.heard
    finally:
        dspy.configure(callbacks=[])


def make_table(heard: Iterable[Data]) -> list[Data]:
    """Return a row for every distinct answer, with what is read of it now."""
    heard = list(heard)
    verbs = max((each["verbs"] for each in heard), key=len)
    rows = {json.dumps(each): each for each in [*heard, *list_manners(verbs)]}
    return [row | {"read": read(row)} for row in rows.values()]


def read(row: Data) -> Data:
    return house.read_answer(row["form"], row["fields"], row["answer"], row["verbs"])


def list_manners(verbs: list[str]) -> Iterator[Data]:
    fields = {"reasoning": "str", "current_subgoal": "str", "next_action": "str"}
    for action in ACTIONS:
        worded = [restate(action, "") for restate in RESTATED.values()]
        answers = [chat(WHY, said) for said in worded] + [
            form(WHY, said) for form in ANSWERS.values() for said in worded
        ]
        for answer in answers:
            yield {"form": "chat", "fields": fields, "answer": answer, "verbs": verbs}
