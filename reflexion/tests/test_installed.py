"""A fresh folder, the four lines of docs/CODING.md, and a host that calls the hooks that were installed: from a failed
command to its rule, by processes alone."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import payloads
import pytest
from conftest import read_entries

ROOT = Path(__file__).parents[1]
MISSING = 'npm error Missing script: "build"'


SCRIPT = [sys.executable, "-m", "reflexion.cli"]


def make_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}


def type_line(line: str, folder: Path) -> str:
    """A command of docs/CODING.md, as a person types it."""
    words = [*SCRIPT, *shlex.split(line)[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=make_environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def call_hook(settings: dict, payload: dict, folder: Path) -> str:
    """What a host does at an event: every command that its settings list for it, through a shell."""
    said = ""
    for group in settings["hooks"].get(payload["hook_event_name"], []):
        if re.fullmatch(group.get("matcher", ".*") or ".*", payload.get("tool_name", "")):
            for hook in group["hooks"]:
                done = subprocess.run(
                    hook["command"], shell=True, cwd=folder, input=json.dumps(payload), capture_output=True, text=True,
                    timeout=60, env=make_environment(),
                )  # fmt: skip
                assert (done.returncode, done.stderr) == (0, "")
                said += done.stdout
    return said


def read_context(said: str, event: str) -> str:
    out = json.loads(said)["hookSpecificOutput"]
    assert out["hookEventName"] == event
    return str(out["additionalContext"])


def test_from_the_first_failure_to_the_rule(project, tmp_path):
    lines = re.findall(r"(?m)^reflexion [^#\n]*", (ROOT.parent / "docs/CODING.md").read_text())
    init, install, status, promote = lines[:4]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "private" in type_line(init, project)
    assert "+" in type_line(install, project)
    settings = json.loads((project / ".claude/settings.local.json").read_text())
    here = {"cwd": str(project)}

    def after(command, code, output="", **more):
        return call_hook(settings, {**payloads.after_claude(command, code, output), **here, **more}, elsewhere)

    def before(command):
        return call_hook(settings, {**payloads.BEFORE["claude-code"](command), **here}, elsewhere)

    assert after("npm run build", 1, MISSING) == ""
    assert after("pnpm run build", 0) == ""
    asked = {**payloads.PROMPTS["claude-code"]("Now build it with npm"), **here}
    block = read_context(call_hook(settings, asked, elsewhere), "UserPromptSubmit")
    assert MISSING.replace('"', "'") in block
    assert "pnpm run build" in block
    assert "pnpm run build" in read_context(before("npm run build"), "PreToolUse")
    assert after("pnpm run build", 0, session_id="s2") == ""  # it worked after the recall
    after("npm run build", 1, MISSING, session_id="s3")
    said = type_line(status, project)
    assert "1 worked" in said
    assert "no entry is ready" in type_line(promote, project)
    (file,) = (project / ".reflexion/entries").glob("*.json")
    entry = json.loads(file.read_text())
    assert entry["occurrences"] == 3
    file.write_text(json.dumps({**entry, "first_seen": "2026-01-01"}))  # as a person edits it
    (project / "CLAUDE.md").write_text("# Mine\n")
    diff = type_line(promote, project)
    assert [line for line in diff.splitlines() if line.startswith("-")] == [f"--- {project}/CLAUDE.md"]
    assert "+- When `npm run build` fails" in diff
    assert (project / "CLAUDE.md").read_text() == "# Mine\n"
    type_line(promote.removesuffix(" --dry-run"), project)
    assert "Use `pnpm run build`" in (project / "CLAUDE.md").read_text()
    assert before("npm run build") == ""  # it is a rule now


def test_the_loop_by_hand_with_bash_and_grep(project, tmp_path):
    """The lines of docs/CODING.md, with no Python in reach; then the loop finds what they wrote."""
    text = (ROOT.parent / "docs/CODING.md").read_text()
    lines = re.search(r"```bash\n(.*?)```", text, re.S)[1]  # type: ignore[index]
    (tmp_path / "bin").mkdir()
    for tool in ("date", "head", "od", "tr", "mkdir", "cat", "grep"):
        (tmp_path / "bin" / tool).symlink_to(str(shutil.which(tool)))
    done = subprocess.run([str(shutil.which("bash")), "-c", f"set -e\n{lines}"], cwd=project, capture_output=True, text=True,
                          env={"PATH": str(tmp_path / "bin")})  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "use pnpm here, not npm" in done.stdout
    assert "1 entries indexed" in type_line("reflexion rebuild-index", project)
    (entry,) = (project / ".reflexion/entries").iterdir()
    assert f"\nnpm\t{entry.stem}\n" in (project / ".reflexion/index.txt").read_text()
    assert "use pnpm here, not npm" in type_line("reflexion recall npm install fails", project)


def test_many_hooks_at_once(project):
    """Twelve of them, and nothing is lost."""

    def hook(number):
        output = payloads.write_codex_head(2, f"make: *** No rule to make target 't{number % 3}'.")
        payload = {**payloads.after_codex("make", output), "cwd": str(project), "session_id": f"s{number}"}
        done = subprocess.run([*SCRIPT, "hook", "--agent", "codex"], input=json.dumps(payload).encode(), capture_output=True, cwd=project,
                              env=make_environment(), timeout=60)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    with ThreadPoolExecutor(12) as pool:
        assert set(pool.map(hook, range(12))) == {(0, b"", b"")}
    assert sorted(entry["occurrences"] for entry in read_entries(project)) == [4, 4, 4]
    assert not list(project.rglob(".*-*"))


@pytest.mark.parametrize("words", ["--help", "--version", "", "nonsense", "hook", "hook --agent", "hook --agent x"])
def test_the_script_answers_whatever_it_is_called_with(words, home):
    done = subprocess.run(
        [*SCRIPT, *words.split()], input=b"{}", capture_output=True, env=make_environment(), timeout=60
    )
    assert done.returncode == (2 if words in ("nonsense", "") else 0)
    assert (done.stdout == b"") is not words.startswith("--")
    assert b"Traceback" not in done.stderr
    if words.startswith("hook"):
        assert len((home / "hook.log").read_text().splitlines()) == 1


SLOW = ("dspy", "numpy", "argparse", "tomllib", "difflib", "dataclasses", "subprocess", "asyncio", "logging", "hashlib",
        "sqlite3", "pathlib")  # fmt: skip


def test_a_hook_imports_next_to_nothing(project):
    (project / ".reflexion").mkdir()
    payload = json.dumps({**payloads.BEFORE["claude-code"]("make"), "cwd": str(project)}).encode()
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\nfrom reflexion.cli import answer_payload\n"
    code += f"answer_payload('claude-code', {payload!r}, 0)\nprint([name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_wheel_holds_all_that_is_needed_and_needs_the_standard_library_alone(tmp_path):
    pytest.importorskip("setuptools")
    shutil.copytree(ROOT, tmp_path / "reflexion", ignore=shutil.ignore_patterns("tests", "*.egg-info", "build"))
    code = "from setuptools.build_meta import build_wheel; build_wheel('out')"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path / "reflexion", check=True, capture_output=True
    )
    (wheel,) = (tmp_path / "reflexion/out").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"reflexion/tables.json", "reflexion/SKILL.md", "reflexion/opencode_plugin.js", "reflexion/cli.py"} <= names
    assert wheel.stat().st_size < 1_000_000
    files = (ROOT / "src/reflexion").glob("*.py")
    imported = {name.split(".")[0] for file in files
                for name in re.findall(r"^\s*(?:from|import) ([\w.]+)", file.read_text(), re.M)}  # fmt: skip
    assert imported - {"reflexion"} <= set(sys.stdlib_module_names)
    assert "Requires-Dist" not in zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("METADATA"))).decode()
