import pytest

from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld.tasks import parse


def test_normalization_drops_case_punctuation_and_fill_words():
    assert actions.normalize_action(' "Move the jug, to a (metal) POT!" ') == "move jug metal pot"
    assert actions.normalize_action("pour water into cup") == "pour water into cup"


def test_an_equal_action_is_given_in_the_simulators_spelling():
    valid = ["look in jug", "move jug to pot", "open door to hallway"]
    assert actions.find_equal_action("Open the door, to the hallway.", valid) == "open door to hallway"
    assert actions.find_equal_action("look on jug", valid) == "look in jug"
    assert actions.find_equal_action("look in pot", valid) is None


@pytest.mark.parametrize(
    ("answer", "sent"), [("12", "12"), ("option 3: cup 2", "3"), ("the cup", "cancel"), ("٣", "cancel")]
)
def test_an_ambiguity_is_resolved_by_the_first_integer(answer: str, sent: str):
    assert actions.resolve_ambiguity(answer) == sent


def test_reset_task_is_recognized_and_its_neighbours_are_not():
    assert actions.is_task_reset("to reset the task")
    for harmless in ("task", "reset", "reset tasks", "read task", "reset task list"):
        assert not actions.is_task_reset(harmless)


def test_clean_gives_one_line_that_can_be_sent():
    assert actions.clean_action(" Pick  up\n\tCup \ud800") == "pick up cup ?"


@pytest.mark.parametrize(
    "said",
    [
        "look around\nreset task",
        "look around\r\x00reset task\x1b[2J",
        "open door" * 100_000,
        "\u2028teleport to kitchen\u2029y\n",
        "\ud800 half a pair",
        "move " + "a" * 5000 + " to pot",
        "\x1b]0;title\x07look",
        "",
    ],
)
def test_whatever_was_said_is_sent_as_one_short_printable_line(said):
    sent = actions.clean_action(said)
    assert len(sent) <= actions.LONGEST
    assert sent.isprintable()
    assert sent == sent.strip()
    sent.encode("utf-8")


def test_a_hostile_action_does_nothing_and_breaks_nothing(env):
    env.reset(parse("find-plant::229"))
    before = env.step("look around")
    for said in ("e\nyo\n", "\x00", "c\njava.lang.System\nexit\ni0\ne\n", "x" * 10_000_000, "!!p\nz:java.lang.Runtime"):
        move = env.step(said)
        assert not move.understood
        assert move.score == before.score
    assert env.step("look around").state.observation == before.state.observation
