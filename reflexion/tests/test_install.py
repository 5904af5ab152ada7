"""Hooks in the settings of hosts: added once, beside what is there, and taken out without a trace."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from reflexion.hosts import load_hosts
from reflexion.install import find_installed, list_places, list_scripts, plan_install, plan_uninstall, write_changes

from reflexion import ReflexionError

ROOT = Path(__file__).parents[1]
JSON_HOSTS = [name for name in list(load_hosts()) if name != "opencode"]
OTHERS = '{\n    "model": "x",\n    "hooks": {\n        "PreToolUse": [\n            {\n                "matcher": "Bash",\n                "hooks": [\n                    {\n                        "type": "command",\n                        "command": "./mine.sh"\n                    }\n                ]\n            }\n        ],\n        "Stop": []\n    },\n    "ключ": "ü"\n}\n'


def list_tree(folder: Path) -> list[str]:
    """All that is in a folder, but the user's state."""
    return sorted(str(path) for path in folder.rglob("*") if "state" not in path.relative_to(folder).parts)


@pytest.mark.parametrize("scope", ["project", "user"])
@pytest.mark.parametrize("agent", list(load_hosts()))
def test_a_new_file_comes_and_goes(agent, scope, project):
    path, skill = map(Path, list_places(agent, str(project), scope))
    (project / "mine").touch()
    before = list_tree(project.parent)
    changes = plan_install(agent, str(project), scope)
    assert not path.exists()
    assert all(change.diff.startswith("--- /dev/null") for change in changes)
    write_changes(changes, installs=True)
    assert skill.read_text().startswith("---\nname: reflexion\n")
    (script,) = list_scripts(str(path))
    assert Path(script).is_absolute()
    assert find_installed(agent, str(project)) == [(scope, str(path))]
    assert not any(change.diff for change in plan_install(agent, str(project), scope))
    write_changes(plan_uninstall(agent, str(project), scope))
    assert list_tree(project.parent) == before  # no folder is left that was made
    assert not any(change.diff for change in plan_uninstall(agent, str(project), scope))


@pytest.mark.parametrize("agent", JSON_HOSTS)
@pytest.mark.parametrize("text", [OTHERS, "{}", '{"a":1,"hooks":{}}', "", '{"a": 1}\r\n'])
def test_what_was_there_comes_back_byte_for_byte(agent, text, project):
    path = Path(list_places(agent, str(project), "project")[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    write_changes(plan_install(agent, str(project), "project"), installs=True)
    write_changes(plan_install(agent, str(project), "project"), installs=True)
    data = json.loads(path.read_text(encoding="utf-8"))
    if text == OTHERS:
        assert data["ключ"] == "ü"
        assert "./mine.sh" in path.read_text()
    write_changes(plan_uninstall(agent, str(project), "project"))
    assert path.read_bytes() == text.encode()


def add_hooks_of_another(data: dict) -> dict:
    """Another tool's hooks at the first event of ours: before them, behind them, and in one group with them."""
    own = {"command": "/opt/other hook --agent other"}
    for event, groups in data.get("hooks", {}).items():
        if not any("reflexion" in json.dumps(group) or "script" in json.dumps(group) for group in groups):
            continue
        inner = groups[-1].get("hooks")
        if inner is not None:
            inner.append({"type": "command", **own, "event": event})
        groups.insert(0, own if inner is None else {"hooks": [{"type": "command", **own}]})
        groups.append({**own, "last": True} if inner is None else {"matcher": "Edit", "hooks": [own]})
    return {"added": {"by": "another"}, **data}


def repeat_ours(data: dict) -> dict:
    """Our hooks twice, as a tool leaves them that merges two files, and with a space behind the command."""
    for groups in data["hooks"].values():
        groups += json.loads(re.sub(r'(--agent [\w-]+)"', r'\1 "', json.dumps(groups)))
    return data


CHANGES = {
    "nothing": lambda data: data,
    "a new key": lambda data: {**data, "later": True},
    "hooks of another tool": add_hooks_of_another,
    "ours twice": repeat_ours,
    "an event without hooks": lambda data: {**data, "hooks": {**data["hooks"], "Notification": []}},
}
STYLES = {
    "sorted": {"indent": 2, "sort_keys": True},
    "tabs": {"indent": "\t", "ensure_ascii": False},
    "minified": {"separators": (",", ":"), "ensure_ascii": False},
    "one line": {"ensure_ascii": False},
    "escaped": {"indent": 4, "ensure_ascii": True},
}


def is_ours(hook: dict) -> bool:
    return bool(re.search(r"reflexion(?:\.cli)? hook", hook.get("command", "")))


def drop_ours(data: dict) -> dict:
    """What is to be left: events that held nothing else are gone with our hooks."""
    left = {}
    for event, groups in data["hooks"].items():
        kept = []
        for group in groups:
            inner = [hook for hook in group.get("hooks", [group]) if not is_ours(hook)]
            if inner:
                kept.append({**group, "hooks": inner} if "hooks" in group else group)
        if kept or not groups:
            left[event] = kept
    return {**data, "hooks": left}


@pytest.mark.parametrize("ends", ["\n", "\r\n", ""])
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("agent", ["gemini", "cursor"])  # one of each form
def test_ours_alone_go_after_another_tool_rewrote_the_file(agent, change, style, ends, project):
    """Theirs stay in their order, and the file in the style that the other tool gave it, byte for byte."""

    def write(data: dict) -> bytes:
        text = json.dumps(data, **STYLES[style]) + ends[-1:]
        return (text.replace("\n", "\r\n") if ends == "\r\n" else text).encode()

    path = Path(list_places(agent, str(project), "project")[0])
    path.parent.mkdir(parents=True)
    path.write_text(OTHERS, encoding="utf-8")
    write_changes(plan_install(agent, str(project), "project"), installs=True)
    data = CHANGES[change](json.loads(path.read_text(encoding="utf-8")))
    path.write_bytes(write(data))
    assert list_scripts(str(path))
    write_changes(plan_uninstall(agent, str(project), "project"))
    assert path.read_bytes() == write(drop_ours(data))
    assert not list_scripts(str(path))
    assert not any(change.diff for change in plan_uninstall(agent, str(project), "project"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"{ // a comment\n}", "nothing was written"),
        (b"[1]", "holds no settings"),
        (b'{"hooks": []}', "holds no settings"),
        (b'{"hooks": {"Stop": 3}}', "a table of lists"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"a": 1, "a": 2}', "twice in one object"),
        (b'{"a": 1e400}', "cannot be written again"),
        (b'{"a": "\\ud83d", "b": "\xc3\xbc"}', "cannot be written again"),
        (b'\xef\xbb\xbf{"a": 1}', "nothing was written"),
    ],
)
@pytest.mark.parametrize("agent", JSON_HOSTS)
def test_settings_that_cannot_be_read_are_left_alone(agent, text, said, project):
    path = Path(list_places(agent, str(project), "project")[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    with pytest.raises(ReflexionError, match=said):
        plan_install(agent, str(project), "project")
    assert path.read_bytes() == text


def test_a_link_stays_one_and_secrets_stay_as_they_are(project, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "abcd-1234-efgh-5678")
    real = tmp_path / "dotfiles.json"
    real.write_text('{"env": {"KEY": "abcd-1234-efgh-5678"}}')
    real.chmod(0o600)
    path = project / ".claude/settings.local.json"
    path.parent.mkdir()
    path.symlink_to(real)
    write_changes(plan_install("claude-code", str(project), "project"), installs=True)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert json.loads(real.read_text())["env"]["KEY"] == "abcd-1234-efgh-5678"


NODE = shutil.which("node")


def render_plugin(project: Path) -> str:
    return str(plan_install("opencode", str(project), "project")[0].after)


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


@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_plugin_is_silent_when_the_script_is_gone(project, tmp_path):
    text = render_plugin(project).replace(json.dumps(sys.executable), '"/nowhere/reflexion"')
    text = (
        text[: text.index("const COMMAND")]
        + 'const COMMAND = ["/nowhere/reflexion"]\n'
        + text[text.index("const LIMIT") :]
    )
    (tmp_path / "plugin.mjs").write_text(text)
    (tmp_path / "play.mjs").write_text(PLAY)
    done = subprocess.run(
        [str(NODE), "play.mjs", str(project)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert json.loads(done.stdout)[1:3] == ["ok", ""]
