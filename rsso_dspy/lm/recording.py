"""The tape, which keeps a model's exchanges or answers from recorded ones.

    tape = Tape(keeps=True)
    with dspy.context(tape=tape):
        agent(...)                      # keeps the exchanges of every model called in the block
    data = tape.take(1)                 # the exchanges of trial 1, compressed; removed from the tape

One exchange is one question with its failed attempts and its answer, or its error. If a trial starts again because its
simulator died, the exchanges of its first attempt are dropped.
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
from rsso_dspy.redact import redact_json

ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")
"""Attributes of an error that are kept besides its message."""

WAYS = (
    "api_key", "api_base", "base_url", "timeout", "num_retries", "prompt_cache", "engine", "headers", "extra_headers"
)  # fmt: skip
"""Options that only say how the model is reached. No answer depends on them, and some are secret, so they are not
recorded."""


@dataclass
class Notes:
    """Notes taken while a question is asked."""

    failed: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    usage: list[dict[str, Any]] = field(default_factory=list)
    model: str = ""
    refused: bool = False
    seconds: float = 0.0


class Tape:
    """The exchanges of one unit, training or rollout. `replay` answers instead of the model; with `keeps`, exchanges
    are kept until `take` returns them. Thread-safe."""

    def __init__(self, replay: Replay | None = None, keeps: bool = False):
        self.replay = replay
        self.keeps = keeps
        self._attempt = 0
        self._packer = Packer()
        self._vectors: dict[str, str] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def put(self, exchange: Exchange, attempt: int = 0) -> None:
        """Keep an exchange of the current trial."""
        if not self.keeps:
            return
        line = redact_json(json.dumps(asdict(exchange), default=_plain))
        with self._lock:
            if attempt != self._attempt:
                self._attempt, self._packer = attempt, Packer()
            self._packer.add(line)

    def put_vectors(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Keep vectors by text, each once. They are also kept when the trial starts again, because no memory requests
        them a second time."""
        if not self.keeps:
            return
        with self._lock:
            for text, vector in vectors.items():
                if text not in self._told and text not in self._vectors:
                    kept = Exchange(EMBEDDER, vector_request(model, text), answer=[vector.hex()])
                    self._vectors[text] = redact_json(json.dumps(asdict(kept)))

    def take(self, trial: int) -> bytes:
        """Return the exchanges since the last call as a compressed member that names the trial; empty if none are
        kept."""
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
    """Compresses lines as they come, because a trial's prompts are many times larger."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, 31)
        self._done: list[bytes] = []

    def add(self, line: str) -> None:
        self._done.append(self._deflate.compress(f"{line}\n".encode()))

    def close(self, trial: int) -> bytes:
        """Return all lines as one member, which ends with a line that names the trial."""
        self.add(json.dumps({"schema": SCHEMA, "trial": trial}))
        return b"".join([*self._done, self._deflate.flush()])


def through_tape(
    lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], ask: Callable[[Notes], Any]
) -> Any:
    """Return a model's answer, from the tape's recordings if it has any, otherwise from `ask`, and keep it on the tape.

    Raises errors of `ask`, live or recorded, and `Stopped` from `NotRecorded` if the recordings lack the request.
    """
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
        except RssoError as error:  # callers may treat any other error as the model's and ask again
            raise Stopped from error
        tape.put(found, attempt)
        return _give(lm, prompt, messages, kwargs, found)
    notes = Notes()
    try:
        answer = ask(notes)
    except LMError as error:
        said = {name: getattr(error, name, None) for name in ERROR_FIELDS}
        said = {"kind": type(error).__name__, "message": error.message, **said}
        tape.put(Exchange(role, request, step, None, said, **vars(notes)), attempt)
        raise
    tape.put(Exchange(role, request, step, answer, **vars(notes)), attempt)
    return answer


def recall_vectors(model: str, texts: Iterable[str]) -> dict[str, bytes]:
    """Return vectors by text from the recordings of this thread; empty if these hold no vectors. Raises `Stopped` from
    `NotRecorded` for a text that they lack."""
    tape: Tape | None = dspy.settings.get("tape")
    if tape is None or tape.replay is None or not tape.replay.has_vectors:
        return {}
    try:
        return {text: tape.replay.find_vector(vector_request(model, text)) for text in texts}
    except RssoError as error:
        raise Stopped from error


def keep_vectors(model: str, vectors: Mapping[str, bytes]) -> None:
    """Put vectors on the tape of this thread, if it has one that keeps."""
    tape: Tape | None = dspy.settings.get("tape")
    if tape is not None:
        tape.put_vectors(model, vectors)


def is_taped() -> bool:
    return dspy.settings.get("tape") is not None


def vector_request(model: str, text: str) -> dict[str, Any]:
    """Return the request for the vector of a text, without secrets."""
    data = {"model": model, "messages": [{"role": "user", "content": text}], "parameters": {}}
    found: dict[str, Any] = json.loads(redact_json(json.dumps(data)))
    return found


def request_of(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request as JSON data without secrets: model, messages and all parameters that answers depend on."""
    parameters = {name: value for name, value in {**lm.kwargs, **kwargs}.items() if name not in WAYS}
    data = {
        "model": lm.model,
        "messages": messages if messages is not None else [{"role": "user", "content": prompt}],
        "parameters": {name: value for name, value in sorted(parameters.items()) if value is not None},
    }
    found: dict[str, Any] = json.loads(redact_json(json.dumps(data, default=_plain)))
    return found


def _give(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any], found: Exchange) -> Any:
    """Return the answer of an exchange or raise its error. Notifies the same listeners as a live request: DSPy's
    callbacks, usage trackers and the ledger."""
    ledger = dspy.settings.get("ledger")

    def request(instance: dspy.BaseLM, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:  # noqa: ARG001
        """A stand-in for a request, with the signature that DSPy's callbacks expect."""
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


def _plain(value: Any) -> Any:
    """Convert values that JSON cannot hold: schema classes, and usage objects of clients."""
    if isinstance(value, type):
        return value.model_json_schema() if hasattr(value, "model_json_schema") else value.__qualname__
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else str(value)


class OfflineLM(dspy.LM):
    """The embedded model, whose exchanges also go through the tape."""

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
    """Replaces DSPy's usage tracker and notes the usage."""

    def __init__(self, notes: Notes):
        self.notes = notes

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.notes.usage.append(usage)


def check_recordable(users_lm: dspy.BaseLM | None) -> None:
    """Raise `UsageError` if the user's own model answers, because its exchanges go through no tape."""
    if users_lm is not None:
        raise UsageError(
            f"{getattr(users_lm, 'model', users_lm)}, set by dspy.configure(lm=...), cannot be recorded: name the "
            "model in the configuration instead ([backends.NAME] model = ...)"
        )
