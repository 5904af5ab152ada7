"""One thing that was learned: a JSON object that a person can read, write and edit.

Fields that somebody got wrong are read as if they were not there. Confidence says how far an entry is to be trusted:
it begins at 0.3, with a proposed resolution at 0.5, with a confirmed one at 0.8; it gains a third of what is missing
when the resolution worked, and is halved when it did not, and for every 90 days without evidence.
"""

import re
import time
from datetime import UTC, datetime
from typing import Any, NamedTuple

from reflexion.secrets import strike_text
from reflexion.triggers import MOST_KEYWORDS, list_keywords

TYPES = ("error", "correction", "insight", "pattern")
PROPOSED, CONFIRMED = "proposed", "confirmed"  # by code, from what followed; by an agent or a person
LONGEST_TEXT, MOST_NOTES, OFTEN_ENOUGH = 300, 10, 3  # seen often enough to be a rule
HALF_LIFE, FADED = 90 * 86_400.0, 0.12
"""Seconds without evidence that halve the confidence; below this an entry is not recalled any more."""
START = {"": 0.3, PROPOSED: 0.5, CONFIRMED: 0.8}


class Entry(NamedTuple):
    """One learning."""

    id: str
    type: str = "error"
    trigger: str = ""
    context: str = ""
    resolution: str = ""
    resolved_by: str = ""
    keywords: tuple[str, ...] = ()
    occurrences: int = 1
    first_seen: str = ""
    last_seen: str = ""
    promoted: bool = False
    cwd: str = "."
    confidence: float = 0.0
    worked: int = 0
    failed: int = 0
    verified_at: str = ""
    review: bool = False
    notes: tuple[str, ...] = ()
    agent: str = ""
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether it says what to do: an error needs a resolution; what was said or understood says it itself."""
        return bool(self.resolution) or self.type != "error"

    @property
    def uses(self) -> bool:
        return self.resolution.startswith("use `")

    @property
    def named(self) -> list[str]:
        """The commands or files that its resolution names, between backquotes."""
        return re.findall(r"`([^`]+)`", self.resolution)

    @property
    def words(self) -> tuple[str, ...]:
        return self.keywords or tuple(list_keywords(self.trigger, self.context, self.resolution))

    def compute_confidence(self, now: float) -> float:
        """0 to 1, faded by the time since the last evidence."""
        latest = max(parse_time(self.verified_at), parse_time(self.last_seen))
        return float(self.confidence * 0.5 ** (max(0.0, now - latest if latest else 0.0) / HALF_LIFE))

    def count_up(self, now: float) -> "Entry":
        return self._replace(occurrences=self.occurrences + 1, last_seen=format_time(now))

    def add_note(self, note: str) -> "Entry":
        """The oldest note goes when there are too many."""
        return self._replace(notes=(*self.notes, note[:LONGEST_TEXT])[-MOST_NOTES:])

    def count_worked(self, now: float) -> "Entry":
        """It was recalled and applied, and the command succeeded."""
        entry = self.count_up(now)._replace(worked=self.worked + 1, verified_at=format_time(now), review=False)
        return entry._replace(confidence=round(self.confidence + (1 - self.confidence) / 3, 4))

    def count_failed(self, now: float, note: str = "") -> "Entry":
        """It was recalled and applied, and the command failed all the same."""
        entry = self.add_note(f"{format_time(now)[:10]} recalled, did not work{':' if note else ''} {note}".rstrip())
        entry = entry._replace(failed=self.failed + 1, verified_at=format_time(now), review=True)
        return entry._replace(confidence=round(self.confidence / 2, 4))

    def strike_secrets(self) -> "Entry":
        """The entry without what looks like a secret: what people write is not looked at before it is there."""
        command = self.context if self.type != "error" else ""
        texts: Any = {name: " ".join(strike_text(getattr(self, name), command).split())[:LONGEST_TEXT]
                      for name in ("trigger", "context", "resolution", "cwd")}  # fmt: skip
        entry = self._replace(**texts, notes=tuple(map(strike_text, self.notes)))
        kept = strike_text(" | ".join(entry.words)).split(" | ")
        return entry._replace(keywords=tuple(word for word in entry.words if word in kept))

    def resolve(self, resolution: str, by: str) -> "Entry":
        """The entry with what helps. A proposal replaces none that is confirmed or has worked."""
        if by == PROPOSED and self.resolution and (self.resolved_by == CONFIRMED or self.worked):
            return self
        confidence = max(START[by], self.confidence if by == CONFIRMED else 0.0)
        return self._replace(resolution=resolution, resolved_by=by, confidence=confidence)


def read_entry(data: dict[str, Any]) -> Entry | None:
    """The entry that JSON data holds; None when it has no valid id, or nothing to go by."""
    values = {name: _read_field(data.get(name), default) for name, default in Entry._field_defaults.items()}
    values["more"] = tuple((key, value) for key, value in data.items() if key not in Entry._fields)
    entry = Entry(str(data.get("id")), **values)
    if not re.fullmatch(r"RFX-\d{8}-[0-9a-z]{3,16}", entry.id) or not (entry.trigger or entry.context):
        return None
    by_hand = entry.resolution and entry.resolved_by not in (PROPOSED, CONFIRMED)
    start = START[CONFIRMED if entry.is_known else ""] if by_hand or not entry.confidence else 0.0
    return entry._replace(
        type=entry.type if entry.type in TYPES else "error",
        resolved_by=(CONFIRMED if by_hand else entry.resolved_by) if entry.resolution else "",
        keywords=tuple(word[:40].lower() for word in entry.keywords[:MOST_KEYWORDS]),
        occurrences=max(1, entry.occurrences),
        confidence=max(entry.confidence, start),
    )


def list_misread(data: dict[str, Any]) -> list[str]:
    """Fields that somebody got wrong, which are read as if they were not there."""
    defaults = {name: default for name, default in Entry._field_defaults.items() if name in data}
    wrong = [name for name, default in defaults.items()
             if data[name] not in (default, [], None) and _read_field(data[name], default) == default]  # fmt: skip
    wrong += ["type"] if "type" not in wrong and data.get("type", "error") not in TYPES else []
    return wrong + [name for name in ("first_seen", "last_seen") if data.get(name) and not parse_time(str(data[name]))]


def _read_field(value: object, default: object) -> Any:
    """The value if it is what the field holds, else the default."""
    if isinstance(default, tuple):
        return tuple(_read_field(text, "") for text in value if text) if isinstance(value, list) else default
    if isinstance(default, float):
        return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else default
    if type(value) is not type(default) or (type(value) is int and value < 0):
        return default
    return " ".join(value.split())[:LONGEST_TEXT] if isinstance(value, str) else value


def dump_entry(entry: Entry) -> dict[str, Any]:
    """JSON data, keys in their order, unknown ones last."""
    return {name: value for name, value in entry._asdict().items() if name != "more"} | dict(entry.more)


def format_time(now: float) -> str:
    """A moment as entries write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def parse_time(text: str) -> float:
    """Seconds since 1970 of a moment or of the end of a day; 0 for what is none."""
    try:
        moment = datetime.fromisoformat(f"{text}T23:59:59" if len(text) == 10 else text)
    except ValueError:
        return 0.0
    return moment.replace(tzinfo=UTC).timestamp()
