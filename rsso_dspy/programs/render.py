"""Play as text for prompts: a whole attempt, and its outcome."""

import re
from collections.abc import Callable, Sequence

from rsso_dspy.records import SOLVED_SCORE, State, Step, Trajectory

UNREADABLE = "(no action could be read from the answer)"

Render = Callable[[Sequence[State]], list[str]]  # the text of each state of a stretch, as in the actor's history


def render_transcript(trajectory: Trajectory, render: Render | None = None) -> str:
    """Every action of an attempt, numbered, with its observation; with `render` also what was in sight."""
    return _format_steps(trajectory.start, trajectory.steps, 0, render)


def is_transcript_of(text: str, trajectory: Trajectory) -> bool:
    """Return whether a text is the whole transcript of an attempt, in any form."""
    actions = [(str(number), step.action or UNREADABLE) for number, step in enumerate(trajectory.steps, start=1)]
    return _STEPS.findall(text) == actions


_STEPS = re.compile(r"^Step (\d+)\. > (.*)$", re.M)

LONGEST_STRETCH = 50  # steps that a rule writer reads, the newest: OmniReflect's episodes (section 3.2)


def render_recent_steps(states: Sequence[State], steps: Sequence[Step], render: Render | None = None) -> str:
    first = max(0, len(steps) - LONGEST_STRETCH)
    return _format_steps(states[first], steps[first:], first, render)


def _format_steps(start: State, steps: Sequence[Step], before: int, render: Render | None) -> str:
    states = [start, *(step.state for step in steps)]
    if render is None:
        texts = [f"{start.look}\n{start.inventory}", *(state.observation for state in states[1:])]
    else:
        texts = shorten_sights(states, render(states), before)
    lines = [texts[0]]
    for number, (step, text) in enumerate(zip(steps, texts[1:], strict=True), start=before + 1):
        lines.append(f"Step {number}. > {step.action or UNREADABLE}\n{text}")
    return "\n".join(lines)


LONGEST_SIGHTS = 16_000  # characters of what was in sight in one transcript, without the first state
SHORTEST_REPEATED = 150  # characters of a repeated text that is replaced by a reference
FEWEST_IDLE = 3  # final steps without points that a sentence mentions
BLIND = "(What was in sight is left out up to step {number}.)"
AS_BEFORE = "(All that is in sight is as it was {when}.)"


def shorten_sights(states: Sequence[State], shown: Sequence[str], before: int = 0) -> list[str]:
    """Shorten what was in sight, a text for each state; `before` is the number of steps before the first one. A room
    that looks as before refers to that earlier step, and the inventory is shown when it changes. If the text is still
    too long, the oldest steps lose their room and inventory, never the answer to an action."""
    parts = [_split_sight(state, text) for state, text in zip(states, shown, strict=True)]
    sights = [sight for _, sight, _ in parts]
    first_kept = _find_first_kept(sights)
    moments = {sights[0]: "at the beginning" if not before else f"after step {before}"}
    texts = [shown[0]]
    for place in range(1, len(states)):
        answer, sight, carried = parts[place]
        lines = [answer] if answer else []
        if place < first_kept:
            lines = [answer or states[place].observation]
        elif sight in moments and len(sight) >= SHORTEST_REPEATED:
            lines.append(AS_BEFORE.format(when=moments[sight]))
        elif sight:
            moments.setdefault(sight, f"after step {before + place}")
            lines.append(sight)
        if carried and carried != parts[place - 1][2] and place >= first_kept:
            lines.append(carried)
        texts.append("\n".join(lines) or states[place].observation)
    if first_kept > 1:
        texts[0] = f"{texts[0]}\n{BLIND.format(number=before + first_kept - 1)}"
    return texts


def _split_sight(state: State, text: str) -> tuple[str, str, str]:
    """Split a text into the answer to the action, what was in sight, and the last line if it is the inventory, which
    stands by itself below the rest."""
    answer, sight = "", text
    if text == state.observation or text.startswith(f"{state.observation}\n"):
        answer, sight = state.observation, text[len(state.observation) :].strip("\n")
    above, _, last = sight.rpartition("\n")
    if last[:1].isspace() or not last or (not above and not answer):
        return answer, sight, ""
    return answer, above, last


def _find_first_kept(sights: Sequence[str]) -> int:
    """Return the index of the first state whose sights are shown: of the newest as many as fit, equal ones once."""
    space = LONGEST_SIGHTS
    counted = {sights[0]}
    for place in range(len(sights) - 1, 0, -1):
        space -= 0 if sights[place] in counted else len(sights[place])
        counted.add(sights[place])
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
    last_step = f"step {last}, {_name_action(steps, last - 1)},"
    points = _list_points(trajectory, last)
    if trajectory.outcome == "failed" and steps[-1].reward < 0:
        lost = steps[-1].reward
        return (
            f"{last_step.capitalize()} ended the attempt for good: it was the wrong choice ({lost:+d} points, to "
            f"{score} of {SOLVED_SCORE}). Until then it had {score - lost} of {SOLVED_SCORE} points: "
            f"{_list_points(trajectory, last - 1)}."
        )
    if trajectory.outcome == "solved":
        return f"Solved: {last_step} completed the task. Points: {points}."
    ending = {
        "failed": f"{last_step.capitalize()} ended the attempt for good",
        "stalled": f"{last_step.capitalize()} took the game too long, which ended the attempt",
        "repeated": f"The attempt was ended because the same action, {_name_action(steps, last - 1)}, was repeated "
        "too often",
        "exhausted": "The attempt was ended because it went in circles",
        "budget": "The attempt ended with the task undone",
    }.get(trajectory.outcome, "The attempt was cut short")
    gains = [number for number, step in enumerate(steps, start=1) if step.reward > 0]
    idle = last - gains[-1] if gains else 0
    idle_note = f" The last {idle} steps earned nothing." if idle >= FEWEST_IDLE else ""
    return f"{ending}, at {score} of {SOLVED_SCORE} points: {points}.{idle_note}"


def _name_action(steps: Sequence[Step], index: int) -> str:
    """Return the action of a step; for the number of an option also the option's text."""
    action = steps[index].action or UNREADABLE
    question = steps[index - 1].state.observation if index else ""
    option = re.search(rf"^\s*{action}:\s*(.+)$", question, re.M) if action.isdigit() else None
    return f"{action} ({option[1].strip()})" if option else action


def _list_points(trajectory: Trajectory, last: int) -> str:
    initial = [f"{trajectory.points_at_reset} held at the beginning"] if trajectory.points_at_reset else []
    numbered = enumerate(trajectory.steps[:last], start=1)
    changes = [f"{step.reward:+d} at step {number}" for number, step in numbered if step.reward]
    return ", ".join([*initial, *(changes or ["no step earned any"])])
