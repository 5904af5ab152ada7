"""The long-term part of a hierarchical reflection memory: what remains of plans that leave the short-term part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_LINES = 10
"""Lines of each kind, and task types with a strategy: what a prompt has room for. The newest stay."""
MOST_CHARACTERS = 300
"""Characters of a line; a longer one is cut."""


@dataclass(frozen=True, slots=True)
class LongTerm:
    """What never to do, what always to do, and a strategy per task type; bounded."""

    never: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    strategies: dict[str, str] = field(default_factory=dict)
    """Task type to its strategy, the newest last."""
    learnt_on: tuple[str, ...] = ()
    """Keys of the variants whose plans it was distilled from."""

    @property
    def text(self) -> str:
        """What a prompt shows, one line each; empty when nothing was distilled."""
        parts = [_list_lines("Never do:", self.never), _list_lines("Always do:", self.always)]
        parts += [f"Strategy for {task}: {strategy}" for task, strategy in self.strategies.items()]
        return "\n".join(part for part in parts if part)

    def replace_lines(
        self, task: str, never: Sequence[str], always: Sequence[str], strategy: str, learnt_on: Sequence[str]
    ) -> "LongTerm":
        """The long-term part after a distillation, within its bounds."""
        strategies = {name: said for name, said in self.strategies.items() if name != task}
        if said := _clean_line(strategy) or self.strategies.get(task, ""):
            strategies[task] = said
        return LongTerm(
            _bound_lines(never) or self.never,
            _bound_lines(always) or self.always,
            dict(list(strategies.items())[-MOST_LINES:]),
            tuple(dict.fromkeys([*self.learnt_on, *learnt_on])),
        )

    def dump(self) -> dict[str, Any]:
        return {
            "never": list(self.never),
            "always": list(self.always),
            "strategies": dict(self.strategies),
            "learnt_on": list(self.learnt_on),
        }

    @classmethod
    def load(cls, data: dict[str, Any]) -> "LongTerm":
        """Read what `dump` wrote. Raises `KeyError` or `TypeError` for other data."""
        return cls(tuple(data["never"]), tuple(data["always"]), dict(data["strategies"]), tuple(data["learnt_on"]))


Distill = Callable[[LongTerm, str, Sequence[str]], tuple[Sequence[str], Sequence[str], str] | None]
"""Distils plans of one task type into the long-term part: (long-term, task type, plans) -> (never, always, strategy of
the type); None for a malformed answer."""


def _list_lines(heading: str, lines: Sequence[str]) -> str:
    return "\n".join([heading, *(f"- {line}" for line in lines)]) if lines else ""


def _clean_line(line: str) -> str:
    return " ".join(str(line).split())[:MOST_CHARACTERS]


def _bound_lines(lines: Sequence[str]) -> tuple[str, ...]:
    cleaned = dict.fromkeys(filter(None, map(_clean_line, lines)))
    return tuple(cleaned)[-MOST_LINES:]
