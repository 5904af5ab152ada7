"""From an entry to a rule that stands in the agent's rules file, as a diff that somebody looks at.

One rule a promotion: rules that come in heaps are not read. They stand between two marks; what stands outside of them
is nobody's but the user's. An entry that is ready becomes a rule by itself, unless `.reflexion/config.json` says
`"auto_promote": false`.
"""

import os
from typing import Any, NamedTuple

from reflexion import ReflexionError
from reflexion.entry import FADED, OFTEN_ENOUGH, PROPOSED, Entry, parse_time
from reflexion.hosts import HOSTS
from reflexion.install import Change, find_installed, read_text
from reflexion.recall import escape
from reflexion.store import NAME, OFTEN, Store, find_upwards, read_json, write_file

BEGIN = "<!-- reflexion:rules (reflexion promote adds here; edit freely, keep both marks) -->"
END = "<!-- /reflexion:rules -->"
HEADING = "## Learnt from failures"
RULES = ("AGENTS.md", "CLAUDE.md")


class Plan(NamedTuple):
    """A promotion that could be made, and how many more entries are ready."""

    entry: Entry
    change: Change
    others: int


def explain_unready(store: Store, entry: Entry, now: float) -> str:
    """Why an entry is not promoted, in words; empty when it is ready."""
    first = parse_time(entry.first_seen)
    reasons = (
        (entry.promoted, "it is promoted already"),
        (entry.occurrences < OFTEN_ENOUGH, f"seen {entry.occurrences} of {OFTEN_ENOUGH} times"),
        (not entry.is_known, "no resolution is known"),
        (entry.resolved_by == PROPOSED and not entry.worked,
         "its resolution is proposed: nobody confirmed it, and it has not worked after a recall yet"),
        (not first or now - first < 86_400, "first seen less than 24 hours ago"),
        (entry.id in store.foreign, "others may have written it, and you did not say `init --shared`"),
        (entry.review, "it was applied and did not help: look at it first (reflexion verify)"),
        (entry.compute_confidence(now) < FADED, "faded"),
    )  # fmt: skip
    return next((why for holds, why in reasons if holds), "")


def list_ready(store: Store, now: float) -> list[Entry]:
    """Entries that are ready, the most seen first."""
    seen_often = filter(None, map(store.load_entry, store.list_ids(OFTEN)))
    ready = [entry for entry in seen_often if not explain_unready(store, entry, now)]
    return sorted(ready, key=lambda entry: (-entry.occurrences, -entry.worked, entry.id))


def plan_promotion(store: Store, now: float, chosen: Entry | None = None) -> Plan | None:
    """The promotion of this entry, else of the one that is ready first; None when none is."""
    if chosen and (why := explain_unready(store, chosen, now)):
        raise ReflexionError(f"{chosen.id} is not promoted: {why}")
    ready = list_ready(store, now)
    if not ready:
        return None
    entry = chosen or ready[0]
    path = os.path.join(store.root, find_rules_file(store.root))
    if not os.path.realpath(path).startswith(os.path.realpath(store.root) + os.sep):
        raise ReflexionError(f"{path} is a link out of the project, and is not followed: put a file there")
    before = read_text(path) or ""
    rule = format_rule(entry.strike_secrets())
    return Plan(entry, Change(path, before, insert_rule(before, rule, path)), len(ready) - 1)


def promote_ready(store: Store, now: float) -> str:
    """Make the entry that is ready first a rule, unless the settings say no; a line on what was done or wrong. Not
    outside of a repository: nothing says there who wrote an entry."""
    try:
        is_wanted = read_settings(store.root).get("auto_promote", True) and find_upwards(store.root, ".git")
        plan = plan_promotion(store, now) if is_wanted else None
        if plan is None:
            return ""
        write_promotion(store, plan)
    except (ReflexionError, OSError) as error:
        return f"reflexion: nothing becomes a rule: {escape(str(error), 300)}"
    return f"reflexion: {os.path.basename(plan.change.path)} has one rule more, from {plan.entry.id}"


def read_settings(root: str) -> dict[str, Any]:
    """`.reflexion/config.json`: auto_promote and rules_file. Raises `ReflexionError` for what it should not hold."""
    path = os.path.join(root, NAME, "config.json")
    settings = read_json(path)
    is_right = settings.get("auto_promote", True) in (True, False) and settings.get("rules_file", "AGENTS.md") in RULES
    if not is_right or (not settings and os.path.lexists(path)):
        raise ReflexionError(f'{path} should be a JSON object with "auto_promote", true or false, or "rules_file", '
                             f"one of {' and '.join(RULES)}: mend or delete it")  # fmt: skip
    return settings


def find_rules_file(root: str) -> str:
    """The project's rules file: what its settings say, else the one that is there, AGENTS.md first, else the one that
    the host whose hooks are installed reads."""
    there = [name for name in RULES if os.path.exists(os.path.join(root, name))]
    named = {host["rules_file"] for agent, host in HOSTS.items() if find_installed(agent, root)}
    wanted = read_settings(root).get("rules_file")
    there = [wanted] if wanted else there
    return (*there, named.pop() if len(named) == 1 else "AGENTS.md")[0]


def format_rule(entry: Entry) -> str:
    """A rule: short, to be acted on, with its source. One line of Markdown that can hold no mark."""
    resolution, context, trigger = _plain(entry.resolution, 220), _plain(entry.context, 80), _plain(entry.trigger, 100)
    resolution = resolution[:1].upper() + resolution[1:]
    if entry.type == "error" and context:
        rule = f'When `{context.replace("`", "")}` fails with "{trigger}": {resolution}'
    elif entry.type == "pattern" and resolution and trigger:
        rule = f"{trigger}: {resolution}"
    else:
        rule = resolution or _plain(entry.trigger, 220)
    return f"- {rule.rstrip('.')}. (seen {entry.occurrences}x, {entry.id})"


def _plain(text: str, most: int) -> str:
    """A text as a line of Markdown: quoted commands stay quoted, comments become nothing of the kind."""
    line = escape(text.replace("`", "\ue000"), most).replace("\ue000", "`")
    return line.replace("--", "-\u2060-") if "-->" in text or "<!--" in text else line


def insert_rule(text: str, rule: str, path: str) -> str:
    """The text with a rule more in its marked block, which is made at the end where there is none."""
    starts, ends = text.count(BEGIN), text.count(END)
    if (starts, ends) not in ((0, 0), (1, 1)) or text.find(END) < text.find(BEGIN):
        raise ReflexionError(f"{path} has {starts} of the mark {BEGIN!r} and {ends} of {END!r}: make it one of each, "
                             "in this order")  # fmt: skip
    newline = "\r\n" if "\r\n" in text else "\n"
    if starts:
        before, after = text[: text.index(END)], text[text.index(END) :]
        return f"{before}{'' if before.endswith(newline) else newline}{rule}{newline}{after}"
    gap = "" if not text else newline if text.endswith(newline) else newline * 2
    return text + gap + newline.join([BEGIN, HEADING, "", rule, END, ""])


def write_promotion(store: Store, plan: Plan) -> None:
    """Write the rule and mark the entry, which is recalled no longer."""
    if (read_text(plan.change.path) or "") != plan.change.before:
        raise ReflexionError(f"{plan.change.path} changed meanwhile: repeat the command")
    write_file(plan.change.path, plan.change.after or "")
    store.save_entry((store.load_entry(plan.entry.id) or plan.entry)._replace(promoted=True))
