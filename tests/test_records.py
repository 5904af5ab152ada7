from rsso_dspy.records import State, Variant
from tests.records import trajectory

HALL = "This room is called the hall. In it, you see:\n\ta lamp"
POCKET = "In your inventory, you see:\n\tan orange"


def test_a_description_holds_what_was_said_what_is_seen_and_what_is_carried():
    text = State("The lamp is on.", HALL, POCKET).description
    assert text == f"The lamp is on.\n{HALL}\n{POCKET}"


def test_a_description_says_nothing_twice():
    assert State("This room is called the hall.", HALL, POCKET).description == f"{HALL}\n{POCKET}"
    assert State(POCKET, HALL, POCKET).description.count("an orange") == 1
    assert State("Inside the box you see: a key.", HALL, POCKET).description.count("a lamp") == 0


def test_a_trajectory_counts_what_the_paper_counts():
    played = trajectory(Variant("boil", 22), 1, [12, 10, 40, -100], at_reset=5)
    assert (played.accumulator, played.environment_score, played.points_at_reset) == (7 + 30, -100, 5)
    assert not played.solved
    assert len(played.states) == len(played.steps) + 1
