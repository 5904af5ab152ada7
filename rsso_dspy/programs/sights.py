"""What was in sight during an attempt, in so many characters as a reader of transcripts can be given.

    shorten_sights(states, environment.render(states))      # a text for every state

Every answer to an action stays. What stands beneath it, the room and what is carried, is said where it is new: a room
that looks as it did before refers to that step, and what is carried is said when it changes. What is too much even so
is left out of the oldest steps.
"""

from collections.abc import Sequence

from rsso_dspy.records import State

LONGEST = 16_000
"""Characters of what was in sight in one transcript, about 4,000 tokens; the first state is not counted."""

SHORTEST = 150
"""Characters from which on a text that was there before is referred to."""

BLIND = "(What was in sight is left out up to step {number}.)"
AGAIN = "(All that is in sight is as it was {when}.)"


def shorten_sights(states: Sequence[State], shown: Sequence[str], before: int = 0) -> list[str]:
    """A text for each state. `shown` are those of the actor's history, `before` the steps ahead of the first state."""
    parts = [_split(state, text) for state, text in zip(states, shown, strict=True)]
    sights = [sight for _, sight, _ in parts]
    kept = _find_first_kept(sights)
    told = {sights[0]: "at the beginning" if not before else f"after step {before}"}
    texts = [shown[0]]
    for place in range(1, len(states)):
        answer, sight, carried = parts[place]
        lines = [answer] if answer else []
        if place < kept:
            lines = [answer or states[place].observation]
        elif sight in told and len(sight) >= SHORTEST:
            lines.append(AGAIN.format(when=told[sight]))
        elif sight:
            told.setdefault(sight, f"after step {before + place}")
            lines.append(sight)
        if carried and carried != parts[place - 1][2] and place >= kept:
            lines.append(carried)
        texts.append("\n".join(lines) or states[place].observation)
    if kept > 1:
        texts[0] = f"{texts[0]}\n{BLIND.format(number=before + kept - 1)}"
    return texts


def _split(state: State, text: str) -> tuple[str, str, str]:
    """The answer to the action, what was in sight, and the last line where it says what is carried: one that stands by
    itself below the rest."""
    answer, sight = (
        (state.observation, text[len(state.observation) :].strip("\n")) if _leads(state, text) else ("", text)
    )
    above, _, last = sight.rpartition("\n")
    if last[:1].isspace() or not last or (not above and not answer):
        return answer, sight, ""
    return answer, above, last


def _leads(state: State, text: str) -> bool:
    """Whether a text begins with the answer to the action, on lines of its own."""
    return text == state.observation or text.startswith(f"{state.observation}\n")


def _find_first_kept(sights: Sequence[str]) -> int:
    """Index of the first state whose sights are told: as many of the newest as may be, each distinct one counted
    once."""
    left, seen = LONGEST, {sights[0]}
    for place in range(len(sights) - 1, 0, -1):
        left -= 0 if sights[place] in seen else len(sights[place])
        seen.add(sights[place])
        if left < 0:
            return place + 1
    return 1
