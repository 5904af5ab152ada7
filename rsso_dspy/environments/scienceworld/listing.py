"""The display of states in a history window under the interface `complete`.

The first state of a window, and states after entering a room or looking around, show the simulator's whole listing in
its order; other states show only new lines. The inventory always comes last.

    You teleport to the kitchen.
    This room is called the kitchen. In it, you see:
        a counter. On the counter is: nothing.
    You also see:
        A door to the hallway (that is open)
    You carry: an orange; a thermometer, currently reading a temperature of 10 degrees celsius.
"""

from collections import Counter
from collections.abc import Sequence

from rsso_dspy.records import State

EMPTY = "You carry nothing."


def render_states(states: Sequence[State], focus: str = "") -> list[str]:
    """Render each state of a window.

    ``focus`` is the simulator's answer to the last focus action. The first state repeats it if that action is no longer
    in the window, because it matters until the task ends.
    """
    texts = []
    for number, state in enumerate(states):
        before = states[number - 1] if number else None
        if before is None or _room(before) != _room(state) or state.look.startswith(state.observation):
            shown = _whole(state)
        else:
            shown = _news(state, before)
        if not number and focus and all(focus != other.observation for other in states):
            shown = f"Earlier: {focus}\n{shown}"
        texts.append(f"{shown}\n{carried(state)}")
    return texts


def carried(state: State) -> str:
    """Render the inventory in one line."""
    things = [line.strip().rstrip(".") for line in state.inventory.splitlines()[1:] if line.strip()]
    return f"You carry: {'; '.join(things)}." if things else EMPTY


def _whole(state: State) -> str:
    """Join observation and surroundings without repeating an observation that the surroundings begin with."""
    look = "\n".join(line.rstrip() for line in state.look.splitlines())
    return look if state.look.startswith(state.observation) else f"{state.observation}\n{look}"


def _news(state: State, before: State) -> str:
    """Render the observation and the lines of the surroundings that are new since the previous state."""
    known = Counter(_lines(before))
    new = []
    for line in _lines(state):
        if known[line]:
            known[line] -= 1
        else:
            new.append(line)
    return "\n\t".join([f"{state.observation}\nYou also observe:", *new]) if new else state.observation


def _lines(state: State) -> list[str]:
    """Return the things of the surroundings, one per line."""
    return [line.strip() for line in state.look.splitlines() if line.startswith(("\t", " ")) and line.strip()]


def _room(state: State) -> str:
    """Return the first line of the surroundings."""
    return state.look.split("\n", 1)[0].strip()
