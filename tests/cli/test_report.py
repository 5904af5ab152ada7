"""`rsso-dspy report` in all its forms, on a run in which a unit errored."""

import csv
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.errors import RssoError
from rsso_dspy.records import Source
from rsso_dspy.store.run_folder import Store
from tests.records import record, save

ARMS = {"react-sso": [[10], [20]], "reflexion-sso": [[10], [60]], "sso": [[10], [30]], "rsso": [[10], [100]]}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    store = Store(folder)
    store.open({}, dict.fromkeys(ARMS, "1"))
    for arm, trials in ARMS.items():
        for task in ("boil", "freeze"):
            save(store, record(arm, task, 1, trials))
        save(store, record(arm, "find-plant", 1, [trials[0], [trials[1][0] - (arm == "rsso")]]))
    save(store, record("rsso", "boil", 2, [[40], None]))
    return folder


def read_report(*words: object) -> tuple[str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, words)], env={"COLUMNS": "200"})
    if isinstance(done.exception, RssoError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_page_has_its_figures_without_matplotlib(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    _, err = read_report(run, "--html", tmp_path / "page.html")
    assert "13 units" in err
    index = re.search(r'id="index">(.*?)</script>', (tmp_path / "page.html").read_text(encoding="utf-8"))
    figures = json.loads(index[1])["figures"]
    assert list(figures["forests"]) == ["", *ARMS]
    assert list(figures["charts"]) == ["best-of-t", "success", "survival"]


def test_every_form_of_a_run_with_an_errored_unit(run, tmp_path):
    out, _ = read_report(run)
    for text in ("3 (1 err)", "LMServerError: 500", "not played, or ended in an error"):
        assert text in out
    page, tables, figures = tmp_path / "new" / "page.html", tmp_path / "tables", tmp_path / "figures"
    out, err = read_report(run, "--html", page, "--tables", tables, "--figures", figures)
    assert "Highest mean" in out
    assert "13 units" in err
    html = page.read_text(encoding="utf-8")
    shown = ["differences", "best-of-t", "grid", "success", "survival", "differences"]
    assert re.findall(r'data-figure="([a-z-]+)"', html) == shown
    assert "LMServerError: 500" in html
    assert {"methods.md", "differences.tex", "tasks.csv"} <= {path.name for path in tables.iterdir()}
    for ending in ("png", "svg"):
        drawn = {path.stem for path in figures.glob(f"*.{ending}")}
        assert drawn == {"best-of-t", "success", "survival", "differences", "efficiency"}


def test_bars_of_figures_are_chosen(run, tmp_path):
    for bars, words in (("interval", "95% intervals of each mean"), ("sem", "(SEM, as in")):
        read_report(run, "--figures", tmp_path / bars, "--bars", bars)
        assert words in (tmp_path / bars / "best-of-t.svg").read_text(encoding="utf-8")


def test_the_question_and_the_margin_are_chosen(run):
    """Over variants the one task type with two variants has no say: the others have one each."""
    data = json.loads(read_report(run, "--json", "--margin", "100", "--against", "react-sso")[0])
    (pair, *_) = data["comparisons"]
    assert pair["verdict"]["margin"] == 100
    assert pair["interval"]["over"] == "task types"
    assert data["question"] == {"against": "react-sso", "margin": 100, "over": "task types", "ceiling": None}
    data = json.loads(read_report(run, "--json", "--over", "variants", "--against", "react-sso")[0])
    assert data["question"] == {"against": "react-sso", "margin": 10, "over": "variants", "ceiling": None}
    (over, *_) = data["comparisons"]
    assert over["interval"] is None
    assert over["verdict"]["reasons"] == ["a task type of one variant does not show how much others would differ"]


def test_comparisons_are_chosen(run):
    for more, count in (((), 4), (("--against", "rsso"), 3), (("--against", "all"), 6)):
        found = [each["second"] for each in json.loads(read_report(run, "--json", *more)[0])["comparisons"]]
        assert (len(found), count == 3 and "rsso" in found) == (count, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--against", "rso"), "rsso"),
        (("--html", "."), "is not a file"),
        (("--tables", "/dev/null/x"), "name another --tables"),
        (("--figures", "/dev/null/x"), "name another --figures"),
    ],
)
def test_what_cannot_be_done_is_said(run, words, message):
    with pytest.raises(RssoError, match=message):
        read_report(run, *words)


def write_logs(folder: Path, *trials: str) -> Path:
    """Logs of Reflexion: of each trial a letter an environment, `s` for solved, or the number of reflections so far."""
    folder.mkdir()
    held: dict[int, int] = {}
    for number, states in enumerate(trials):
        held |= {place: int(each) for place, each in enumerate(states) if each.isdecimal()}
        listed = [
            {"name": f"env_{place}", "memory": ["Look."] * held.get(place, 0), "is_success": each == "s"}
            for place, each in enumerate(states)
        ]
        (folder / f"env_results_trial_{number}.json").write_text(json.dumps(listed))
    return folder


def write_world(folder: Path, *trials: Sequence[bool], finished: bool = True) -> Path:
    """The `world.log` of Reflexion's code: of each trial whether each environment is solved by then. Without
    `finished`, the last trial was cut short."""
    folder.mkdir(exist_ok=True)
    lines, before = [], 0
    for number, solved in enumerate(trials):
        lines += ["", f"***** Start Trial #{number} *****", ""]
        lines += [f"Environment #{z} Trial #{number}: {'SUCCESS' if won else 'FAIL'}" for z, won in enumerate(solved)]
        if finished or number + 1 < len(trials):
            won, total = sum(solved), len(solved)
            counts = {"SUCCESS": won, "ADDITIONAL SUCCESS": won - before, "FAIL": total - won, "TOTAL": total}
            summary = [f"{name}: {count}" for name, count in counts.items()]
            lines += ["", "-----", *summary, f"ACCURACY: {round(won / total, 2)}", "-----"]
            lines += ["", f"***** End Trial #{number} *****", ""]
            before = won
    with (folder / "world.log").open("a") as file:
        file.write("\n".join(lines) + "\n")
    return folder


def solve(*counts: int, of: int) -> list[list[bool]]:
    """Trials after which so many environments are solved, the first ones."""
    return [[number < count for number in range(of)] for count in counts]


def test_logs_of_reflexion_give_the_tables_of_a_run(tmp_path):
    base = write_logs(tmp_path / "base_run_logs", "s000", "s000", "ss00")
    logs = write_logs(tmp_path / "reflexion_run_logs", "1111", "ss12", "ssss", "ssss")
    named = f"react={base}", f"reflexion={logs}"
    data = json.loads(read_report(*named, "--json")[0])
    assert {arm["arm"]: arm["mean"] for arm in data["arms"]} == {"react": 50, "reflexion": 100}
    assert [trial["solved"] for trial in data["arms"][1]["success"]["trials"]] == [0, 2, 4]
    assert data["arms"][1]["learning"]["written"] == 5 / 4
    (pair,) = data["comparisons"]
    assert (pair["asks"], pair["trials"], pair["difference"]) == ("memory over equal retries", 3, 50)
    out, _ = read_report(*named, "--html", tmp_path / "page.html", "--figures", tmp_path / "figures")
    assert "Highest mean: reflexion" in out
    assert (tmp_path / "figures/success.svg").exists()
    out, _ = read_report(*named)
    assert "hold success alone" in out
    assert "turns/task" not in out, "nothing is known of steps"


def test_a_baseline_of_reflexions_logs_is_what_the_user_names_so_even_where_its_files_hold_reflections(tmp_path):
    """The published base_run_logs hold 163 reflections."""
    base = write_logs(tmp_path / "base_run_logs", "s111", "s222", "ss22")
    logs = write_logs(tmp_path / "reflexion_run_logs", "1111", "ss12", "ssss")
    data = json.loads(read_report(f"react={base}", f"reflexion={logs}", "--json")[0])
    (pair,) = data["comparisons"]
    assert (pair["first"], pair["second"], pair["asks"]) == ("react", "reflexion", "memory over equal retries")
    react, reflexion = (arm["learning"] for arm in data["arms"])
    assert (react["written"], reflexion["written"]) == (None, 5 / 4)
    assert data["remarks"] == ["react: its files hold 6 reflections. As it reads none, they count nowhere."]


def test_unnamed_logs_with_reflections_are_of_an_unknown_method_and_the_report_says_how_to_name_them(tmp_path):
    base = write_logs(tmp_path / "base_run_logs", "s111", "s222")
    logs = write_logs(tmp_path / "reflexion_run_logs", "1111", "ss12")
    data = json.loads(read_report(base, logs, "--json")[0])
    (pair,) = data["comparisons"]
    assert (pair["first"], pair["second"], pair["asks"]) == ("base_run_logs", "reflexion_run_logs", "")
    assert f"react={base} or reflexion={base}" in data["remarks"][0]


def test_a_name_for_an_arm_is_for_logs_of_reflexion_alone(run, tmp_path):
    with pytest.raises(RssoError, match="names the arm of such a folder"):
        read_report(f"react={run}")
    with pytest.raises(RssoError, match="nowhere is no folder"):
        read_report("react=nowhere")
    twin = write_logs(tmp_path / "a=b", "s0")
    assert json.loads(read_report(twin, "--json")[0])["arms"][0]["arm"] == "a=b", "a folder may have such a name"


def test_one_task_type_of_logs_has_an_interval_but_no_p_and_no_winner(tmp_path):
    base = write_logs(tmp_path / "base", "s0000000", "s0000000")
    logs = write_logs(tmp_path / "reflexion", "s1111111", "sssssss1")
    (pair,) = json.loads(read_report(f"react={base}", logs, "--json")[0])["comparisons"]
    assert (pair["interval"]["over"], pair["interval"]["low"] > 0) == ("variants", True)
    assert (pair["wilcoxon"]["p"], pair["sign"]["p"], pair["holm"]) == (None, None, None)
    out, _ = read_report(f"react={base}", logs)
    assert "Undecided on other variants of this task type: reflexion - react +75.00 points" in " ".join(out.split())
    assert "beats" not in out


def test_reflections_that_repeat_an_earlier_one_of_their_environment_are_counted(tmp_path):
    """Each reflection of these logs says the same: the second and third of an environment repeat."""
    logs = write_logs(tmp_path / "reflexion", "1111", "ss22", "sss3")
    data = json.loads(read_report(logs, "--json")[0])
    assert data["arms"][0]["learning"]["repeats"] == {"repeated": 3, "reflections": 7}
    (row,) = (line for line in read_report(logs)[0].splitlines() if line.startswith("reflexion ") and "3/7" in line)
    assert row.split()[:3] == ["reflexion", "1.75", "3/7"]


def test_reflections_an_environment_are_those_of_the_notes(tmp_path):
    """Notes on Reflexion, metrics: environments with 2, 0 and 3 reflections, 1.67 on average."""
    logs = write_logs(tmp_path / "reflexion", "1s1", "2s2", "ss3")
    data = json.loads(read_report(logs, "--json")[0])
    assert round(data["arms"][0]["learning"]["written"], 2) == 1.67


NOTES = [
    {"trial": 1, "solved": 45, "additional": 45, "accuracy": 0.34},
    {"trial": 2, "solved": 67, "additional": 22, "accuracy": 0.50},
    {"trial": 3, "solved": 85, "additional": 18, "accuracy": 0.63},
]
"""What the notes on Reflexion show of a `world.log` of 134 environments."""


def test_a_world_log_alone_gives_the_success_of_every_trial(tmp_path):
    folder = write_world(tmp_path / "reflexion", *solve(45, 67, 85, of=134))
    trials = json.loads(read_report(folder, "--json")[0])["arms"][0]["success"]["trials"]
    kept = [{name: round(trial[name], 2) for name in NOTES[0]} for trial in trials]
    assert kept == NOTES
    assert "134" in read_report(folder)[0]


def test_a_world_log_fills_in_for_missing_files_and_knows_no_reflections(tmp_path):
    folder = write_world(tmp_path / "reflexion", [True, False], [True, True])
    write_logs(tmp_path / "listed", "s1", "ss")
    shutil.copy(tmp_path / "listed/env_results_trial_1.json", folder)
    (arm,) = json.loads(read_report(folder, "--json")[0])["arms"]
    assert [trial["solved"] for trial in arm["success"]["trials"]] == [1, 2]
    assert arm["learning"]["written"] is None


def test_a_trial_that_a_world_log_does_not_finish_is_left_out_and_said_to_be(tmp_path):
    folder = write_world(tmp_path / "reflexion", [True, False], [True], finished=False)
    data = json.loads(read_report(folder, "--json")[0])
    assert [trial["solved"] for trial in data["arms"][0]["success"]["trials"]] == [1]
    assert data["remarks"] == ["reflexion: trial 1 of its world.log was cut short and is left out."]


def test_of_a_run_that_was_started_again_a_world_log_counts_the_last(tmp_path):
    write_world(tmp_path / "reflexion", [True, True], [True, True])
    folder = write_world(tmp_path / "reflexion", [False, True])
    trials = json.loads(read_report(folder, "--json")[0])["arms"][0]["success"]["trials"]
    assert [trial["solved"] for trial in trials] == [1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Environment #0 Trial #0: SUCCESS\nSUCCESS: 2\nFAIL: 0\nTOTAL: 2\n", "do not add up to its summary"),
        ("Environment #9 Trial #0: FAIL\nSUCCESS: 0\nFAIL: 2\nTOTAL: 2\n", "do not add up to its summary"),
        ("Environment #0 Trial #0: SUCCESS\n", "no trial of Reflexion's code that came to its end"),
        ("another world", "no trial of Reflexion's code that came to its end"),
    ],
)
def test_a_world_log_that_says_too_little_is_refused(text, message, tmp_path):
    (tmp_path / "world.log").write_text(text)
    with pytest.raises(RssoError, match=message):
        read_report(tmp_path)


def test_a_world_log_that_says_something_else_than_the_files_is_refused(tmp_path):
    folder = write_world(write_logs(tmp_path / "reflexion", "s1"), [True, True])
    with pytest.raises(RssoError, match="do not say the same"):
        read_report(folder)


@pytest.mark.parametrize(
    ("trials", "message"),
    [(("s0", ""), "they list other environments"), (("s0", "00"), "env_0 is solved, and later not")],
)
def test_logs_that_are_not_of_one_run_are_refused(trials, message, run, tmp_path):
    logs = write_logs(tmp_path / "logs", *trials)
    with pytest.raises(RssoError, match=message):
        read_report(logs)
    with pytest.raises(RssoError, match="report the folders apart"):
        read_report(logs, run)
    (logs / "env_results_trial_0.json").rename(logs / "env_results_trial_2.json")
    with pytest.raises(RssoError, match=r"lacks env_results_trial_0\.json"):
        read_report(logs)
    write_logs(tmp_path / "others", "s")
    (tmp_path / "others/env_results_trial_0.json").write_text('[{"name": "env_0"}]')
    with pytest.raises(RssoError, match="is no log of Reflexion"):
        read_report(tmp_path / "others")


def test_runs_of_other_protocols_are_compared_and_those_of_other_variants_refused(tmp_path):
    def play(name: str, preset: str, **told: object) -> Path:
        store = Store(tmp_path / name)
        store.open({"protocol": preset, "config": {"protocol": {"preset": preset}, **told}}, {"rsso": "1"})
        save(store, replace(record("rsso", "boil", 1, [[len(name)]]), protocol=preset))
        return store.folder

    one, other = play("one", "sso-adapt/3"), play("other", "adapt/4")
    out, _ = read_report(one, other)
    assert "rsso preset=adapt/4 - rsso preset=sso-adapt/3" in out
    assert "differ in more than the method: protocols sso-adapt/3 and adapt/4." in " ".join(out.split())
    with pytest.raises(RssoError, match="benchmark"):
        read_report(one, play("elsewhere", "sso-adapt/3", benchmark="pddl"))


def test_an_advised_arm_names_who_wrote_its_constitution(tmp_path):
    for advisor in ("openai/gpt-4", "gemini/gemini-2.0-flash"):
        name = advisor.partition("/")[0]
        about = {"writer": "omnireflect-neural", "models": {"actor": "x", "advisor": advisor}}
        store = Store(tmp_path / name)
        given = {"constitution/rules.json": json.dumps({"rules": [], "provenance": about})}
        store.open({"carried": {"constitution": name}}, {"react+constitution": "1"}, given=given)
        unit = record("react+constitution", "boil", 1, [[10]])
        source = Source("constitution", "file", "rules.json")
        save(store, replace(unit, sources=(source,), learnt_on=("boil::7", "melt::8")))
    read_report(tmp_path / "openai", tmp_path / "gemini", "--tables", tmp_path / "tables")
    rows = list(csv.DictReader((tmp_path / "tables/measures.csv").read_text().splitlines()))
    assert [row["advisor"] for row in rows] == ["openai/gpt-4", "gemini/gemini-2.0-flash"]
    assert [(row["calibration factor"], row["calibration set"]) for row in rows] == [("1.0", "2")] * 2
    assert len({row["arm"] for row in rows}) == 2


def test_units_that_some_command_had_to_play_and_that_are_not_there_are_counted(run, tmp_path):
    store = Store(Path(shutil.copytree(run, tmp_path / "copy")))
    here = [f"{arm}/{task}::1/s0" for arm in ARMS for task in ("boil", "freeze", "find-plant")]
    store.open(*store.read_identity(), planned=[*here, "rsso/boil (training)/s0", "rsso/melt::3/s0"])
    assert "The run is incomplete: 1 planned unit has no record." in read_report(store.folder)[0]
    (store.folder / "units" / "sso" / "boil" / "1-s0.jsonl").unlink()
    assert "The run is incomplete: 2 planned units have no record." in read_report(store.folder)[0]
    assert json.loads(read_report(run, "--json")[0])["missing"] == 0
