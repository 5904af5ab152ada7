"""Plays the jobs of the recordings anew, with the offline player, and writes what comes. By hand, from a clean commit:

    python -m tests.guards.record [NAME...]         # all of them, or those named; minutes
    python -m tests.guards.record --out FOLDER      # elsewhere

It writes `recordings/`, and with all of them `figures.jsonl.xz` and `COMMIT`, the commit that they were made with.
Two runs write the same bytes. A new job is a recording that holds nothing but its first line:

    write_lines("sso", [{"job": {"kind": "run", "methods": ["sso"], "variants": ["boil::22"], "settings": {...}}}])

`mangled` has every third answer of the actor in another form, and some in none; `handicapped` has an actor without
advice lose steps, so that a compile has something to find.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.guards import house
from tests.guards.recordings import FOLDER, Recorder, list_recordings, read_lines, write_lines
from tests.kept_simulators import close_kept, keep_simulators

Job = dict[str, Any]

RECORDINGS = FOLDER.name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", type=Path, default=FOLDER.parent)
    options = parser.parse_args()
    with keep_simulators():
        for name in options.names or list_recordings():
            record(name, read_lines(name)[0]["job"], options.out / RECORDINGS)
        close_kept()
    write_figures(options.out)
    if not options.names:
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
    system, *_ = call["messages"]
    if call["role"] != "actor" or number % 2 or "Advice from" in system["content"] or "Examples:" in system["content"]:
        return house.answer_offline(call)
    return "Thought: Nothing comes to mind.\nAction: wait1"


def mangle(call: dict[str, Any], number: int) -> str:
    """The offline player's answer, in the forms that real models give it: every third one of the actor."""
    said = house.answer_offline(call)
    if number % 11 in (7, 8):  # what cannot be read is asked for once more
        return "I would rather not say."
    if call["role"] != "actor" or number % 3:
        return said
    action = json.loads(said)["action"] if said.startswith("{") else said.rpartition("Action: ")[2].strip()
    return FORMS[number // 3 % len(FORMS)].format(action)


FORMS = (
    "Thought: It is the next step.\n**Action:** `{}`",
    '{{"reasoning": "It is the next step.", "next_action": "{}"}}',
    "[[ ## thought ## ]]\nIt is the next step.\n\n[[ ## action ## ]]\n{}\n\n[[ ## completed ## ]]",
    "<think>It is the next step.</think>\n{}",
    "<action>{}</action>",
)
"""Forms in which real models give an action."""


def find_commit() -> str:
    return subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
