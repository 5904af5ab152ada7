"""A configuration that is written, as a file or as `key=value`, is the one that is read."""

import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsso_dspy.config import PROFILES, Config, format_override, load_config
from rsso_dspy.store.commands import dump_config_toml

NAMES = ["openai", "embedded", "my.own", "a b", 'a "quoted" \\n name', "", "\x7f\x85\u2028", "漢字 😀"]
TEXTS = st.text(st.sampled_from("\\nr\n\r\t'\"#[]={}. \x00\x1f\x7f") | st.characters(exclude_categories=["Cs"]))
AMOUNTS = st.floats(0, 100, exclude_min=True) | st.sampled_from([0.5, 1e-7]) | st.integers(1, 100)
COUNTS = st.integers(1, 1000)


def tables(**fields) -> st.SearchStrategy[dict]:
    """Tables that hold some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


BACKENDS = {"model": TEXTS, "key_variable": TEXTS, "temperature": AMOUNTS, "timeout": AMOUNTS, "max_tokens": COUNTS,
            "base_url": st.just("http://[::1]:8000/v1"), "adapter": st.sampled_from(["chat", "json", "xml"]),
            "roles": st.dictionaries(st.sampled_from(["actor", "reflector"]),
                                     tables(model=TEXTS, key_variable=TEXTS, temperature=AMOUNTS))}  # fmt: skip
CONFIGS = st.fixed_dictionaries(
    {"backend": st.sampled_from(NAMES) | TEXTS, "table": tables(**BACKENDS)},
    optional={
        "seed": st.integers(0, 2**31 - 1),
        "protocol": tables(trials=COUNTS, frozen=st.booleans(), setting=st.sampled_from(["adaptation", "transfer"])),
        "memory": tables(
            reflections=tables(size=COUNTS),
            skills=tables(retrieved=COUNTS, feedback=st.booleans()),
            constitution=tables(categories=st.lists(st.sampled_from(["error", "progress"])), examples=TEXTS),
        ),
        "embedder": tables(timeout=AMOUNTS, cache=st.booleans(), key_variable=TEXTS),
        "environment": tables(step_seconds=AMOUNTS, heap=st.sampled_from(["512m", "2g"])),
        "prices": st.dictionaries(TEXTS, st.fixed_dictionaries({"input": AMOUNTS, "output": AMOUNTS})),
    },
)


def made(data: dict) -> Config:
    """The configuration with these settings, as `load` would have it: a backend extends the profile of its name."""
    own = {"model": "openai/x", **PROFILES.get(data["backend"], {}), **data["table"]}
    rest = {key: value for key, value in data.items() if key != "table"}
    return Config.model_validate({**rest, "backends": {**PROFILES, data["backend"]: own}})


@settings(deadline=None, max_examples=60)
@given(CONFIGS)
def test_any_configuration_survives_its_file(data):
    config = made(data)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.toml"
        file.write_text(dump_config_toml(config), encoding="utf-8")
        assert load_config(file) == config


@pytest.mark.parametrize("value", [1e22, float("inf"), True, ["a", "b\x7f"], [], 'a\x7f\n"\\', "\x00", "true", "3", ""])
def test_a_value_is_the_value_that_is_played(value):
    assert tomllib.loads(format_override("some.key", value))["some"]["key"] == value
