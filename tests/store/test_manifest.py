"""What a run's folder keeps of its commands, and what has changed since."""

from rsso_dspy.config import Config, load_config
from rsso_dspy.protocol import make_run_identity, resolve_protocol
from rsso_dspy.store.commands import (
    RunSpec,
    Shard,
    add_command,
    describe_command,
    extract_given,
    load_invocations,
)
from rsso_dspy.store.run_folder import Store


def open_store(config: Config, asked: RunSpec) -> Store:
    """A folder in which a command was given, and nothing played."""
    store = Store(asked.out)
    told = add_command(store, *describe_command(config, asked))
    store.open(make_run_identity(config, resolve_protocol(config)), {"sso": "1"}, str(asked.shard or ""), **told)
    return store


def load_given_config(store: Store) -> Config:
    (file,) = extract_given(store, store.folder.with_name("given"))
    return load_config(file)


def test_the_command_of_a_shard_is_read_back_as_it_was_given(tmp_path):
    config = load_config(overrides=["embedder.model=hash"])
    order = RunSpec(methods=("sso",), tasks=("boil",), out=tmp_path / "p1", shard=Shard(1, 2))
    store = open_store(config, order)
    assert [each.to_run_spec(order.out, order.out) for each in load_invocations(store)] == [order]
    assert load_given_config(store).hash() == config.hash()


def test_no_password_gets_into_the_folder(tmp_path):
    address = "http://user:hunter2@127.0.0.1:8000/v1?key=hunter2"
    config = load_config(
        overrides=["backend=vllm", f"backends.vllm.base_url={address}", f"embedder.base_url={address}"]
    )
    store = open_store(config, RunSpec(methods=("sso",), variants=("boil::22",), out=tmp_path / "run"))
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    again = load_given_config(store)
    assert again.active_backend.base_url == "http://127.0.0.1:8000/v1"
    assert again.hash() == config.hash()
