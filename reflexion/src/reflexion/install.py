"""Hooks in a host's settings, and the skill that says what an agent must know: shown as a diff, added, taken out again.

Commands are absolute: a hook that is named relative to a folder breaks at the first `cd`. Where a file is as `install`
left it, `uninstall` gives back the bytes it had, and removes folders that were made; where it has changed since, our
hooks go and the rest stays.
"""

import difflib
import json
import os
import re
import shlex
import sys
from typing import Any, NamedTuple
from zlib import crc32

from reflexion import ReflexionError
from reflexion.hosts import HOSTS
from reflexion.store import get_home, list_upwards, read_json, write_file

PLUGIN_MARK, SKILL_MARK = "// reflexion plugin", "name: reflexion\n"
_OURS = re.compile(rf"reflexion(?:\.cli|['\"\\]*) hook --agent [\w-]+\s*(?:\"|$)|{PLUGIN_MARK}")


class Change(NamedTuple):
    """A change of a file: its text before and after, None where there is no file."""

    path: str
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """What would change, as a unified diff; empty when nothing does."""
        was, becomes = [(text or "").splitlines(keepends=True) for text in (self.before, self.after)]
        made = difflib.unified_diff(was, becomes, self.path if self.before is not None else "/dev/null", self.path, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in made)


def list_places(agent: str, root: str, user: bool = False) -> tuple[str, str]:
    """The files of settings and of the skill, of a project or of this user."""
    settings = HOSTS[agent]["user" if user else "project"]
    skill = os.path.join(HOSTS[agent]["skills"][user], "reflexion", "SKILL.md")
    return os.path.join(root, os.path.expanduser(settings)), os.path.join(root, os.path.expanduser(skill))


def list_script_words() -> list[str]:
    """The words that call the installed script, or without one this Python."""
    python = os.path.abspath(sys.executable)
    script = os.path.join(os.path.dirname(python), "reflexion")
    return [script] if os.access(script, os.X_OK) else [python, "-m", "reflexion.cli"]


def plan_install(agent: str, root: str, user: bool = False) -> list[Change]:
    """The changes that add our hooks, once, and the skill."""
    here, script, after = os.path.dirname(__file__), list_script_words(), []
    for path, mark in zip(list_places(agent, root, user), (PLUGIN_MARK, SKILL_MARK), strict=True):
        before = read_text(path)
        if path.endswith(".json"):
            text = _add_hooks(agent, _parse(path, before), shlex.join(script))
            after.append(Change(path, before, _dump(text, before)))
            continue
        if before and mark not in before:
            raise ReflexionError(f"{path} is there and is not ours: move it away")
        ours = read_text(os.path.join(here, "opencode_plugin.js" if path.endswith(".js") else "SKILL.md")) or ""
        if len(script) > 1 or os.path.dirname(script[0]) not in os.get_exec_path():  # no shell would find it
            ours = ours.replace("`reflexion ", f"`{shlex.join(script)} ")
        after.append(Change(path, before, ours.replace('["reflexion"]', json.dumps(script))))
    return after


def _add_hooks(agent: str, data: dict[str, Any], script: str) -> dict[str, Any]:
    host, data = HOSTS[agent], _drop_ours(data)
    hooks = data.setdefault("hooks", {})
    hook: dict[str, Any] = {"type": "command", "command": f"{script} hook --agent {agent}", "timeout": host["timeout"]}
    hook |= {"name": "reflexion"} if agent == "gemini" else {}
    for event, (_, tool) in host["events"].items():
        matcher = {"matcher": tool} if tool else {}
        hooks.setdefault(event, []).append({**hook, **matcher} if agent == "cursor" else {**matcher, "hooks": [hook]})
    return {"version": 1, **data} if agent == "cursor" else data


def plan_uninstall(agent: str, root: str, user: bool = False) -> list[Change]:
    """The changes that take out what was installed, and nothing else."""
    changes = []
    for path, mark in zip(list_places(agent, root, user), (PLUGIN_MARK, SKILL_MARK), strict=True):
        before, memo = read_text(path), read_json(_get_memo_path(path), 1 << 26)
        after = before
        if before is not None and memo.get("after") == before:
            after = memo["before"]
        elif path.endswith((".md", ".js")):
            after = None if mark in (before or "") else before
        elif has_hooks(path):
            data = _drop_ours(_parse(path, before))
            is_ours = data in ({}, {"version": 1}) and memo.get("before", "") is None
            after = None if is_ours else _dump(data, before)
        changes.append(Change(path, before, after))
    return changes


def write_changes(changes: list[Change], installs: bool = False) -> None:
    """Make changes. What an `install` found is kept, for the `uninstall`. Raises `OSError`."""
    folders: set[str] = set()
    for path, before, after in changes:
        place = _get_memo_path(path)
        memo = read_json(place, 1 << 26)
        if installs and after != before:
            made = [folder for folder in list_upwards(os.path.dirname(path)) if not os.path.exists(folder)]
            first = memo["before"] if memo.get("after") == before and memo else before
            text = {"before": first, "after": after, "folders": [*memo.get("folders", []), *made]}
            write_file(place, json.dumps(text))
        if after is not None and after != before:
            write_file(path, after)
        elif after is None and before is not None:
            os.unlink(path)
        if not installs and memo:
            os.unlink(place)
            folders |= set(memo["folders"])
    for folder in sorted(folders, key=len, reverse=True):
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)


def find_installed(agent: str, root: str) -> list[str]:
    """Files that hold our hooks: of the project, of this user."""
    return [path for user in (False, True) if has_hooks(path := list_places(agent, root, user)[0])]


def has_hooks(path: str) -> bool:
    """Whether a file calls our hooks; not where it cannot be read."""
    try:
        return bool(_OURS.search(read_text(path) or ""))
    except ReflexionError:
        return False


def _drop_ours(data: dict[str, Any]) -> dict[str, Any]:
    """The settings without our hooks, and without what they alone were the content of."""
    hooks = data.get("hooks", {})
    for event, groups in list(hooks.items()):
        hooks[event] = [left for group in groups if (left := _drop_from_group(group)) is not None]
        if groups and not hooks[event]:
            del hooks[event]
    return data if hooks else {key: value for key, value in data.items() if key != "hooks"}


def _drop_from_group(group: Any) -> Any:
    """The group without our hooks; None where nothing is left of it."""
    if not isinstance(group, dict) or _OURS.search(str(group.get("command", ""))):
        return None if isinstance(group, dict) else group
    inner = group.get("hooks")
    left = [hook for hook in inner if _drop_from_group(hook) is not None] if isinstance(inner, list) else inner
    return group if left == inner else {**group, "hooks": left} if left else None


def read_text(path: str) -> str | None:
    """A file's text, with its line ends; None where there is none. Raises `ReflexionError`."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ReflexionError(f"{path} cannot be read ({error})") from None


def _parse(path: str, text: str | None) -> dict[str, Any]:
    """Settings with a table of lists of hooks."""
    try:
        data = json.loads(text, object_pairs_hook=_build_object) if text and text.strip() else {}
        if not all(isinstance(groups, list) for groups in data.get("hooks", {}).values()):
            raise ValueError("its hooks are no lists")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ReflexionError(f"{path} cannot be read: {error}; nothing was written: mend it") from None
    return dict(data)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice in one object")
    return dict(pairs)


def _dump(data: dict[str, Any], before: str | None) -> str:
    """JSON text with the indentation and the line ends of the file."""
    indent = re.search(r"^([ \t]+)\S", before or "", re.M)
    text = json.dumps(data, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in (before or "") else text


def _get_memo_path(path: str) -> str:
    """Where it is kept what an install found in a file, left, and made."""
    return os.path.join(get_home(), "installed", f"{crc32(os.fsencode(os.path.realpath(path))):08x}.json")
