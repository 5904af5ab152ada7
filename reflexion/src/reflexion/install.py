"""Hooks in a host's settings, and the skill that says what an agent must know: shown as a diff, added, taken out again.

    changes = plan_install("claude-code", root)
    write_changes(changes, installs=True)
    write_changes(plan_uninstall("claude-code", root))

Commands are absolute: a hook that is named relative to a folder breaks at the first `cd`. Where a file is as `install`
left it, `uninstall` gives back the bytes it had, and removes folders that were made; where it has changed since, our
hooks go and the rest stays.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from typing import Any, NamedTuple
from zlib import crc32

from reflexion import ReflexionError
from reflexion.hosts import get_host
from reflexion.store import get_home, list_upwards, read_json, write_file

_OURS = re.compile(r"(?:reflexion['\"]?|reflexion\.cli) hook --agent [\w-]+\s*$")
PLUGIN_MARK, SKILL_MARK = "// reflexion plugin", "name: reflexion\n"


class Change(NamedTuple):
    """A change of a file."""

    path: str
    before: str | None
    """Its text; None where there is no file."""
    after: str | None
    """None where none is to be left."""

    @property
    def diff(self) -> str:
        """What would change, as a unified diff; empty when nothing does."""
        was, becomes = [(text or "").splitlines(keepends=True) for text in (self.before, self.after)]
        made = difflib.unified_diff(was, becomes, self.path if self.before is not None else "/dev/null", self.path, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)


def list_places(agent: str, root: str, user: bool = False) -> tuple[str, str]:
    """The files of settings and of the skill, of a project or of this user."""
    host = get_host(agent)
    settings = host.user if user else host.project
    skill = os.path.join(host.skills[user], "reflexion", "SKILL.md")
    return os.path.join(root, os.path.expanduser(settings)), os.path.join(root, os.path.expanduser(skill))


def list_script_words() -> list[str]:
    """The words that call the installed script, or without one this Python."""
    script = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "reflexion")
    if not os.access(script, os.X_OK):
        script = os.path.abspath(path) if (path := shutil.which("reflexion")) else ""
    return [script] if script else [os.path.abspath(sys.executable), "-m", "reflexion.cli"]


def plan_install(agent: str, root: str, user: bool = False) -> list[Change]:
    """The changes that add our hooks, once, and the skill. Raises `ReflexionError` for a file that is not ours to
    write, or cannot be read as settings."""
    path, skill = list_places(agent, root, user)
    texts = {path: _read(path), skill: _read(skill)}
    for place, mark in ((skill, SKILL_MARK), (path, PLUGIN_MARK if agent == "opencode" else "")):
        if mark not in (texts[place] or mark):
            raise ReflexionError(f"{place} is there and is not ours: move it away")
    words = list_script_words()
    if agent == "opencode":
        after = _read_data("opencode_plugin.js").replace('["reflexion"]', json.dumps(words))
    else:
        after = _add_hooks(agent, path, texts[path], shlex.join(words))
    return [Change(path, texts[path], after), Change(skill, texts[skill], _read_data("SKILL.md"))]


def _add_hooks(agent: str, path: str, before: str | None, script: str) -> str:
    host, data = get_host(agent), _parse(path, before)
    if agent == "cursor":
        data.setdefault("version", 1)
    hooks = _drop_ours(data).setdefault("hooks", {})
    for event, tool in host.events:
        hook: dict[str, Any] = {"type": "command", "command": f"{script} hook --agent {agent}", "timeout": host.timeout}
        hook |= {"name": "reflexion"} if agent == "gemini" else {}
        matcher = {"matcher": tool} if tool else {}
        hooks.setdefault(event, []).append({**hook, **matcher} if agent == "cursor" else {**matcher, "hooks": [hook]})
    return _dump(path, data, before)


def plan_uninstall(agent: str, root: str, user: bool = False) -> list[Change]:
    """The changes that take out what was installed, and nothing else."""
    changes = []
    for path, mark in zip(list_places(agent, root, user), (PLUGIN_MARK, SKILL_MARK), strict=True):
        before, memo = _read(path), read_json(_get_memo_path(path)) or {}
        after = before
        if before is not None and memo.get("after") == before:
            after = memo["before"]
        elif path.endswith((".md", ".js")):
            after = None if before is None or mark in before else before
        elif list_scripts(path):
            data = _drop_ours(_parse(path, before))
            is_ours = data in ({}, {"version": 1}) and memo.get("before", "") is None
            after = None if is_ours else _dump(path, data, before)
        changes.append(Change(path, before, after))
    return changes


def write_changes(changes: list[Change], installs: bool = False) -> None:
    """Make changes. What an `install` found is kept, for the `uninstall`. Raises `OSError`."""
    folders: set[str] = set()
    for path, before, after in changes:
        place = _get_memo_path(path)
        memo = read_json(place) or {}
        if installs and after != before:
            made = [folder for folder in list_upwards(os.path.dirname(path)) if not os.path.exists(folder)]
            first = memo["before"] if memo.get("after") == before and "before" in memo else before
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            text = {"before": first, "after": after, "folders": [*memo.get("folders", []), *made]}
            write_file(place, json.dumps(text))
        if after is not None and after != before:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_file(path, after)
        elif after is None and before is not None:
            os.unlink(path)
        if not installs and memo:
            os.unlink(place)
            folders |= set(memo.get("folders", []))
    for folder in sorted(folders, key=len, reverse=True):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def find_installed(agent: str, root: str) -> list[str]:
    """Files that hold our hooks: of the project, of this user."""
    return [path for user in (False, True) if list_scripts(path := list_places(agent, root, user)[0])]


def list_scripts(path: str) -> list[str]:
    """Programs that our hooks in a file call; empty where there are none, or no settings."""
    try:
        text = _read(path)
        if text is not None and path.endswith(".js"):
            words = re.search(r"^const COMMAND = (\[.*\])$", text, re.M)
            return [json.loads(words[1])[0]] if words and PLUGIN_MARK in text else []
        hooks = _parse(path, text).get("hooks", {})
        groups = [group for listed in hooks.values() for group in listed if isinstance(group, dict)]
        inner = [hook for group in groups if isinstance(group.get("hooks"), list) for hook in group["hooks"]]
        commands = [str(hook.get("command")) for hook in (*groups, *inner) if isinstance(hook, dict)]
        return list(dict.fromkeys(shlex.split(command)[0] for command in commands if _OURS.search(command)))
    except (ReflexionError, ValueError):
        return []


def _drop_ours(data: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hooks, and without what they alone were the content of."""
    hooks = data.get("hooks", {})
    for event, groups in list(hooks.items()):
        hooks[event] = [left for group in groups if (left := _drop_from_group(group)) is not None]
        if groups and not hooks[event]:
            del hooks[event]
    if not hooks:
        data.pop("hooks", None)
    return data


def _drop_from_group(group: Any) -> Any:
    """The group without our hooks; None where nothing is left of it."""
    if not isinstance(group, dict):
        return group
    inner = group.get("hooks")
    if not isinstance(inner, list) or not inner:
        return None if _OURS.search(str(group.get("command", ""))) else group
    left = [hook for hook in inner if not (isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))))]
    return {**group, "hooks": left} if left else None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(1 << 24)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ReflexionError(f"{path} cannot be read ({error})") from None


def _read_data(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return file.read()


def _parse(path: str, text: str | None) -> dict[str, Any]:
    """Settings with a table of lists of hooks."""
    try:
        data = json.loads(text, object_pairs_hook=_build_object) if text and text.strip() else {}
        hooks = data.get("hooks", {})
        if not all(isinstance(groups, list) for groups in hooks.values()):
            raise ValueError("its hooks are no lists")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ReflexionError(f"{path} cannot be read: {error}; nothing was written: mend it") from None
    return dict(data)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return dict(pairs)


def _dump(path: str, data: dict[str, Any], before: str | None) -> str:
    """JSON text with the indentation and the line ends of the file."""
    indent = re.search(r"^([ \t]+)\S", before or "", re.M)
    try:
        text = json.dumps(data, indent=indent[1] if indent else 2, ensure_ascii=False, allow_nan=False) + "\n"
        text.encode()
    except ValueError as error:
        raise ReflexionError(f"{path} cannot be written again as it was ({error}); nothing was written") from None
    return text.replace("\n", "\r\n") if "\r\n" in (before or "") else text


def _get_memo_path(path: str) -> str:
    """Where it is kept what an install found in a file, left, and made."""
    return os.path.join(get_home(), "installed", f"{crc32(os.fsencode(os.path.realpath(path))):08x}.json")
