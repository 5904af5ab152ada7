"""How long a hook takes: the installed script, called as a host calls it, in projects of more and more entries.

    PYTHONPATH=reflexion/src python reflexion/benchmarks/latency.py --calls 40 --entries 0 100 1000

Milliseconds of the CPU, which a busy machine changes less than those that passed, and their ratio to a bare start of
Python; then the tokens of a block, for prompts that name an entry and for others. The last line is one JSON object.
"""

import argparse
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

from reflexion.entry import Entry, dump_entry, format_time
from reflexion.install import list_script_words
from reflexion.recall import count_tokens, recall_for_prompt, render_block
from reflexion.store import Store

SOURCES = Path(__file__).parents[1] / "src"
ALONE = "python alone"
START = 1_767_225_600.0
"""2026-01-01T00:00:00Z: when entries were first seen."""


def measure_latency(calls: int, count: int) -> tuple[dict[str, dict[str, float]], dict[str, list[int]]]:
    """Milliseconds of the script as a host calls it, by event: passed, and of the CPU; and tokens of blocks."""
    found = {}
    with tempfile.TemporaryDirectory() as made:
        os.environ["REFLEXION_HOME"] = f"{made}/state"
        root = Path(made) / "project"
        (root / ".git").mkdir(parents=True)
        contexts = fill_project(root, count)
        script = list_script_words()[0] if len(list_script_words()) == 1 else make_script(Path(made))
        known = contexts[0] if contexts else "npm build"
        events: dict[str, tuple[str, dict[str, object]]] = {
            "start of a session": ("SessionStart", {}),
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
            times[ALONE].append(time_process([sys.executable, "-c", "pass"], b""))
        for name, pairs in times.items():
            passed, used = (sorted(values) for values in zip(*pairs, strict=True))
            row = {"p50_ms": pick(passed, 0.5), "p99_ms": pick(passed, 0.99)}
            found[name] = {**row, "cpu_p50_ms": pick(used, 0.5), "cpu_p99_ms": pick(used, 0.99)}
        others = ["rename the button", "what does the README say", "add a license to the shop"]
        with Store(str(root)) as store:
            tokens = {name: sorted(count_block(store, f"please do {prompt}") for prompt in prompts)
                      for name, prompts in (("match", contexts[:200]), ("no match", others))}  # fmt: skip
    return found, tokens


def count_block(store: Store, prompt: str) -> int:
    return count_tokens(render_block(recall_for_prompt(store, prompt, time.time()))[0])


def fill_project(root: Path, count: int) -> list[str]:
    """Entries that differ, as files, and their index; their commands."""
    rng = random.Random(0)
    verbs = ("build", "test", "lint", "deploy", "start", "check", "pack", "sync", "bench", "format")
    programs = ("npm", "make", "cargo", "pytest", "docker", "go", "gradle", "yarn", "pip", "terraform")
    words = [f"{a}{b}" for a in ("alpha", "beta", "gamma", "delta", "kappa", "omega", "sigma") for b in range(200)]
    folder = root / ".reflexion/entries"
    folder.mkdir(parents=True)
    contexts = []
    for number in range(count):
        program, verb, word = rng.choice(programs), rng.choice(verbs), rng.choice(words)
        entry_id = f"RFX-20260101-{number:06x}"
        entry = Entry(
            entry_id,
            trigger=f"error: {word} of {verb} is not there",
            context=f"{program} {verb} {word}",
            resolution=f"use `{program} {verb} --{word}`",
            resolved_by="confirmed",
            keywords=(program, verb, word),
            first_seen=format_time(START),
            last_seen=format_time(time.time()),
            confidence=0.8,
        )
        (folder / f"{entry_id}.json").write_text(json.dumps(dump_entry(entry)))
        contexts.append(entry.context)
    with Store(str(root)) as store:
        store.follow_files(anew=True)
    return contexts


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--entries", type=int, nargs="+", default=[0, 100, 1_000, 10_000])
    options = parser.parse_args()
    load, everything = os.getloadavg()[0], {}
    print(f"{options.calls} calls an event, load {load:.1f} on {os.cpu_count()} cores\n")
    print(
        "| entries | hook | CPU p50 ms | x python alone | CPU p99 ms | passed p50 ms | passed p99 ms |\n"
        + "|---" * 7
        + "|"
    )
    for count in options.entries:
        latency, tokens = measure_latency(options.calls, count)
        everything[count] = {"latency": latency, "tokens": tokens}
        for name, row in latency.items():
            row["ratio"] = round(row["cpu_p50_ms"] / latency[ALONE]["cpu_p50_ms"], 2)
            cells = (row[key] for key in ("cpu_p50_ms", "ratio", "cpu_p99_ms", "p50_ms", "p99_ms"))
            print(f"| {count:,} | {name} | {' | '.join(f'{value:g}' for value in cells)} |", flush=True)
        for name, counts in tokens.items():
            spread = f"{counts[0]} to {counts[-1]}, median {counts[len(counts) // 2]}" if counts else "none"
            print(f"| {count:,} | tokens, {name} | {spread} | | | | |")
    print(f"\n{json.dumps({'calls': options.calls, 'load': load, 'entries': everything})}")


if __name__ == "__main__":
    main()
