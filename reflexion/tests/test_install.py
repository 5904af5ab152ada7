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
    assert re.search(r"""(?:"command": "|COMMAND = \[")/""", path.read_text())  # absolute
    assert find_installed(agent, str(project)) == [str(path)]
    assert not any(change.diff for change in plan_install(agent, str(project), user))
    write_changes(plan_uninstall(agent, str(project), user))
    assert list_tree(project.parent) == before  # no folder is left that was made
    assert not any(change.diff for change in plan_uninstall(agent, str(project), user))


@pytest.mark.parametrize("agent", JSON_HOSTS)
@pytest.mark.parametrize("text", [OTHERS, "{}", '{"a":1,"hooks":{}}', "", '{"a": 1}\r\n'])
def test_what_was_there_comes_back_byte_for_byte(agent, text, project):
    path = Path(list_places(agent, str(project))[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    write_changes(plan_install(agent, str(project)), installs=True)
    write_changes(plan_install(agent, str(project)), installs=True)
    data = json.loads(path.read_text(encoding="utf-8"))
    if text == OTHERS:
        assert data["ключ"] == "ü"
        assert "./mine.sh" in path.read_text()
    write_changes(plan_uninstall(agent, str(project)))
    assert path.read_bytes() == text.encode()


def is_ours(hook: dict) -> bool:
    return bool(re.search(r"reflexion(?:\.cli)? hook", json.dumps(hook)))


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("agent", ["gemini", "cursor"])  # one of each form
def test_ours_alone_go_after_another_tool_rewrote_the_file(agent, ends, project):
    """Theirs stay in their order, with the indentation and line ends that the other tool gave the file."""
    path = Path(list_places(agent, str(project))[0])
    path.parent.mkdir(parents=True)
    path.write_text(OTHERS, encoding="utf-8")
    write_changes(plan_install(agent, str(project)), installs=True)
    data = {"added": {"by": "another"}, **json.loads(path.read_text(encoding="utf-8"))}
    left = json.loads(json.dumps(data))
    for event, groups in data["hooks"].items():
        own = {"command": "/opt/other hook --agent other", "event": event}
        ours = [group for group in groups if is_ours(group)]
        for group in ours:
            group.get("hooks", groups).append(own)  # beside ours, in one group where there are groups
        groups += json.loads(re.sub(r'(--agent [\w-]+)"', r'\1 "', json.dumps(ours)))  # and ours twice
        kept = [{**g, "hooks": [h for h in g["hooks"] if not is_ours(h)]} if "hooks" in g else g for g in groups]
        left["hooks"][event] = [g for g in kept if g.get("hooks", True) and not is_ours(g)]

    def write(data: dict) -> bytes:
        return (json.dumps(data, indent="\t", ensure_ascii=False) + "\n").replace("\n", ends).encode()

    path.write_bytes(write(data))
    assert has_hooks(str(path))
    write_changes(plan_uninstall(agent, str(project)))
    assert path.read_bytes() == write(left)
    assert not has_hooks(str(path))
    assert not any(change.diff for change in plan_uninstall(agent, str(project)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{ // a comment\n}", "nothing was written"),
        (b"[1]", "nothing was written"),
        (b'{"hooks": []}', "nothing was written"),
        (b'{"hooks": {"Stop": 3}}', "nothing was written"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"a": 1, "a": 2}', "twice in one object"),
        (b'\xef\xbb\xbf{"a": 1}', "nothing was written"),
    ],
)
@pytest.mark.parametrize("agent", JSON_HOSTS)
def test_settings_that_cannot_be_read_are_left_alone(agent, text, said, project):
    path = Path(list_places(agent, str(project))[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    with pytest.raises(ReflexionError, match=said):
        plan_install(agent, str(project))
    assert path.read_bytes() == text


def test_a_link_stays_one_and_secrets_stay_as_they_are(project, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "abcd-1234-efgh-5678")
    real = tmp_path / "dotfiles.json"
    real.write_text('{"env": {"KEY": "abcd-1234-efgh-5678"}}')
    real.chmod(0o600)
    path = project / ".claude/settings.local.json"
    path.parent.mkdir()
    path.symlink_to(real)
    write_changes(plan_install("claude-code", str(project)), installs=True)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert json.loads(real.read_text())["env"]["KEY"] == "abcd-1234-efgh-5678"


NODE = shutil.which("node")


def render_plugin(project: Path) -> str:
    return str(plan_install("opencode", str(project))[0].after)


PLAY = """
import { ReflexionPlugin } from "./plugin.mjs"
const hooks = await ReflexionPlugin({ directory: process.argv[2] })
const run = async (session, command, exit, output) => {
  const out = { title: "", output, metadata: { exit } }
  await hooks["tool.execute.before"]({ tool: "bash", sessionID: session, callID: "c" }, { args: { command } })
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: session, callID: "c", args: { command } }, out)
  return out.output
}
const said = [await run("a", "npm run build", 1, 'npm error Missing script: "build"')]
said.push(await run("a", "pnpm run build", 0, "ok"))
await hooks["chat.message"]({ sessionID: "b" }, { parts: [{ type: "text", text: "npm build please" }] })
const system = { system: [] }
await hooks["experimental.chat.system.transform"]({ sessionID: "b" }, system)
said.push(system.system.join(""), await run("b", "npm run build", 1, 'npm error Missing script: "build"'))
await hooks["chat.message"](undefined, undefined).catch(() => said.push("threw"))
console.log(JSON.stringify(said))
"""


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_plugin_of_opencode_plays(project, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    (tmp_path / "plugin.mjs").write_text(render_plugin(project).replace("LIMIT = 3000", "LIMIT = 60000"))
    (tmp_path / "play.mjs").write_text(PLAY)
    done = subprocess.run(
        [str(NODE), "play.mjs", str(project)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    first, second, prompt, again = json.loads(done.stdout)[:4]
    assert "reflexion" not in first + second
    assert "pnpm run build" in prompt
    assert again.startswith("npm error")
    assert "pnpm run build" in again
