"""`rsso-dspy export --format every-eval-ever` and `card`: what other tools and people read."""

import hashlib
import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest

from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.unit_store import Store
from tests.records import record

UNITS = [("boil", 1, [[10], [30]]), ("boil", 2, [[100]]), ("freeze", 3, [[40], [20]]), ("melt", 4, [[5], [5]])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    store = Store(tmp_path_factory.mktemp("files") / "run")
    store.open({"protocol": "sso-adapt/1"}, {"react": "1", "reflexion": "2"})
    for task, index, trials in UNITS:
        store.save(record("react", task, index, [*trials, [1]]))
        made = record("reflexion", task, index, [*trials, [60 + index]])
        store.save(replace(made, provenance={"commit": "abc", "rsso_dspy": "0.1"}))
    store.save(record("react", "melt", 5, [None]))
    return store.folder


def load_schemas() -> list[dict] | None:
    """The published schemas, of aggregates and of instances; None where their package is not installed."""
    package = find_spec("every_eval_ever")
    if package is None or package.origin is None:
        return None
    files = Path(package.origin).with_name("schemas")
    return [json.loads((files / f"{name}.schema.json").read_text()) for name in ("eval", "instance_level_eval")]


def test_every_eval_ever_records_fit_the_published_schema(rsso, folder):
    schemas = load_schemas()
    if schemas is None:
        pytest.skip("every-eval-ever, which needs Python 3.12, is not installed: the schema is not at hand")
    assert rsso("export", folder, "--format", "every-eval-ever", "-o", "eee")[0] == 0
    for path in Path("eee").rglob("*.json*"):
        for line in [path.read_text()] if path.suffix == ".json" else path.read_text().splitlines():
            jsonschema.validate(json.loads(line), schemas[path.suffix == ".jsonl"])


def test_every_eval_ever_records_hold_the_numbers_of_the_report(rsso, folder):
    code, out, _ = rsso("export", folder, "--format", "every-eval-ever", "-o", "eee")
    assert (code, out) == (0, "eee: 4 files\n")
    arms = group_by_arm(Store(folder).units())
    found = sorted(Path("eee").rglob("*.json"))
    assert {path.parent for path in found} == {Path("eee/data/scienceworld/embedded/explorer")}
    for path in found:
        data = json.loads(path.read_text())
        points, solved = data["evaluation_results"]
        arm = points["generation_config"]["additional_details"]["arm"]
        whole = compute_arm_metrics(arm, arms[arm])
        assert points["score_details"]["score"] == whole.mean
        assert solved["score_details"]["score"] == whole.solve / whole.units
        assert points["score_details"]["uncertainty"]["confidence_interval"]["lower"] < whole.mean
        detail = data["detailed_evaluation_results"]
        lines = (Path("eee") / detail["file_path"]).read_bytes()
        assert hashlib.sha256(lines).hexdigest() == detail["checksum"]
        rows = [json.loads(line) for line in lines.splitlines()]
        assert len(rows) == detail["total_rows"] == 2 * whole.units
        for row in rows:
            assert row["evaluation_id"] == data["evaluation_id"]
    before = {path: path.read_bytes() for path in Path("eee").rglob("*.json*")}
    assert rsso("export", folder, "--format", "every-eval-ever", "-o", "eee")[0] == 0
    assert {path: path.read_bytes() for path in Path("eee").rglob("*.json*")} == before


def test_the_card_says_how_much_to_believe(rsso, folder):
    code, out, _ = rsso("export", folder, "--format", "card", "-o", "run.md")
    assert (code, out) == (0, "run.md: 1 file\n")
    card = Path("run.md").read_text()
    for said in (
        "> **The embedded rule-based model answered here",
        "**protocol**: sso-adapt/1",
        "**n**: 9 units = variants x seeds x arms: 5 variants of 3 task types, 1 seed (0), 2 arms",
        "**trivial-agent baseline**: not played; `rsso-dspy export` with `--references` plays random actions on these "
        "variants; react, no memory, first trial: 38.75 points",
        "**oracle**: not played; ",
        "**isolation**: one simulator per unit at a time",
        "| reflexion - react | 4 | +28.25 | ",
        "46 calls, 230 tokens in, 69 tokens out",
        "1 unit ended in an error",
        "compare programs and tools by these numbers, not models",
    ):
        assert said in card, said
    Path("mine.md").write_text("# mine")
    code, _, err = rsso("export", folder, "--format", "card", "-o", "mine.md")
    assert code == 2
    assert "is not a results card of rsso-dspy" in " ".join(err.split())
    code, _, err = rsso("export", folder, "--format", "card", "-o", ".")
    assert code == 2
    assert "is a folder" in err
