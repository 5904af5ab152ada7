"""Recordings of exchanges with models: request, answer, source, usage and time.

    RUN/recordings/about.json                                 the backend and its settings
    RUN/recordings/units/ARM/TASK/VARIANT-sSEED.jsonl.gz      a unit's, one gzip member a trial
    RUN/recordings/trainings/ARM/TASK/sSEED.jsonl.gz          a training's, likewise
    RUN/recordings/left-out.jsonl                             trials beyond the size limit

    recordings = Recordings.of(Path("runs/x"))
    recordings.trials("units/sso/boil/22-s0")                 # trial to exchanges, in order

A member ends with a line that names its trial. Readers skip an incomplete end of a file, left by a kill. Secrets are
redacted. A compile and the building of a constitution write to ``FILE.recordings``.
"""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import DamagedFile, NotRecorded, UsageError
from rsso_dspy.files import parse_entry, read_bytes, read_json, read_lines

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FOLDER, ABOUT, LEFT_OUT, ENDING = "recordings", "about.json", "left-out.jsonl", ".jsonl.gz"
EMBEDDER = "embedder"
"""Stands in the place of a role in an exchange that is a text and its vector, float32 as hexadecimal digits."""
KIND, SCHEMA = "rsso-dspy recordings", 1

MOST_RECORDED = 4 << 30
"""Maximum compressed size of a run's recordings in bytes: hundreds of thousands of exchanges and more."""
MOST_UNPACKED = 1 << 31
"""Maximum uncompressed size of one file in bytes."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question to a model with its answer or error, including earlier failed attempts."""

    role: str
    request: Mapping[str, Any]
    """``model``, ``messages`` and ``parameters``: all that an answer depends on, without the connection."""
    step: int = 0
    """The actor's current or previous step; 0 outside of a trial."""
    answer: list[Any] | None = None
    """The response of DSPy's client; None if there is an error instead."""
    error: Mapping[str, Any] | None = None
    """``kind``, ``message`` and further fields of the error."""
    failed: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    """Kind of error and reported usage of each earlier failed attempt."""
    usage: list[dict[str, Any]] = field(default_factory=list)
    """Usage as reported by the provider."""
    model: str = ""
    """Name of the answering model as reported by the server."""
    refused: bool = False
    """The answer was too long and was read as empty."""
    seconds: float = 0.0
    """Seconds from the answered request to its answer."""

    @property
    def key(self) -> str:
        """Return a key that is equal for identical requests of the same role."""
        return key_of(self.role, self.request)

    @property
    def text(self) -> str:
        """The answer as text; empty if there is none."""
        first = self.answer[0] if self.answer else ""
        return str(first.get("text") or "") if isinstance(first, dict) else str(first or "")


def key_of(role: str, request: Mapping[str, Any]) -> str:
    """Compute `Exchange.key`.

    Only the presence of a seed counts, because it follows from unit, trial and request number, which are matched
    separately.
    """
    parameters = dict(request["parameters"])
    if "seed" in parameters:
        parameters["seed"] = True
    text = json.dumps([role, request["model"], request["messages"], parameters], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def text_of(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def find_recordings(path: Path) -> Path:
    """Find the folder of recordings of a run, compiled program or constitution, by its own name or theirs.

    Raises `UsageError` if there is none.
    """
    for folder in (path / FOLDER, path, path.with_name(f"{path.name}.{FOLDER}")):
        if (folder / ABOUT).is_file():
            return folder
    raise UsageError(f"{path} holds no recordings; run, compile or build with --record to make them")


def read_about(path: Path) -> dict[str, Any]:
    """Read ``backend`` and ``settings`` from `about.json`. Raises `UsageError` if they are missing."""
    file = find_recordings(path) / ABOUT
    try:
        data = read_json(file)
    except DamagedFile as error:
        raise UsageError(f"{file} is damaged ({error.why}); restore it from a copy") from None
    if not isinstance(data, dict) or data.get("kind") != KIND or not isinstance(data.get("settings"), dict):
        raise UsageError(f"{file} is damaged (it names no backend with its settings); restore it from a copy")
    if type(data.get("schema")) is not int or data["schema"] > SCHEMA:
        raise UsageError(f"{file} is of a newer rsso-dspy; update it")
    return data


@dataclass(frozen=True, slots=True)
class Recordings:
    """A folder of recordings, read-only."""

    folder: Path
    part: str = ""
    """Subfolder, for a build with several."""

    @classmethod
    def of(cls, path: Path) -> "Recordings":
        """Open the recordings of a run, compiled program or constitution. Raises what `read_about` raises."""
        read_about(path)
        return cls(find_recordings(path))

    def below(self, part: str) -> "Recordings":
        return Recordings(self.folder, part)

    def file(self, name: str) -> Path:
        return self.folder / self.part / f"{name}{ENDING}"

    def trials(self, name: str) -> dict[int, list[Exchange]]:
        """Return the exchanges of each trial, in order. Raises `NotRecorded` if there is no such file."""
        try:
            data = read_bytes(self.file(name))
        except FileNotFoundError:
            known = sum(1 for _ in (self.folder / self.part).rglob(f"*{ENDING}"))
            raise NotRecorded(
                f"{name} is not among the {known} recorded ones in {self.folder}{self._why(name)}: play what was "
                "recorded, or drop --replay to ask the model"
            ) from None
        return {member.trial: member.exchanges for member in members(data)}

    def _why(self, name: str) -> str:
        left_out = any(entry.get("name") == name for entry in left_out_of(self.folder / self.part))
        return ", which it was too large for" if left_out else ""


def left_out_of(folder: Path) -> list[dict[str, Any]]:
    """Return ``name`` and ``trial`` of trials beyond the size limit."""
    entries = (parse_entry(line) for line in read_lines(folder / LEFT_OUT))
    return [entry for entry in entries if isinstance(entry, dict)]


@dataclass(frozen=True, slots=True)
class Member:
    """The exchanges of one trial, and their end in the file."""

    trial: int
    end: int
    text: bytes

    @property
    def exchanges(self) -> list[Exchange]:
        """Parse lines, skipping broken ones."""
        return [found for line in self.text.split(b"\n") if (found := _read_record(line))]


def members(data: bytes) -> Iterator[Member]:
    """Yield the complete members of a file, in order, up to a truncated or damaged end."""
    at, total = 0, 0
    while at < len(data):
        unpack, parts = zlib.decompressobj(31), []
        rest = data[at:]
        try:
            while rest and not unpack.eof:
                parts.append(unpack.decompress(rest, CHUNK))
                total += len(parts[-1])
                rest = unpack.unconsumed_tail
                if total > MOST_UNPACKED:
                    return
        except zlib.error:
            return
        if not unpack.eof:
            return
        at = len(data) - len(unpack.unused_data)
        text = b"".join(parts)
        last = parse_entry(text.rstrip(b"\n").rpartition(b"\n")[2])
        if not (isinstance(last, dict) and type(last.get("trial")) is int and last.get("schema", 0) <= SCHEMA):
            return
        yield Member(last["trial"], at, text)


def _read_record(line: bytes) -> Exchange | None:
    """Parse an exchange; None for any other line."""
    from pydantic import ValidationError

    entry = parse_entry(line)
    match entry:
        case {"request": {"model": str(), "messages": list(messages), "parameters": dict()}}:
            with suppress(ValidationError):
                return _form().validate_python(entry) if all(isinstance(each, dict) for each in messages) else None
    return None


@cache
def _form() -> "TypeAdapter[Exchange]":
    from pydantic import TypeAdapter

    return TypeAdapter(Exchange)
