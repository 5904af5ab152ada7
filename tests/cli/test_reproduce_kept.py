"""What a run's folder keeps for `rsso-dspy reproduce`, and what is said of it where nothing is played."""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy import __version__
from rsso_dspy.config import EMBEDDED, Config, load_config
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.records import Usage
from rsso_dspy.reproduce import list_changes
from rsso_dspy.store.commands import (
    CONFIG,
    RunSpec,
    Shard,
    add_command,
    describe_command,
    dump_config_toml,
    extract_given,
    list_remote_addresses,
    load_invocations,
    read_given,
)
from rsso_dspy.store.pooled_runs import merge_shards
from rsso_dspy.store.run_folder import Store
from tests.records import record, save


def open_store(config: Config, asked: RunSpec) -> Store:
    """A folder in which a command was given, and nothing played."""
    store = Store(asked.out)
    told = add_command(store, *describe_command(config, asked))
    store.open(make_run_identity(config, resolve_protocol(config)), {"sso": "1"}, str(asked.shard or ""), **told)
    return store


def load_given_config(store: Store) -> Config:
    (file,) = extract_given(store, store.folder.with_name("given"))
    return load_config(file)


def edit_file(store: Store, change: Callable[[dict[str, Any]], object]) -> None:
    """Change run.json by hand."""
    data = json.loads((store.folder / "run.json").read_text())
    change(data)
    (store.folder / "run.json").write_text(json.dumps(data))


def test_parts_that_are_merged_are_one_order(tmp_path):
    config = load_config(overrides=["embedder.model=hash"])
    for number in (1, 2):
        order = RunSpec(methods=("sso",), tasks=("boil",), out=tmp_path / f"p{number}", shard=Shard(number, 2))
        store = open_store(config, order)
        save(store, record("sso", "boil", 20 + number, [[1]]))
        assert load_invocations(store)[0].to_options(order.out)["--shard"] == f"{number}/2"
    for _ in range(2):
        merge_shards([tmp_path / "p1", tmp_path / "p2"], Store(tmp_path / "whole"))
    whole = Store(tmp_path / "whole")
    (asked,) = load_invocations(whole)
    assert (asked.methods, asked.tasks, asked.shard) == (("sso",), ("boil",), "")
    assert load_given_config(whole).hash() == config.hash()


def test_a_folder_of_other_prompts_is_not_played_again_and_one_without_a_command_says_so(rsso, tmp_path):
    store, config = bare(tmp_path / "run")
    unit = replace(record("sso", "boil", 22, [[1]]), protocol=resolve_protocol(config).id)
    edit_file(store, lambda data: data["identity"].update(prompts="0"))
    save(store, unit)
    assert "will differ: prompts 0 then" in rsso("reproduce", "run")[2]
    code, _, err = rsso("reproduce", "run", "--run")
    assert code == 2
    assert "not played: it would be another run (prompts 0 then" in err
    assert not (tmp_path / "run-again").exists()
    edit_file(store, lambda data: data.pop("commands"))
    code, _, err = rsso("reproduce", "run")
    assert code == 2
    assert "holds no command" in err


def test_no_password_gets_into_the_folder(rsso, tmp_path):
    address = "http://user:hunter2@127.0.0.1:8000/v1?key=hunter2"
    config = load_config(
        overrides=["backend=vllm", f"backends.vllm.base_url={address}", f"embedder.base_url={address}"]
    )
    store = open_store(config, RunSpec(methods=("sso",), variants=("boil::22",), out=tmp_path / "run"))
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    again = load_given_config(store)
    assert again.active_backend.base_url == "http://127.0.0.1:8000/v1"
    assert again.hash() == config.hash()
    _, _, err = rsso("reproduce", "run")
    assert "backends.vllm.base_url held a password or a query, which is not stored" in err
    _, out, err = rsso("reproduce", "run", "--set", f"backends.vllm.base_url={address}")
    assert "backends.vllm.base_url held" not in err
    assert "backends.vllm.base_url=http://***@127.0.0.1:8000/v1?key=***" in shlex.split(out)


def bare(folder: Path, *settings: str) -> tuple[Store, Config]:
    """A folder that keeps what was asked for: two variants of boil, by sso."""
    config = load_config(overrides=["embedder.model=hash", *settings])
    return open_store(config, RunSpec(methods=("sso",), variants=("boil::22",), out=folder)), config


def test_a_model_that_answered_in_any_role_may_answer_otherwise(tmp_path):
    store, config = bare(tmp_path / "run")
    models = {"actor": EMBEDDED, "verbalizer": "openai/one", "advisor": "openai/never-asked"}
    usage = {"actor": Usage(calls=1), "verbalizer": Usage(calls=1)}
    unit = replace(record("sso", "boil", 22, [[1]]), protocol=resolve_protocol(config).id)
    about = make_provenance(config)
    save(store, replace(unit, provenance=about, models=models))
    assert not [change for change in list_changes(store) if "answered" in change.what], "nobody asked it"
    save(store, replace(unit, provenance=about, models=models, trials=(replace(unit.trials[0], usage=usage),)))
    (change,) = [change for change in list_changes(store) if "answered" in change.what]
    (today,) = store.list_played_days()
    assert change.what.startswith(f"openai/one answered on {today}: a model may answer differently when asked again")
    assert not change.certain


def test_an_embedder_that_is_asked_may_answer_otherwise(rsso, tmp_path):
    store, _ = bare(tmp_path / "run", "embedder.model=litellm/openai/text-embedding-3-small")
    save(store, record("sso", "boil", 22, [[1]]))
    code, _, err = rsso("reproduce", "run")
    assert code == 0
    assert "may differ: litellm/openai/text-embedding-3-small answered" in err


@pytest.mark.parametrize("damage", [lambda known: known.pop("config"), lambda known: known.update(config={"seed": 0})])
def test_a_damaged_identity_names_its_file(rsso, tmp_path, damage):
    edit_file(bare(tmp_path / "run")[0], lambda data: damage(data["identity"]))
    code, _, err = rsso("reproduce", "run")
    assert code == 2
    assert "run/run.json is damaged" in err


def test_a_folder_that_contradicts_itself_is_not_said_to_come_out_the_same(rsso, tmp_path):
    store, config = bare(tmp_path / "run", "protocol.trials=3")
    unit = replace(record("sso", "boil", 22, [[1]]), protocol=resolve_protocol(config).id)
    save(store, replace(unit, provenance=make_provenance(config)))
    code, _, err = rsso("reproduce", "run")
    assert code == 0
    assert "will differ" not in err
    file = store.folder / "run.json"
    whole = file.read_text()
    edit_file(store, lambda data: data["identity"]["config"]["protocol"].update(trials=5))
    _, _, err = rsso("reproduce", "run")
    assert "will differ: run.json says protocol.trials = 5, but the stored command says 3" in err
    assert "byte for byte" not in err
    code, _, err = rsso("reproduce", "run", "--run")
    assert code == 2
    assert "not played" in err
    file.write_text(whole)
    kept_as = read_given(store)[CONFIG]

    def give(text: str) -> None:
        edit_file(store, lambda data: data["given"].update({CONFIG: text}))

    give(f'{kept_as}\n[backends.embedded.roles.reflector]\nmodel = "openai/gpt-4o"\n')
    _, _, err = rsso("reproduce", "run")
    assert "backends.embedded.roles.reflector.model = (absent), but the stored command says openai/gpt-4o" in err
    give(kept_as.replace("trials = 3", "trials = 3000"))
    code, _, err = rsso("reproduce", "run")
    assert code == 2
    assert "trials" in err
    assert f"install the original version, rsso_dspy {__version__}" in err
    give("garbage")
    code, out, err = rsso("reproduce", "run")
    assert (code, out) == (2, "")
    assert "config.toml" in err
    assert "restore it" in err


def test_what_the_orders_say_is_safe_to_show(rsso, tmp_path):
    store, _ = bare(tmp_path / "run")
    evil = "\x1b]0;gotcha\x07"
    edit_file(store, lambda data: data["commands"][0].update(withheld=[evil], skills=f"skills/{evil}", variants=[evil]))
    code, out, err = rsso("reproduce", "run")
    assert code == 0
    assert "gotcha" in out
    assert "gotcha\N{REPLACEMENT CHARACTER} held a password" in err
    assert not {"\x1b", "\x07"} & {*out, *err}
    code, _, err = rsso("reproduce", "run", "--run", "--set", f"{evil}=1")
    assert code == 2
    assert not {"\x1b", "\x07"} & {*err}


def test_addresses_elsewhere_are_said_before_anything_is_sent(rsso, tmp_path, monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    there = ("backend=openai", "backends.openai.base_url=https://models.example/v1")
    bare(tmp_path / "run", *there, "backends.openai.key_variable=SOME_KEY")
    code, _, err = rsso("reproduce", "run", "--run")
    said, _, refused = err.partition("requests go to https://models.example/v1 with the key in SOME_KEY\n")
    assert code == 2
    assert said
    assert "SOME_KEY is not set" in refused
    assert "requests go to" not in rsso("reproduce", "run")[2], "nothing is sent"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["backend=openai"], []),
        (["backend=vllm"], []),
        (["backend=vllm", "backends.vllm.base_url=http://[::1]:1/v1"], []),
        (["backend=vllm", "backends.vllm.base_url=http://localhost@there:1/v1?key=x"], ["http://there:1/v1"]),
        (["embedder.base_url=http://there/v1"], []),
        (
            ["embedder.model=litellm/openai/x", "embedder.base_url=http://there/v1", "embedder.key_variable=K"],
            ["http://there/v1 with the key in K"],
        ),
        (["backend=openai", "backends.openai.roles.reflector.base_url=http://there"], ["http://there"]),
        (
            ["backend=vllm", "backends.vllm.base_url=http://there", "backends.vllm.roles.reflector.model=openai/x"],
            ["http://there"],
        ),
    ],
)
def test_addresses_are_those_of_other_machines_with_the_keys_that_go_there(settings, said):
    assert list_remote_addresses(load_config(Path("/dev/null"), settings)) == said


def test_any_configuration_survives_the_file(tmp_path):
    odd = r'"a \u007f \"quoted\" \\ \u2603\U0001f600 name"'
    file = tmp_path / "rsso.toml"
    file.write_text(
        f'backend = "my.own"\n[backends."my.own"]\nmodel = "openai/x"\nkey_variable = {odd}\n'
        '[backends."my.own".roles.actor]\ntemperature = 0.5\n[prices."openai/x"]\ninput = 1e-7\noutput = 2\n'
    )
    config = load_config(file, ["memory.constitution.categories=[]", "environment.heap=1g"])
    text, withheld = dump_config_toml(config)
    (tmp_path / "kept.toml").write_text(text)
    again = load_config(tmp_path / "kept.toml")
    assert withheld == ()
    assert again.hash() == config.hash()
    assert again.active_backend == config.active_backend
    assert (again.prices, again.environment) == (config.prices, config.environment)
