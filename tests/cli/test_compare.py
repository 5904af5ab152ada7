"""`rsso-dspy export --format inspect` and `compare`: Inspect's own reader opens what is written."""

import sys
import zipfile
from pathlib import Path

import pytest

from rsso_dspy.report.comparison import compare_arms
from rsso_dspy.report.inspect_export import make_file_name
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.unit_store import Store
from tests.records import record

UNITS = [("boil", 1, [[10], [30]]), ("boil", 2, [[100]]), ("freeze", 3, [[40], [20]]), ("melt", 4, [[5], [5]])]
NEEDED = "inspect_ai is not installed: its reader opens no log here (pip install 'rsso-dspy[inspect]')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two arms of four units; the second is better, and errored on a fifth."""
    store = Store(tmp_path_factory.mktemp("inspect") / "run")
    store.open({"protocol": "sso-adapt/1"}, {"react": "1", "reflexion": "2"})
    for task, index, trials in UNITS:
        store.save(record("react", task, index, [*trials, [1]]))
        store.save(record("reflexion", task, index, [*trials, [60 + index]]))
    store.save(record("react", "melt", 5, [[80]]))
    store.save(record("reflexion", "melt", 5, [None]))
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


@pytest.mark.filterwarnings("ignore")
def test_compare_is_the_comparison_of_the_report(rsso, logs, folder):
    pytest.importorskip("inspect_ai", reason=NEEDED)
    arms = group_by_arm(Store(folder).units())
    ours = compare_arms("react", arms["react"], "reflexion", arms["reflexion"])
    code, out, err = rsso("compare", logs[0], logs[1])
    assert code == 0, err
    interval = f"{ours.interval.low:+.4g} to {ours.interval.high:+.4g} over 3 task types"
    said = " ".join(out.split())
    assert f"B - A in best_accumulator: {ours.difference:+.4g} on 4 samples, 95% interval {interval}" in said
    assert f"signed-rank p = {ours.wilcoxon.p:.3g}" in said
    assert "Scored samples left out: 1 only in A." in said
    code, out, _ = rsso("compare", logs[0], logs[1], "--scorer", "solved", "--json")
    assert code == 0
    assert '"mcnemar": {' in out


@pytest.mark.filterwarnings("ignore")
def test_compare_of_foreign_logs_and_its_refusals(rsso):
    """Logs that Inspect itself wrote: of shares, grades and dictionaries."""
    log_of = pytest.importorskip("inspect_ai.log", reason=NEEDED)
    from inspect_ai.scorer import Score

    def write(name: str, scores: dict[str, object], scorer: str = "match") -> str:
        made = log_of.EvalLog(
            eval={"created": "2026-01-01T00:00:00+00:00", "task": "t", "dataset": {}, "model": "m/x", "config": {}},
            samples=[
                log_of.EvalSample(id=key, epoch=1, input="i", target="t", scores={scorer: Score(value=value)})
                for key, value in scores.items()
            ],
        )
        log_of.write_eval_log(made, name)
        return name

    letters = write("a.eval", dict.fromkeys("abcdefgh", "I"))
    better = write("b.eval", dict.fromkeys("abcdefgz", "C"))
    code, out, _ = rsso("compare", letters, better)
    assert code == 0
    assert "B - A in match: +1 on 7 samples, 95% interval +1 to +1 over 7 samples" in " ".join(out.split())
    assert "McNemar p = 0.0156" in out
    apart = write("c.json", dict.fromkeys("xy", "C"))
    other = write("d.eval", {"a": {"left": 1, "right": "no number"}}, "model_graded")
    huge = write("e.eval", {"a": 1.0, "b": 1e308})
    wide = write("f.eval", {"a": float("-inf"), "b": float("nan")})
    for words, message in (
        ((letters, huge), "score of sample b in e.eval is 1e+308: only numbers from"),
        ((wide, letters), "score of sample a in f.eval is -inf: only numbers from"),
        ((letters, apart), "no scored sample in common"),
        ((letters, other), "the logs share no scorer (a.eval has match; d.eval has model_graded/left)"),
        ((letters, better, "--scorer", "f1"), "use --scorer match"),
        (("absent.eval", better), "absent.eval is not a file"),
    ):
        code, _, err = rsso("compare", *words)
        assert code == 2
        assert message in " ".join(err.split())
    Path("junk.eval").write_bytes(b"PK no zip")
    code, _, err = rsso("compare", "junk.eval", better)
    assert code == 2
    assert "Inspect cannot read it as a log" in err


def test_compare_without_inspect_names_the_extra(rsso, logs, monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    code, _, err = rsso("compare", *logs)
    assert code == 2
    assert "pip install 'rsso-dspy[inspect]'" in err


def test_export_overwrites_its_own_files_alone(rsso, folder, logs):
    before = [path.read_bytes() for path in logs]
    assert rsso("export", folder, "--format", "inspect", "-o", "logs")[0] == 0
    assert [path.read_bytes() for path in logs] == before
    with zipfile.ZipFile(logs[0], "w") as another:
        another.writestr("header.json", '{"eval": {"packages": {"inspect_ai": "1"}}}')
    assert rsso("export", folder, "--format", "inspect", "-o", "logs")[0] == 2
    logs[1].write_text("mine")
    code, _, err = rsso("export", folder, "--format", "inspect", "-o", "logs")
    assert code == 2
    assert "is not a log of Inspect of rsso-dspy" in " ".join(err.split())
    assert logs[1].read_text() == "mine"
    assert make_file_name("rsso (runs/a)").startswith("rsso--runs-a--")
    for words, message in (
        (("--format", "csv"), "inspect"),
        (("--format", "inspect", "--rows", "steps"), "--rows chooses the rows of a Parquet file"),
    ):
        code, _, err = rsso("export", folder, *words)
        assert code == 2
        assert message in err
