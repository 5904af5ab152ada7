"""The calls of a unit to models, as lines of its log. A line says what it holds by its first key:

    {"text": 12, "is": ["...", "..."]}      lines of prompts, each distinct one once a file, numbered from 12 on
    {"call": 7, "trial": 1, "attempt": 0, "step": 3, "role": "actor", "model": "openai/m", "parameters": {...},
     "messages": [["system", "1-9"], ["user", "10-14 3 15"]], ...}
                                            the request of call 7, with the first of the lines that follow it:
    {"call": 7, "failed": "LMServerError", "usage": [...]}          an attempt without an answer; the call goes on
    {"call": 7, "error": {...}}                                     the call has failed
    {"call": 7, "answer": [...], "usage": [...], "served": "m-2", "finish": "length", "cut": true,
     "seconds": 1.2}
    {"read": 7, "malformed": true}          its answer could not be read, or was read although it broke the format

Calls are numbered one by one, in the order in which they stand. What is read has to follow from the lines before it:
a text that stands twice, an answer to a call that was answered, and the like raise `WrongLine`.

A trial that was cut off is answered from its own lines, and a replay from those of another log: in both, a request is
found by its trial and attempt, its role, its exact text and its number among equal requests. Secrets are redacted.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from rsso_dspy.errors import NotRecorded, Stopped, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.log_lines import (
    EMBEDDER,
    Entry,
    MessageChecker,
    WrongLine,
    is_list_of_parts,
    name_kind,
    plain_usage,
    split_ranges,
)
from rsso_dspy.records import Usage, add_usage, read_logged_usage
from rsso_dspy.redact import redact, redact_json

LETTERS = 300  # maximum characters of a line in a message
Write = Callable[[str], None]


class Place(NamedTuple):
    """Where in a unit a call is made."""

    trial: int
    attempt: int  # 1 if the trial is played again because its simulator died
    step: int  # the actor's current step, or the last one; 0 outside of a trial
    role: str


@dataclass(frozen=True, slots=True)
class Call:
    """One question to a model with its answer or error, and the attempts that failed before."""

    trial: int
    attempt: int
    step: int
    role: str
    request: Mapping[str, Any]  # ``model``, ``messages`` and ``parameters``: all that an answer depends on
    answer: list[Any] | None = None  # the response of DSPy's client; None if there is an error instead
    error: Mapping[str, Any] | None = None  # ``kind``, ``message`` and further fields of the error
    failed: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)  # attempts: kind of error, usage
    usage: list[dict[str, Any]] = field(default_factory=list)  # usage as reported by the provider
    served: str = ""  # name of the answering model as reported by the server
    finish: str = ""  # why the answer ended, in the provider's word
    forms: list[str] = field(default_factory=list)  # in which the request was sent, as the server takes no other
    undercounted: bool = False  # whether the server counted far fewer tokens than were sent
    cut: bool = False  # whether the answer was cut off at the length limit, or too long to be read
    seconds: float = 0.0  # seconds from the answered request to its answer

    @property
    def text(self) -> str:
        first = self.answer[0] if self.answer else ""
        if isinstance(first, dict):
            first = first.get("text")
        return str(first or "")


class TextTable:
    """Lines of text by number, from 1."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[str, int] = {}

    def extend(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.lines.append(line)
            self._numbers.setdefault(line, len(self.lines))

    def encode(self, text: str, add: bool = True) -> str | None:
        """Return the numbers of a text's lines, which are kept redacted, as ``1-9 3 12``. Without `add`, None for an
        unknown line."""
        numbers = []
        for line in text.split("\n"):
            if line not in self._numbers:
                safe = redact(line)
                if safe not in self._numbers:
                    if not add:
                        return None
                    self.extend([safe])
                self._numbers[line] = self._numbers[safe]
            numbers.append(self._numbers[line])
        return _write_ranges(numbers)

    def decode(self, ranges: str) -> str:
        """Return the text of these numbers. Raises `WrongLine` for one that is not there."""
        lines = []
        for first, last in split_ranges(ranges):
            if not 1 <= first <= last <= len(self.lines):
                raise WrongLine(f"names the texts {first}-{last}, of {len(self.lines)} that are there")
            lines += self.lines[first - 1 : last]
        return "\n".join(lines)


def _write_ranges(numbers: Sequence[int]) -> str:
    parts = []
    for _, group in groupby(enumerate(numbers), lambda placed: placed[1] - placed[0]):
        run = [number for _, number in group]
        first = run[0]
        last = run[-1]
        parts.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(parts)


Lines = list[dict[str, Any]]  # the lines of one call, in order; the first one holds its request

# Fields of an answer that its line may lack.
_OUTCOMES = ("served", "finish", "forms", "undercounted", "cut", "seconds")


class CallLines:
    """The calls of one file. Thread-safe."""

    def __init__(self, write: Write = lambda _: None, keep: bool = True):
        """`keep`: whether the calls that are read are kept, for playing, replaying and showing them."""
        self.texts = TextTable()
        self.by_number: dict[int, Lines] = {}  # calls that were read, by number, without those that a void line covers
        self.source: RecordedCalls | None = None  # calls of another log, which answer instead of models
        self.shared: RecordedCalls | None = None  # calls of another arm, which answer where a request is the same
        self.current: dict[str, Usage] = {}  # cost by role of the calls since the last finished trial

        self._keep = keep
        self._write = write
        self._lock = threading.RLock()

        # What stands in the file.
        self._text_count = 0  # number of lines of text
        self._messages = MessageChecker()
        self._roles: dict[int, str] = {}  # role of each call
        self._open: set[int] = set()  # calls without an answer or an error so far
        self._last = 0  # number of the last call that began
        self._last_ended = 0  # number of the last call that ended

        # What is played now.
        self._begun: dict[int, Entry] = {}  # requests that are not written yet, by ticket
        self._numbers: dict[int, int] = {}  # ticket to number of the calls that are written
        self._tickets = 0
        self._own: RecordedCalls | None = None
        self._vectors: set[tuple[str, str]] = set()

    # Reading.

    def take_call_line(self, entry: Entry) -> None:
        """Take in a line that `parse_line` gave, of texts, of a call or of how an answer was read. Raises `WrongLine`
        for one that does not follow from those before it."""
        self._follow(entry)
        if not self._keep:
            return
        if "is" in entry:
            self.texts.extend(entry["is"])
        elif "call" in entry:
            self.by_number.setdefault(entry["call"], []).append(entry)

    def _follow(self, entry: Entry) -> None:
        """Check a line against those before it, and count it."""
        match name_kind(entry):
            case "text":
                self._follow_texts(entry)
            case "call":
                self._follow_call(entry)
            case "read":
                self._follow_reading(entry)

    def _follow_texts(self, entry: Entry) -> None:
        expected = self._text_count + 1
        if entry["text"] != expected:
            raise WrongLine(f"holds the texts from {entry['text']} on, where those from {expected} on follow")
        self._text_count += len(entry["is"])

    def _follow_call(self, entry: Entry) -> None:
        number = entry["call"]
        if "messages" in entry:
            self._begin_call(entry)
        elif number not in self._roles:
            raise WrongLine(f"goes on with call {number}, which has not begun")
        elif number not in self._open:
            raise WrongLine(f"goes on with call {number}, which has ended")
        if "failed" not in entry:
            self._open.remove(number)
            self._last_ended = number
        self._add_cost(self._roles[number], read_cost([entry]))

    def _begin_call(self, entry: Entry) -> None:
        number = entry["call"]
        expected = self._last + 1
        if number != expected:
            raise WrongLine(f"begins call {number}, where {expected} follows")
        self._messages.check(entry["messages"], self._text_count)
        if entry["role"] == EMBEDDER and not _is_one_text(entry["messages"]):
            raise WrongLine("has a vector of other than one text")
        self._roles[number] = entry["role"]
        self._open.add(number)
        self._last = number

    def _follow_reading(self, entry: Entry) -> None:
        number = entry["read"]
        if number != self._last_ended:
            raise WrongLine(f"says how answer {number} was read, where {self._last_ended} is the last one")
        if number:  # else no model had been asked
            self._add_cost(self._roles[number], read_note(entry))

    def _add_cost(self, role: str, cost: Usage) -> None:
        self.current[role] = self.current.get(role, Usage()) + cost

    def answer_from_own(self, trial: int) -> None:
        """Answer this and later trials, which were cut off, from their own calls; vectors from all trials."""
        self._own = RecordedCalls("", self, first=trial)
        self._vectors |= self._own.vectors.keys()

    def decode(self, lines: Lines) -> Call:
        head = lines[0]
        last = lines[-1]
        messages = []
        for role, content, *extra in head["messages"]:
            text = self.texts.decode(content) if isinstance(content, str) else content
            messages.append({"role": role, "content": text, **dict(*extra)})

        place = {name: head[name] for name in Place._fields}
        failed = [(line["failed"], line["usage"]) for line in lines if "failed" in line]
        outcomes = {name: last[name] for name in _OUTCOMES if name in last}
        return Call(
            **place,
            request={"model": head["model"], "messages": messages, "parameters": head["parameters"]},
            answer=last.get("answer"),
            error=last.get("error"),
            failed=failed,
            usage=last.get("usage", []) if "answer" in last else [],
            **outcomes,
        )

    # Finding answers.

    def find(self, place: Place, request: Mapping[str, Any]) -> tuple[Call, bool] | None:
        """Return the call that answers a request, and whether it is already a line of this log; None if a model is to
        be asked. Raises `Stopped` where another log answers and lacks the request: callers may treat any other error as
        the model's and ask again."""
        with self._lock:
            answer = self.shared.take(place, request) if self.shared is not None else None
            own_answer = self._own.take(place, request) if self._own is not None else None
            if own_answer is not None:
                return own_answer, True

            if self.source is not None:
                try:
                    answer = self.source.find(place, request)
                except NotRecorded as error:
                    raise Stopped from error
            return None if answer is None else (answer, False)

    def count_unused(self, trial: int) -> dict[str, Usage]:
        """Return the usage by role of calls that a cut trial had made and its repetition did not make again."""
        usages = [{lines[0]["role"]: read_cost(lines)} for lines in self._list_unused(trial)]
        return add_usage(*usages)

    def count_unused_failures(self, trial: int) -> dict[str, int]:
        """Return the number of failed attempts of these calls by kind of error."""
        kinds = Counter[str]()
        for lines in self._list_unused(trial):
            kinds.update(line["failed"] for line in lines if line.get("failed"))
        return dict(kinds)

    def _list_unused(self, trial: int) -> Sequence[Lines]:
        return self._own.unused.get(trial, ()) if self._own else ()

    def find_vectors(self, model: str, texts: Iterable[str]) -> dict[str, bytes]:
        """Return the known vectors by text. Raises `Stopped` for a text that the log that answers lacks."""
        vectors = {}
        for text in texts:
            own_vector = self._own.get_vector(model, text) if self._own is not None else b""
            if own_vector:
                vectors[text] = own_vector
            elif self.source is not None and self.source.vectors:
                vectors[text] = self.source.get_vector(model, text)
                if not vectors[text]:
                    raise Stopped from NotRecorded(
                        f"not recorded: the vector of a text in {self.source.name}, from {model}: "
                        f"{redact(text)[:LETTERS]!r}\nRepeat the recorded command, or leave --replay out."
                    )
        return vectors

    # Writing.

    def begin(self, place: Place, request: Mapping[str, Any]) -> int:
        """Begin a call; return a ticket for what comes of it. It gets its number in the file with its first attempt."""
        with self._lock:
            self._tickets += 1
            self._begun[self._tickets] = {
                **place._asdict(),
                "model": request["model"],
                "parameters": request["parameters"],
                "messages": [encode_message(self.texts, message, True) for message in request["messages"]],
            }
            return self._tickets

    def fail(self, ticket: int, kind: str, usage: list[dict[str, Any]]) -> None:
        """Write an attempt without an answer; the call goes on."""
        self._put(ticket, {"failed": kind, "usage": usage})

    def end(self, ticket: int, **outcome: Any) -> None:
        """Write how a call ended: its `error`, or its `answer` with usage, served model, why it ended, and seconds."""
        entry = {}
        for name, value in outcome.items():
            if value or name in ("answer", "usage"):
                entry[name] = value
        self._put(ticket, entry)

    def copy(self, call: Call) -> None:
        """Write a call of another log, with all its attempts."""
        place = Place(call.trial, call.attempt, call.step, call.role)
        ticket = self.begin(place, call.request)
        for kind, usage in call.failed:
            self.fail(ticket, kind, usage)
        if call.error is not None:
            self.end(ticket, error=call.error)
            return
        self.end(
            ticket,
            answer=call.answer,
            usage=call.usage,
            served=call.served,
            finish=call.finish,
            forms=call.forms,
            undercounted=call.undercounted,
            cut=call.cut,
            seconds=call.seconds,
        )

    def note_read(self, **what: bool) -> None:
        """Write that the last answer was `malformed`, or `repaired`."""
        with self._lock:
            self._write_lines({"read": self._last_ended, **what})

    def keep_vectors(self, trial: int, model: str, vectors: Mapping[str, bytes]) -> None:
        """Write vectors by text, each once a file."""
        for text, vector in vectors.items():
            key = (model, self.texts.encode(text) or "")
            if key in self._vectors:
                continue
            self._vectors.add(key)
            request = {"model": model, "messages": [{"role": "user", "content": text}], "parameters": {}}
            ticket = self.begin(Place(trial, 0, 0, EMBEDDER), request)
            self.end(ticket, answer=[vector.hex()])

    def _put(self, ticket: int, outcome: Entry) -> None:
        if "usage" in outcome:
            reported = json.loads(json.dumps(outcome["usage"], default=make_plain))
            outcome["usage"] = [plain_usage(entry) for entry in reported]
        with self._lock:
            request = self._begun.pop(ticket, None)
            if request is not None:
                self._numbers[ticket] = self._last + 1
            call = {"call": self._numbers[ticket], **(request or {}), **outcome}
            self._write_lines(*self._list_new_texts(), call)

    def _list_new_texts(self) -> list[Entry]:
        new_lines = self.texts.lines[self._text_count :]
        return [{"text": self._text_count + 1, "is": new_lines}] if new_lines else []

    def _write_lines(self, *entries: Entry) -> None:
        lines = [json.dumps(entry, default=make_plain) for entry in entries]
        self._write(redact_json("".join(f"{line}\n" for line in lines)))
        for line in lines:
            self._follow(json.loads(line))


def _is_one_text(messages: Sequence[Any]) -> bool:
    return len(messages) == 1 and isinstance(messages[0][1], str)


def encode_message(texts: TextTable, message: Mapping[str, Any], add: bool) -> list[Any] | None:
    """Return a message as role and the numbers of its lines; anything but text as it is. None for unknown text."""
    extra = {}
    for name, value in message.items():
        if name not in ("role", "content") and value is not None:
            extra[name] = value
    content = message.get("content")
    if content is None and not extra:
        content = ""
    if content is not None and not isinstance(content, str):
        content = json.loads(json.dumps(content, default=make_plain))
        if not is_list_of_parts(content):
            content = json.dumps(content)

    if isinstance(content, str):
        content = texts.encode(content, add)
        if content is None:
            return None
    role = str(message.get("role") or "")
    return [role, content, extra] if extra else [role, content]


class RecordedCalls:
    """Calls of a log that answer equal requests, each once an attempt. Not thread-safe."""

    def __init__(self, name: str, calls: CallLines, first: int = 0, attempts: Mapping[int, int] | None = None):
        """`attempts` says by which attempt each finished trial was played; only its calls answer, whatever the attempt
        that asks. Without it, an attempt is answered by its own calls."""
        self.name = name
        self._calls = calls
        self._attempts = attempts
        self._known: dict[tuple[Any, ...], list[Lines]] = {}
        self._given: dict[tuple[Any, ...], int] = {}
        self.unused: dict[int, list[Lines]] = {}
        self.trials: dict[int, list[Lines]] = {}
        self.vectors: dict[tuple[str, str], str] = {}
        for lines in calls.by_number.values():
            head = lines[0]
            if head["role"] == EMBEDDER:
                text = head["messages"][0][1]
                self.vectors[head["model"], text] = lines[-1]["answer"][0]
            elif head["trial"] >= first:
                self._add_call(lines)

    def _add_call(self, lines: Lines) -> None:
        head = lines[0]
        trial = head["trial"]
        attempt = head["attempt"]
        self.unused.setdefault(trial, []).append(lines)

        counts = self._attempts is None or attempt == self._attempts.get(trial, attempt)
        has_ended = "answer" in lines[-1] or "error" in lines[-1]
        if counts and has_ended:
            self.trials.setdefault(trial, []).append(lines)
            key = self._key(trial, attempt, head["role"], head, head["messages"])
            self._known.setdefault(key, []).append(lines)

    def _key(self, trial: int, attempt: int, role: str, request: Mapping[str, Any], messages: Any) -> tuple[Any, ...]:
        """Return what is equal for equal requests of a role. Only the presence of a seed counts, because it follows
        from unit, trial and the request's number, which are matched separately."""
        settings = {name: name == "seed" or value for name, value in request["parameters"].items()}
        settings_text = json.dumps(settings, sort_keys=True, default=make_plain)
        messages_text = json.dumps(messages)
        attempt_key = 0 if self._attempts is not None else attempt
        return trial, attempt_key, role, request["model"], settings_text, messages_text

    def take(self, place: Place, request: Mapping[str, Any]) -> Call | None:
        if place.trial not in self.trials:
            return None
        messages = [encode_message(self._calls.texts, message, add=False) for message in request["messages"]]
        if None in messages:
            return None

        key = self._key(place.trial, place.attempt, place.role, request, messages)
        number = self._given.get((place.attempt, key), 0)
        candidates = self._known.get(key, [])
        if number >= len(candidates):
            return None

        self._given[place.attempt, key] = number + 1
        lines = candidates[number]
        if lines in self.unused[place.trial]:
            self.unused[place.trial].remove(lines)
        return self._calls.decode(lines)

    def find(self, place: Place, request: Mapping[str, Any]) -> Call:
        """Return the next call with this request. Raises `NotRecorded` that shows the nearest one."""
        call = self.take(place, request)
        if call is not None:
            return call
        where = f"{place.role or 'a model'} of {self.name}"
        if place.trial:
            where += f", trial {place.trial}, step {place.step}"
        raise NotRecorded(
            f"not recorded: {where}: {self._explain(place, request)}\n"
            "The run stopped here; finished work is kept. Replay what was played (`rsso-dspy run --replay DIR` alone), "
            "or leave --replay out to call the model."
        )

    def get_vector(self, model: str, text: str) -> bytes:
        numbers = self._calls.texts.encode(text, add=False) or ""
        return bytes.fromhex(self.vectors.get((model, numbers), ""))

    def _explain(self, place: Place, request: Mapping[str, Any]) -> str:
        trial_calls = self.trials.get(place.trial)
        if trial_calls is None:
            recorded_trials = ", ".join(map(str, self.trials))
            return f"this trial is not recorded (recorded trials: {recorded_trials or 'none'})"
        calls = [self._calls.decode(lines) for lines in trial_calls if lines[0]["role"] == place.role]
        if not calls:
            return "no request of this role was recorded"

        request_lines = _list_lines(request)

        def count_shared_lines(call: Call) -> int:
            return len(set(request_lines).intersection(_list_lines(call.request)))

        nearest = max(calls, key=count_shared_lines)
        nearest_lines = _list_lines(nearest.request)
        for recorded_line, request_line in zip_longest(nearest_lines, request_lines, fillvalue=""):
            if recorded_line != request_line:
                reason = f"this request was not recorded; the nearest one was sent at step {nearest.step}:"
                return f"{reason}\n  - {recorded_line[:LETTERS]}\n  + {request_line[:LETTERS]}"

        same = sum(_list_lines(call.request) == request_lines for call in calls)
        return f"this request was sent {same + 1} times, and {same} answers to it are recorded"


def _list_lines(request: Mapping[str, Any]) -> list[str]:
    lines = [f"model: {request['model']}"]
    for name, value in sorted(request["parameters"].items()):
        if name != "seed":
            lines.append(f"{name}: {value}")
    for message in request["messages"]:
        lines.append(f"[{message.get('role')}]")
        content = message.get("content")
        if isinstance(content, str):
            lines += redact(content).split("\n")
        else:
            lines.append(str(content))
    return lines


def read_cost(lines: Iterable[Mapping[str, Any]]) -> Usage:
    """Return what the lines of a call have cost. A usage of a wrong type is one whose counts are unknown."""
    total = Usage()
    for line in lines:
        reported = line.get("usage", [])
        if not isinstance(reported, list):
            reported = [reported]
        entries = [read_logged_usage(entry) for entry in reported]
        if line.get("cut") and entries:
            entries[-1] += Usage(truncated=1)
        if line.get("undercounted") and entries:
            entries[-1] += Usage(undercounted=1)
        if line.get("failed"):
            entries.append(Usage(failed=1))
        total = sum(entries, total)
    return total


def read_note(entry: Entry) -> Usage:
    """Return how an answer was read, as part of the usage of its role."""
    return Usage(malformed=int("malformed" in entry), repaired=int("repaired" in entry))


def make_plain(value: Any) -> Any:
    """Convert values that JSON cannot hold: schema classes, and usage objects of clients."""
    if isinstance(value, type):
        return value.model_json_schema() if hasattr(value, "model_json_schema") else value.__qualname__
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def text_of(content: object) -> str:
    if not isinstance(content, list):
        return str(content or "")
    parts = [part for part in content if isinstance(part, dict)]
    return "".join(str(part.get("text", "")) for part in parts)


def find_log_folder(path: Path) -> Path:
    """Return the folder of the logs of a run, a compiled program or a constitution, by its name or theirs."""
    return _find_run_file(path)[0]


def _find_run_file(path: Path) -> tuple[Path, Path]:
    folders = (path, path.with_name(f"{path.name}.rollouts"), path.with_name(f"{path.name}.run"))
    for folder in folders:
        for file in (folder / "run.json", folder / "1" / "run.json"):
            if file.is_file():
                return folder, file
    raise UsageError(f"{path} holds no run and no logs beside it; name the folder of a run, or what was made with logs")


def read_replayed_protocol(path: Path) -> str:
    """Return the id of the protocol that a log was made under; an empty text if it names none."""
    _, file = _find_run_file(path)
    try:
        return str(read_json(file)["identity"].get("protocol") or "")
    except (KeyError, TypeError, ValueError, AttributeError):
        return ""


def read_replayed_backend(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of the backend that a log was made with. Raises `UsageError`."""
    _, file = _find_run_file(path)
    try:
        config = read_json(file)["identity"]["config"]
        return str(config["backend"]), dict(config["backends"][config["backend"]])
    except (KeyError, TypeError, ValueError):
        raise UsageError(f"{file} is damaged (it names no backend with its settings); restore it from a copy") from None
