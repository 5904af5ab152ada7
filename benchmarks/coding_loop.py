"""Whether the memory loop for coding agents keeps a shell from repeating its mistakes, and what it costs.

    python benchmarks/coding_loop.py                 # everything
    python benchmarks/coding_loop.py --calls 40      # a shorter look at the latency

Scripted shells work in temporary projects, one session a day, with and without the loop. A session meets eight kinds of
tasks in which an obvious command fails, and others that have nothing to do with them; commands are real and run by
bash. The script stands for an agent: it runs the obvious command first, then what helps. With the loop it is told what
the hooks of a host would tell it, and follows a resolution that names a command. Two readings are counted: of what is
recalled at the prompt alone, and of what is recalled before the command as well, as if a host waited for the agent to
think again (most do not: the command runs, and the agent reads it together with the failure).

No language model acts: this shows that the right note arrives at the right time, not that a model heeds it. Three
prompts for each task were there while the loop was written, and its threshold was set with them; two more, the fresh
ones, were worded when it was finished. Some share no word with the failure, and those find nothing.

The second part calls the installed script as a host does, in a project of 10,000 entries: seconds that passed, and CPU
seconds, which a busy machine changes less. The last line is one JSON object.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from rsso_dspy.coding.block import count_tokens
from rsso_dspy.coding.entry import Entry, format_time
from rsso_dspy.coding.hook import answer_payload
from rsso_dspy.coding.index import open_index
from rsso_dspy.coding.install import find_script
from rsso_dspy.coding.user_files import sign

DAY = 86_400.0
START = 1_767_225_600.0


class Mistake(NamedTuple):
    """A kind of task whose obvious command fails."""

    name: str
    prompts: tuple[str, str, str]
    wrong: str
    right: tuple[str, ...]
    """What helps: the last of them succeeds."""


MISTAKES = (
    Mistake("wrong package manager", ("Build the shop with npm", "Do an npm build", "Ship the front end"),
            "npm run build", ("./pnpm run build",)),
    Mistake("missing target", ("Make the biuld", "Run make for the biuld target", "Compile everything"),
            "make biuld", ("make build",)),
    Mistake("wrong flag", ("grep for needle in src", "Which files in src have the needle", "Look for that word"),
            "grep --recurse needle src", ("grep -r needle src",)),
    Mistake("wrong path", ("Run check.py with python", "Use python on test/check.py", "Check the numbers"),
            "python3 test/check.py", ("python3 tests/check.py",)),
    Mistake("missing dependency", ("Start app.py with python", "python app.py should print it", "Show me the total"),
            "python3 app.py", ("sh install.sh", "python3 app.py")),
    Mistake("missing configuration", ("make dist", "Use make to get a dist", "Pack it for release"),
            "make dist", ("cp config.example config.mk", "make dist")),
    Mistake("no upstream", ("git push the branch", "Push with git to origin", "Send my work to the server"),
            "git push", ("git push -u origin HEAD",)),
    Mistake("flaky test", ("sh flaky.sh once more", "Run flaky.sh with sh", "Are the tests green"),
            "sh flaky.sh", ("sh flaky.sh",)),
)  # fmt: skip

FRESH = {
    "wrong package manager": ("Get a production build out of npm", "npm should build the bundle again"),
    "missing target": ("Let make do its build", "The biuld in the Makefile, please make it"),
    "wrong flag": ("List every needle below src", "Search src recursively with grep"),
    "wrong path": ("Execute the check.py script in test", "See whether check.py passes"),
    "missing dependency": ("Try python on app.py and tell me what it says", "Does app.py start"),
    "missing configuration": ("Prepare dist with make", "I need the dist archive"),
    "no upstream": ("git push what you have", "Publish the branch on origin"),
    "flaky test": ("Execute flaky.sh", "See if sh flaky.sh is green"),
}
"""Worded when the loop was finished, and looked at only after they were run."""

OTHERS = (
    ("Rename the button of the login page", "ls src"),
    ("What does the README say", "cat README.md"),
    ("Add a license", "touch LICENSE"),
    ("Explain the build to me", "cat Makefile"),
    ("Count the lines of app.py", "wc -l app.py"),
    ("Show the git log", "git log --oneline"),
    ("Write a haiku about package managers", "true"),
    ("Is python installed", "python3 --version"),
)
"""Prompts and commands that fail nothing: whatever is recalled at them is false."""

FILES = {
    "package.json": '{"name": "shop", "scripts": {}}',
    "pnpm": "#!/bin/sh\necho built\n",
    "Makefile": "build:\n\t@echo built\ndist: config.mk\n\t@echo packed\n",
    "config.example": "A=1\n",
    "src/a.txt": "a needle\n",
    "tests/check.py": "print(1)\n",
    "app.py": "import shoplib\nprint(shoplib.TOTAL)\n",
    "lib/shoplib.py": "TOTAL = 7\n",
    "install.sh": "cp lib/shoplib.py .\n",
    "flaky.sh": "if [ -e .seen ]; then echo ok; else touch .seen; echo 'FAILED test_time: timed out' >&2; exit 1; fi\n",
    "README.md": "A shop.\n",
    ".gitignore": ".reflexion/\n",
}


class Shell:
    """A scripted agent in one project."""

    def __init__(self, folder: Path, reads: str, fresh: bool = False):
        self.folder, self.reads, self.fresh = folder, reads, fresh
        self.project = folder / "project"
        self.tokens: list[int] = []
        self.counts: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.milliseconds: list[float] = []

    def play_session(self, number: int, order: random.Random) -> None:
        """A day: all mistakes and as many other tasks, in a copy of the project as it was."""
        self.session, self.now = f"s{number}", START + number * DAY
        make_project(self.project)
        worded = {each.name: FRESH[each.name] if self.fresh else each.prompts for each in MISTAKES}
        tasks: list[tuple[str, Mistake | None, str]] = []
        tasks += [(order.choice(worded[each.name]), each, each.wrong) for each in MISTAKES]
        tasks += [(prompt, None, command) for prompt, command in OTHERS]
        order.shuffle(tasks)
        for prompt, mistake, command in tasks:
            self.now += 60
            if mistake is None:
                self._play_other(prompt, command)
            else:
                self._play_mistake(prompt, mistake)

    def _play_mistake(self, prompt: str, mistake: Mistake) -> None:
        known = self._hear(self._ask("UserPromptSubmit", prompt=prompt), mistake)
        plan = [mistake.wrong] if not known else follow(known, mistake.wrong)
        if not known and self.reads == "before":
            known = self._hear(self._ask("PreToolUse", command=mistake.wrong), mistake)
            plan = follow(known, mistake.wrong) if known else plan
        elif self.reads != "nothing":
            self._ask("PreToolUse", command=mistake.wrong) if not known else None
        code = 0
        for command in plan:
            code = self._run(command)
        if code:
            self.failures[mistake.name] += 1
            for command in mistake.right:
                code = self._run(command)
            assert not code, mistake

    def _play_other(self, prompt: str, command: str) -> None:
        self.counts["other prompts"] += 1
        for block in (self._ask("UserPromptSubmit", prompt=prompt), self._ask("PreToolUse", command=command)):
            self.counts["false recalls"] += bool(block)
        self._run(command)

    def _hear(self, block: str, mistake: Mistake) -> str:
        """The resolution in a block, counted as false when it is another mistake's."""
        if not block:
            return ""
        self.counts["recalls"] += 1
        found = re.search(r'(?:May help|Helped): "(.*)"', block)
        resolution = found[1] if found else ""
        if not any(command in resolution for command in mistake.right) and "run it again" not in resolution:
            self.counts["false recalls"] += 1
            return ""
        return resolution

    def _run(self, command: str) -> int:
        """The command's exit code, told to the loop."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.project, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            error = f"Exit code {done.returncode}\n{done.stdout}{done.stderr}"
            self._ask("PostToolUseFailure", command=command, error=error)
        else:
            response = {"stdout": done.stdout, "stderr": done.stderr, "interrupted": False}
            self._ask("PostToolUse", command=command, tool_response=response)
        return done.returncode

    def _ask(self, event: str, command: str = "", **more: object) -> str:
        """What the hooks tell; nothing without the loop."""
        if self.reads == "nothing":
            return ""
        self.now += 1
        payload = {"hook_event_name": event, "session_id": self.session, "cwd": str(self.project), "tool_name": "Bash"}
        data = json.dumps({**payload, "tool_input": {"command": command}, **more}).encode()
        start = time.perf_counter()
        said = answer_payload("claude-code", data, self.now)
        self.milliseconds.append((time.perf_counter() - start) * 1000)
        block = json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""
        if event == "UserPromptSubmit":
            self.tokens.append(count_tokens(block))
        return str(block)


def follow(resolution: str, wrong: str) -> list[str]:
    """What an agent runs that heeds a resolution."""
    named = re.findall(r"'([^']+)'", resolution)
    if resolution.startswith("use "):
        return named[:1]
    return [*named, wrong] if resolution.startswith("first run") else [wrong]


def make_project(place: Path) -> None:
    """The project as it was on the first day, with what the loop has learnt."""
    kept = place.parent / "kept"
    if (place / ".reflexion").exists():
        shutil.rmtree(kept, ignore_errors=True)
        shutil.move(place / ".reflexion", kept)
    shutil.rmtree(place, ignore_errors=True)
    for name, text in FILES.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    (place / "pnpm").chmod(0o755)
    server = place.parent / "server.git"
    shutil.rmtree(server, ignore_errors=True)
    who = "git -c user.name=x -c user.email=x@example.org -c commit.gpgsign=false"
    lines = f"git init -q --bare {server}; git init -q -b main .; git remote add origin {server}; git add -A"
    lines += f" && {who} commit -qm x"
    subprocess.run(["bash", "-c", lines], cwd=place, check=True, capture_output=True)
    if kept.exists():
        shutil.move(kept, place / ".reflexion")


def measure_repeats(sessions: int, seed: int) -> dict[str, dict[str, object]]:
    """What each way of reading did."""
    found: dict[str, dict[str, object]] = {}
    for reads in ("nothing", "prompt", "before", "prompt, fresh", "before, fresh"):
        with tempfile.TemporaryDirectory() as made:
            os.environ["REFLEXION_HOME"] = f"{made}/state"
            shell = Shell(Path(made), reads.partition(",")[0], "fresh" in reads)
            order = random.Random(seed)
            first: Counter[str] = Counter()
            for number in range(sessions):
                shell.play_session(number, order)
                first = first or Counter(shell.failures)
            repeats = {each.name: shell.failures[each.name] - first[each.name] for each in MISTAKES}
            found[reads] = {
                "repeats": sum(repeats.values()),
                "by_mistake": repeats,
                "tokens_per_prompt": round(sum(shell.tokens) / len(shell.tokens), 1) if shell.tokens else 0,
                "most_tokens": max(shell.tokens, default=0),
                "prompts": sessions * (len(MISTAKES) + len(OTHERS)),
                "recalls": shell.counts["recalls"],
                "false_recalls": shell.counts["false recalls"],
            }
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
            owner=sign(str(root), entry_id),
        )
        (folder / f"{entry_id}.json").write_text(json.dumps(entry._asdict()))
    with open_index(str(root)) as index:
        index.rebuild()


def measure_latency(calls: int, count: int) -> dict[str, dict[str, float]]:
    """Milliseconds of the script as a host calls it, by event: passed, and of the CPU."""
    found = {}
    with tempfile.TemporaryDirectory() as made:
        os.environ["REFLEXION_HOME"] = f"{made}/state"
        root = Path(made) / "project"
        (root / ".git").mkdir(parents=True)
        fill_project(root, count)
        script = find_script() or make_script(Path(made))
        known = json.loads((root / ".reflexion/entries/RFX-20260101-000005.json").read_text())["context"]
        events = {
            "prompt": {"hook_event_name": "UserPromptSubmit", "prompt": f"please do {known}"},
            "prompt, nothing to recall": {"hook_event_name": "UserPromptSubmit", "prompt": "rename the button"},
            "before": {"hook_event_name": "PreToolUse", "tool_input": {"command": known}},
            "failed": {
                "hook_event_name": "PostToolUseFailure",
                "tool_input": {"command": "make x"},
                "error": "make: *** x",
            },
            "succeeded": {
                "hook_event_name": "PostToolUse",
                "tool_input": {"command": "make"},
                "tool_response": {"stdout": ""},
            },
        }
        times: dict[str, list[tuple[float, float]]] = {
            name: [] for name in [*events, "the script's start", "python alone"]
        }
        for number in range(calls):
            for name, event in events.items():
                payload = {"session_id": f"s{number}", "cwd": str(root), "tool_name": "Bash", **event}
                times[name].append(
                    time_process([script, "hook", "--agent", "claude-code"], json.dumps(payload).encode())
                )
            times["the script's start"].append(time_process([script, "--version"], b""))
            times["python alone"].append(time_process([sys.executable, "-c", "pass"], b""))
        for name, pairs in times.items():
            passed, used = (sorted(values) for values in zip(*pairs, strict=True))
            row = {"p50_ms": pick(passed, 0.5), "p99_ms": pick(passed, 0.99)}
            found[name] = {**row, "cpu_p50_ms": pick(used, 0.5), "cpu_p99_ms": pick(used, 0.99)}
    return found


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
    lines = (f"#!{sys.executable}", "import sys", "from rsso_dspy.coding.script import main", "sys.exit(main())", "")
    path.write_text("\n".join(lines))
    path.chmod(0o755)
    return str(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--entries", type=int, default=10_000)
    options = parser.parse_args()
    repeats = measure_repeats(options.sessions, options.seed)
    without = int(str(repeats["nothing"]["repeats"]))
    print(f"{options.sessions} sessions, eight mistakes each; repeats are failures after the first session\n")
    print("| the agent reads | repeats | prevented | tokens a prompt | most | recalls | false |")
    print("|---|---|---|---|---|---|---|")
    for reads, row in repeats.items():
        prevented = 1 - int(str(row["repeats"])) / without
        cells = (row["tokens_per_prompt"], row["most_tokens"], row["recalls"], row["false_recalls"])
        print(f"| {reads} | {row['repeats']} | {prevented:.0%} | {' | '.join(map(str, cells))} |")
    print("\n| mistake | " + " | ".join(repeats) + " |\n|---" + "|---" * len(repeats) + "|")
    for each in MISTAKES:
        print(
            f"| {each.name} | " + " | ".join(str(dict(row["by_mistake"])[each.name]) for row in repeats.values()) + " |"
        )  # type: ignore[call-overload]
    latency = measure_latency(options.calls, options.entries)
    load = os.getloadavg()[0]
    print(f"\n{options.entries:,} entries, {options.calls} calls an event, load {load:.1f} on {os.cpu_count()} cores\n")
    print("| hook | p50 ms | p99 ms | CPU p50 ms | CPU p99 ms |\n|---|---|---|---|---|")
    for name, row in latency.items():
        print(f"| {name} | " + " | ".join(f"{value:g}" for value in row.values()) + " |")
    print()
    run = {"sessions": options.sessions, "seed": options.seed, "entries": options.entries, "calls": options.calls}
    print(json.dumps({**run, "load": load, "repeats": repeats, "latency": latency}))


if __name__ == "__main__":
    main()
