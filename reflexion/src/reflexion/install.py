"""Hooks in a host's settings: added, shown as a diff, and taken out again.

    plan = plan_install("claude-code", root, "project")     # path, text before and after
    write_plan(plan)
    write_plan(plan_uninstall("claude-code", root, "project"))

Commands are absolute: a hook that is named relative to a folder breaks at the first `cd`. What `uninstall` takes out is
exactly what was written: where the file is as `install` left it, it gets back the bytes it had; where it has changed
since, our hooks go and the rest stays.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from reflexion.errors import UnknownName, UsageError
from reflexion.hosts import NAMES, get_host
from reflexion.hosts.settings import Settings
from reflexion.user_files import get_home, make_private_folder, rewrite_file

SCOPES = ("project", "user")
_OURS = re.compile(r"(?:reflexion['\"]?|reflexion\.script) hook --agent [\w-]+\s*$")
PLUGIN_MARK = "// plugin of reflexion"


class Plan(NamedTuple):
    """A change of a settings file."""

    agent: str
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
        return "".join(line if line.endswith("\n") else line + "\n" for line in made)


def get_settings(agent: str) -> Settings:
    """A host's settings. Raises `UnknownName`."""
    if agent not in NAMES:
        raise UnknownName("agent", agent, NAMES)
    found: Settings = get_host(agent).SETTINGS
    return found


def get_settings_path(agent: str, root: str, scope: str) -> str:
    """The file of a scope."""
    settings = get_settings(agent)
    return os.path.join(root, settings.project) if scope == "project" else os.path.expanduser(settings.user)


def find_script() -> str:
    """The absolute path of the installed script; empty when there is none."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "reflexion")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("reflexion")
    return os.path.abspath(found) if found else ""


def list_script_words() -> list[str]:
    """The words that call the script, or without one this Python."""
    script = find_script()
    return [script] if script else [os.path.abspath(sys.executable), "-m", "reflexion.script"]


def plan_install(agent: str, root: str, scope: str) -> Plan:
    """The change that adds our hooks, once. Raises `UsageError` for a file that cannot be read as settings."""
    settings, path = get_settings(agent), get_settings_path(agent, root, scope)
    before = _read(path)
    if agent == "opencode":
        if before is not None and PLUGIN_MARK not in before:
            raise UsageError(f"{path} is there and is not ours: move it away")
        return Plan(agent, path, before, render_plugin())
    data = _parse(path, before)
    if agent == "cursor":
        data.setdefault("version", 1)
    hooks = _drop_ours(data).setdefault("hooks", {})
    for event, tool in settings.events:
        hooks.setdefault(event, []).append(_make_hook(agent, settings, tool))
    return Plan(agent, path, before, _dump(data, before))


def plan_uninstall(agent: str, root: str, scope: str) -> Plan:
    """The change that takes our hooks out, and nothing else."""
    path = get_settings_path(agent, root, scope)
    before = _read(path)
    if before is None:
        return Plan(agent, path, None, None)
    if agent == "opencode":
        return Plan(agent, path, before, None if PLUGIN_MARK in before else before)
    kept = _read_kept(path)
    if kept is not None and kept.get("after") == before:
        return Plan(agent, path, before, kept.get("before"))
    data = _parse(path, before)
    if not read_scripts(agent, path):
        return Plan(agent, path, before, before)
    data = _drop_ours(data)
    if data in ({}, {"version": 1}) and kept is not None and kept.get("before") is None:
        return Plan(agent, path, before, None)
    return Plan(agent, path, before, _dump(data, before))


def write_plan(plan: Plan, installs: bool = False) -> None:
    """Make the change. What an `install` found is kept, for the `uninstall`. Raises `OSError`."""
    if plan.after == plan.before:
        return
    if installs:
        kept = _read_kept(plan.path)
        first = kept["before"] if kept is not None and kept.get("after") == plan.before else plan.before
        make_private_folder(os.path.dirname(_get_kept_path(plan.path)))
        rewrite_file(_get_kept_path(plan.path), json.dumps({"before": first, "after": plan.after}))
    if plan.after is None:
        os.unlink(plan.path)
    else:
        rewrite_file(plan.path, plan.after)
    if not installs and os.path.exists(_get_kept_path(plan.path)):
        os.unlink(_get_kept_path(plan.path))


def find_installed(agent: str, root: str) -> list[tuple[str, str]]:
    """Scopes and files that hold our hooks."""
    places = [(scope, get_settings_path(agent, root, scope)) for scope in SCOPES]
    return [(scope, path) for scope, path in places if read_scripts(agent, path)]


def read_scripts(agent: str, path: str) -> list[str]:
    """Programs that our hooks in a file call; empty where there are none, or no settings."""
    try:
        text = _read(path)
        if text is None:
            return []
        if agent == "opencode":
            found = re.search(r"^const COMMAND = (\[.*\])$", text, re.M)
            return [json.loads(found[1])[0]] if found and PLUGIN_MARK in text else []
        commands = [command for command in _list_commands(_parse(path, text)) if _OURS.search(command)]
        return list(dict.fromkeys(shlex.split(command)[0] for command in commands))
    except (UsageError, ValueError):
        return []


def render_template(agent: str) -> str:
    """Settings that hold our hooks and nothing else, to be pasted."""
    if agent == "opencode":
        return render_plugin()
    settings = get_settings(agent)
    data: dict[str, Any] = {"version": 1} if agent == "cursor" else {}
    data["hooks"] = {event: [_make_hook(agent, settings, tool)] for event, tool in settings.events}
    return json.dumps(data, indent=2) + "\n"


def render_plugin() -> str:
    """The plugin of opencode."""
    text = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
    return text.replace('const COMMAND = ["reflexion"]', f"const COMMAND = {json.dumps(list_script_words())}")


def _make_hook(agent: str, settings: Settings, tool: str) -> dict[str, Any]:
    command = f"{shlex.join(list_script_words())} hook --agent {agent}"
    if agent == "cursor":
        return {"command": command, **({"matcher": tool} if tool else {}), "timeout": settings.timeout}
    named = {"name": "reflexion"} if agent == "gemini" else {}
    hook = {**named, "type": "command", "command": command, "timeout": settings.timeout}
    return {**({"matcher": tool} if tool else {}), "hooks": [hook]}


def _drop_ours(data: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hooks, and without what they alone were the content of."""
    hooks = data.get("hooks")
    if not isinstance(hooks, dict):
        return data
    for event in list(hooks):
        groups = hooks[event]
        if not isinstance(groups, list):
            continue
        kept = [left for group in groups if (left := _drop_from_group(group)) is not None]
        if kept or not groups:
            hooks[event] = kept
        else:
            del hooks[event]
    if not hooks:
        del data["hooks"]
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


def _list_commands(data: dict[str, Any]) -> list[str]:
    """Commands of all hooks of a file that `_parse` has read."""
    groups = [group for listed in data.get("hooks", {}).values() for group in listed if isinstance(group, dict)]
    inner = [hook for group in groups if isinstance(group.get("hooks"), list) for hook in group["hooks"]]
    hooks = [hook for hook in (*groups, *inner) if isinstance(hook, dict)]
    return [hook["command"] for hook in hooks if isinstance(hook.get("command"), str)]


def _read(path: str) -> str | None:
    from reflexion.files import read_text

    try:
        return read_text(Path(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None


def _parse(path: str, text: str | None) -> dict[str, Any]:
    from reflexion.files import parse_json

    if text is None or not text.strip():
        return {}
    try:
        data = parse_json(text, Path(path))
    except UsageError as error:
        raise UsageError(f"{error}; nothing was written: mend it, or paste what `reflexion hooks` prints") from None
    if not isinstance(data, dict) or not isinstance(data.get("hooks", {}), dict):
        raise UsageError(f"{path} holds no settings with a table of hooks; nothing was written")
    if wrong := [event for event, groups in data.get("hooks", {}).items() if not isinstance(groups, list)]:
        raise UsageError(f"{path}: {', '.join(wrong)} should be lists of hooks; nothing was written")
    return data


def _dump(data: dict[str, Any], before: str | None) -> str:
    """JSON text in the style of the file: its indentation, line ends and escapes, and one line where it was one."""
    was = (before or "").strip()
    found = re.search(r"^([ \t]+)\S", before or "", re.M)
    in_one_line = bool(data and was.startswith("{") and "\n" not in was and was != "{}")
    indent: int | str | None = None if in_one_line else found[1] if found else 2
    separators = (",", ":") if in_one_line and not re.search(r'": |, "', was) else None
    escapes = was.isascii() and "\\u" in was
    end = "\n" if not was or (before or "").endswith("\n") else ""
    try:
        text = json.dumps(data, indent=indent, separators=separators, ensure_ascii=escapes, allow_nan=False) + end
        text.encode()
    except ValueError as error:
        raise UsageError(
            f"the settings hold what cannot be written again as it was ({error}); nothing was written: "
            "mend it, or paste what `reflexion hooks` prints"
        ) from None
    return text.replace("\n", "\r\n") if "\r\n" in (before or "") else text


def _get_kept_path(path: str) -> str:
    from zlib import crc32

    return os.path.join(get_home(), "installed", f"{crc32(os.fsencode(os.path.realpath(path))):08x}.json")


def _read_kept(path: str) -> dict[str, Any] | None:
    """What an install found and left; None when nothing is known of it."""
    try:
        data = json.loads(_read(_get_kept_path(path)) or "null")
    except (UsageError, ValueError):
        return None
    return data if isinstance(data, dict) and "before" in data else None
