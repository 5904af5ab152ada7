"""`rsso-dspy skills build`: extraction without a model, held to the published code's own numbers."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "memory" / "data" / "sso_golden.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
RELEASE = ("--preset", "release", "--embedder", "hash", "--json")


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


def test_every_option_of_build_reaches_the_extraction(rsso):
    base = ("skills", "build", GOLDEN, "--case", "1", "--embedder", "hash", "--json")
    plain = json.loads(rsso(*base)[1])
    assert plain["settings"]["extraction"] == "reward-boundary"
    changes = {
        ("--extraction", "sliding"): {"extraction": "sliding"},
        ("--max-window", "4"): {"max_window": 4},
        ("--feedback",): {"feedback": True},
        ("--beams", "1"): {"beams": 1},
        ("--weights", "reward=2, state=0"): {"reward_weight": 2.0, "state_weight": 0.0},
    }
    for words, expected in changes.items():
        code, out, _ = rsso(*base, *words)
        changed = json.loads(out)
        assert code == 0
        assert changed["settings"] == plain["settings"] | expected
        if words[0] != "--beams":
            assert changed["after_each"] != plain["after_each"], words


def test_build_prints_each_update_and_the_words(rsso, monkeypatch):
    words = ("skills", "build", GOLDEN, "--case", "1", "--preset", "release", "--embedder", "hash")
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = rsso(*words)
    assert code == 0
    lines = out.splitlines()
    assert [line for line in lines if line.startswith("Trajectory")] == [
        "Trajectory 1: 18 states, 20 points gained",
        "Trajectory 2: 22 states, 24 points gained",
        "Trajectory 3: 20 states, 36 points gained",
    ]
    assert "  candidates (state, action similarity): 94" in lines
    assert "    and 82 more; --json has all" in lines
    assert "Library: 2 skills, described by their examples" in lines
    assert any(line.split()[:2] == ["1[2:5)", "2[15:18)"] and line.split()[2].startswith("3.10537") for line in lines)
    assert max(map(len, lines)) <= 60
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
        ([[START, STATE]], ("--preset", "relaese"), "release"),
        ([[START, STATE]], ("--extraction", "slidng"), "did you mean sliding?"),
        ([[START, STATE]], ("--max-window", "2"), "min_window <= max_window"),
        ([[START, STATE]], ("--weights", "states=1"), "did you mean state?"),
        ([[START, STATE]], ("--weights", "state=-1"), "--weights state=-1: expected a number from 0 up"),
        ([[START, STATE]], ("--weights", "state=nan"), "expected a number from 0 up"),
        ([[START, STATE]], ("--weights", "state=0,action=0,reward=0,coverage=0"), "all score weights are 0"),
    ],
)
def test_a_wrong_build_exits_2_and_says_where(rsso, tmp_path, content, words, said):
    name = said.partition(":")[0] if said.startswith("given.jsonl") else "given.json"
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    code, out, err = rsso("skills", "build", name, "--embedder", "hash", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_rewards_are_points_of_100_without_a_loss(rsso, tmp_path):
    gains = [0.29, 0.57, -0.01]  # as floats, 28.999..., 56.999...
    (tmp_path / "given.json").write_text(json.dumps([[START, *(STATE | {"reward": gain} for gain in gains)]]))
    out = rsso("skills", "build", "given.json", "--embedder", "hash")[1]
    assert out.splitlines()[0] == "Trajectory 1: 4 states, 86 points gained"


def test_a_file_that_is_not_there_is_named(rsso):
    code, _, err = rsso("skills", "build", "none.json")
    assert code == 2
    assert "cannot read none.json: No such file" in err
