"""From an entry to a rule that stands in the agent's rules file, as a diff that somebody looks at.

    plan = plan_promotion(root, now)        # the next entry that is ready, with its diff; nothing is written
    write_promotion(index, plan)

Ready is what occurred three times, was first seen more than a day ago, is not promoted, and whose resolution somebody
confirmed or was seen to work. One rule a promotion: rules that come in heaps are not read. Rules stand between two
marks; what stands outside of them is nobody's but the user's.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import NamedTuple

from reflexion.block import escape
from reflexion.capture import write_entry
from reflexion.confidence import FADED, compute_confidence
from reflexion.entry import CONFIRMED, Entry, parse_time
from reflexion.entry_files import load, load_all
from reflexion.errors import UsageError
from reflexion.folder import read_settings
from reflexion.index import Index
from reflexion.orders import reads_as_order
from reflexion.user_files import is_own, reads_others, rewrite_file

BEGIN = "<!-- reflexion:rules (reflexion promote adds here; edit freely, keep both marks) -->"
END = "<!-- /reflexion:rules -->"
HEADING = "## Learnt from failures"


class Plan(NamedTuple):
    """A promotion that could be made."""

    entry: Entry
    path: Path
    rule: str
    before: str
    after: str
    others: int
    """How many more entries are ready."""

    @property
    def diff(self) -> str:
        """What would change, as a unified diff."""
        name = self.path.name
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
        )
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def explain_unready(root: str, entry: Entry, now: float) -> str:
    """Why an entry is not promoted, in words; empty when it is ready."""
    settings = read_settings(root)
    if entry.promoted:
        return "it is promoted already"
    if entry.occurrences < settings["promote_occurrences"]:
        return f"seen {entry.occurrences} of {settings['promote_occurrences']:g} times"
    if not entry.resolution:
        return "no resolution is known"
    if entry.resolved_by != CONFIRMED and not entry.worked:
        return "its resolution is proposed: nobody confirmed it, and it has not worked after a recall yet"
    first = parse_time(entry.first_seen)
    if not first or now - first < settings["promote_after_hours"] * 3600:
        return f"first seen less than {settings['promote_after_hours']:g} hours ago"
    if not is_own(root, entry.id, entry.owner) and not reads_others(root):
        return "somebody else wrote it, and this project is not shared"
    if entry.review:
        return "it did not work the last time it was recalled: look at it first"
    if reads_as_order(entry):
        return "it reads like an instruction to the agent: put it into your own words first"
    return "it has faded" if compute_confidence(entry, now) < FADED else ""


def list_ready(root: str, now: float) -> list[Entry]:
    """Entries that are ready, the most frequent first."""
    ready = [entry for entry in load_all(root)[0] if not explain_unready(root, entry, now)]
    return sorted(ready, key=lambda entry: (-entry.occurrences, -entry.worked, entry.id))


def plan_promotion(root: str, now: float, entry_id: str = "", into: str = "") -> Plan | None:
    """The promotion of this entry, else of the one that is ready first; None when none is. Raises `UsageError` for an
    entry that is not ready, and a rules file that cannot be read or has one mark only."""
    if entry_id:
        entry = load(root, entry_id)
        if entry is None:
            raise UsageError(f"there is no entry {entry_id}; `reflexion list` names all")
        if why := explain_unready(root, entry, now):
            raise UsageError(f"{entry_id} is not promoted: {why}")
    ready = list_ready(root, now)
    if not entry_id and not ready:
        return None
    entry = entry if entry_id and entry else ready[0]
    path = Path(root) / (into or find_rules_file(root))
    if not path.resolve().is_relative_to(Path(root).resolve()):
        raise UsageError(
            f"{path} is a link out of the project, and is not followed; name another file: --into AGENTS.md"
        )
    before = read_rules_file(path)
    rule = format_rule(entry)
    return Plan(entry, path, rule, before, insert_rule(before, rule, path), len(ready) - 1)


def find_rules_file(root: str) -> str:
    """The project's rules file: what its settings say, else the one that is there, AGENTS.md first, else the one
    that the host whose hooks are installed reads."""
    if chosen := read_settings(root)["rules_file"]:
        return str(chosen)
    for name in ("AGENTS.md", "CLAUDE.md"):
        if os.path.exists(os.path.join(root, name)):
            return name
    from reflexion.hosts import NAMES
    from reflexion.install import find_installed, get_settings

    named = {get_settings(agent).rules_file for agent in NAMES if find_installed(agent, root)}
    return named.pop() if len(named) == 1 else "AGENTS.md"


def read_rules_file(path: Path) -> str:
    """Its text, empty where there is none. Raises `UsageError`."""
    from reflexion.files import read_bytes

    try:
        text = read_bytes(path)
        return text.decode("utf-8")
    except FileNotFoundError:
        return ""
    except (UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read ({error}); name another file: --into AGENTS.md") from None


def format_rule(entry: Entry) -> str:
    """A rule: short, to be acted on, with its source. One line of Markdown that can hold no mark."""
    resolution = _plain(entry.resolution, 220)
    resolution = resolution[:1].upper() + resolution[1:] if resolution else ""
    context = _plain(entry.context, 80)
    trigger = _plain(entry.trigger, 100)
    if entry.type == "error" and context:
        said = f'When `{context.replace("`", "")}` fails with "{trigger}": {resolution}'
    else:
        said = resolution if entry.type != "pattern" or not trigger else f"{trigger}: {resolution}"
    return f"- {said.rstrip('.')}. (seen {entry.occurrences}x, {entry.id})"


def _plain(text: str, most: int) -> str:
    """A text as a line of Markdown: quoted commands stay quoted, comments and links become nothing of the kind."""
    kept = text.replace("`", "\ue000")
    return (
        escape(kept, most).replace("\ue000", "`").replace("--", "-\u2060-" if "-->" in text or "<!--" in text else "--")
    )


def insert_rule(text: str, rule: str, path: Path) -> str:
    """The text with a rule more in its marked block, which is made at the end where there is none."""
    starts, ends = text.count(BEGIN), text.count(END)
    if (starts, ends) not in ((0, 0), (1, 1)) or text.find(END) < text.find(BEGIN):
        raise UsageError(
            f"{path} has {starts} of the mark {BEGIN!r} and {ends} of {END!r}: make it one of each, in this order"
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    if starts:
        at = text.index(END)
        before = text[:at]
        return f"{before}{'' if before.endswith(newline) else newline}{rule}{newline}{text[at:]}"
    gap = "" if not text else newline if text.endswith(newline) else newline * 2
    return text + gap + newline.join([BEGIN, HEADING, "", rule, END, ""])


def write_promotion(index: Index, plan: Plan) -> Entry:
    """Write the rule and mark the entry, which is recalled no longer. Raises `UsageError` when the file changed since
    the plan was made."""
    if read_rules_file(plan.path) != plan.before:
        raise UsageError(f"{plan.path} changed meanwhile: repeat the command")
    rewrite_file(str(plan.path), plan.after)
    entry = load(index.root, plan.entry.id) or plan.entry
    index.tally("promoted")
    return write_entry(index, entry._replace(promoted=True))
