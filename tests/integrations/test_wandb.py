"""A run tracked with Weights & Biases, offline: what its own process wrote."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import at_hand, rsso  # noqa: F401 - fixtures

NEEDED = "wandb is not installed: no run of W&B is written here (pip install 'rsso-dspy[wandb]')"
WORDS = ("run", "--methods", "react", "--variants", "lifespan-longest-lived::98", "--trials", "1", "--out", "run")
FAST = ("--set", "embedder.model=hash")


def read_records(file: Path) -> Iterator[object]:
    """The records of a file of W&B: a header, then chunks of blocks of 32 KiB (the log format of LevelDB)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, whole = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield Record.FromString(whole)
            whole = b""


@pytest.mark.usefixtures("at_hand")
@pytest.mark.filterwarnings("ignore")
def test_wandb_holds_the_numbers_of_the_run(rsso, monkeypatch):  # noqa: F811
    pytest.importorskip("wandb", reason=NEEDED)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    code, _, err = rsso(*WORDS, *FAST, "--wandb", "agents")
    assert code == 0, err
    assert "lost" not in err
    (file,) = Path("run/wandb").glob("offline-run-*/*.wandb")
    records = list(read_records(file))
    started = next(record.run for record in records if record.WhichOneof("record_type") == "run")
    config = {each.key: json.loads(each.value_json) for each in started.config.update}
    assert (started.project, started.display_name) == ("agents", "run")
    assert config["methods"] == "react"
    logged = {"/".join(i.nested_key) or i.key: i.value_json for r in records for i in r.history.item}
    code, out, _ = rsso("report", "run", "--json")
    (arm,) = json.loads(out)["arms"]
    assert float(logged["react/mean"]) == arm["mean"]
    assert float(logged["react/units"]) == 1


def test_a_wrong_project_and_a_missing_package_are_named(rsso, monkeypatch):  # noqa: F811
    code, _, err = rsso("run", "--dry-run", "--wandb", "a/b")
    assert code == 2
    assert "is not the name of a project" in err
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("rsso_dspy.integrations.wandb_tracking.find_spec", lambda _: None)
    code, _, err = rsso("run", "--dry-run", "--wandb", "agents")
    assert code == 2
    assert "pip install 'rsso-dspy[wandb]'" in err
