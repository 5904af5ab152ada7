"""The configuration: files, overrides, what is refused, and what results depend on."""

import tomllib
from itertools import pairwise

import pytest

from rsso_dspy.config import Config, load_config, render_config_template
from rsso_dspy.errors import ConfigError, UnknownName
from rsso_dspy.programs.trial import ROLLOUTS_PER_SEED


def test_defaults_a_file_here_and_a_profile_changed_in_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_config()
    assert (config.active_backend.model, config.active_backend.key_variable) == ("embedded/explorer", None)
    assert set(config.backends) == {"embedded", "anthropic", "openai", "ollama", "vllm"}
    (tmp_path / "rsso.toml").write_text('seed = 7\n[backends.mine]\nmodel = "openai/x"\n')
    mine = ["backend=mine", "backends.mine.roles.reflector.temperature=0.9", "backends.anthropic.max_tokens=77"]
    config = load_config(overrides=mine)
    assert (config.seed, config.active_backend.roles["reflector"].temperature) == (7, 0.9)
    changed = config.backends["anthropic"]
    assert (changed.max_tokens, changed.key_variable) == (77, "ANTHROPIC_API_KEY")


@pytest.mark.parametrize(
    ("override", "offered"),
    [
        ("protocol.trails=3", "protocol.trials"),
        ("sed=3", "seed"),
        ("memory.skills.pares=any", "memory.skills.pairs"),
        ("backends.embedded.temprature=1", "backends.embedded.temperature"),
        ("backends.embedded.roles.actor.modl=x", "backends.embedded.roles.actor.model"),
        ("compile.stesp=9", "compile.steps"),
        ("run.metods=sso", "run.methods"),
        ("backend=antropic", "anthropic"),
    ],
)
def test_an_unknown_name_offers_the_nearest(override, offered):
    with pytest.raises(UnknownName, match=offered):
        load_config(overrides=[override])


def test_trials_and_seeds_at_their_bounds_are_taken():
    config = load_config(overrides=["seed=2147483647", "protocol.trials=1000"])
    assert (config.seed, config.protocol.trials) == (2**31 - 1, 1000)
    assert config.seed * ROLLOUTS_PER_SEED + config.protocol.trials < 2**63


@pytest.mark.parametrize(("text", "said"), [("backend = ", r"f\.toml"), (None, "config init")])
def test_a_broken_or_missing_file_is_named(tmp_path, text, said):
    file = tmp_path / "f.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_config(file)


def test_the_template_holds_the_defaults_and_explains_every_key():
    text = render_config_template()
    assert Config.model_validate(tomllib.loads(text)) == Config()
    lines = text.splitlines()
    for before, line in pairwise(lines):
        assert not line[:1].isalpha() or before.startswith(("# ", "[")), line


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("protocol.trials", "key=value"),
        ("protocol.trials=0", "protocol.trials: input should be greater than 0"),
        ("protocol.trials=1001", r"protocol.trials: input should be less than or equal to 1000 \(it is 1001\)"),
        ("memory.reflections.size=99999999999999999999999", r"size: input should be less .* \(it is 9+\)"),
        ("seed=-1", "seed: input should be greater"),
        ('prices."a/b".input=-1', "greater than or equal to 0"),
        ('prices."a/b".inptu=1', "prices.a/b.input"),
        ('prices."a/b".input=1', "prices.a/b.output"),
        ("environment.heap=abc", "environment.heap: string should match pattern"),
        ("environment.heap=512", "environment.heap: input should be a valid string"),
        ("environment.simplification=openDors", "openDors is not one of easy, teleportAction"),
        ("embedder.model=", "embedder.model"),
        ("backends.vllm.base_url=http://127.0.0.1:99999/v1", "like http://127.0.0.1"),
        ('backends.vllm.base_url="http://[::1"', "like http://127.0.0.1"),
        ("backends=3", "backends.NAME"),
        ("backends.openai=3", "backends.NAME"),
        ("backends.openai.roles.actr.temperature=1", "actor"),
        ("protocol=3", "protocol"),
    ],
)
def test_a_value_of_the_wrong_form_is_named(override, said):
    with pytest.raises((ConfigError, UnknownName), match=said):
        load_config(overrides=[override])


MENDED = [
    *("environment.heap=1g", "embedder.timeout=5", "embedder.base_url=http://127.0.0.1:1/v1"),
    *("backends.vllm.retries=9", "backends.vllm.timeout=5", "backends.vllm.base_url=http://127.0.0.1:8001/v1"),
    "backends.vllm.roles.actor.base_url=http://127.0.0.1:1/v1",
]
"""How a model is reached, which may be mended in the middle of a run."""


@pytest.mark.parametrize(
    ("overrides", "same"),
    [
        (MENDED, True),
        (["backends.openai.max_tokens=9"], True),
        (["backends.vllm.temperature=0.1"], False),
        (["protocol.trials=2"], False),
    ],
)
def test_the_hash_depends_on_what_results_depend_on_and_on_nothing_else(overrides, same):
    plain = ["backend=vllm", "backends.vllm.roles.actor.temperature=0"]
    assert (load_config(overrides=[*plain, *overrides]).hash() == load_config(overrides=plain).hash()) is same


def test_a_file_may_be_named_by_a_text_as_the_module_says(tmp_path):
    (tmp_path / "mine.toml").write_text('[protocol]\npreset = "sso-adapt/3"\n')
    assert load_config(path=str(tmp_path / "mine.toml")).protocol.preset == "sso-adapt/3"
