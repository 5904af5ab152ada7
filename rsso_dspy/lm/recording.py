"""The tape that a model's exchanges go to, or come from.

    tape = Tape(keeps=True)
    with dspy.context(tape=tape):
        agent(...)                      # every model asked in the block
    data = tape.take(1)                 # the exchanges of trial 1, compressed; forgotten here

One exchange is one question: with all that failed before the answer came, and with the error where none came. What a
trial asked that was played again from its beginning, because its simulator died, is forgotten.
"""

import json
import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import dspy
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import LMError

from rsso_dspy.errors import RssoError, Stopped, UsageError
from rsso_dspy.lm.replaying import Replay, restore_error
from rsso_dspy.recordings import EMBEDDER, SCHEMA, Exchange
from rsso_dspy.redaction import redact_json

ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")
"""What an error says of itself besides its message."""

WAYS = (
    "api_key",
    "api_base",
    "base_url",
    "timeout",
    "num_retries",
    "prompt_cache",
    "engine",
    "headers",
    "extra_headers",
)
"""Options of a request that say how the model is reached: no answer depends on them, and some are secret."""


@dataclass
class Notes:
    """What is noted while a question is asked."""

    failed: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)
    model: str = ""
    refused: bool = False
    seconds: float = 0.0


class Tape:
    """The exchanges of one unit, training or rollout. `replay` answers in place of the model; with `keeps`, exchanges
    are kept until they are taken. Thread-safe."""

    def __init__(self, replay: Replay | None = None, keeps: bool = False):
        self.replay = replay
        self.keeps = keeps
        self._attempt = 0
        self._packer = Packer()
        self._vectors: dict[str, str] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def put(self, exchange: Exchange, attempt: int = 0) -> None:
        """Keep an exchange of the trial under way."""
        if not self.keeps:
            return
        line = redact_json(json.dumps(asdict(exchange), default=_plain))
        with self._lock:
            if attempt != self._attempt:
                self._attempt, self._packer = attempt, Packer()
            self._packer.add(line)

    def put_vectors(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by text, each once: also where the trial is played again, for no memory asks for one again."""
        if not self.keeps:
            return
        with self._lock:
            for text, vector in vectors.items():
                if text not in self._told and text not in self._vectors:
                    kept = Exchange(EMBEDDER, vector_request(model, text), answer=[vector.hex()])
                    self._vectors[text] = redact_json(json.dumps(asdict(kept)))

    def take(self, trial: int) -> bytes:
        """The exchanges since the last time, as a member of a file that names the trial; nothing when none are kept."""
        if not self.keeps:
            return b""
        with self._lock:
            packer, self._packer, self._attempt = self._packer, Packer(), 0
            for line in self._vectors.values():
                packer.add(line)
            self._told |= self._vectors.keys()
            self._vectors = {}
            return packer.close(trial)


class Packer:
    """Lines, compressed as they come: a trial's prompts are many times as long."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
        self._done: list[bytes] = []

    def add(self, line: str) -> None:
        """Append a line."""
        self._done.append(self._deflate.compress(f"{line}\n".encode()))

    def close(self, trial: int) -> bytes:
        """All of it as one member, before a line that names the trial."""
        self.add(json.dumps({"schema": SCHEMA, "trial": trial}))
        return b"".join([*self._done, self._deflate.flush()])


def through_tape(
    lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], ask: Callable[[Notes], Any]
) -> Any:
    """What a model answers: from the tape where that has answers, else from `ask`, and kept on the tape. Raises what
    `ask` raises, or raised; `Stopped` when the tape has no answer, from `NotRecorded`."""
    tape: Tape | None = dspy.settings.get("tape")
    if tape is None:
        return ask(Notes())
    ledger = dspy.settings.get("ledger")
    role, step = getattr(ledger, "speaker", ""), getattr(ledger, "step", 0)
    trial, attempt = getattr(ledger, "trial", 0), getattr(ledger, "attempt", 0)
    request = request_of(lm, prompt, messages, kwargs)
    if tape.replay is not None:
        try:
            found = tape.replay.find(trial, attempt, step, role, request)
        except RssoError as error:  # who asks a model may take an error for the model's, and ask again
            raise Stopped from error
        tape.put(found, attempt)
        return _give(lm, prompt, messages, kwargs, found)
    notes = Notes()
    try:
        answer = ask(notes)
    except LMError as error:
        tape.put(Exchange(role, request, step, None, _fields_of(error), **vars(notes)), attempt)
        raise
    tape.put(Exchange(role, request, step, answer, **vars(notes)), attempt)
    return answer


def recall_vectors(model: str, texts: Iterable[str]) -> dict[str, bytes]:
    """Vectors by text from the recordings that answer now; of none where those hold no vectors at all. Raises `Stopped`
    from `NotRecorded` for a text that they lack."""
    tape: Tape | None = dspy.settings.get("tape")
    if tape is None or tape.replay is None or not tape.replay.has_vectors:
        return {}
    try:
        return {text: tape.replay.find_vector(vector_request(model, text)) for text in texts}
    except RssoError as error:
        raise Stopped from error


def keep_vectors(model: str, vectors: Mapping[str, bytes]) -> None:
    """Put vectors on the tape of this thread, if there is one that keeps."""
    tape: Tape | None = dspy.settings.get("tape")
    if tape is not None:
        tape.put_vectors(model, vectors)


def is_taped() -> bool:
    """Whether exchanges of this thread go to a tape, or come from one."""
    return dspy.settings.get("tape") is not None


def vector_request(model: str, text: str) -> dict[str, Any]:
    """A text whose vector is asked for, as a request; without secrets."""
    data = {"model": model, "messages": [{"role": "user", "content": text}], "parameters": {}}
    found: dict[str, Any] = json.loads(redact_json(json.dumps(data)))
    return found


def request_of(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The request as JSON data, without secrets: model, messages and all parameters that an answer depends on."""
    parameters = {name: value for name, value in {**lm.kwargs, **kwargs}.items() if name not in WAYS}
    data = {
        "model": lm.model,
        "messages": messages if messages is not None else [{"role": "user", "content": prompt}],
        "parameters": {name: value for name, value in sorted(parameters.items()) if value is not None},
    }
    found: dict[str, Any] = json.loads(redact_json(json.dumps(data, default=_plain)))
    return found


def _give(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], found: Exchange) -> Any:
    """The answer of an exchange, or its error, told to all whom a live one is told to: DSPy's callbacks, trackers of
    usage, the ledger."""
    ledger = dspy.settings.get("ledger")

    def request(instance: dspy.BaseLM, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001
        """As DSPy's callbacks know a request to a model."""
        return None

    for kind, usage in found.failed:
        with_callbacks(request)(lm, prompt, messages=messages, **kwargs)
        _book(lm, usage)
        if kind and ledger is not None:
            ledger.count_failure(kind)
    if found.error is not None:
        raise restore_error(found.error)
    with_callbacks(request)(lm, prompt, messages=messages, **kwargs)
    if ledger is not None and found.refused:
        ledger.note_truncated()
    _book(lm, found.usage)
    if ledger is not None and found.model:
        ledger.note_model(found.model)
    return list(found.answer or [])


def _book(lm: dspy.BaseLM, usage: Any) -> None:
    if tracker := dspy.settings.usage_tracker:
        for entry in usage:
            tracker.add_usage(lm.model, dict(entry))


def _fields_of(error: LMError) -> dict[str, Any]:
    said = {name: getattr(error, name, None) for name in ERROR_FIELDS}
    return {"kind": type(error).__name__, "message": error.message, **said}


def _plain(value: Any) -> Any:
    """What JSON has no form for: schemas of answers, and what clients say of usage."""
    if isinstance(value, type):
        return value.model_json_schema() if hasattr(value, "model_json_schema") else value.__qualname__
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else str(value)


class OfflineLM(dspy.LM):
    """The embedded model: what it is asked goes through the tape too."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        if dspy.settings.get("tape") is None:
            return super().__call__(prompt, messages=messages, **kwargs)
        return through_tape(self, prompt, messages, kwargs, lambda notes: self._ask(prompt, messages, kwargs, notes))

    def _ask(self, prompt: Any, messages: Any, kwargs: Mapping[str, Any], notes: Notes) -> Any:
        with dspy.context(usage_tracker=_Noting(notes)):
            answer = super().__call__(prompt, messages=messages, **kwargs)
        _book(self, notes.usage)
        return answer


class _Noting:
    """Stands in for DSPy's usage tracker."""

    def __init__(self, notes: Notes):
        self.notes = notes

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.notes.usage.append(usage)


def check_recordable(users_lm: dspy.BaseLM | None) -> None:
    """Raise `UsageError` when a model answers that goes through no tape."""
    if users_lm is not None:
        raise UsageError(
            f"{getattr(users_lm, 'model', users_lm)}, which DSPy was configured with, cannot be recorded: name it in "
            "the configuration ([backends.NAME] model = ...), and leave dspy.configure(lm=...) out"
        )
