"""`rsso-dspy export --format inspect`: Inspect's own reader opens what is written."""

from pathlib import Path

import pytest

from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.run_folder import Store
from tests.records import record, save

UNITS = [("boil", 1, [[10], [30]]), ("boil", 2, [[100]]), ("freeze", 3, [[40], [20]]), ("melt", 4, [[5], [5]])]
NEEDED = "inspect_ai is not installed: its reader opens no log here (pip install inspect_ai)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two arms of four units; the second is better, and errored on a fifth."""
    store = Store(tmp_path_factory.mktemp("inspect") / "run")
    store.open({"protocol": "sso-adapt/1"}, {"react": "1", "reflexion": "2"})
    for task, index, trials in UNITS:
        save(store, record("react", task, index, [*trials, [1]]))
        save(store, record("reflexion", task, index, [*trials, [60 + index]]))
    save(store, record("react", "melt", 5, [[80]]))
    save(store, record("reflexion", "melt", 5, [None]))
    return store.folder


@pytest.fixture
def logs(rsso, folder) -> list[Path]:
    code, out, _ = rsso("export", folder, "--format", "inspect", "-o", "logs")
    assert (code, out) == (0, "logs: 2 files\n")
    found = sorted(Path("logs").iterdir())
    assert [path.name for path in found] == ["react.eval", "reflexion.eval"]
    return found


@pytest.mark.filterwarnings("ignore")
def test_inspect_reads_what_was_played(logs, folder):
    reader = pytest.importorskip("inspect_ai.log", reason=NEEDED)
    arms = group_by_arm(Store(folder).units())
    for path, arm in zip(logs, ("react", "reflexion"), strict=True):
        log = reader.read_eval_log(str(path))
        metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
        whole = compute_arm_metrics(arm, arms[arm])
        assert (log.status, log.eval.solver, log.eval.model) == ("success", arm, "embedded/explorer")
        assert metrics == {"best_accumulator": whole.mean, "solved": whole.solve / whole.units}
        assert "rule-based" in log.eval.metadata["note"]
    errored = next(sample for sample in reader.read_eval_log(str(logs[1])).samples if sample.error)
    assert (errored.id, errored.scores, errored.error.message) == ("melt::5", {}, "LMServerError: 500")
    first = reader.read_eval_log_sample(str(logs[0]), "boil::1", 1)
    assert [message.role for message in first.messages] == ["user", "assistant", "user"] * 3
    assert first.model_usage["embedded/explorer"].input_tokens == 30
    assert len(reader.read_eval_log_sample_summaries(str(logs[0]))) == 5


def test_the_archive_ends_where_inspect_view_looks_for_its_directory(logs):
    assert [path.read_bytes()[-22:-18] for path in logs] == [b"PK\5\6"] * 2
