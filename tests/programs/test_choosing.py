import re
from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import ConfigError, EnvironmentFailure
from rsso_dspy.programs.render import list_actions
from rsso_dspy.protocol import check_action_choice, resolve_protocol
from tests.toy_benchmark import BENCHMARK, Counting


class Listing(Counting):
    """The toy environment, saying what can be done."""

    actions = ("add 1", "add 2", "add 1")

    def admissible_actions(self):
        return self.actions


def test_a_short_list_is_shown_after_the_history_and_free_changes_nothing():
    assert list_actions(Listing(), "free", "You begin.") == "You begin."
    listed = "You begin.\n\nActions that can be taken now:\n- add 1\n- add 2"
    assert list_actions(Listing(), "listed", "You begin.") == listed


@pytest.mark.parametrize(
    ("actions", "said"),
    [
        ((), "0 actions"),
        (tuple(map(str, range(101))), "101 actions"),
        (None, "does not list the possible actions"),
    ],
)
def test_a_list_that_is_none_or_too_long_is_an_error_of_the_trial(actions, said):
    environment = Counting() if actions is None else Listing()
    if actions is not None:
        environment.actions = actions
    with pytest.raises(EnvironmentFailure, match=said):
        list_actions(environment, "listed", "")


@pytest.mark.parametrize(
    ("choice", "lists", "said"),
    [(None, False, ""), ("free", False, ""), ("listed", True, ""), ("listed", False, "does not list them")],
)
def test_a_choice_that_cannot_be_is_refused_before_anything_is_played(monkeypatch, choice, lists, said):
    config = load_config(overrides=[f"protocol.action_choice={choice}"] if choice else [])
    assert ("action_choice=listed" in resolve_protocol(config).id) is (choice == "listed")
    monkeypatch.setattr(type(config), "active_benchmark", property(lambda _: replace(BENCHMARK, lists_actions=lists)))
    if not said:
        check_action_choice(config)
        return
    with pytest.raises(ConfigError, match=re.escape(said)):
        check_action_choice(config)
