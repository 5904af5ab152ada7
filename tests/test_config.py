import tomllib

import pytest

from rsso_dspy.config import Config, load_config, render_config_template
from rsso_dspy.errors import ConfigError, UnknownName
from rsso_dspy.programs.trial import ROLLOUTS_PER_SEED


def test_defaults_need_no_key_and_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_config()
    assert config.active_backend.model == "embedded/explorer"
    assert config.active_backend.key_variable is None
    assert set(config.backends) == {"embedded", "anthropic", "openai", "ollama", "vllm"}


def test_a_file_in_the_working_directory_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rsso.toml").write_text('seed = 7\n[backends.mine]\nmodel = "openai/x"\n')
    config = load_config(overrides=["backend=mine", "backends.mine.roles.reflector.temperature=0.9"])
    assert config.seed == 7
    assert config.active_backend.roles["reflector"].temperature == 0.9


def test_a_profile_can_be_changed_in_part():
    config = load_config(overrides=["backends.anthropic.max_tokens=77"])
    assert config.backends["anthropic"].max_tokens == 77
    assert config.backends["anthropic"].key_variable == "ANTHROPIC_API_KEY"


@pytest.mark.parametrize(
    ("override", "offered"),
    [
        ("protocol.trails=3", "protocol.trials"),
        ("sed=3", "seed"),
        ("memory.skills.extracton=sliding", "memory.skills.extraction"),
        ("backends.embedded.temprature=1", "backends.embedded.temperature"),
        ("backends.embedded.roles.actor.modl=x", "backends.embedded.roles.actor.model"),
    ],
)
def test_unknown_key_offers_the_nearest(override, offered):
    with pytest.raises(UnknownName, match=offered):
        load_config(overrides=[override])


def test_unknown_backend_offers_the_nearest():
    with pytest.raises(UnknownName, match="anthropic"):
        load_config(overrides=["backend=antropic"])


@pytest.mark.parametrize(
    "override", ["protocol.trials=0", "protocol.trials=-1", "memory.reflections.size=0", "seed=-1"]
)
def test_counts_must_be_positive(override):
    with pytest.raises(ConfigError, match=override.partition("=")[0]):
        load_config(overrides=[override])


@pytest.mark.parametrize(
    "key", ["seed", "protocol.trials", "protocol.train_trials", "protocol.stream_trials", "memory.reflections.size"]
)
def test_counts_and_seeds_have_a_bound(key):
    with pytest.raises(ConfigError, match=rf"{key}: input should be less than or equal to \d+ \(it is 9+\)"):
        load_config(overrides=[f"{key}=99999999999999999999999"])


def test_trials_and_seeds_at_their_bounds_are_taken():
    config = load_config(overrides=["seed=2147483647", "protocol.trials=1000"])
    assert (config.seed, config.protocol.trials) == (2**31 - 1, 1000)
    assert config.seed * ROLLOUTS_PER_SEED + config.protocol.trials < 2**63


def test_an_override_without_value_says_the_form():
    with pytest.raises(ConfigError, match="key=value"):
        load_config(overrides=["protocol.trials"])


def test_broken_toml_is_named(tmp_path):
    file = tmp_path / "broken.toml"
    file.write_text("backend = ")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        load_config(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="config init"):
        load_config(tmp_path / "none.toml")


def test_the_template_holds_the_defaults_and_explains_every_key():
    text = render_config_template()
    assert Config.model_validate(tomllib.loads(text)) == Config()
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line and line[0].isalpha() and not lines[number - 1].startswith("["):
            assert lines[number - 1].startswith("# "), line


def test_how_a_model_is_reached_may_be_mended_in_the_middle_of_a_run():
    mended = [
        "retries=9",
        "timeout=5",
        "base_url=http://127.0.0.1:8001/v1",
        "roles.actor.base_url=http://127.0.0.1:1/v1",
    ]
    plain = load_config(overrides=["backend=vllm", "backends.vllm.roles.actor.temperature=0"])
    changed = load_config(
        overrides=["backend=vllm", "backends.vllm.roles.actor.temperature=0", "environment.heap=1g"]
        + [f"backends.vllm.{change}" for change in mended]
    )
    assert changed != plain
    assert changed.hash() == plain.hash()


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("environment.heap=abc", "environment.heap: not a size in k, m or g such as 512m or 4g"),
        ("environment.heap=512", "such as 512m or 4g"),
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


def test_the_hash_depends_on_the_backend_in_use_and_on_nothing_of_the_others():
    assert load_config(overrides=["backends.openai.max_tokens=9"]).hash() == load_config().hash()
    assert load_config(overrides=["backends.embedded.temperature=0.1"]).hash() != load_config().hash()
    assert load_config(overrides=["protocol.trials=2"]).hash() != load_config().hash()


def test_a_simplification_the_simulator_does_not_know_is_refused():
    assert load_config(overrides=['environment.simplification="teleportAction,openDoors"']).environment.simplification
    with pytest.raises(ConfigError, match="openDors is not one of easy, teleportAction"):
        load_config(overrides=["environment.simplification=openDors"])
