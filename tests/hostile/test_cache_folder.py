"""Where computed things are kept: what the user says, else what the platform says, the same place in every version."""

import sys
from pathlib import Path

import pytest

from rsso_dspy.files import CACHE_VARIABLE, get_cache_folder


@pytest.mark.skipif(sys.platform != "linux", reason="other platforms have other places")
@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, "{home}/.cache/rsso-dspy"),
        ({"XDG_CACHE_HOME": "{home}/xdg"}, "{home}/xdg/rsso-dspy"),
        ({"XDG_CACHE_HOME": ""}, "{home}/.cache/rsso-dspy"),
        ({"XDG_CACHE_HOME": "relative"}, "{home}/.cache/rsso-dspy"),  # the specification: to be ignored
        ({"XDG_CACHE_HOME": "{home}/xdg", CACHE_VARIABLE: "own"}, "own"),
        ({CACHE_VARIABLE: ""}, "{home}/.cache/rsso-dspy"),
    ],
)
def test_the_cache_is_where_it_is_said_to_be_and_is_not_made(variables, place, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(home=tmp_path))
    assert get_cache_folder() == Path(place.format(home=tmp_path))
    assert not list(tmp_path.iterdir())
