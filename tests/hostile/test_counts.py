"""Numbers that nobody can mean are refused before anything is planned, with exit code 2 and the bound."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel

from rsso_dspy.cli.app import app
from rsso_dspy.config import Config, load_config
from rsso_dspy.errors import ConfigError

HUGE = 10**30
FREE = {"--max-rollouts", "--case"}
"""Options that stop something, or choose among what is there: no number is too large, or the verb itself says so."""


def options() -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Every numeric option of every verb, with each value that it must refuse."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            yield from below(sub, (*words, name))
        yield from ((words, each) for each in command.params)

    for words, option in below(typer.main.get_command(app), ()):
        kind, name = option.type_descriptor.annotation, option.opts[0]
        if kind in (int, float):
            values = ["-1", *([] if name in FREE else [str(HUGE)]), *(["nan", "inf", "-inf"] if kind is float else [])]
            yield from ((words, name, value) for value in values)


@pytest.mark.parametrize(("words", "option", "value"), list(options()))
def test_every_numeric_option_has_bounds(words, option, value, rsso):
    code, out, err = rsso(*words, option, value)
    assert code == 2, err
    assert not out
    assert re.search(rf"'{option}': Input should be (less|greater) than or equal to +\W*\d", err)


def numbers(model: type[BaseModel] = Config, path: str = "") -> Iterator[tuple[str, str]]:
    """Every numeric key of the configuration, with each value that it must refuse."""
    for name, field in model.model_fields.items():
        below = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
        key = f"{path}{name}"
        models = [kind for kind in below if issubclass(kind, BaseModel)]
        if models:
            entry = {"backends": "anthropic.", "prices": '"p/m".', "roles": "actor."}.get(name, "")
            yield from numbers(models[0], f"{key}.{entry}")
        elif float in below or (int in below and bool not in below):
            values = ["-1", str(HUGE), "9" * 5000, *(["nan", "inf", "-inf"] if float in below else ["0.5"])]
            yield from ((key, value) for value in values)


@pytest.mark.parametrize(("key", "value"), list(numbers()), ids=lambda text: text[:12])
def test_every_numeric_key_has_bounds(key, value):
    rest = ['prices."p/m".input=1', 'prices."p/m".output=1'] if key.startswith("prices") else []
    with pytest.raises(ConfigError, match=key.rpartition(".")[2]) as raised:
        load_config(overrides=[*rest, f"{key}={value}"])
    assert len(str(raised.value)) < 500
