"""Hooks in the settings of hosts: added once, beside what is there, and taken out without a trace."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reflexion.hosts import HOSTS
from reflexion.install import find_installed, has_hooks, list_places, plan_install, plan_uninstall, write_changes

from reflexion import ReflexionError

ROOT = Path(__file__).parents[1]
JSON_HOSTS = [name for name in list(HOSTS) if name != "opencode"]
OTHERS = '{\n    "model": "x",\n    "hooks": {\n        "PreToolUse": [\n            {\n                "matcher": "Bash",\n                "hooks": [\n                    {\n                        "type": "command",\n                        "command": "./mine.sh"\n                    }\n                ]\n            }\n        ],\n        "Stop": []\n    },\n    "ключ": "ü"\n}\n'


def list_tree(folder: Path) -> list[str]:
    """All that is in a folder, but the user's state."""
    return sorted(str(path) for path in folder.rglob("*") if "state" not in path.relative_to(folder).parts)


@pytest.mark.parametrize("user", [False, True])
@pytest.mark.parametrize("agent", list(HOSTS))
def test_a_new_file_comes_and_goes(agent, user, project):
    path, skill = map(Path, list_places(agent, str(project), user))
    (project / "mine").touch()
    before = list_tree(project.parent)
    changes = plan_install(agent, str(project), user)
    assert not path.exists()
    assert all(change.diff.startswith("--- /dev/null") for change in changes)
    write_changes(changes, installs=True)
    assert skill.read_text().startswith("---\nname: reflexion\n")
    assert re.search(r"`(?:/\S+ -m reflexion\.cli|/\S+/reflexion|reflexion) capture --type corr", skill.read_text())
    assert all(word in skill.read_text() for word in ("corrected", "--worked", "`resolution`", "rebuild-index"))
    assert re.search(r"""(?:"command": "|COMMAND = \[")/""", path.read_text())  # absolute
    assert find_installed(agent, str(project)) == [str(path)]
    assert not any(change.diff for change in plan_install(agent, str(project), user))
    write_changes(plan_uninstall(agent, str(project), user))
    assert list_tree(project.parent) == before  # no folder is left that was made
    assert not any(change.diff for change in plan_uninstall(agent, str(project), user))


def place(agent: str, project: Path, content: bytes) -> Path:
    """A file of settings that is there already."""
    path = Path(list_places(agent, str(project))[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("agent", JSON_HOSTS)
@pytest.mark.parametrize("text", [OTHERS, "{}", '{"a":1,"hooks":{}}', "", '{"a": 1}\r\n'])
def test_what_was_there_comes_back_byte_for_byte(agent, text, project):
    path = place(agent, project, text.encode())
    for _ in range(2):
        write_changes(plan_install(agent, str(project)), installs=True)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert text != OTHERS or (data["ключ"] == "ü" and "./mine.sh" in path.read_text())
    write_changes(plan_uninstall(agent, str(project)))
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("agent", ["gemini", "cursor"])  # one of each form
def test_ours_alone_go_after_another_tool_rewrote_the_file(agent, ends, project):
    """Theirs stay in their order, with the indentation and line ends that the other tool gave the file."""

    def write(data: dict) -> bytes:
        return (json.dumps(data, indent="\t", ensure_ascii=False) + "\n").replace("\n", ends).encode()

    path = place(agent, project, OTHERS.encode())
    write_changes(plan_install(agent, str(project)), installs=True)
    data = {"added": {"by": "another"}, **json.loads(path.read_text(encoding="utf-8"))}
    left, own = json.loads(json.dumps(data)), {"command": "/opt/other hook --agent other"}
    for event, groups in data["hooks"].items():
        left["hooks"][event] = [group for group in groups if "hook --agent" not in json.dumps(group)]
        for group in groups[-1:] if groups != left["hooks"][event] else []:
            group.get("hooks", groups).append(own)  # beside ours, in one group where there are groups
            left["hooks"][event].append({**group, "hooks": [own]} if "hooks" in group else own)
    path.write_bytes(write(data))
    assert has_hooks(str(path))
    write_changes(plan_uninstall(agent, str(project)))
    assert path.read_bytes() == write(left)
    assert not has_hooks(str(path))


@pytest.mark.parametrize("text", [b"{ // a comment\n}", b"[1]", b'{"hooks": []}', b'{"hooks": {"Stop": 3}}', b"\xff\xfe",
                                  b'{"a": 1, "a": 2}', b'\xef\xbb\xbf{"a": 1}'])  # fmt: skip
@pytest.mark.parametrize("agent", JSON_HOSTS)
def test_settings_that_cannot_be_read_are_left_alone(agent, text, project):
    path = place(agent, project, text)
    with pytest.raises(ReflexionError, match="cannot be read"):
        plan_install(agent, str(project))
    assert path.read_bytes() == text


def test_a_link_stays_one_and_secrets_stay_as_they_are(project, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "abcd-1234-efgh-5678")
    real = tmp_path / "dotfiles.json"
    real.write_text('{"env": {"KEY": "abcd-1234-efgh-5678"}}')
    real.chmod(0o600)
    path = place("claude-code", project, b"")
    path.unlink()
    path.symlink_to(real)
    write_changes(plan_install("claude-code", str(project)), installs=True)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert json.loads(real.read_text())["env"]["KEY"] == "abcd-1234-efgh-5678"


NODE = shutil.which("node")


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_plugin_of_opencode_plays(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    plugin = str(plan_install("opencode", str(project))[0].after)
    (tmp_path / "plugin.mjs").write_text(plugin.replace("LIMIT = 3000", "LIMIT = 60000"))
    shutil.copy(ROOT / "tests/data/play.mjs", tmp_path)
    command = [str(NODE), "play.mjs", str(project)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second, prompt, again = json.loads(done.stdout)[:4]
    assert "reflexion" not in first + second
    assert "pnpm run build" in prompt
    assert again.startswith("npm error")
    assert "pnpm run build" in again
