"""Hooks in a host's settings, and the skill that says what an agent must know: shown as a diff, added, taken out again.

    changes = plan_install("claude-code", root, "project")
    write_changes(changes, installs=True)
    write_changes(plan_uninstall("claude-code", root, "project"))

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
from reflexion.store import get_home, read_json, write_file

SCOPES = ("project", "user")
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


def list_places(agent: str, root: str, scope: str) -> tuple[str, str]:
    """The files of a scope: of settings, and of the skill."""
    host, at = get_host(agent), SCOPES.index(scope)
    settings, skills = (host.project, host.user)[at], os.path.join(host.skills[at], "reflexion", "SKILL.md")
    if scope == "user":
        return os.path.expanduser(settings), os.path.expanduser(skills)
    return os.path.join(root, settings), os.path.join(root, skills)


def list_script_words() -> list[str]:
    """The words that call the installed script, or without one this Python."""
    script = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "reflexion")
    if not os.access(script, os.X_OK):
        script = os.path.abspath(found) if (found := shutil.which("reflexion")) else ""
    return [script] if script else [os.path.abspath(sys.executable), "-m", "reflexion.cli"]


def plan_install(agent: str, root: str, scope: str) -> list[Change]:
    """The changes that add our hooks, once, and the skill. Raises `ReflexionError` for a file that is not ours to
    write, or cannot be read as settings."""
    path, skill = list_places(agent, root, scope)
    before, known = _read(path), _read(skill)
    if known is not None and SKILL_MARK not in known:
        raise ReflexionError(f"{skill} is there and is not ours: move it away")
    if agent == "opencode" and before is not None and PLUGIN_MARK not in before:
        raise ReflexionError(f"{path} is there and is not ours: move it away")
    after = _read_data("opencode_plugin.js") if agent == "opencode" else _add_hooks(agent, path, before)
    after = after.replace('["reflexion"]', json.dumps(list_script_words())) if agent == "opencode" else after
    return [Change(path, before, after), Change(skill, known, _read_data("SKILL.md"))]


def _add_hooks(agent: str, path: str, before: str | None) -> str:
    host, data = get_host(agent), _parse(path, before)
    if agent == "cursor":
        data.setdefault("version", 1)
    hooks = _drop_ours(data).setdefault("hooks", {})
    for event, tool in host.events:
        hook: dict[str, Any] = {"type": "command", "command": f"{shlex.join(list_script_words())} hook --agent {agent}"}
        hook |= {"timeout": host.timeout} | ({"name": "reflexion"} if agent == "gemini" else {})
        matcher = {"matcher": tool} if tool else {}
        hooks.setdefault(event, []).append({**hook, **matcher} if agent == "cursor" else {**matcher, "hooks": [hook]})
    return _dump(data, before)


def plan_uninstall(agent: str, root: str, scope: str) -> list[Change]:
    """The changes that take out what was installed, and nothing else."""
    changes = []
    for path, mark in zip(list_places(agent, root, scope), (PLUGIN_MARK, SKILL_MARK), strict=True):
        before, kept = _read(path), _read_kept(path)
        after = before
        if before is not None and kept.get("after") == before:
            after = kept["before"]
        elif path.endswith((".md", ".js")):
            after = None if before is None or mark in before else before
        elif before is not None and list_scripts(path):
            data = _drop_ours(_parse(path, before))
            is_ours = data in ({}, {"version": 1}) and "before" in kept and kept["before"] is None
            after = None if is_ours else _dump(data, before)
        changes.append(Change(path, before, after))
    return changes


def write_changes(changes: list[Change], installs: bool = False) -> None:
    """Make changes. What an `install` found is kept, for the `uninstall`. Raises `OSError`."""
    made: set[str] = set()
    for path, before, after in changes:
        kept, place = _read_kept(path), _get_kept_path(path)
        if installs and after != before:
            folders = [*kept.get("folders", []), *_list_missing_folders(path)]
            first = kept["before"] if kept.get("after") == before and "before" in kept else before
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            write_file(place, json.dumps({"before": first, "after": after, "folders": folders}))
        if after is not None and after != before:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_file(path, after)
        elif after is None and before is not None:
            os.unlink(path)
        if not installs and kept:
            os.unlink(place)
            made |= set(kept.get("folders", []))
    for folder in sorted(made, key=len, reverse=True):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def _list_missing_folders(path: str) -> list[str]:
    folder, missing = os.path.dirname(path), []
    while not os.path.exists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


def find_installed(agent: str, root: str) -> list[tuple[str, str]]:
    """Scopes and files that hold our hooks."""
    places = [(scope, list_places(agent, root, scope)[0]) for scope in SCOPES]
    return [(scope, path) for scope, path in places if list_scripts(path)]


def list_scripts(path: str) -> list[str]:
    """Programs that our hooks in a file call; empty where there are none, or no settings."""
    try:
        text = _read(path)
        if text is not None and path.endswith(".js"):
            found = re.search(r"^const COMMAND = (\[.*\])$", text, re.M)
            return [json.loads(found[1])[0]] if found and PLUGIN_MARK in text else []
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
        kept = [left for group in groups if (left := _drop_from_group(group)) is not None]
        if kept or not groups:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        data.pop("hooks", None)
    return data


def _drop_from_group(group: Any) -> Any:
    """The group without our hooks; None where nothing is left of it."""
    if not isinstance(group, dict):
        return group
    if _OURS.search(str(group.get("command", ""))):
        return None
    inner = group.get("hooks")
    if not isinstance(inner, list):
        return group
    kept = [hook for hook in inner if not (isinstance(hook, dict) and _OURS.search(str(hook.get("command", ""))))]
    return {**group, "hooks": kept} if kept or not inner else None


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
    if text is None or not text.strip():
        return {}
    try:
        data = json.loads(text, object_pairs_hook=_build_object)
    except (ValueError, RecursionError) as error:
        raise ReflexionError(f"{path} cannot be read: {error}; nothing was written: mend it, or paste what `reflexion "
                             "install --dry-run` prints") from None  # fmt: skip
    hooks = data.get("hooks", {}) if isinstance(data, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise ReflexionError(f"{path} holds no settings with a table of lists of hooks; nothing was written")
    return dict(data)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return dict(pairs)


def _dump(data: dict[str, Any], before: str | None) -> str:
    """JSON text with the indentation, line ends and escapes of the file, and in one line where it was one."""
    was = (before or "").strip()
    found = re.search(r"^([ \t]+)\S", before or "", re.M)
    in_one_line = was not in ("", "{}") and "\n" not in was
    indent: int | str | None = None if in_one_line else found[1] if found else 2
    separators = (",", ":") if in_one_line and not re.search(r'": |, "', was) else None
    end = "\n" if not was or (before or "").endswith("\n") else ""
    try:
        escapes = was.isascii() and "\\u" in was
        text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=escapes, allow_nan=False) + end
        text.encode()
    except ValueError as error:
        raise ReflexionError(
            f"the settings cannot be written again as they were ({error}); nothing was written"
        ) from None
    return text.replace("\n", "\r\n") if "\r\n" in (before or "") else text


def _get_kept_path(path: str) -> str:
    return os.path.join(get_home(), "installed", f"{crc32(os.fsencode(os.path.realpath(path))):08x}.json")


def _read_kept(path: str) -> dict[str, Any]:
    """What an install found and left; empty when nothing is known of it."""
    data = read_json(_get_kept_path(path))
    return data if isinstance(data, dict) else {}
