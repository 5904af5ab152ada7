import pytest

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


@pytest.mark.parametrize(
    ("scores", "at_reset", "lost"),
    [
        ([12, 50, -100], 0, True),
        ([-100], 0, True),
        ([30, 20, 25], 0, True),
        ([5], 8, True),
        ([30, 20, 30], 0, False),
        ([-10, 0], 0, False),
        ([8], 8, False),
        ([50, 100], 0, False),
        ([], 8, False),
    ],
)
def test_a_trial_lost_points_if_it_ended_below_its_best(scores, at_reset, lost):
    assert trajectory(Variant("boil", 22), 1, scores, at_reset).lost_points is lost
