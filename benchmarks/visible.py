"""Whether the history shows what is there.

    python benchmarks/visible.py [--tasks boil,...] [--interface sso]

Walks the gold path of one training variant of each of the 18 tasks. At every step: the things that the simulator
lists in the room and in the inventory, and that no text since the room was entered showed. Prints, per task and
interface, how many lines were missing at the steps that enter a room, and at all steps. The ratio is the number of
steps without a missing line, of all steps, under `complete`. A few minutes.
"""

import json
from collections.abc import Sequence

from rsso_dspy.signatures.layouts import find_first_state

from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.environments import choose_interface
from rsso_dspy.environments.scienceworld import ScienceWorld, gold_lengths, tasks
from rsso_dspy.records import State, Variant

INTERFACES = ("sso", "complete")


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--tasks", default=",".join(tasks.tasks()))
    options.add_argument("--interface", choices=INTERFACES)
    asked = options.parse_args()
    interfaces = [asked.interface] if asked.interface else list(INTERFACES)
    print_head("task", "interface", "steps", "rooms entered", "lines missing on entering", "in so many rooms",
               "lines missing, all steps")  # fmt: skip
    sums = {name: [0, 0, 0, 0, 0, 0] for name in interfaces}
    with ScienceWorld(step_limit=120) as environment:
        for task in asked.tasks.split(","):
            (variant,) = tasks.TABLE.train_sample(task, 1)
            (path,) = gold_lengths.compute_gold_paths([variant])
            for name in interfaces:
                counts = count_missing(environment, variant, list(path), name)
                sums[name] = [one + other for one, other in zip(sums[name], counts, strict=True)]
                print_row(task, name, *counts[:5])
    for name in interfaces:
        print_row("all", name, *sums[name][:5])
    steps, *_, whole = sums[interfaces[-1]]
    print(json.dumps({"ratio": round(whole / steps, 4), "missing": {name: sums[name][4] for name in interfaces}}))


def count_missing(environment: ScienceWorld, variant: Variant, path: Sequence[str], interface: str) -> list[int]:
    """Steps, rooms entered, lines missing on entering, rooms with such a line, lines missing at all steps, and steps
    without any."""
    choose_interface(environment, "complete" if interface == "complete" else "sso")
    states = [environment.reset(variant)]
    entered = on_entering = rooms = missing = whole = 0
    for action in path:
        move = environment.step(action)
        states.append(move.state)
        lines = missing_lines(environment, states)
        came = room_of(states[-1]) != room_of(states[-2])
        entered += came
        on_entering += len(lines) if came else 0
        rooms += bool(lines) and came
        missing += len(lines)
        whole += not lines
        if move.done:
            break
    return [len(states) - 1, entered, on_entering, rooms, missing, whole]


def missing_lines(environment: ScienceWorld, states: Sequence[State]) -> list[str]:
    """What is listed now and stands in no text of the window since the room was entered."""
    first = find_first_state(len(states), "paper")
    window = list(states[first:])
    shown = environment.render(window)
    arrived = max(
        (at for at in range(1, len(window)) if room_of(window[at]) != room_of(window[at - 1])),
        default=0,
    )
    told = " ".join("\n".join(shown[arrived:]).lower().split())
    return [line for line in listed(states[-1]) if line not in told]


def listed(state: State) -> list[str]:
    """The lines of surroundings and inventory that name things, in lower case, without what ends them."""
    lines = [line for line in state.look.splitlines() if line.startswith(("\t", " "))]
    lines += state.inventory.splitlines()[1:]
    return [" ".join(line.lower().split()).rstrip(" .") for line in lines if line.strip()]


def room_of(state: State) -> str:
    """What the surroundings begin with."""
    return state.look.split("\n", 1)[0]


if __name__ == "__main__":
    main()
