"""The symbolic rule writer in the simulator: what whole episodes teach."""

from dataclasses import replace

from rsso_dspy.environments.scienceworld import ScienceWorld, episode, tasks
from rsso_dspy.environments.scienceworld.lessons import draw_lessons
from rsso_dspy.records import Step
from tests.environments.lesson_lines import lines


def play(env, key, *script):
    """An episode, and the lasting lessons of each step: index of the step and line."""
    states, steps, lasting = [env.reset(tasks.parse(key))], [], []
    for number, action in enumerate(script):
        move = env.step(action)
        states.append(move.state)
        steps.append(Step(action, move.action, move.state, move.reward, move.score, move.understood))
        lasting += [(number, line) for line in lines(env.task, states, steps, "abstract", "error")]
    return states, steps, lasting


def test_an_episode_of_boiling_teaches_what_it_should(env: ScienceWorld):
    script = (
        "go kitchen",
        "connect stove to sink",
        "open door",
        "the second",
        "open door",
        "1",
        "pick up thermometer",
        "use thermometer on sink",
        "activate stove",
        "go kitchen",
        "focus on table",
    )
    states, steps, lasting = play(env, "boil::3", *script)
    assert lasting == [
        (0, "Devices in the kitchen: oven, sink, stove."),
        (
            1,
            "Mistake: Asked for 'connect X to Y', which this world does not know. Instead: Use the verbs of the action "
            "templates only, and reach the same end with those.",
        ),
        (
            2,
            "Mistake: Named an object in a way that fitted several. Instead: Answer with the number of the one that is "
            "meant. Next time use its full name as listed.",
        ),
        (
            3,
            "Mistake: Answered an ambiguous request with something other than one of its numbers, so that neither "
            "action was done. Instead: Answer with one of the numbers that were listed, and nothing else; then go on.",
        ),
        (
            4,
            "Mistake: Named an object in a way that fitted several. Instead: Answer with the number of the one that is "
            "meant. Next time use its full name as listed.",
        ),
        (
            5,
            "Mistake: Asked for a state that was there already. Instead: See in the surroundings whether a thing is "
            "open, closed, on or off before changing it.",
        ),
        (
            8,
            "Mistake: Tried to switch on a device that is broken. Instead: Do not try it again: find another device "
            "that serves the same purpose, also in other rooms.",
        ),
        (
            9,
            "Mistake: Tried to go to what no door of this room leads to. Instead: Use teleport, and the name of a "
            "room. What is in this room is within reach already.",
        ),
        (
            10,
            "Mistake: Focused on an object other than those the task asks to focus on. Instead: Focus only on what the "
            "task names, by that name, and find it first. Nothing else is worth a focus.",
        ),
    ]
    before_focus = states[:-1], steps[:-1]
    assert lines(env.task, *before_focus, "progress") == [
        "Not done yet: focus on the substance.",
        "Measured: sink 10 degrees celsius.",
        "Broken here: stove (kitchen).",
        "Still closed: cupboard (kitchen), freezer (kitchen), fridge (kitchen), oven (kitchen).",
        "Rooms seen: outside, kitchen.",
        "Rooms not seen yet: foundry, greenhouse, bathroom, hallway.",
    ]


def test_an_episode_that_goes_well_teaches_no_mistake(env: ScienceWorld):
    script = (
        "teleport kitchen",
        "pick up thermometer",
        "focus on thermometer",
        "teleport living room",
        "pick up unknown substance b",
        "use thermometer on unknown substance b",
        "teleport bathroom",
    )
    states, steps, lasting = play(env, "use-thermometer::0", *script)
    assert lasting == [
        (0, "Devices in the kitchen: oven, sink, stove."),
        (6, "Devices in the bathroom: bathtub, sink."),
    ]
    assert lines(env.task, states, steps, "progress") == [
        "Done: focused on thermometer.",
        "Not done yet: focus on unknown substance b.",
        "Where things that the task names were seen last: green box (bathroom), red box (bathroom).",
        "Of what the task names, in the inventory: thermometer, unknown substance B.",
        "Measured: unknown substance b 50 degrees celsius.",
        "Still closed: cupboard (kitchen), freezer (kitchen), fridge (kitchen), oven (kitchen).",
        "Rooms seen: hallway, kitchen, living room, bathroom.",
        "Rooms not seen yet: art studio, bedroom, greenhouse, workshop, outside.",
    ]


def test_lessons_are_the_same_again_and_whatever_the_rewards(env: ScienceWorld):
    script = (
        "go kitchen",
        "open cupboard",
        "fly",
        "open drawer",
        "1",
        "look in drawer",
        "0",
        "activate stove",
        "eat sink",
    )
    states, steps, _ = play(env, "boil::3", *script)
    for until in range(1, len(steps) + 1):
        told = draw_lessons(env.task, states[: until + 1], steps[:until])
        others = [replace(step, reward=7 * n - 20, score=90 - n) for n, step in enumerate(steps[:until])]
        assert (
            draw_lessons(env.task, states[: until + 1], others)
            == told
            == draw_lessons(env.task, states[: until + 1], steps[:until])
        )
        assert [*env.lessons(states[: until + 1], steps[:until])] == told


def test_no_lasting_lesson_names_things_of_one_variant(env: ScienceWorld):
    script = (
        "open purple box 7",
        "pick zebra",
        "connect zebra to lamp",
        "go zebra",
        "focus on orange",
        "pick up zebra",
    )
    _, _, lasting = play(env, "boil::3", *script)
    assert len(lasting) == len(script)
    assert not any(word in line for _, line in lasting for word in ("purple", "zebra", "lamp", "orange"))


def test_the_devices_of_a_room_are_the_same_in_every_task(env: ScienceWorld):
    """Why they may be a lasting lesson."""
    found = set()
    for task in tasks.tasks()[::4]:
        rooms = [f"teleport {room}" for room in sorted(episode.ROOMS)]
        key = tasks.variant(task, tasks.indices(task, "train")[-1]).key
        found.add(tuple(line for _, line in play(env, key, *rooms)[2]))
    assert len(found) == 1
