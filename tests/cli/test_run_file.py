"""Section `[run]` of a file: the options of a run, and the experiments in examples/ that are such files."""

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.pddl.tasks import FILES as FILES_OF_AGENTBOARD
from rsso_dspy.environments.pddl.tasks import _list_rows
from rsso_dspy.protocol import apply_decoding

FOLDER = Path(__file__).parents[2] / "examples"
OTHERS = ("candidates.toml", "my-rules.toml", "reflector-examples.toml")
FILES = sorted(str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.toml") if file.name not in OTHERS)
PAPER = ("run", "--config", FOLDER / "rsso-paper.toml", "--dry-run", "--out", "out")
RULES = {
    "kind": "rsso-dspy constitution",
    "schema": 1,
    "rules": [
        {"category": "abstract", "text": "Teleport to the room."},
        {"category": "error", "text": "Waiting.", "solution": "Act."},
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_every_example_can_be_planned_as_its_first_lines_say(rsso, tmp_path, name):
    text = (FOLDER / name).read_text()
    missing = 'benchmark = "alfworld"' in text and find_spec("alfworld") is None
    if missing and name.startswith("reflexion/"):
        pytest.skip("the extra alfworld is not installed, and no other benchmark has 31 games of a type")
    where = ("--config", FOLDER / name, *(("--benchmark", "pddl") if missing else ()))
    chosen = ()
    if on_pddl := name.startswith("omnireflect/") and (missing or name.endswith("pddl.toml")):
        put_problems(tmp_path / "agentboard/pddl")
        chosen = ("--variants", "agentboard", "--per-task", 20, "--set", "environment.data=agentboard/pddl")
    if built := re.search(r"^#   rsso-dspy (constitution build .*)$", text, re.M):
        words = shlex.split(built[1])
        assert f"examples/{name}" in words
        words[words.index("--config") : words.index("--config") + 2] = where
        code, _, err = rsso(*words, "--dry-run")
        assert (code, "plan: neural rules from" in err) == (0, True), err
        file = tmp_path / words[words.index("-o") + 1]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(RULES))
    assert ("constitution = " in text) == bool(built)
    code, _, err = rsso("run", *where, *(chosen if missing else ()), "--dry-run", "--out", "out")
    assert (code, " 0 units finished, " in err and ", 0 to play" not in err) == (0, True), err
    if name.startswith("omnireflect/"):
        assert f" x {60 if on_pddl else 134} variants" in err, "as many as the paper plays"
        assert {"qwen", "gemini", "gpt-4"} <= load_config(FOLDER / name, whole=False).backends.keys()
    assert not (tmp_path / "out").exists()


def put_problems(folder: Path) -> None:
    """As many problems as AgentBoard has, in their folders; here some that are shipped."""
    for domain, count in FILES_OF_AGENTBOARD.items():
        (folder / domain).mkdir(parents=True)
        for number, (problem, _) in enumerate(_list_rows(domain)[:count]):
            (folder / domain / f"{number:02}.pddl").write_text(problem)


def test_the_papers_experiment_is_one_command_whose_cost_can_be_seen_without_a_key(rsso, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    code, _, err = rsso(*PAPER)
    assert code == 0
    for text in (
        "4 arms x 164 variants = 656 units, 5 trials each, protocol sso-adapt/3 retry_temperature=0.7,",
        "backend anthropic: anthropic/claude-sonnet-4-6", "actor 294,420", "$",
    ):  # fmt: skip
        assert text in err


@pytest.mark.parametrize(
    ("backend", "model"),
    [
        ("qwen", "hosted_vllm/Qwen/Qwen3-4B"),
        ("gemini", "gemini/gemini-2.0-flash"),
        ("gpt-4", "openai/gpt-4o"),
    ],
)
def test_each_model_of_omnireflect_is_a_backend_of_its_table_1(backend, model):
    """OmniReflect, section 3.2: Qwen3-4B, Gemini-2.0 ("flash") and GPT-4 ("omni"), at temperature 0 and top-p 0.7. None
    of them was asked here: it is the plan that names them."""
    config = load_config(FOLDER / "omnireflect/table1.toml", overrides=[f"backend={backend}", "benchmark=babyai"])
    sent = apply_decoding(config).active_backend

    assert (sent.model, sent.temperature, sent.top_p) == (model, 0.0, 0.7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--backend", "embedded", "--tasks", "boil", "--per-task", "1"], "4 arms x 1 variant = 4 units, 5 trials"),
        (["--methods", "rsso", "--trials", "2", "--variants", "boil::22,boil::27"], "1 arm x 2 variants = 2 units, 2"),
        (["--set", "protocol.trials=3", "--tasks", "boil"], "3 trials each, protocol sso-adapt/3 trials=3"),
        (["--constitution", "rules.json", "--methods", "sso", "--tasks", "boil"], "1 arm x 9 variants"),
    ],
)
def test_options_beside_a_file_win(rsso, words, said):
    Path("rules.json").write_text(json.dumps(RULES))
    code, _, err = rsso(*PAPER, *words)
    assert (code, said in err) == (0, True), err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[run]\nmetods = []", "unknown config key in f.toml 'run.metods': did you mean run.methods"),
        ('methods = ["react"]', "Options of `run` stand in its section [run]."),
        ("[run]\nper_task = 0", "config key run.per_task in f.toml: input should be greater than 0"),
        ('[run]\nmethods = ["reakt"]', "did you mean react"),
    ],
)
def test_a_section_that_says_nothing_sensible_is_refused(rsso, text, said):
    Path("f.toml").write_text(text)
    code, out, err = rsso("run", "--config", "f.toml", "--dry-run")
    assert (code, out, said in " ".join(err.split())) == (2, "", True), err
    assert len(err) < 600
