"""Whether the memory loop for coding agents keeps a shell from repeating its mistakes, and what it costs.

    PYTHONPATH=reflexion/src python reflexion/benchmarks/loop.py

Scripted shells work in temporary projects, one session a day, with and without the loop. A session meets eight kinds of
tasks in which an obvious command fails, and others that have nothing to do with them; commands are real and run by
bash. The script stands for an agent: it runs the obvious command first, then what helps. With the loop it is told what
the hooks of a host would tell it, and follows a resolution that names a command. Two readings are counted: of what is
recalled at the prompt alone, and of what is recalled before the command as well, as if a host waited for the agent to
think again (most do not: the command runs, and the agent reads it together with the failure).

No language model acts: this shows that the right note arrives at the right time, not that a model heeds it. Three
prompts for each task were there while the loop was written, and its threshold was set with them; two more, the fresh
ones, were worded when it was finished. Some share no word with the failure, and those find nothing.

What a hook costs is measured by `latency.py`. The last line is one JSON object.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from reflexion.cli import answer_payload
from reflexion.recall import count_tokens


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
        self.session = f"s{number}"
        make_project(self.project)
        tasks: list[tuple[str, Mistake | str]] = [
            (order.choice(FRESH[each.name] if self.fresh else each.prompts), each) for each in MISTAKES
        ]
        tasks += OTHERS
        order.shuffle(tasks)
        for prompt, task in tasks:
            if isinstance(task, Mistake):
                self._play_mistake(prompt, task)
            else:
                self._play_other(prompt, task)

    def _play_mistake(self, prompt: str, mistake: Mistake) -> None:
        known = self._hear(self._ask("UserPromptSubmit", prompt=prompt), mistake)
        if not known:
            block = self._ask("PreToolUse", command=mistake.wrong)
            known = self._hear(block, mistake) if self.reads == "before" else ""
        code = 0
        for command in follow(known, mistake.wrong) if known else [mistake.wrong]:
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
        resolution = fill_in(found[1] if found else "", mistake)
        if not any(command in resolution for command in mistake.right):
            self.counts["false recalls"] += 1
            return ""
        return resolution

    def _run(self, command: str) -> int:
        """The command's exit code, told to the loop."""
        self._ask("PreToolUse", command=command)
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
        payload = {"hook_event_name": event, "session_id": self.session, "cwd": str(self.project), "tool_name": "Bash"}
        data = json.dumps({**payload, "tool_input": {"command": command}, **more}).encode()
        start = time.perf_counter()
        said = answer_payload("claude-code", data, time.time())
        self.milliseconds.append((time.perf_counter() - start) * 1000)
        block = json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""
        if event == "UserPromptSubmit":
            self.tokens.append(count_tokens(block))
        return str(block)


def fill_in(resolution: str, mistake: Mistake) -> str:
    """The resolution with the values that an agent knows where it has `***`."""
    for name in re.findall(r"'([^']+)'", resolution):
        for command in mistake.right:
            if fnmatch(command, name.replace("***", "*")):
                resolution = resolution.replace(name, command)
    return resolution


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


def measure_repeats(sessions: int, seed: int) -> dict[str, dict[str, Any]]:
    """What each way of reading did."""
    found: dict[str, dict[str, Any]] = {}
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


def print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_head(*names: str) -> None:
    print_row(*names)
    print(f"{'|---' * len(names)}|")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.sessions < 2:
        parser.error("--sessions must be at least 2: repeats are counted after the first session")
    repeats = measure_repeats(options.sessions, options.seed)
    print(f"{options.sessions} sessions, eight mistakes each; repeats are failures after the first session\n")
    print_head("the agent reads", "repeats", "prevented", "tokens a prompt", "most", "recalls", "false")
    for reads, row in repeats.items():
        prevented = 1 - row["repeats"] / repeats["nothing"]["repeats"]
        cells = (row["tokens_per_prompt"], row["most_tokens"], row["recalls"], row["false_recalls"])
        print_row(reads, row["repeats"], f"{prevented:.0%}", *cells)
    print()
    print_head("mistake", *repeats)
    for each in MISTAKES:
        print_row(each.name, *(row["by_mistake"][each.name] for row in repeats.values()))
    print()
    print(json.dumps({"sessions": options.sessions, "seed": options.seed, "repeats": repeats}))


if __name__ == "__main__":
    main()
