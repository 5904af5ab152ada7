"""Shortens what was in sight during an attempt for a transcript.

    shorten_sights(states, environment.render(states))      # a text for every state

Every answer to an action stays. Room and inventory are shown only when they are new: a room that looks as before refers
to that earlier step, and the inventory is shown when it changes. If the text is still too long, the oldest steps lose
their room and inventory.
"""

from collections.abc import Sequence

from rsso_dspy.records import State

LONGEST = 16_000
"""Maximum characters of what was in sight in one transcript, about 4,000 tokens, without the first state."""

SHORTEST = 150
"""Minimum characters of a repeated text that is replaced by a reference."""

BLIND = "(What was in sight is left out up to step {number}.)"
AGAIN = "(All that is in sight is as it was {when}.)"


def shorten_sights(states: Sequence[State], shown: Sequence[str], before: int = 0) -> list[str]:
    """Return a text for each state. `shown` holds the texts of the actor's history; `before` is the number of steps
    before the first state."""
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
    """Return the index of the first state whose sights are shown: as many of the newest as fit, counting each distinct
    one once."""
    left, seen = LONGEST, {sights[0]}
    for place in range(len(sights) - 1, 0, -1):
        left -= 0 if sights[place] in seen else len(sights[place])
        seen.add(sights[place])
        if left < 0:
            return place + 1
    return 1
