"""`rsso-dspy skills build`: extraction without a model, held to the published code's own numbers."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "memory" / "data" / "sso_golden.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
HASH = ("--set", "embedder.model=hash")
RELEASE = ("--protocol", "release", *HASH, "--json")


@pytest.mark.parametrize("case", [1, 2])
def test_build_computes_what_the_published_code_computes(rsso, case):
    code, out, _ = rsso("skills", "build", GOLDEN, "--case", str(case), *RELEASE)
    assert code == 0
    found, known = json.loads(out)["after_each"], CASES[case - 1]["after_each"]
    assert len(found) == len(known)
    for ours, theirs in zip(found, known, strict=True):
        assert list(ours) == list(theirs)
        assert ours["pieces"] == theirs["pieces"]
        for name, number, within in (
            ("candidates", "state_similarity", 5e-9),
            ("candidates", "action_similarity", 5e-9),
            ("pool", "score", 1e-7),
            ("selected", "score", 1e-7),
        ):
            assert [entry["windows"] for entry in ours[name]] == [entry["windows"] for entry in theirs[name]]
            values = [entry[number] for entry in theirs[name]]
            assert [entry[number] for entry in ours[name]] == pytest.approx(values, abs=within, rel=0)
    assert any(update["selected"] for update in found)


@pytest.mark.parametrize("content", [CASES[1]["trajectories"], {"trajectories": CASES[1]["trajectories"]}])
def test_build_reads_trajectories_in_each_of_their_shapes(rsso, tmp_path, content):
    (tmp_path / "given.json").write_text(json.dumps(content))
    _, expected, _ = rsso("skills", "build", GOLDEN, "--case", "2", *RELEASE)
    assert rsso("skills", "build", "given.json", *RELEASE) == (0, expected, "")


def test_settings_of_the_skills_reach_the_extraction(rsso):
    base = ("skills", "build", GOLDEN, "--case", "1", *HASH, "--json")
    plain = json.loads(rsso(*base)[1])
    assert plain["settings"]["extraction"] == "reward-boundary"
    changes = {
        "extraction=sliding": {"extraction": "sliding"},
        "max_window=4": {"max_window": 4},
        "feedback=true": {"feedback": True},
    }
    for words, expected in changes.items():
        code, out, _ = rsso(*base, "--set", f"memory.skills.{words}")
        changed = json.loads(out)
        assert code == 0
        assert changed["settings"] == plain["settings"] | expected
        assert changed["after_each"] != plain["after_each"], words


def test_build_prints_each_update_and_the_words(rsso, monkeypatch):
    words = ("skills", "build", GOLDEN, "--case", "1", "--protocol", "release", *HASH)
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = rsso(*words)
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == [
        "Trajectory 1: 18 states, 20 points gained; 0 candidates, 0 in the pool, 0 selected",
        "Trajectory 2: 22 states, 24 points gained; 56 candidates, 6 in the pool, 1 selected",
    ]
    assert lines[3] == "Library: 2 skills, described by their examples"
    assert max(map(len, lines[4:])) <= 60
    assert rsso(*words)[1] == out


STATE = {"description": "a room", "action": "look", "reward": 0.1}
START = {"description": "a hall", "action": None, "reward": 0}


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("{", (), "given.json is not JSON"),
        ({"cases": CASES}, (), "it holds 2 cases; choose one, --case 1 to --case 2"),
        ({"cases": CASES}, ("--case", "3"), "there is no case 3"),
        ({"cases": []}, (), "must be a list of cases"),
        ([[START, STATE]], ("--case", "1"), "drop --case"),
        ([], (), "no trajectories"),
        ({"states": []}, (), "it holds no `trajectories` and no `cases`"),
        ('{"unit": {}}\n{"trial": 1}\n', (), "given.jsonl: it is no log of a unit with a finished trial, or damaged"),
        ([[START, STATE], []], (), "trajectory 2 is not a list of states"),
        ([[START, {"action": "look"}]], (), "trajectory 1, state 1: expected an object"),
        ([[STATE, STATE]], (), "trajectory 1, state 0 is the start of the trial"),
        ([[START, STATE | {"action": None}]], (), "`action` is None"),
        ([[START, STATE | {"reward": 10}]], (), "`reward` is 10; expected a share of 1"),
        ([[START, STATE | {"reward": 0.005}]], (), "`reward` is 0.005; expected a share of 1 in whole hundredths"),
        ([[START, STATE | {"reward": float("nan")}]], (), "NaN is not a number"),
        ([[START, STATE]], ("--protocol", "relaese"), "release"),
        ([[START, STATE]], ("--set", "memory.skills.extraction=slidng"), "'reward-boundary' or 'sliding'"),
        ([[START, STATE]], ("--set", "memory.skills.max_window=2"), "greater than or equal to 3"),
    ],
)
def test_a_wrong_build_exits_2_and_says_where(rsso, tmp_path, content, words, said):
    name = said.partition(":")[0] if said.startswith("given.jsonl") else "given.json"
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    code, out, err = rsso("skills", "build", name, *HASH, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rewards_are_points_of_100_without_a_loss(rsso, tmp_path):
    gains = [0.29, 0.57, -0.01]  # as floats, 28.999..., 56.999...
    (tmp_path / "given.json").write_text(json.dumps([[START, *(STATE | {"reward": gain} for gain in gains)]]))
    out = rsso("skills", "build", "given.json", *HASH)[1]
    assert out.startswith("Trajectory 1: 4 states, 86 points gained; ")


def test_a_file_that_is_not_there_is_named(rsso):
    code, _, err = rsso("skills", "build", "none.json")
    assert code == 2
    assert "cannot read none.json: No such file" in err
