"""Where skills came from and what became of them, on trials small enough to count by hand."""

from rsso_dspy.memory.skills import Window
from rsso_dspy.memory.skills.library import summarize_skill_usage, verbalize_by_actions
from rsso_dspy.memory.skills.memory import parse_skill_snapshot
from tests.memory.memory_cases import Writer, plain, skill_memory, trajectory, walk

PLATEAU = "s a b c+10 d e f g+10 h i"
"""Played twice the same way, it holds two skills: one ends at c, one at g."""


def accounts(memory, *trials):
    held, _ = parse_skill_snapshot(memory.snapshot(), "here")
    return summarize_skill_usage(held, trials)


def taught():
    memory = skill_memory(writer=Writer())
    trials = [walk(PLATEAU, 1), walk(PLATEAU, 2)]
    for trial in trials:
        memory.learn(trial)
    return memory, trials


def test_examples_are_told_by_the_steps_of_their_trial():
    memory, trials = taught()
    found = accounts(memory, *trials)
    for example in (each for skill in found for each in skill["examples"]):
        steps = trials[example["trial"] - 1].steps[example["first"] - 1 : example["last"]]
        assert [*zip(example["actions"], example["points"], strict=True)] == [(s.action, s.reward) for s in steps]
        assert example["points"][-1] == 10
    assert [[example["trial"] for example in skill["examples"]] for skill in found] == [[1, 2], [1, 2]]
    assert {skill["examples"][0]["last"] for skill in found} == {3, 7}


def test_use_counts_prompts_and_pursuits_and_the_points_from_the_first_pursuit_on():
    memory, trials = taught()
    first, second = memory.library
    both = (first.id, second.id)
    use = {
        0: (None, both),
        1: (first.target.upper() + "!", both),
        2: ("somewhere else", both),
        3: (first.target, (first.id,)),
        4: (second.target, (first.id,)),
    }
    names, actions = [f"room {n}" for n in range(6)], [f"act {n}" for n in range(5)]
    last = trajectory(names, actions, [7, 5, -20, 3, 0], 3, use)
    known = {found["id"]: found for found in accounts(memory, *trials, last)}
    pursuit = {"trial": 3, "first": 2, "steps": 2, "gained": 8, "outcome": "failed"}
    for skill, counts, pursuits in ((first, (5, 2), [pursuit]), (second, (3, 0), [])):
        found = known[skill.id]
        assert (found["retrieved"], found["targeted"]) == counts, "a target not in the prompt is no pursuit"
        assert found["pursuits"] == pursuits
    memory.learn(last)
    assert (memory.library[0].retrieved, memory.library[0].targeted) == (5, 2), "the memory counts the same"


def test_the_library_comes_first_and_what_left_it_is_marked():
    memory, _ = taught()
    snapshot = memory.snapshot()
    snapshot["library"] = snapshot["library"][1:]
    found = summarize_skill_usage(parse_skill_snapshot(snapshot, "here")[0], [])
    assert [(skill["id"], skill["in_use"]) for skill in found] == [
        (memory.library[1].id, True),
        (memory.library[0].id, False),
    ]


def test_plain_words_say_what_the_examples_did_and_nothing_else():
    def example(piece, *rooms):
        states = tuple(plain(f"room {name}") for name in rooms)
        return Window(piece, 0, len(rooms), states, tuple(f"act {name}" for name in rooms[1:]), (0,) * len(rooms))

    examples = (example(0, "a", "b", "c"), example(1, "a", "x", "c"))
    words = verbalize_by_actions(examples)
    assert words.target == "room c"
    assert words.instructions == ("act b or act x", "act c")
    assert words.summary == "from 'room a' to 'room c'"
    assert words == verbalize_by_actions(examples)
    silent = verbalize_by_actions((Window(0, 0, 2, (plain(""), plain("")), ("",), (0, 5)),) * 2)
    assert silent.instructions == ("(nothing)",)
    assert silent.target.strip(), "a skill without a target would count as malformed"
