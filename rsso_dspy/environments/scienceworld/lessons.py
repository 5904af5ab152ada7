"""Lessons of an episode without a model: patterns over actions and observations.

`MISTAKES` and `FACTS` are the whole table (after OmniReflect, section 2.1.2, whose patterns are for other
environments). Conditions return whether they hold, or the words of the lesson; those of progress are in `episode.py`.
They read task, actions and observations, but no rewards or scores.
"""

import re
from collections.abc import Callable, Iterator

from rsso_dspy.environments.benchmark import LessonPattern, LessonTable
from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld import episode as progress
from rsso_dspy.environments.scienceworld.episode import Episode, LessonWords, parse_room_view
from rsso_dspy.records import Lesson

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


def is_sentence(episode: Episode) -> bool:
    words = episode.newest.action.split()
    if not episode.is_unknown or not words:
        return False
    return len(words) > LONGEST_ACTION or words[0] in TALK or not words[0].rstrip(".,:;").isalpha()


def is_unknown_place(episode: Episode) -> bool:
    """Detect a destination that is not a room or has no door; the parser knows only some of these."""
    unknown = episode.is_unknown and PLACES.match(episode.newest.action)
    return bool(NO_WAY.match(episode.answer) or unknown)


def find_wrong_form(episode: Episode) -> LessonWords:
    template = TEMPLATES.get(episode.newest.action.partition(" ")[0], "")
    form = _find_form(episode, template)
    return {**form, "template": template} if form else None


def _find_form(episode: Episode, is_fitting: object) -> LessonWords:
    return {"form": _mask_object_names(episode.newest.action)} if episode.is_unknown and is_fitting else None


def is_wrong_focus(episode: Episode) -> bool:
    focused = FOCUSED.match(episode.answer)
    if not focused:
        return False
    substances = re.findall(r"substance called ([^,.()\n]+)", episode.states[-1].look + episode.states[-1].inventory)
    return progress.is_wrong_focus(episode.task, focused.group(1).lower(), frozenset(map(str.lower, substances)))


def find_devices(episode: Episode) -> LessonWords:
    """Return the fixed devices of a newly entered room; they are the same in every episode."""
    if not MOVES.match(episode.answer):
        return None
    seen = parse_room_view(episode.task, episode.states[-1].look)
    if any(parse_room_view(episode.task, state.look).room == seen.room for state in episode.states[1:-1]):
        return None
    return {"room": seen.room, "devices": ", ".join(sorted(seen.devices))} if seen.devices else None


def _mask_object_names(action: str) -> str:
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


RULES_OF_THUMB: tuple[Lesson, ...] = tuple(
    Lesson("abstract", text)
    for text in (
        "An action has the form of a template and calls things by the names under which the surroundings or the "
        "inventory list them. Any other is not understood, and nothing happens.",
        "When an action fits several things, a numbered list is shown: answer with the number alone. Any other answer "
        "takes the action back, and is not carried out itself.",
        "Everything in a room is within reach from anywhere in it. Moving about is between rooms, never between "
        "objects.",
        "Any room can be reached in one step by teleport, also one never seen; by go only the next one, through an "
        "open door.",
        "What a closed container holds cannot be taken or used until the container is open. Containers inside "
        "containers have to be opened too.",
        "A focus tells the task which object is meant and does nothing else. On a wrong object it ends the attempt.",
        "A thing that was picked up comes along from room to room; what is left behind cannot be used from another "
        "room. Large fixed things such as a stove or a sink stay where they are.",
        "A carried or near thing can be moved into or onto another one in the same room, if that one is open.",
        "A thermometer tells the temperature of what is in the same room, whether it is carried or not.",
        "Things heat, cool and grow only as time passes: each wait is ten moments, any other action one at most.",
        "A device works from the moment it is activated until it is deactivated. One that appears broken stays "
        "broken: find another that serves the purpose.",
        "All that a container holds is mixed at once, and something new comes only of things that belong together.",
    )
)
"""Rules about this world that hold for every task."""


MISTAKES: tuple[LessonPattern[Episode], ...] = (
    LessonPattern(lambda episode: episode.newest.malformed, "Gave an answer that held no action.",
        "End every answer with exactly one action in the form of a template."),
    LessonPattern(is_repeated, "Repeated an action although it had changed nothing.",
        "Read the answer to the first try, and do something else: another object, another place, or wait if time is "
        "what is missing."),
    LessonPattern(is_wandering, "Went back and forth between the same rooms without doing anything there.",
        "Before moving on, open and look into what is closed here; then go to a room not seen yet."),
    LessonPattern(lambda e: e.is_unknown and e.newest.action.isdigit(),
        "Sent a number although no choice had been offered.",
        "Send a number only as the answer to an ambiguous request, directly after it."),
    LessonPattern(is_sentence, "Wrote a sentence in place of an action.",
        "Write the action alone, beginning with the verb of a template."),
    LessonPattern(is_unknown_place, "Tried to go to what no door of this room leads to.",
        "Use teleport, and the name of a room. What is in this room is within reach already."),
    LessonPattern(lambda e: _find_form(e, SHAPES.fullmatch(e.newest.action)),
        "Asked for '{form}' with a name that fits nothing in sight.",
        "Use the names that the surroundings or the inventory list now. If the thing is not among them, open what is "
        "closed or search other rooms first."),
    LessonPattern(find_wrong_form, "Asked for '{form}', which is not the form of that action.", "Write '{template}'."),
    LessonPattern(lambda e: _find_form(e, e.newest.action),
        "Asked for '{form}', which this world does not know.",
        "Use the verbs of the action templates only, and reach the same end with those."),
    LessonPattern(
        lambda e: e.states[-2].observation.startswith(actions.AMBIGUOUS) and e.answer.startswith(actions.NO_EFFECT),
        "Answered an ambiguous request with something other than one of its numbers, so that neither action was done.",
        "Answer with one of the numbers that were listed, and nothing else; then go on."),
    LessonPattern(match_answer(actions.AMBIGUOUS), "Named an object in a way that fitted several.",
        "Answer with the number of the one that is meant. Next time use its full name as listed."),
    LessonPattern(is_wrong_focus, "Focused on an object other than those the task asks to focus on.",
        "Focus only on what the task names, by that name, and find it first. Nothing else is worth a focus."),
    LessonPattern(match_answer(r"The door is not open"), "Tried to pass a door that was closed.",
        "Open the door first, or teleport."),
    LessonPattern(
        match_answer(r"The .+ isn't open, so you|That can't be moved there, because|.+ because it's not open"),
        "Used a container that was closed.", "Open the container first, then look in it, fill it or pour from it."),
    LessonPattern(match_answer(r"The .+ is not mov(?:e)?able"), "Tried to move something that is fixed.",
        "Bring other things to it in place of moving it."),
    LessonPattern(match_answer(r"The .+ appears broken"), "Tried to switch on a device that is broken.",
        "Do not try it again: find another device that serves the same purpose, also in other rooms."),
    LessonPattern(match_answer(r"The .+ is not (?P<use>openable|closeable|edible|something that can be activated)"),
        "Treated a thing as if it were {use}, which it is not.",
        "Open, close or activate only containers, doors and devices."),
    LessonPattern(match_answer(r"It's not clear how to read"), "Tried to read something that holds no text.",
        "Read only recipes, books, notes and the like."),
    LessonPattern(match_answer(r"The .+ is already \w+"), "Asked for a state that was there already.",
        "See in the surroundings whether a thing is open, closed, on or off before changing it."),
    LessonPattern(match_answer(r"That thing doesn't appear to have a temperature"),
        "Measured something that has no temperature of its own.",
        "Measure the substance or the thing that matters, not the device it stands on."),
    LessonPattern(match_answer(r"That container is empty|There is only one thing"),
        "Mixed a container that held fewer than two things.", "Put all that is to be mixed into the container first."),
    LessonPattern(match_answer(r"Mixing the contents .+ does not appear to produce"),
        "Mixed things that make nothing new together.",
        "Leave nothing else in the container, and look for a recipe that says what goes together."),
    LessonPattern(match_answer(r"I'm not sure how to pour a solid"), "Tried to pour a solid.",
        "Move it, or pour the container that holds it."),
)  # fmt: skip
"""Mistakes of the newest step; the first match applies."""

FACTS: tuple[LessonPattern[Episode], ...] = (
    LessonPattern(find_devices, "Devices in the {room}: {devices}.", category="abstract"),
    *(
        LessonPattern(find, text, category="progress")
        for text, find in {
            "Done: focused on {names}.": progress.list_event_names("focus"),
            "Not done yet: focus on {names}.": progress.list_unfocused_targets,
            "Left for the end: focus on one of {names}, whichever the task says for what was found out.": (
                progress.list_verdict_targets
            ),
            "Where things that the task names were seen last: {names}.": progress.list_seen_things,
            "Of what the task names, in the inventory: {names}.": (
                lambda e: progress.join_names(progress.find_task_things(e.task, e.states[-1].inventory))
            ),
            "Moved: {names}.": progress.list_moved_things,
            "Measured: {names}.": progress.list_measurements,
            "Read: {names}": (
                lambda e: progress.join_names(" ".join(words[0].split()) for _, words in e.list_events("text"))
            ),
            "Mixed: {names}.": progress.list_event_names("product"),
            "Switched on: {names}.": progress.list_by_room(lambda view: view.running),
            "Broken here: {names}.": (
                lambda e: progress.join_names(f"{words[0]} ({e.get_room(at)})" for at, words in e.list_events("broken"))
            ),
            "Opened but not looked into: {names}.": progress.list_unsearched_containers,
            "Still closed: {names}.": progress.list_by_room(lambda view: view.closed),
            "Rooms seen: {names}.": lambda e: progress.join_names(e.latest_views, 2 * progress.MOST),
            "Rooms not seen yet: {names}.": progress.list_unseen_rooms,
        }.items()
    ),
)
"""What holds in every episode, and how far this one has come."""


def _list_rest(episode: Episode) -> Iterator[Lesson]:
    yield from (lesson for row in FACTS if (lesson := row.make_lesson(episode)))


draw_lessons = LessonTable(Episode, MISTAKES, _list_rest)
