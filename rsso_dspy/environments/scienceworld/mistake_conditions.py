"""Conditions of lasting lessons. Each reads the last steps of an episode and returns whether it holds, or the
words for its lesson."""

import re
from collections.abc import Callable

from rsso_dspy.environments.scienceworld import actions, task_parser
from rsso_dspy.environments.scienceworld.progress_conditions import Episode, LessonWords, parse_room_view

WINDOW = 6
"""Number of steps to detect wandering."""
LONGEST_ACTION = 12
"""Maximum words of an action; more are a sentence."""
PLACES = re.compile(r"(?:go|walk|teleport)\b|move (?:to|into|through)\b")
NO_WAY = re.compile(r"It'?s not clear how to (?:get there|go to)")
SHAPES = re.compile(
    r"(?:read|activate|deactivate|turn o(?:n|ff)|open|close|pick up|get|take|put down|drop|look (?:in|at|on)|examine"
    r"|focus on|eat|consume|flush|mix|stir) \S.*"
    r"|(?:move|put|pour|dunk) \S.* (?:in|into|to|on) \S.*|use \S.* on \S.*|look around|look|inventory|task|wait1?"
)
"""Forms that the parser knows, so that the names must be the unknown part."""
TEMPLATES = {line.split()[0]: line for line in actions.ACTION_TEMPLATES.partition("Templates:\n")[2].splitlines()[::-1]}
"""First word to the first template that begins with it."""
BETWEEN = "to in on into onto with from at for of out off up down over under using through around"
SMALL = frozenset(BETWEEN.split())
OPENERS = "i i'll i'm we let let's the my it there this that now first next then since because to please"
TALK = frozenset(OPENERS.split())
"""First words of sentences that are never first words of actions."""
WAITING = re.compile(r"wait1?$")
MOVES = re.compile(r"You (?:move|teleport) to the")
FOCUSED = re.compile(r"You focus on the (.+)\.$")


def match_answer(pattern: str) -> Callable[[Episode], LessonWords]:
    """Build the condition that the newest answer starts like this; named groups are its words."""
    compiled = re.compile(pattern)

    def check_answer(episode: Episode) -> LessonWords:
        match = compiled.match(episode.answer)
        return match.groupdict() if match else None

    return check_answer


def is_repeated(episode: Episode) -> bool:
    """Detect a repeated action without a visible change; waiting is exempt."""
    action = episode.newest.action
    if len(episode.steps) < 2 or not action or WAITING.match(action):
        return False
    return action == episode.steps[-2].action and episode.states[-1] == episode.states[-2]


def is_wandering(episode: Episode) -> bool:
    """Detect repeated moves between two rooms in which nothing was taken or changed."""
    if len(episode.steps) < WINDOW or not MOVES.match(episode.answer):
        return False
    recent = episode.states[-WINDOW:]
    moves = sum(MOVES.match(state.observation) is not None for state in recent)
    rooms = {parse_room_view(episode.task, state.look).room for state in recent}
    if moves < WINDOW - 2 or len(rooms) > 2 or len({state.inventory for state in recent}) > 1:
        return False
    return len({state.look for state in recent}) <= len(rooms)


def is_choice_missing(episode: Episode) -> bool:
    asked = episode.states[-2].observation.startswith(actions.AMBIGUOUS)
    return asked and episode.answer.startswith(actions.NO_EFFECT)


def is_unasked_number(episode: Episode) -> bool:
    return _is_unknown(episode) and episode.newest.action.isdigit()


def is_sentence(episode: Episode) -> bool:
    words = episode.newest.action.split()
    if not _is_unknown(episode) or not words:
        return False
    return len(words) > LONGEST_ACTION or words[0] in TALK or not words[0].rstrip(".,:;").isalpha()


def is_unknown_place(episode: Episode) -> bool:
    """Detect a destination that is not a room or has no door; the parser knows only some of these."""
    unknown = _is_unknown(episode) and PLACES.match(episode.newest.action)
    return bool(NO_WAY.match(episode.answer) or unknown)


def find_unknown_object(episode: Episode) -> LessonWords:
    action = episode.newest.action
    return {"form": mask_object_names(action)} if _is_unknown(episode) and SHAPES.fullmatch(action) else None


def find_wrong_form(episode: Episode) -> LessonWords:
    action = episode.newest.action
    template = TEMPLATES.get(action.partition(" ")[0])
    return {"form": mask_object_names(action), "template": template} if _is_unknown(episode) and template else None


def find_unknown_action(episode: Episode) -> LessonWords:
    action = episode.newest.action
    return {"form": mask_object_names(action)} if _is_unknown(episode) and action else None


def is_wrong_focus(episode: Episode) -> bool:
    focused = FOCUSED.match(episode.answer)
    if not focused:
        return False
    substances = re.findall(r"substance called ([^,.()\n]+)", episode.states[-1].look + episode.states[-1].inventory)
    return task_parser.is_wrong_focus(episode.task, focused.group(1).lower(), frozenset(map(str.lower, substances)))


def find_devices(episode: Episode) -> LessonWords:
    """Return the fixed devices of a newly entered room; they are the same in every episode."""
    if not MOVES.match(episode.answer):
        return None
    seen = parse_room_view(episode.task, episode.states[-1].look)
    if any(parse_room_view(episode.task, state.look).room == seen.room for state in episode.states[1:-1]):
        return None
    return {"room": seen.room, "devices": ", ".join(sorted(seen.devices))} if seen.devices else None


def mask_object_names(action: str) -> str:
    """Replace the names of an action by letters: ``connect X to Y``."""
    first, *rest = action.split()
    letters = iter("XYZ")
    words, named = [first.strip(".,:;")], False
    for word in rest:
        if word in SMALL:
            words.append(word)
        elif not named:
            words.append(next(letters, "..."))
        named = word not in SMALL
    return " ".join(words)


def _is_unknown(episode: Episode) -> bool:
    return episode.answer == actions.NOT_KNOWN
