"""The two wordings of ALFWorld: games made before 2.1.2 say `put O in/on R`, later ones `move O to R`.

    to_engine("put mug 1 on desk 1", moves=True)                    # "move mug 1 to desk 1"
    to_published("You move the mug 1 to the desk 1.")               # "You put the mug 1 in/on the desk 1."

Everything published about ReAct, Reflexion, AgentBoard and OmniReflect says `put`. Both are understood in every game,
whichever it is of; what is answered is chosen.
"""

import re

from rsso_dspy.records import State

NOTHING = "Nothing happens."
"""The answer to everything that cannot be done."""

CHECK = "check valid actions"
"""The question for what can be done, as AgentBoard has it. It is a step, and the game does not see it."""

_PUT = re.compile(r"put (.+?) (?:in/on|into|onto|in|on) (.+)")
_MOVE = re.compile(r"move (.+?) to (.+)")
_ARRIVE = re.compile(r"You arrive at ([^.]*)\. ")
_TOLD_MOVE = re.compile(r"You move the (.+?) to the (.+?)\.")
_TOLD_PUT = re.compile(r"You put the (.+?) in/on the (.+?)\.")
_HELP_MOVE = "move (object) to (receptacle):  place"
_HELP_PUT = "put (object) in/on (receptacle):  place"


def is_of_new_wording(grammar: str) -> bool:
    """Whether a game's grammar says `move`."""
    return "move {o} to {r}" in grammar


def to_engine(action: str, moves: bool) -> str:
    """An action in either wording as the game wants it. ``moves``: whether the game is of the new wording."""
    found = _PUT.fullmatch(action) or _MOVE.fullmatch(action)
    if found is None:
        return action
    return f"move {found[1]} to {found[2]}" if moves else f"put {found[1]} in/on {found[2]}"


def to_published(text: str) -> str:
    """An answer as published harnesses show it: `put`, and without where one has arrived."""
    return _TOLD_MOVE.sub(r"You put the \1 in/on the \2.", _ARRIVE.sub("", text, count=1)).replace(
        _HELP_MOVE, _HELP_PUT
    )


def to_recent(text: str) -> str:
    """An answer with `move`."""
    return _TOLD_PUT.sub(r"You move the \1 to the \2.", text).replace(_HELP_PUT, _HELP_MOVE)


def word_action(action: str, interface: str) -> str:
    """An action in the wording of an interface."""
    return to_engine(action, interface != "sso")


def name_place(state: State) -> str:
    """Where a state's text says that one has arrived; empty if it does not, as in published harnesses."""
    found = _ARRIVE.search(state.observation)
    return found[1].lower() if found else ""


def split_first(feedback: str) -> tuple[str, str]:
    """The first observation and the task of what a game says at its start."""
    blocks = [block.strip() for block in feedback.split("\n\n") if block.strip()]
    task = next((block for block in blocks if block.startswith("Your task is to:")), "")
    seen = [block for block in blocks if block != task and not block.startswith("-= Welcome")]
    return "\n".join(line for block in seen for line in block.splitlines() if line.strip()), task
