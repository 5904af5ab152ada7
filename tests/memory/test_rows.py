"""Every contender on constructed trajectories: what it keeps, what it shows to whom, and its bounds."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.contenders import EntrySettings, shorten_text
from rsso_dspy.programs.methods import MEMORIES, load_memory
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.memory.memory_cases import lend

A, B, C = (Variant("boil", index) for index in (1, 2, 3))
TASKS = {A.key: "boil the water", B.key: "boil the lead", C.key: "plant a seed"}
ROWS = [name for name in MEMORIES if name not in ("reflections", "skills", "constitution")]
WRITERS = [name for name in ROWS if load_memory(name).asks]


def play(variant, trial, points=0, actions=("open door", "take cup")):
    """A trial whose last action earns the points."""
    state, (*before, last) = State("Done.", "", ""), actions
    steps = [*(Step(each, each, state, 0, 0, True) for each in before), Step(last, last, state, points, points, True)]
    outcome = "solved" if points >= 100 else "budget"
    return Trajectory(variant, trial, TASKS[variant.key], State("A room.", "", ""), 0, tuple(steps), outcome)


def answer(module, *, attempt="", cheatsheet="", playbook="", known_insights=(), **_):
    """What a model says in place of a module."""
    edits = [("ADD", 0, f"insight {len(known_insights) + 1}"), ("agree", 1, ""), ("edit", 99, "")]
    workflow = SimpleNamespace(description=f"of {attempt}", steps=["go", "", "take"])
    strategy = SimpleNamespace(title="Title", description="What", content=f"Strategy of {attempt}.")
    tags = [SimpleNamespace(id="B1", tag="helpful")] if "[B1" in playbook else []
    return {
        "insight_writer": edit(*edits),
        "workflow_writer": SimpleNamespace(workflows=[workflow]),
        "strategy_writer": SimpleNamespace(strategies=[strategy]),
        "playbook_reviewer": SimpleNamespace(bullet_tags=tags, new_bullets=[f"Bullet of {attempt}.", "none"]),
        "cheatsheet_writer": SimpleNamespace(new_cheatsheet=f"{cheatsheet}\nLine of {attempt}."),
    }[module]


def edit(*rows):
    keys = ("operation", "number", "text")
    return SimpleNamespace(insight_edits=[SimpleNamespace(**dict(zip(keys, row, strict=True))) for row in rows])


def make(row, ask=answer, shared=True, **settings):
    memory = load_memory(row)
    return memory(lend(ask, [memory.region] * shared, entries=EntrySettings(**settings)))


def teach(memory, *trials):
    counts = {}
    for trajectory in trials:
        memory.begin_trial(trajectory.variant, trajectory.task)
        counts = memory.learn(trajectory)
    return counts


def read(memory, variant):
    memory.begin_trial(variant, TASKS[variant.key])
    return memory.recall([], [])


TRIALS = (play(A, 1, 0, ("push cup", "take cup")), play(A, 2, 100), play(B, 1, 100, ("push cup", "lift cup")))
SHOWN_TO_C = {
    "last-trajectory": "Attempt 1 at another task: boil the water\nboil::1 trial 1\npush cup\ntake cup",
    "long-context": "Attempt 1 at another task: boil the water\nboil::1 trial 1\npush cup\ntake cup\n"
    "Attempt 2 at another task: boil the water\nboil::1 trial 2\nopen door\ntake cup\n"
    "Attempt 1 at another task: boil the lead\nboil::2 trial 1\npush cup\nlift cup",
    "exprag": "Task: boil the water\nboil::1 trial 1\npush cup\ntake cup\n",
    "expel": "- insight 1",
    "awm": "Subgoal 1: of boil::1 trial 2\n  1. go\n  2. take\nSubgoal 2: of boil::2 trial 1\n  1. go\n  2. take",
    "reasoningbank": "- Title: What\n  Strategy of boil::1 trial 1.",
    "ace": "- [B2] Bullet of boil::1 trial 2.\n- [B1: helpful 1] Bullet of boil::1 trial 1.",
    "cheatsheet": "Line of boil::1 trial 1.\nLine of boil::1 trial 2.\nLine of boil::2 trial 1.",
}


@pytest.mark.parametrize("row", ROWS)
def test_a_row_shows_what_its_trials_taught_and_goes_on_where_a_snapshot_left_it(row):
    memory, other = make(row), make(row)
    assert read(memory, C) == NOTHING
    teach(memory, *TRIALS[:2])
    other.restore(memory.snapshot())
    counts = teach(memory, TRIALS[2])
    assert counts == teach(other, TRIALS[2])
    assert memory.snapshot() == other.snapshot()
    shown = read(memory, C)
    assert shown == read(other, C)
    assert shown.text.startswith(SHOWN_TO_C[row])
    assert counts["held"] == len(memory.held) == len(memory.entries(memory.snapshot())) > 0
    assert set(shown.ids) <= {entry.id for entry in memory.held}
    assert bool(shown.targets) == (row == "awm")


@pytest.mark.parametrize("row", ROWS)
def test_no_variant_of_a_stream_reads_what_was_learned_on_it(row):
    memory = make(row)
    teach(memory, *TRIALS, play(A, 3, 0, ("push cup", "carry cup")))
    for variant in (A, B, C):
        shown = read(memory, variant)
        assert not {entry.id for entry in memory.held if entry.is_learned_on(variant.key)} & set(shown.ids)
        assert f"{variant.key} trial" not in shown.text
    assert any(entry.is_learned_on(A.key) for entry in memory.held)
    alone = make(row, shared=False)
    teach(alone, *TRIALS)
    assert read(alone, A).text


@pytest.mark.parametrize("row", ROWS)
def test_a_row_that_outgrows_the_prompt_is_bounded_and_says_so(row):
    memory = make(row, max_chars=90, max_entries=2)
    trials = [play(Variant("boil", n % 2 + 1), n, 100 * (n % 2)) for n in range(1, 9)]
    counts = teach(memory, *(replace(each, task="boil " * 30) if row == "exprag" else each for each in trials))
    assert len(memory.held) <= 2
    said = read(memory, C).text.replace("(1 more are left out.)", "").replace("boil " * 30, "")
    assert len(said) <= 90 + len("(the first 9 lines are left out)\nSubgoal 1: \nTask: \n")
    assert {"dropped", "left_out"} <= counts.keys()
    assert counts["dropped"] > 0 or row not in ("long-context", "ace", "reasoningbank")
    text = "\n".join(f"line {n}" for n in range(100))
    assert shorten_text(text, 60) == "(the first 97 lines are left out)\nline 97\nline 98\nline 99"


@pytest.mark.parametrize("row", WRITERS)
def test_a_malformed_answer_is_counted_and_teaches_nothing(row):
    counts = teach(make(row, lambda *_, **__: None), play(A, 1, 10), play(A, 2, 100))
    assert (counts["calls"], counts["malformed"], counts["held"]) == (1, 1, 0)


def test_votes_keep_an_insight_and_drop_it():
    said = [
        edit(("add", 0, "one"), ("ADD", 0, "two"), ("add", 0, "none")),
        edit(("edit", 1, "one more"), ("remove", 2, "")),
        edit(("remove", 2, "")),
    ]
    memory = make("expel", lambda *_, **__: said.pop(0))
    teach(memory, play(A, 1, 0), play(A, 2, 10))
    both = ((A.key, 2), (A.key, 1))
    assert [(e.text, e.data["votes"], e.learned) for e in memory.held] == [("one", 2, both), ("two", 2, both)]
    teach(memory, play(B, 1, 20), play(B, 2, 30))
    assert [(entry.text, entry.data["votes"]) for entry in memory.held] == [("one more", 3)]
    assert read(memory, A).text == ""
