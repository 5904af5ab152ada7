"""How long a hook takes: the installed script, called as a host calls it, in a project of many entries."""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from reflexion.entry import Entry, format_time
from reflexion.install import list_script_words
from reflexion.store import Store

SOURCES = Path(__file__).parents[1] / "src"
START = 1_767_225_600.0
"""2026-01-01T00:00:00Z: when entries were first seen."""


def measure_latency(calls: int, count: int) -> dict[str, dict[str, float]]:
    """Milliseconds of the script as a host calls it, by event: passed, and of the CPU."""
    found = {}
    with tempfile.TemporaryDirectory() as made:
        os.environ["REFLEXION_HOME"] = f"{made}/state"
        root = Path(made) / "project"
        (root / ".git").mkdir(parents=True)
        fill_project(root, count)
        script = list_script_words()[0] if len(list_script_words()) == 1 else make_script(Path(made))
        known = json.loads((root / ".reflexion/entries/RFX-20260101-000005.json").read_text())["context"]
        events: dict[str, tuple[str, dict[str, object]]] = {
            "prompt": ("UserPromptSubmit", {"prompt": f"please do {known}"}),
            "prompt, nothing to recall": ("UserPromptSubmit", {"prompt": "rename the button"}),
            "before": ("PreToolUse", {"tool_input": {"command": known}}),
            "failed": ("PostToolUseFailure", {"tool_input": {"command": "make x"}, "error": "make: *** x"}),
            "succeeded": ("PostToolUse", {"tool_input": {"command": "make"}, "tool_response": {"stdout": ""}}),
        }
        times: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for number in range(calls):
            about = {"session_id": f"s{number}", "cwd": str(root), "tool_name": "Bash"}
            for name, (event, more) in events.items():
                payload = json.dumps({**about, "hook_event_name": event, **more}).encode()
                times[name].append(time_process([script, "hook", "--agent", "claude-code"], payload))
            times["the script's start"].append(time_process([script, "--version"], b""))
            times["python alone"].append(time_process([sys.executable, "-c", "pass"], b""))
        for name, pairs in times.items():
            passed, used = (sorted(values) for values in zip(*pairs, strict=True))
            row = {"p50_ms": pick(passed, 0.5), "p99_ms": pick(passed, 0.99)}
            found[name] = {**row, "cpu_p50_ms": pick(used, 0.5), "cpu_p99_ms": pick(used, 0.99)}
    return found


def fill_project(root: Path, count: int) -> None:
    """Entries that differ, as files, and their index."""
    rng = random.Random(0)
    verbs = ("build", "test", "lint", "deploy", "start", "check", "pack", "sync", "bench", "format")
    programs = ("npm", "make", "cargo", "pytest", "docker", "go", "gradle", "yarn", "pip", "terraform")
    words = [f"{a}{b}" for a in ("alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma") for b in range(200)]
    folder = root / ".reflexion/entries"
    folder.mkdir(parents=True)
    for number in range(count):
        program, verb, word = rng.choice(programs), rng.choice(verbs), rng.choice(words)
        entry_id = f"RFX-20260101-{number:06x}"
        entry = Entry(
            entry_id,
            trigger=f"error: {word} of {verb} is not there",
            context=f"{program} {verb} {word} {number}",
            resolution=f"use `{program} {verb} --{word}`",
            resolved_by="confirmed",
            keywords=(program, verb, word),
            first_seen=format_time(START),
            last_seen=format_time(time.time()),
            confidence=0.8,
        )
        (folder / f"{entry_id}.json").write_text(json.dumps(entry._asdict()))
    with Store(str(root)) as store:
        store.follow_files(anew=True)


def time_process(command: list[str], data: bytes) -> tuple[float, float]:
    """Seconds that passed and that the CPU worked."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, input=data, capture_output=True)
    passed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert not done.stderr
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pick(values: list[float], share: float) -> float:
    """Milliseconds below which that share of the values lies."""
    return round(values[min(len(values) - 1, int(share * len(values)))] * 1000, 1)


def make_script(folder: Path) -> str:
    """The console script as an installer writes it, where none is installed."""
    path = folder / "reflexion"
    lines = (
        f"#!{sys.executable}",
        "import sys",
        f"sys.path.insert(0, {str(SOURCES)!r})",
        "from reflexion.cli import main",
        "sys.exit(main())",
        "",
    )
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return str(path)
