"""Lessons of an episode without a model: patterns over actions and observations.

`MISTAKES` and `FACTS` are the whole table (after OmniReflect, section 2.1.2, whose patterns are for other
environments). `mistake_conditions.py` has the conditions of lasting lessons, `progress_conditions.py` those of
progress. They read task, actions and observations, but no rewards or scores.
"""

from collections.abc import Iterator, Sequence

from rsso_dspy.environments import benchmark
from rsso_dspy.environments.benchmark import LessonPattern
from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld import mistake_conditions as mistakes
from rsso_dspy.environments.scienceworld import progress_conditions as progress
from rsso_dspy.records import Lesson, State, Step

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


MISTAKES: tuple[LessonPattern[progress.Episode], ...] = (
    LessonPattern(
        lambda episode: episode.newest.malformed,
        "Gave an answer that held no action.",
        "End every answer with exactly one action in the form of a template.",
    ),
    LessonPattern(
        mistakes.is_repeated,
        "Repeated an action although it had changed nothing.",
        "Read the answer to the first try, and do something else: another object, another place, or wait if time "
        "is what is missing.",
    ),
    LessonPattern(
        mistakes.is_wandering,
        "Went back and forth between the same rooms without doing anything there.",
        "Before moving on, open and look into what is closed here; then go to a room not seen yet.",
    ),
    LessonPattern(
        mistakes.is_unasked_number,
        "Sent a number although no choice had been offered.",
        "Send a number only as the answer to an ambiguous request, directly after it.",
    ),
    LessonPattern(
        mistakes.is_sentence,
        "Wrote a sentence in place of an action.",
        "Write the action alone, beginning with the verb of a template.",
    ),
    LessonPattern(
        mistakes.is_unknown_place,
        "Tried to go to what no door of this room leads to.",
        "Use teleport, and the name of a room. What is in this room is within reach already.",
    ),
    LessonPattern(
        mistakes.find_unknown_object,
        "Asked for '{form}' with a name that fits nothing in sight.",
        "Use the names that the surroundings or the inventory list now. If the thing is not among them, open what "
        "is closed or search other rooms first.",
    ),
    LessonPattern(
        mistakes.find_wrong_form,
        "Asked for '{form}', which is not the form of that action.",
        "Write '{template}'.",
    ),
    LessonPattern(
        mistakes.find_unknown_action,
        "Asked for '{form}', which this world does not know.",
        "Use the verbs of the action templates only, and reach the same end with those.",
    ),
    LessonPattern(
        mistakes.is_choice_missing,
        "Answered an ambiguous request with something other than one of its numbers, so that neither action was done.",
        "Answer with one of the numbers that were listed, and nothing else; then go on.",
    ),
    LessonPattern(
        mistakes.match_answer(actions.AMBIGUOUS),
        "Named an object in a way that fitted several.",
        "Answer with the number of the one that is meant. Next time use its full name as listed.",
    ),
    LessonPattern(
        mistakes.is_wrong_focus,
        "Focused on an object other than those the task asks to focus on.",
        "Focus only on what the task names, by that name, and find it first. Nothing else is worth a focus.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The door is not open"),
        "Tried to pass a door that was closed.",
        "Open the door first, or teleport.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The .+ isn't open, so you|That can't be moved there, because|.+ because it's not open"),
        "Used a container that was closed.",
        "Open the container first, then look in it, fill it or pour from it.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The .+ is not mov(?:e)?able"),
        "Tried to move something that is fixed.",
        "Bring other things to it in place of moving it.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The .+ appears broken"),
        "Tried to switch on a device that is broken.",
        "Do not try it again: find another device that serves the same purpose, also in other rooms.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The .+ is not (?P<use>openable|closeable|edible|something that can be activated)"),
        "Treated a thing as if it were {use}, which it is not.",
        "Open, close or activate only containers, doors and devices.",
    ),
    LessonPattern(
        mistakes.match_answer(r"It's not clear how to read"),
        "Tried to read something that holds no text.",
        "Read only recipes, books, notes and the like.",
    ),
    LessonPattern(
        mistakes.match_answer(r"The .+ is already \w+"),
        "Asked for a state that was there already.",
        "See in the surroundings whether a thing is open, closed, on or off before changing it.",
    ),
    LessonPattern(
        mistakes.match_answer(r"That thing doesn't appear to have a temperature"),
        "Measured something that has no temperature of its own.",
        "Measure the substance or the thing that matters, not the device it stands on.",
    ),
    LessonPattern(
        mistakes.match_answer(r"That container is empty|There is only one thing"),
        "Mixed a container that held fewer than two things.",
        "Put all that is to be mixed into the container first.",
    ),
    LessonPattern(
        mistakes.match_answer(r"Mixing the contents .+ does not appear to produce"),
        "Mixed things that make nothing new together.",
        "Leave nothing else in the container, and look for a recipe that says what goes together.",
    ),
    LessonPattern(
        mistakes.match_answer(r"I'm not sure how to pour a solid"),
        "Tried to pour a solid.",
        "Move it, or pour the container that holds it.",
    ),
)
"""Mistakes of the newest step; the first match applies."""

FACTS: tuple[LessonPattern[progress.Episode], ...] = (
    LessonPattern(mistakes.find_devices, "Devices in the {room}: {devices}.", category="abstract"),
    *(
        LessonPattern(find, text, category="progress")
        for text, find in {
            "Done: focused on {names}.": progress.list_event_names("focus"),
            "Not done yet: focus on {names}.": progress.list_unfocused_targets,
            "Left for the end: focus on one of {names}, whichever the task says for what was found out.": (
                progress.list_verdict_targets
            ),
            "Where things that the task names were seen last: {names}.": progress.list_seen_things,
            "Of what the task names, in the inventory: {names}.": progress.list_carried_things,
            "Moved: {names}.": progress.list_moved_things,
            "Measured: {names}.": progress.list_measurements,
            "Read: {names}": progress.list_read_texts,
            "Mixed: {names}.": progress.list_event_names("product"),
            "Switched on: {names}.": progress.list_by_room(lambda view: view.running),
            "Broken here: {names}.": progress.list_broken_devices,
            "Opened but not looked into: {names}.": progress.list_unsearched_containers,
            "Still closed: {names}.": progress.list_by_room(lambda view: view.closed),
            "Rooms seen: {names}.": progress.list_seen_rooms,
            "Rooms not seen yet: {names}.": progress.list_unseen_rooms,
        }.items()
    ),
)
"""What holds in every episode, and how far this one has come."""


def draw_lessons(task: str, states: Sequence[State], steps: Sequence[Step]) -> list[Lesson]:
    """Return the lasting lessons of the newest step and the progress of the episode; ``states[i + 1]`` follows
    ``steps[i]``."""
    return benchmark.draw_lessons(progress.Episode(task, states, steps), MISTAKES, _list_rest)


def _list_rest(episode: progress.Episode) -> Iterator[Lesson]:
    yield from (lesson for row in FACTS if (lesson := row.make_lesson(episode)))
