"""Every memory of entries on constructed trajectories: what it keeps, what it shows to whom, and its bounds."""

from dataclasses import replace

import pytest

from rsso_dspy.memory import NOTHING
from rsso_dspy.memory.ace import Playbook, PlaybookReview
from rsso_dspy.memory.awm import AgentWorkflowMemory, WorkflowText
from rsso_dspy.memory.cheatsheet import Cheatsheet
from rsso_dspy.memory.entries import EntrySettings, shorten_text
from rsso_dspy.memory.expel import Expel, InsightChange
from rsso_dspy.memory.exprag import ExpRag
from rsso_dspy.memory.past_attempts import PastAttempts
from rsso_dspy.memory.reasoningbank import ReasoningBank, StrategyText
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.memory.memory_cases import words_embed

A, B, C = (Variant("boil", index) for index in (1, 2, 3))
TASKS = {A.key: "boil the water", B.key: "boil the lead", C.key: "plant a seed"}
START = State("A room.", "", "")


def play(variant, trial, points=0, actions=("open door", "take cup"), failed=()):
    """A trial whose last action earns the points; the actions at these places are not understood."""
    steps = [
        Step(
            action, action, State(f"I cannot do {action}." if at in failed else f"Done: {action}.", "", ""),
            points if at == len(actions) - 1 else 0, points if at == len(actions) - 1 else 0, at not in failed,
        )
        for at, action in enumerate(actions)
    ]  # fmt: skip
    outcome = "solved" if points >= 100 else "budget"
    return Trajectory(variant, trial, TASKS[variant.key], START, 0, tuple(steps), outcome)


def tell(trajectory):
    actions = "\n".join(step.action for step in trajectory.steps)
    return f"{trajectory.variant.key} trial {trajectory.trial}\n{actions}"


def name(trajectory):
    return f"of {trajectory.variant.key} trial {trajectory.trial}"


def insist(task, known, failed, solved):  # noqa: ARG001
    return [InsightChange("add", 0, f"insight {len(known) + 1}"), InsightChange("agree", 1), InsightChange("edit", 99)]


def review(trajectory, playbook):
    return PlaybookReview({"B1": "helpful"} if "[B1" in playbook else {}, (f"Bullet {name(trajectory)}.",))


MAKE = {
    "last-trajectory": lambda s, shared: PastAttempts(tell, s, shared, last=True),
    "long-context": lambda s, shared: PastAttempts(tell, s, shared),
    "exprag": lambda s, shared: ExpRag(tell, words_embed, s, shared),
    "expel": lambda s, shared: Expel(insist, tell, s, shared),
    "awm": lambda s, shared: AgentWorkflowMemory(lambda t, _: [WorkflowText(name(t), ("go", "take"))], s, shared),
    "reasoningbank": lambda s, shared: ReasoningBank(
        lambda t: [StrategyText("Title", "What", f"Strategy {name(t)}.")], words_embed, s, shared
    ),
    "ace": lambda s, shared: Playbook(review, words_embed, s, shared),
    "cheatsheet": lambda s, shared: Cheatsheet(lambda t, sheet: f"{sheet}\nLine {name(t)}.".strip(), s, shared),
}
SEEN = [State("I cannot do push cup.", "", "")]


def make(row, shared=True, **settings):
    return MAKE[row](EntrySettings(**settings), shared)


def teach(memory, *trials):
    counts = {}
    for trajectory in trials:
        memory.begin_trial(trajectory.variant, trajectory.task)
        counts = memory.learn(trajectory)
    return counts


def read(memory, variant):
    memory.begin_trial(variant, TASKS[variant.key])
    return memory.recall(SEEN)


TRIALS = (
    play(A, 1, 0, ("push cup", "take cup"), failed=(0,)),
    play(A, 2, 100),
    play(B, 1, 100, ("push cup", "lift cup"), failed=(0,)),
)
SHOWN_TO_C = {
    "last-trajectory": "Attempt 1:\nboil::1 trial 1\npush cup\ntake cup",
    "long-context": "Attempt 1:\nboil::1 trial 1\npush cup\ntake cup\n"
    "Attempt 2:\nboil::1 trial 2\nopen door\ntake cup\nAttempt 1:\nboil::2 trial 1\npush cup\nlift cup",
    "exprag": "Task: boil the water\nboil::1 trial 1\npush cup\ntake cup\n",
    "expel": "- insight 1",
    "awm": "Subgoal 1: of boil::1 trial 2\n  1. go\n  2. take\nSubgoal 2: of boil::2 trial 1\n  1. go\n  2. take",
    "reasoningbank": "- Title: What\n  Strategy of boil::1 trial 1.",
    "ace": "- [B2] Bullet of boil::1 trial 2.\n- [B1: helpful 1] Bullet of boil::1 trial 1.",
    "cheatsheet": "Line of boil::1 trial 1.\nLine of boil::1 trial 2.\nLine of boil::2 trial 1.",
}


@pytest.mark.parametrize("row", MAKE)
def test_a_row_shows_what_its_trials_taught(row):
    memory = make(row)
    assert read(memory, C) == NOTHING
    counts = teach(memory, *TRIALS)
    shown = read(memory, C)
    assert shown.text.startswith(SHOWN_TO_C[row])
    assert counts["held"] == len(memory.entries) > 0
    assert set(shown.ids) <= {entry.id for entry in memory.entries}
    assert bool(shown.targets) == (row == "awm")


@pytest.mark.parametrize("row", MAKE)
def test_no_variant_of_a_stream_reads_what_was_learned_on_it(row):
    memory = make(row)
    teach(memory, *TRIALS, play(A, 3, 0, ("push cup", "carry cup"), failed=(0,)))
    for variant in (A, B, C):
        shown = read(memory, variant)
        own = {entry.id for entry in memory.entries if entry.is_learned_on(variant.key)}
        assert not own & set(shown.ids)
        assert f"{variant.key} trial" not in shown.text
    assert any(entry.is_learned_on(A.key) for entry in memory.entries)
    alone = make(row, shared=False)
    teach(alone, *TRIALS)
    assert read(alone, A).text


@pytest.mark.parametrize("row", MAKE)
def test_a_restored_row_goes_on_like_the_original(row):
    memory, other = make(row), make(row)
    teach(memory, *TRIALS[:2])
    other.restore(memory.snapshot())
    assert teach(memory, TRIALS[2]) == teach(other, TRIALS[2])
    assert memory.snapshot() == other.snapshot()
    assert read(memory, C) == read(other, C)


@pytest.mark.parametrize("row", MAKE)
def test_a_row_that_outgrows_the_prompt_is_bounded_and_says_so(row):
    memory = make(row, max_chars=90, max_entries=2)
    trials = [play(Variant("boil", n % 2 + 1), n, 100 * (n % 2)) for n in range(1, 9)]
    counts = teach(memory, *(replace(each, task="boil " * 30) if row == "exprag" else each for each in trials))
    assert len(memory.entries) <= 2
    shown = read(memory, C)
    said = shown.text.replace("(1 more are left out.)", "").replace("boil " * 30, "")
    assert len(said) <= 90 + len("(the first 9 lines are left out)\nSubgoal 1: \nTask: \n")
    assert {"dropped", "left_out"} <= counts.keys()
    if row in ("long-context", "ace", "reasoningbank"):
        assert counts["dropped"] > 0


@pytest.mark.parametrize("row", ["expel", "awm", "reasoningbank", "ace", "cheatsheet"])
def test_a_malformed_answer_is_counted_and_teaches_nothing(row):
    writers = {"expel": "_revise", "awm": "_induce", "reasoningbank": "_extract", "ace": "_review"}
    memory = make(row)
    setattr(memory, writers.get(row, "_rewrite"), lambda *_: None)
    counts = teach(memory, play(A, 1, 10), play(A, 2, 100))
    assert (counts["malformed"], counts["held"]) == (1, 0)


def test_votes_keep_an_insight_and_drop_it():
    said = []
    memory = Expel(lambda *_: said.pop(0), tell)
    said += [[InsightChange("add", 0, "one"), InsightChange("add", 0, "two")]]
    teach(memory, play(A, 1, 0), play(A, 2, 10))
    assert [(e.text, e.data["votes"], e.learned) for e in memory.entries] == [
        ("one", 2, ((A.key, 2), (A.key, 1))), ("two", 2, ((A.key, 2), (A.key, 1))),
    ]  # fmt: skip
    said += [[InsightChange("edit", 1, "one more"), InsightChange("remove", 2)], [InsightChange("remove", 2)]]
    teach(memory, play(B, 1, 20), play(B, 2, 30))
    assert [(entry.text, entry.data["votes"]) for entry in memory.entries] == [("one more", 3)]
    assert read(memory, A).text == ""


def test_a_long_attempt_keeps_its_end():
    text = "\n".join(f"line {n}" for n in range(100))
    assert shorten_text(text, 60) == "(the first 97 lines are left out)\nline 97\nline 98\nline 99"
    assert shorten_text("short", 60) == "short"
