"""Play as text for prompts: a whole attempt, and its outcome."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rsso_dspy.records import SOLVED_SCORE, State, Step, Trajectory

UNREADABLE = "(no action could be read from the answer)"

Render = Callable[[Sequence[State]], list[str]]  # the text of each state of a stretch, as in the actor's history


def render_transcript(trajectory: Trajectory, render: Render | None = None) -> str:
    """Every action of an attempt, numbered, with its observation; with `render` also what was in sight."""
    return _format_steps(trajectory.start, trajectory.steps, 0, render)


def is_transcript_of(text: str, trajectory: Trajectory) -> bool:
    """Return whether a text is the whole transcript of an attempt, in any form."""
    numbered = enumerate(trajectory.steps, start=1)
    actions = [(str(number), step.action or UNREADABLE) for number, step in numbered]
    return _STEPS.findall(text) == actions


_STEPS = re.compile(r"^Step (\d+)\. > (.*)$", re.M)

LONGEST_STRETCH = 50  # steps that a rule writer reads, the newest: OmniReflect's episodes (section 3.2)


def render_recent_steps(states: Sequence[State], steps: Sequence[Step], render: Render | None = None) -> str:
    first = max(0, len(steps) - LONGEST_STRETCH)
    return _format_steps(states[first], steps[first:], first, render)


def _format_steps(start: State, steps: Sequence[Step], before: int, render: Render | None) -> str:
    states = [start, *(step.state for step in steps)]
    if render is None:
        texts = [f"{start.look}\n{start.inventory}"]
        texts += [step.state.observation for step in steps]
    else:
        texts = shorten_sights(states, render(states), before)

    lines = [texts[0]]
    number = before
    for step, text in zip(steps, texts[1:], strict=True):
        number += 1
        action = step.action or UNREADABLE
        lines.append(f"Step {number}. > {action}\n{text}")
    return "\n".join(lines)


LONGEST_SIGHTS = 16_000  # characters of what was in sight in one transcript, without the first state
SHORTEST_REPEATED = 150  # characters of a repeated text that is replaced by a reference
FEWEST_IDLE = 3  # final steps without points that a sentence mentions
BLIND = "(What was in sight is left out up to step {number}.)"
AS_BEFORE = "(All that is in sight is as it was {when}.)"


@dataclass(frozen=True)
class _Parts:
    """What the text of a state is made of."""

    answer: str  # to the action
    sight: str
    inventory: str


def shorten_sights(states: Sequence[State], shown: Sequence[str], before: int = 0) -> list[str]:
    """Shorten what was in sight, a text for each state; `before` is the number of steps before the first one. A room
    that looks as before refers to that earlier step, and the inventory is shown when it changes. If the text is still
    too long, the oldest steps lose their room and inventory, never the answer to an action."""
    parts = [_split_sight(state, text) for state, text in zip(states, shown, strict=True)]
    first_kept = _find_first_kept([part.sight for part in parts])
    first_moment = f"after step {before}" if before else "at the beginning"
    moments = {parts[0].sight: first_moment}  # of each sight, when it was seen first

    texts = [shown[0]]
    for place in range(1, len(states)):
        part = parts[place]
        if place < first_kept:
            texts.append(part.answer or states[place].observation)
            continue

        lines = []
        if part.answer:
            lines.append(part.answer)
        if part.sight in moments and len(part.sight) >= SHORTEST_REPEATED:
            lines.append(AS_BEFORE.format(when=moments[part.sight]))
        elif part.sight:
            moments.setdefault(part.sight, f"after step {before + place}")
            lines.append(part.sight)
        if part.inventory and part.inventory != parts[place - 1].inventory:
            lines.append(part.inventory)
        texts.append("\n".join(lines) or states[place].observation)

    if first_kept > 1:
        note = BLIND.format(number=before + first_kept - 1)
        texts[0] = f"{texts[0]}\n{note}"
    return texts


def _split_sight(state: State, text: str) -> _Parts:
    """Split a text into the answer to the action, what was in sight, and the last line if it is the inventory, which
    stands by itself below the rest."""
    answer = ""
    sight = text
    if text == state.observation or text.startswith(f"{state.observation}\n"):
        answer = state.observation
        sight = text[len(answer) :].strip("\n")

    above, _, last_line = sight.rpartition("\n")
    is_indented = last_line[:1].isspace()
    is_alone = not above and not answer
    if is_indented or not last_line or is_alone:
        return _Parts(answer, sight, inventory="")
    return _Parts(answer, above, inventory=last_line)


def _find_first_kept(sights: Sequence[str]) -> int:
    """Return the index of the first state whose sights are shown: of the newest as many as fit, equal ones once."""
    space = LONGEST_SIGHTS
    counted = {sights[0]}
    for place in range(len(sights) - 1, 0, -1):
        sight = sights[place]
        if sight not in counted:
            counted.add(sight)
            space -= len(sight)
        if space < 0:
            return place + 1
    return 1


def tell_outcome(trajectory: Trajectory) -> str:
    """Describe the end of an attempt and the points of every step that changed them, without naming the step budget."""
    steps = trajectory.steps
    if not steps:
        return "The attempt was over before its first step."

    last = len(steps)
    score = trajectory.environment_score
    last_action = _name_action(steps, last - 1)
    last_step = f"step {last}, {last_action},"

    lost = steps[-1].reward
    if trajectory.outcome == "failed" and lost < 0:
        return (
            f"{last_step.capitalize()} ended the attempt for good: it was the wrong choice ({lost:+d} points, to "
            f"{score} of {SOLVED_SCORE}). Until then it had {score - lost} of {SOLVED_SCORE} points: "
            f"{_list_points(trajectory, last - 1)}."
        )
    points = _list_points(trajectory, last)
    if trajectory.outcome == "solved":
        return f"Solved: {last_step} completed the task. Points: {points}."

    endings: dict[str, str] = {
        "failed": f"{last_step.capitalize()} ended the attempt for good",
        "stalled": f"{last_step.capitalize()} took the game too long, which ended the attempt",
        "repeated": f"The attempt was ended because the same action, {last_action}, was repeated too often",
        "exhausted": "The attempt was ended because it went in circles",
        "budget": "The attempt ended with the task undone",
    }
    ending = endings.get(trajectory.outcome, "The attempt was cut short")

    idle_note = ""
    idle = _count_idle_steps(steps)
    if idle >= FEWEST_IDLE:
        idle_note = f" The last {idle} steps earned nothing."
    return f"{ending}, at {score} of {SOLVED_SCORE} points: {points}.{idle_note}"


def _count_idle_steps(steps: Sequence[Step]) -> int:
    """Return how many steps there were after the last that earned points; 0 if none did."""
    gains = [number for number, step in enumerate(steps, start=1) if step.reward > 0]
    if not gains:
        return 0
    return len(steps) - gains[-1]


def _name_action(steps: Sequence[Step], index: int) -> str:
    """Return the action of a step; for the number of an option also the option's text."""
    action = steps[index].action or UNREADABLE
    if index == 0 or not action.isdigit():
        return action

    question = steps[index - 1].state.observation
    option = re.search(rf"^\s*{action}:\s*(.+)$", question, re.M)
    if option is None:
        return action
    return f"{action} ({option[1].strip()})"


def _list_points(trajectory: Trajectory, last: int) -> str:
    points = []
    if trajectory.points_at_reset:
        points.append(f"{trajectory.points_at_reset} held at the beginning")

    numbered = enumerate(trajectory.steps[:last], start=1)
    changes = [f"{step.reward:+d} at step {number}" for number, step in numbered if step.reward]
    points += changes or ["no step earned any"]
    return ", ".join(points)
