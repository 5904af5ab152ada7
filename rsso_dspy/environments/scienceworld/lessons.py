"""Lessons of an episode without a model: patterns over actions and observations.

`PATTERNS` is the whole table (after OmniReflect, section 2.1.2, whose patterns are for other environments).
`mistake_conditions.py` has the conditions of lasting lessons, `progress_conditions.py` those of progress. They read
task, actions and observations, but no rewards or scores.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rsso_dspy.environments.scienceworld import mistake_conditions, progress_conditions
from rsso_dspy.records import Category, Lesson, State, Step

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


@dataclass(frozen=True, slots=True)
class LessonPattern:
    """One row of the table. If the condition holds, its result fills the texts."""

    name: str
    category: Category
    condition: Callable[[progress_conditions.Episode], Mapping[str, str] | None]
    text: str
    solution: str = ""

    def make_lesson(self, episode: progress_conditions.Episode) -> Lesson | None:
        found = self.condition(episode)
        return (
            None if found is None else Lesson(self.category, self.text.format(**found), self.solution.format(**found))
        )


PATTERNS: tuple[LessonPattern, ...] = (
    # Mistakes of the newest step; the first match applies.
    LessonPattern(
        "no action",
        "error",
        mistake_conditions.find_missing_action,
        "Gave an answer that held no action.",
        "End every answer with exactly one action in the form of a template.",
    ),
    LessonPattern(
        "repeated",
        "error",
        mistake_conditions.find_repetition,
        "Repeated an action although it had changed nothing.",
        "Read the answer to the first try, and do something else: another object, another place, or wait if time "
        "is what is missing.",
    ),
    LessonPattern(
        "wandering",
        "error",
        mistake_conditions.find_wandering,
        "Went back and forth between the same rooms without doing anything there.",
        "Before moving on, open and look into what is closed here; then go to a room not seen yet.",
    ),
    LessonPattern(
        "number unasked",
        "error",
        mistake_conditions.find_unasked_number,
        "Sent a number although no choice had been offered.",
        "Send a number only as the answer to an ambiguous request, directly after it.",
    ),
    LessonPattern(
        "sentence",
        "error",
        mistake_conditions.find_sentence,
        "Wrote a sentence in place of an action.",
        "Write the action alone, beginning with the verb of a template.",
    ),
    LessonPattern(
        "no such place",
        "error",
        mistake_conditions.find_unknown_place,
        "Tried to go to what no door of this room leads to.",
        "Use teleport, and the name of a room. What is in this room is within reach already.",
    ),
    LessonPattern(
        "no such object",
        "error",
        mistake_conditions.find_unknown_object,
        "Asked for '{form}' with a name that fits nothing in sight.",
        "Use the names that the surroundings or the inventory list now. If the thing is not among them, open what "
        "is closed or search other rooms first.",
    ),
    LessonPattern(
        "wrong form",
        "error",
        mistake_conditions.find_wrong_form,
        "Asked for '{form}', which is not the form of that action.",
        "Write '{template}'.",
    ),
    LessonPattern(
        "unknown action",
        "error",
        mistake_conditions.find_unknown_action,
        "Asked for '{form}', which this world does not know.",
        "Use the verbs of the action templates only, and reach the same end with those.",
    ),
    LessonPattern(
        "choice not made",
        "error",
        mistake_conditions.find_missing_choice,
        "Answered an ambiguous request with something other than one of its numbers, so that neither action was done.",
        "Answer with one of the numbers that were listed, and nothing else; then go on.",
    ),
    LessonPattern(
        "ambiguous request",
        "error",
        mistake_conditions.find_ambiguity,
        "Named an object in a way that fitted several.",
        "Answer with the number of the one that is meant. Next time use its full name as listed.",
    ),
    LessonPattern(
        "wrong focus",
        "error",
        mistake_conditions.find_wrong_focus,
        "Focused on an object other than those the task asks to focus on.",
        "Focus only on what the task names, by that name, and find it first. Nothing else is worth a focus.",
    ),
    LessonPattern(
        "door closed",
        "error",
        mistake_conditions.match_answer(r"The door is not open"),
        "Tried to pass a door that was closed.",
        "Open the door first, or teleport.",
    ),
    LessonPattern(
        "container closed",
        "error",
        mistake_conditions.match_answer(
            r"The .+ isn't open, so you|That can't be moved there, because|.+ because it's not open"
        ),
        "Used a container that was closed.",
        "Open the container first, then look in it, fill it or pour from it.",
    ),
    LessonPattern(
        "fixed",
        "error",
        mistake_conditions.match_answer(r"The .+ is not mov(?:e)?able"),
        "Tried to move something that is fixed.",
        "Bring other things to it in place of moving it.",
    ),
    LessonPattern(
        "broken",
        "error",
        mistake_conditions.match_answer(r"The .+ appears broken"),
        "Tried to switch on a device that is broken.",
        "Do not try it again: find another device that serves the same purpose, also in other rooms.",
    ),
    LessonPattern(
        "no such use",
        "error",
        mistake_conditions.match_answer(
            r"The .+ is not (?P<use>openable|closeable|edible|something that can be activated)"
        ),
        "Treated a thing as if it were {use}, which it is not.",
        "Open, close or activate only containers, doors and devices.",
    ),
    LessonPattern(
        "nothing to read",
        "error",
        mistake_conditions.match_answer(r"It's not clear how to read"),
        "Tried to read something that holds no text.",
        "Read only recipes, books, notes and the like.",
    ),
    LessonPattern(
        "already so",
        "error",
        mistake_conditions.match_answer(r"The .+ is already \w+"),
        "Asked for a state that was there already.",
        "See in the surroundings whether a thing is open, closed, on or off before changing it.",
    ),
    LessonPattern(
        "not measurable",
        "error",
        mistake_conditions.match_answer(r"That thing doesn't appear to have a temperature"),
        "Measured something that has no temperature of its own.",
        "Measure the substance or the thing that matters, not the device it stands on.",
    ),
    LessonPattern(
        "nothing to mix",
        "error",
        mistake_conditions.match_answer(r"That container is empty|There is only one thing"),
        "Mixed a container that held fewer than two things.",
        "Put all that is to be mixed into the container first.",
    ),
    LessonPattern(
        "no product",
        "error",
        mistake_conditions.match_answer(r"Mixing the contents .+ does not appear to produce"),
        "Mixed things that make nothing new together.",
        "Leave nothing else in the container, and look for a recipe that says what goes together.",
    ),
    LessonPattern(
        "pouring a solid",
        "error",
        mistake_conditions.match_answer(r"I'm not sure how to pour a solid"),
        "Tried to pour a solid.",
        "Move it, or pour the container that holds it.",
    ),
    # Facts from the newest step that hold in every episode.
    LessonPattern("devices", "abstract", mistake_conditions.find_devices, "Devices in the {room}: {devices}."),
    # How far the episode has come.
    LessonPattern("focused", "progress", progress_conditions.list_focused, "Done: focused on {names}."),
    LessonPattern(
        "to focus", "progress", progress_conditions.list_unfocused_targets, "Not done yet: focus on {names}."
    ),
    LessonPattern(
        "verdict",
        "progress",
        progress_conditions.list_verdict_targets,
        "Left for the end: focus on one of {names}, whichever the task says for what was found out.",
    ),
    LessonPattern(
        "seen",
        "progress",
        progress_conditions.list_seen_things,
        "Where things that the task names were seen last: {names}.",
    ),
    LessonPattern(
        "carried",
        "progress",
        progress_conditions.list_carried_things,
        "Of what the task names, in the inventory: {names}.",
    ),
    LessonPattern("moved", "progress", progress_conditions.list_moved_things, "Moved: {names}."),
    LessonPattern("measured", "progress", progress_conditions.list_measurements, "Measured: {names}."),
    LessonPattern("read", "progress", progress_conditions.list_read_texts, "Read: {names}"),
    LessonPattern("made", "progress", progress_conditions.list_products, "Mixed: {names}."),
    LessonPattern("running", "progress", progress_conditions.list_running_devices, "Switched on: {names}."),
    LessonPattern("found broken", "progress", progress_conditions.list_broken_devices, "Broken here: {names}."),
    LessonPattern(
        "unsearched", "progress", progress_conditions.list_unsearched_containers, "Opened but not looked into: {names}."
    ),
    LessonPattern("closed", "progress", progress_conditions.list_closed_doors, "Still closed: {names}."),
    LessonPattern("rooms", "progress", progress_conditions.list_seen_rooms, "Rooms seen: {names}."),
    LessonPattern("other rooms", "progress", progress_conditions.list_unseen_rooms, "Rooms not seen yet: {names}."),
)
"""The table, in order."""

_MISTAKES = tuple(row for row in PATTERNS if row.category == "error")
_REST = tuple(row for row in PATTERNS if row.category != "error")


def draw_lessons(task: str, states: Sequence[State], steps: Sequence[Step]) -> list[Lesson]:
    """Return the lasting lessons of the newest step and the progress of the episode.

    ``states[i + 1]`` follows ``steps[i]``. At most one mistake per step, because further rows would have the same
    cause.
    """
    if not steps:
        return []
    episode = progress_conditions.Episode(task, states, steps)
    mistake = next((lesson for row in _MISTAKES if (lesson := row.make_lesson(episode))), None)
    rest = [lesson for row in _REST if (lesson := row.make_lesson(episode))]
    return [mistake, *rest] if mistake else rest
