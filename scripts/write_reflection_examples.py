"""The examples of reflections that come with the benchmarks: failed attempts, played anew, with what to write after.

    python scripts/write_reflection_examples.py                   # writes environments/*/data/reflections.toml
    python scripts/write_reflection_examples.py pddl --check      # of one benchmark; compare with what is shipped

Actions and reflections stand in `reflection_examples.toml`; the environments say the rest. The variants are of the
development split, which neither runs nor compiles play.
"""

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import dspy

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import BUILT_IN
from rsso_dspy.files import read_toml
from rsso_dspy.optimize.teacher import GoldPlayer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.render import render_transcript, tell_outcome
from rsso_dspy.records import Trajectory
from rsso_dspy.sessions import Session, session

SOURCE = Path(__file__).with_name("reflection_examples.toml")
PACKAGE = Path(rsso_dspy.__file__).parent / "environments"
SETTINGS = ("protocol.preset=adapt/4", "embedder.model=hash")
EXTRAS = {"alfworld": "alfworld", "babyai": "minigrid", "tau2": "tau2", "textworld-express": "textworld_express"}
"""Benchmark to the package that its extra installs."""
DATA = {"house-rules": "dev"}
"""Benchmark to what its examples are of, among the sets that come along."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A failed attempt at a variant, the reflection on it, and the actions that solve the variant as the plan says."""

    variant: str
    failed: list[str]
    mistakes: str
    plan: str
    solved: list[str]


@dataclass(frozen=True, slots=True)
class Example:
    """A call of the reflector: fields of the signature `Reflect`."""

    task: str
    transcript: str
    outcome: str
    mistakes: str
    plan: str


def read_attempts(benchmark: str) -> list[Attempt]:
    return [Attempt(**row) for row in read_toml(SOURCE)[benchmark]]


def list_settings(benchmark: str) -> list[str]:
    settings = [f"benchmark={benchmark}", *SETTINGS]
    if benchmark in DATA:
        settings.append(f"environment.data={DATA[benchmark]}")
    return settings


def play_actions(variant: str, actions: Sequence[str], live: Session) -> tuple[Trajectory, str]:
    """Play these actions as one trial; return it with its transcript, as a reflector reads it."""
    player = dspy.LM("script/actions", engine=GoldPlayer(actions), cache=False)
    runtime = replace(live.runtime, lm=lambda *_: player, budget=lambda _: len(actions))
    with live.activate_for_run(), runtime.activate():
        (trial,) = Agent("react")(variant=variant, trials=1).trials
    with live.runtime.environments.lease() as environment:
        return trial.trajectory, render_transcript(trial.trajectory, environment.render)


def play_examples(benchmark: str) -> list[Example]:
    """Play the failed attempts at a benchmark. Raises `ValueError` for one of another split, or one that succeeds."""
    examples = []
    with session(load_config(overrides=list_settings(benchmark))) as live:
        for attempt in read_attempts(benchmark):
            trajectory, transcript = play_actions(attempt.variant, attempt.failed, live)
            if trajectory.variant.split != "dev" or trajectory.solved:
                raise ValueError(f"{attempt.variant} is of the split {trajectory.variant.split}, or was solved")
            told = (trajectory.task, transcript, tell_outcome(trajectory))
            examples.append(Example(*told, attempt.mistakes, attempt.plan))
    return examples


def write_file(benchmark: str) -> str:
    """Return the text of a benchmark's file of examples."""
    variants = [attempt.variant for attempt in read_attempts(benchmark)]
    lines = [
        "# Made by scripts/write_reflection_examples.py; the reflections were written by hand.",
        "",
        "[provenance]",
        f'benchmark = "{benchmark}"',
        f"variants = {json.dumps(variants)}",
    ]
    for example in play_examples(benchmark):
        lines += ["", "[[example]]"]
        lines += [f"{name} = {_quote(text)}" for name, text in asdict(example).items()]
    return "\n".join(lines) + "\n"


def _quote(text: str) -> str:
    """A TOML string, with as many lines as the text; no line of it ends with a space."""
    quoted = json.dumps(text, ensure_ascii=False)
    if "\n" not in text:
        return quoted
    lines = quoted[1:-1].replace("\\t", "\t").split("\\n")
    lines = [line[:-1] + "\\u0020" if line.endswith(" ") else line for line in lines]
    return '"""\n' + "\n".join(lines) + '"""'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help="by default all that are installed")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the files differ")
    options = parser.parse_args()
    os.environ.pop("ALFWORLD_DATA", None)  # else the user's games are played

    different = []
    for benchmark in options.benchmarks or [name for name in BUILT_IN if _is_installed(name)]:
        file, text = PACKAGE / benchmark.replace("-", "_") / "data/reflections.toml", write_file(benchmark)
        if not options.check:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            different.append(benchmark)
    if different:
        raise SystemExit(f"other examples than are shipped: {', '.join(different)}")


def _is_installed(benchmark: str) -> bool:
    """Whether the extra of a benchmark is there, if it needs one."""
    package = EXTRAS.get(benchmark)
    return package is None or find_spec(package) is not None


if __name__ == "__main__":
    main()
