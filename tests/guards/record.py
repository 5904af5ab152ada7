"""Plays the guards' units with the offline player and writes their recordings. Run by hand, from a clean commit:

    python -m tests.guards.record [NAME...]         # all of them, or those named; minutes
    python -m tests.guards.record --out FOLDER      # elsewhere

It writes `recordings/`, and with all of them `answers.jsonl.xz`, `figures.jsonl.xz` and `COMMIT`, the commit that they
were made with. Two runs write the same bytes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.manners import ANSWERS, chat
from tests.guards import answers, house
from tests.guards.recordings import ENDING, FOLDER, Recorder, list_recordings, read_lines, write_lines
from tests.kept_simulators import close_kept, keep_simulators

Job = dict[str, Any]

RECORDINGS = FOLDER.name

FACTORIAL = ["react", "react-sso", "reflexion", "reflexion-sso", "sso", "rsso"]
WRITERS = [f"omnireflect-{writing}" for writing in ("neural", "symbolic", "neuro-symbolic")]
STREAMING = ["exprag", "expel", "awm", "reasoningbank", "ace", "cheatsheet"]
GIVEN = {
    "kind": "rsso-dspy constitution",
    "schema": 1,
    "rules": [
        {"category": "abstract", "text": "A door must be open before you can go through it."},
        {"category": "error", "text": "Focused on a seed.", "solution": "Focus on a plant in its adult stage."},
    ],
}
"""A constitution written by hand."""
FAST = {"embedder.model": "hash"}
IMPROVEMENTS = ["structured", "loops", "hierarchical", "adaptive", "novelty", "counterfactual"]


def make_run(methods: list[str], variants: list[str], preset: str, steps: int, trials: int = 2, **more: Any) -> Job:
    """A run of every method on these variants. `given` are files; `mangled` has every third answer of the actor in
    another form, and some in none; all else are settings, with `__` for the dot. Solved variants are played on, unless
    `protocol__stop_on_success` says otherwise."""
    settings = {**FAST, "protocol.preset": preset, "protocol.steps": steps, "protocol.trials": trials}
    settings |= {"protocol.stop_on_success": False}
    job = {"kind": "run", "methods": methods, "variants": variants}
    job |= {name: more.pop(name) for name in ("given", "mangled", "tasks", "per_task") if name in more}
    return {**job, "settings": settings | {name.replace("__", "."): value for name, value in more.items()}}


def list_jobs() -> dict[str, Job]:
    adapt, released = "adapt/2", "sso-adapt/1"
    remote = {"backends__guard__base_url": None}  # the provider's own address: it takes no top_k
    one, two = "find-plant::229", "find-living-thing::228"
    jobs = {
        "thermometer-adapt": make_run(
            FACTORIAL, ["use-thermometer::412"], adapt, 12, protocol__learn_after_last=True
        ),
        "lifespan-sso-adapt": make_run(
            FACTORIAL, ["lifespan-longest-lived::98"], released, 6,
            protocol__stop_on_success=True, protocol__learn_after_last=False,
        ),
        "grow": make_run(["rsso"], ["grow-plant::98"], adapt, 24, 3),
        "release": make_run(["sso", "rsso"], [one], "release", 14, 3),
        "reflexion": make_run(["react", "reflexion"], [one], "reflexion/1", 10, 3),
        "seeds": make_run(
            ["rsso"], [two], adapt, 14, 3, backends__guard__seed=True, protocol__retry_temperature=0.9, seed=3
        ),
        "mangled-again": make_run(
            ["reflexion", "rsso"], [two], released, 14, 3, mangled=True, backends__guard__ask_again=True
        ),
        "json": make_run(["rsso"], [two], adapt, 14, 3, mangled=True, backends__guard__adapter="json"),
        "xml": make_run(["rsso"], [two], released, 14, 3, mangled=True, backends__guard__adapter="xml"),
        "killed": make_run(["rsso"], [two], released, 14, 3, memory__skills__pairs="any"),
        "advised": make_run(
            ["react+constitution", "rsso+constitution"], [one], adapt, 12, given={"constitution": GIVEN}
        ),
        "improved": make_run(
            ["reflexion", "rsso"], ["use-thermometer::412"], adapt, 12, 4,
            memory__reflections__improvements=IMPROVEMENTS, memory__reflections__size=1,
            protocol__exhausted_by_loop=True,
        ),
        "retrieved": make_run(
            ["reflexion"], [one, two], adapt, 10, protocol__stream_trials=2,
            memory__reflections__improvements=["across-tasks", "retrieval", "structured"],
        ),
        "hierarchical": make_run(
            ["reflexion-hierarchical", "last-trajectory", "long-context"], ["use-thermometer::412"], adapt, 8, 4,
            memory__reflections__size=1,
        ),
        "omnireflect": make_run(
            WRITERS, [one, "find-plant::228", "find-plant::236"], "omnireflect/1", 14, 1, **remote,
            memory__constitution__s_freq=2,
        ),
        "omnireflect-separate": make_run(
            ["rsso+neural"], [one, two], adapt, 12, memory__constitution__prompts="separate",
            memory__constitution__r_freq=5,
        ),
        "transfer": make_run(
            ["react", "rsso"], [two], released, 12, 1, protocol__setting="transfer", protocol__train_trials=2,
            protocol__train_per_task=2,
        ),
        "book": {
            "kind": "constitution", "calib": "1-per-task", "tasks": ["find-plant", "find-living-thing"],
            "writer": "neuro-symbolic", "explore": 1,
            "settings": {**FAST, "protocol.preset": adapt, "protocol.steps": 12},
        },
        "gepa": make_compile("gepa", 26),
        "bootstrap-gold": make_compile("bootstrap", 18, teacher="gold"),
    }  # fmt: skip
    for name, tasks in (("pddl", "gripper blockworld barman tyreworld"), ("babyai", "GoToDoor Pickup Open Unlock")):
        named = {"benchmark": name, "tasks": tasks.split()}
        jobs[name] = make_run(FACTORIAL, [], adapt, 12, per_task=1, **named)
        jobs[f"{name}-listed"] = make_run(["rsso"], [], adapt, 8, per_task=1, protocol__action_choice="listed", **named)
    jobs["streams"] = make_run(STREAMING, [one, two], adapt, 8, 1)
    jobs["alfworld"] = make_run(
        FACTORIAL, [], adapt, 12, per_task=1, benchmark="alfworld", tasks=["pick_and_place_simple"]
    )
    return jobs


def make_compile(optimizer: str, rollouts: int, **more: Any) -> Job:
    return {
        "kind": "compile", "method": "rsso", "optimizer": optimizer, "calib": "1-per-task",
        "tasks": ["find-plant", "find-living-thing"], "trials": 2, "steps": 7, "handicapped": True,
        "max_rollouts": rollouts, **more,
        "settings": {**FAST, "protocol.preset": "adapt/2"},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=FOLDER.parent)
    options = parser.parse_args()
    jobs = list_jobs()
    recordings = options.out / RECORDINGS
    with keep_simulators(), answers.listening() as heard:
        for name in options.names or jobs:
            record(name, jobs[name], recordings)
        close_kept()
    for name in list_recordings(recordings):
        if name not in jobs:
            (recordings / f"{name}{ENDING}").unlink()
    write_figures(options.out)
    if not options.names:
        write_lines("answers", answers.make_table(heard), options.out)
        (options.out / "COMMIT").write_text(f"{find_commit()}\n", encoding="utf-8")


def write_figures(out: Path) -> None:
    """Keep what the report says of every recorded run."""
    figures = []
    for name in list_recordings(out / RECORDINGS):
        lines = read_lines(name, out / RECORDINGS)
        if lines[0]["job"]["kind"] == "run":
            results = [line for line in lines if "trial" in line]
            figures.append({"recording": name, "figures": house.compute_figures(results, {})[0]})
    write_lines("figures", figures, out)


def record(name: str, job: Job, out: Path) -> None:
    if not house.is_playable(job):
        print(f"{name}: not recorded, its benchmark is not installed here", file=sys.stderr)
        return
    answer = mangle if job.get("mangled") else handicap if job.get("handicapped") else answer_well
    recorder = Recorder(job, answer)
    with tempfile.TemporaryDirectory() as folder:
        house.play(job, Path(folder), recorder.answer, recorder.tell)
    write_lines(name, recorder.lines, out)
    print(f"{name}: {recorder.calls} calls, {sum('trial' in line for line in recorder.lines)} trials", file=sys.stderr)


def answer_well(call: dict[str, Any], _: int) -> str:
    return house.answer_offline(call)


def handicap(call: dict[str, Any], number: int) -> str:
    """Let an actor without advice and demonstrations lose every second step: a compile has something to find."""
    system, *messages = call["messages"]
    if call["role"] != "actor" or number % 2 or "Advice from" in system["content"] or len(messages) > 1:
        return house.answer_offline(call)
    return chat("Nothing comes to mind.", "wait1")


def mangle(call: dict[str, Any], number: int) -> str:
    """The offline player's answer, in the forms that real models give it: every third one of the actor."""
    said = house.answer_offline(call)
    if number % 11 == 7:
        return "I would rather not say."
    if call["role"] != "actor" or number % 3:
        return said
    action = said.partition("action ## ]]\n")[2].partition("\n")[0] or json_action(said)
    forms = list(ANSWERS.values())
    return forms[number // 3 % len(forms)]("It is the next step.", action or "look around")


def json_action(said: str) -> str:
    """The action of an answer in JSON or XML."""
    if "<" in said:
        return said.partition("action>")[2].partition("<")[0].strip()
    fields = json.loads(said)
    return str(fields.get("next_action") or fields.get("action") or "")


def find_commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
