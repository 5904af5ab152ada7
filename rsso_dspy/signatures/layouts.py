"""Layouts: in which order the actor's inputs stand in a prompt, which of them stand in the system message, and whether
the history is a conversation or one text.

    with send_arranged(find_arrangement("paper", "sso")):
        agent.actor(...)                     # in the order of Algorithm 1, whatever adapter is set

A layout changes the signature that an adapter is handed, so that DSPy's adapters send what ours sends. The program's
own signatures, which optimizers read, stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.regions import HISTORY, REGIONS
from rsso_dspy.signatures.actor import THOUGHT, THOUGHT_ON_PLANS
from rsso_dspy.signatures.texts import read_description, show_field
from rsso_dspy.signatures.wrapped import WrappedAdapter

Signature = Any  # a class of `dspy.Signature`
Fields = dict[str, Any]

OF_A_TRIAL, OF_A_STEP = "(other memories, once a trial)", "(other memories, at each step)"
"""Where regions stand that memories of other packages add."""

MEMORIES = (
    "plans_from_past_attempts",
    "constitution",
    "past_attempts",
    "experience",
    "past_strategies",
    OF_A_TRIAL,
)  # fmt: skip
PRESENT = ("notice", "observation", "possible_actions")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How a layout arranges the inputs of the actor."""

    order: tuple[str, ...] = ()  # of the input fields; empty for the signature's own
    in_system: tuple[str, ...] = ()  # fields that stand in the system message, below the instruction
    is_in_one: bool = False  # whether the history is one text in its place, or a message for each turn
    states: int | None = None  # how many of the last states the history shows; None for all
    reads_plans: bool = False  # whether the thought has to say what plans from past attempts say


WINDOW = 10  # states in a history that is a window (SSO reference, max_history)

CONVERSATION = Arrangement()
PAPER = Arrangement(  # rSSO, Algorithm 1, with the regions that it does not have beside those that are like them
    order=(
        "about",
        "solved_examples",
        *MEMORIES,
        "task",
        "action_templates",
        "progress",
        OF_A_STEP,
        "skills",
        HISTORY,
        *PRESENT,
    ),
    in_system=("about",),
    is_in_one=True,
    states=WINDOW,
)
REFLEXION_RELEASE = Arrangement(  # one message: solved examples, the memory, the task, the whole transcript
    order=(
        "about",
        "action_templates",
        "solved_examples",
        *MEMORIES,
        "task",
        "progress",
        OF_A_STEP,
        "skills",
        HISTORY,
        *PRESENT,
    ),
    is_in_one=True,
)
_SSO_SYSTEM = ("about", "task", "action_templates", "solved_examples", *MEMORIES, "progress", OF_A_STEP, "skills")
SSO_RELEASE = Arrangement(  # all but the states in the system message, memories below the templates
    order=(*_SSO_SYSTEM, HISTORY, *PRESENT), in_system=_SSO_SYSTEM, states=WINDOW
)


ARRANGEMENTS = {  # by layout and scaffold
    ("conversation", "flat"): CONVERSATION,
    ("conversation", "sso"): CONVERSATION,
    ("paper", "flat"): PAPER,
    ("paper", "sso"): PAPER,
    ("released", "flat"): REFLEXION_RELEASE,
    ("released", "sso"): SSO_RELEASE,
}


def find_arrangement(layout: str, scaffold: str, in_system: Sequence[str] = ()) -> Arrangement:
    """Return the arrangement of a layout in a scaffold. `in_system`: more fields that stand in the system message."""
    arrangement = ARRANGEMENTS[layout, scaffold]
    return replace(arrangement, in_system=(*arrangement.in_system, *in_system))


def order_fields(signature: Signature, order: Sequence[str]) -> list[str]:
    """Return the names of a signature's inputs in this order.

    A field that it does not name is of a memory of another package. It stands with the memories of a trial where the
    signature has it ahead of the history, and with those of a step elsewhere."""
    names = list(signature.input_fields)
    if not order:
        return names

    before_history = names[: names.index(HISTORY)] if HISTORY in names else names
    foreign_fields = [name for name in names if name not in order]
    placed: list[str] = []
    for name in order:
        if name == OF_A_TRIAL:
            placed += [field for field in foreign_fields if field in before_history]
        elif name == OF_A_STEP:
            placed += [field for field in foreign_fields if field not in before_history]
        elif name in names:
            placed.append(name)
    return placed


@lru_cache(maxsize=256)
def _arrange_signature(
    signature: Signature, names: tuple[str, ...], arrangement: Arrangement, appended: str
) -> Signature:
    """Return the signature with these inputs in this order, and `appended` below its instruction."""
    fields = {}
    for name in names:
        field = signature.input_fields[name]
        fields[name] = (str if name == HISTORY and arrangement.is_in_one else field.annotation, field)
    for name, field in signature.output_fields.items():
        fields[name] = (field.annotation, field)
    instructions = "\n\n".join(filter(None, [signature.instructions, appended]))
    arranged: Signature = dspy.Signature(fields, instructions)

    thought = signature.output_fields.get("thought")
    if arrangement.reads_plans and thought is not None and read_description("thought", thought) == THOUGHT:
        arranged = arranged.with_updated_fields("thought", desc=THOUGHT_ON_PLANS)
    return arranged


@dataclass(frozen=True, slots=True)
class ArrangedCall:
    """What an adapter is handed of one call."""

    signature: Signature
    demos: list[Fields]
    inputs: Fields


def arrange_call(
    arrangement: Arrangement, signature: Signature, demos: Sequence[Fields], inputs: Fields
) -> ArrangedCall:
    """Arrange a call of the actor; another call stays as it is."""
    if HISTORY not in signature.input_fields:
        return ArrangedCall(signature, list(demos), inputs)

    names = order_fields(signature, arrangement.order)
    is_in_system = {name: _is_in_system(name, arrangement) for name in names}
    blocks = []
    for name in names:
        if is_in_system[name]:
            description = read_description(name, signature.input_fields[name])
            blocks.append(show_field(name, inputs.get(name), description))
    appended = "\n\n".join(filter(None, blocks))

    message_fields = tuple(name for name in names if not is_in_system[name])
    arranged = _arrange_signature(signature, message_fields, arrangement, appended)
    if not arrangement.is_in_one:
        return ArrangedCall(arranged, list(demos), inputs)
    demonstrations = [{name: value for name, value in demo.items() if name != HISTORY} for demo in demos]
    return ArrangedCall(arranged, demonstrations, {**inputs, HISTORY: render_history(inputs.get(HISTORY))})


def _is_in_system(name: str, arrangement: Arrangement) -> bool:
    if name in arrangement.in_system:
        return True
    return name not in REGIONS and bool({OF_A_TRIAL, OF_A_STEP} & {*arrangement.in_system})


def render_history(history: dspy.History | None) -> str:
    """Return the turns of a history as one text: what was seen, and what was answered."""
    turns: Sequence[Mapping[str, Any]] = history.messages if history else []
    return "\n\n".join(
        "\n".join(filter(None, (show_field(name, value) for name, value in turn.items()))) for turn in turns
    )


class ArrangingAdapter(WrappedAdapter):
    """An adapter that hands another one the fields of the actor as a layout arranges them."""

    def __init__(self, adapter: Any, arrangement: Arrangement):
        WrappedAdapter.__init__(self, adapter)
        self.arrangement = arrangement

    def __call__(
        self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, demos: list[Fields], inputs: Fields
    ) -> Any:
        call = arrange_call(self.arrangement, signature, demos, inputs)
        return self.adapter(lm, lm_kwargs=lm_kwargs, signature=call.signature, demos=call.demos, inputs=call.inputs)

    async def acall(
        self, lm: dspy.BaseLM, lm_kwargs: Fields, signature: Signature, demos: list[Fields], inputs: Fields
    ) -> Any:
        call = arrange_call(self.arrangement, signature, demos, inputs)
        return await self.adapter.acall(
            lm, lm_kwargs=lm_kwargs, signature=call.signature, demos=call.demos, inputs=call.inputs
        )


def gives_hints(adapter: Any) -> bool:
    """Whether an adapter is that of `dspy.Refine`. It finds the hint for a predictor by the predictor's own signature:
    of another one it says "N/A"."""
    return any(kind.__module__ == dspy.Refine.__module__ for kind in adapter.__class__.__mro__)


@contextmanager
def send_arranged(arrangement: Arrangement) -> Iterator[None]:
    """Arrange the calls of the actor inside the block, whatever adapter is set. Under `dspy.Refine` the description of
    the thought stays as it is, so that the actor gets its hint."""
    adapter = dspy.settings.adapter or dspy.ChatAdapter()
    if gives_hints(adapter):
        arrangement = replace(arrangement, reads_plans=False)
    if arrangement == CONVERSATION:
        yield
        return
    with dspy.context(adapter=ArrangingAdapter(adapter, arrangement)):
        yield
