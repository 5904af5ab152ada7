"""`rsso-dspy compile --teacher`: a student that counts only where a demonstration shows it how."""

import json
import re
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from tests.live import says
from tests.provider_formats import Said
from tests.provider_server import provider
from tests.toy_package import installed

COMPILE = (
    "compile", "--method", "react", "--tasks", "up", "--optimizer", "bootstrap", "--set", "compile.trials=1",
    "--set", "compile.steps=20", "--benchmark", "toy", "--protocol", "sso-adapt/3-cap60",
    "--set", "embedder.model=hash", "--backend", "mine",
)  # fmt: skip


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory) -> None:
    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site")))
    get_benchmark.cache_clear()


def count(request: dict) -> Said:
    """Counts to the number that the task names."""
    said = "\n".join(message["content"] for message in request["messages"] if message["role"] == "user")
    far = int(re.findall(r"Count from 0 to (\d)", said)[-1])
    return Said(says(thought="One more.", action=f"add {3 if far == 3 else 2}"))


def imitate(request: dict) -> Said:
    """Counts where an example does, and waits otherwise."""
    shown = "add" in request["messages"][0]["content"].partition("Examples:")[2]
    return count(request) if shown else Said(says(thought="What now?", action="wait"))


def backend(name: str, served) -> tuple[str, ...]:
    return (
        "--set", f"backends.{name}.model=hosted_vllm/{name}", "--set", f"backends.{name}.base_url={served.url}",
        "--set", f'prices."hosted_vllm/{name}"={{input = 1.0, output = 1.0}}',
    )  # fmt: skip


def test_gold_paths_of_train_variants_are_in_the_students_prompts(rsso):
    with provider(imitate) as served:
        words = (*COMPILE, "--teacher", "gold", *backend("mine", served), "-o", "mine.json")
        code, _, err = rsso(*words, "--dry-run")
        assert (code, "teacher-actor" in err) == (0, False), err
        assert "gold plays the train variants; no model is asked for that" in err
        code, _, err = rsso(*words)
        assert code == 0, err
        prompts = [request["messages"] for request in served.requests]
        made = json.loads(Path("mine.json").read_text())
        assert (made["teacher"], made["usage"].keys()) == ("gold", {"actor"})
        assert made["usage"]["actor"]["calls"] == len(prompts), "a gold path asks no model"
        code, _, _ = rsso(*words)
        assert (code, len(served.requests)) == (0, len(prompts)), "it is finished"
    (train,) = made["train"]
    demos = made["candidate"]["state"]["actor"]["demos"]
    assert {demo["task"] for demo in demos} == {f"Count from 0 to {2 + int(train.partition('::')[2]) % 3}."}
    assert any(demos[0]["action"] in turns[0]["content"].partition("Examples:")[2] for turns in prompts)
    assert made["after"]["metric"] > made["before"]["metric"]
    assert all(train not in tried["per_variant"] for tried in made["tried"]), "the teacher's score is nobody else's"
    assert any("taught by gold" in note for note in made["notes"])
    assert "teacher: gold" in rsso("show", "mine.json")[1]


def test_another_backend_teaches_and_is_billed_apart(rsso):
    with provider(imitate) as student, provider(count) as wise:
        words = (*COMPILE, "--teacher", "wise", *backend("mine", student), *backend("wise", wise), "--max-cost", "50")
        words = (*words, "--set", "backends.wise.max_tokens=1")
        forecast = int(re.search(r"teacher-actor (\d+)", rsso(*words, "--dry-run")[2]).group(1))
        code, out, err = rsso(*words, "-o", "mine.json")
        assert code == 0, err
        made = json.loads(Path("mine.json").read_text())
        billed = {role: usage["calls"] for role, usage in made["usage"].items()}
        assert billed == {"actor": len(student.requests), "teacher-actor": len(wise.requests)}
        assert 0 < len(wise.requests) <= 2 * forecast, "each answer is cut off, and asked for once more"
    assert (made["teacher"], made["model"]) == ("hosted_vllm/wise", "hosted_vllm/mine")
    assert all(text in err for text in ("[2/", "teacher up::"))
    assert f"teacher-actor {len(wise.requests)}" in out
    assert "of the teacher-actor cut off at max_tokens: raise backends.wise.roles.actor.max_tokens" in out
    assert made["candidate"]["state"]["actor"]["demos"]
