"""What of a state is shown in a history window, in the interface `complete`.

The first state of a window, the one after entering a room and the one after looking around are shown with the
simulator's whole listing, in its order; the others with the lines that are new since the state before. What is carried
always stands at the end.

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
    """Text of each state of a window. ``focus`` is what the simulator said at the last focus action: the first state
    repeats it when that action is no longer in the window, for it matters as long as a task runs."""
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
    """What is carried, in one line."""
    things = [line.strip().rstrip(".") for line in state.inventory.splitlines()[1:] if line.strip()]
    return f"You carry: {'; '.join(things)}." if things else EMPTY


def _whole(state: State) -> str:
    """Observation and surroundings; an observation that the surroundings begin with is not said twice."""
    look = "\n".join(line.rstrip() for line in state.look.splitlines())
    return look if state.look.startswith(state.observation) else f"{state.observation}\n{look}"


def _news(state: State, before: State) -> str:
    """The observation, and the lines of the surroundings that the state before had not, or had fewer of."""
    known = Counter(_lines(before))
    new = []
    for line in _lines(state):
        if known[line]:
            known[line] -= 1
        else:
            new.append(line)
    return "\n\t".join([f"{state.observation}\nYou also observe:", *new]) if new else state.observation


def _lines(state: State) -> list[str]:
    """The things of the surroundings, one a line."""
    return [line.strip() for line in state.look.splitlines() if line.startswith(("\t", " ")) and line.strip()]


def _room(state: State) -> str:
    """What the surroundings begin with."""
    return state.look.split("\n", 1)[0].strip()
