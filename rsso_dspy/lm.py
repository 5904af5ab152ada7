"""Language models by role, whose calls are logged, limited, retried and booked.

    Backend(config.active_backend).lm("actor", 1)       # a dspy.LM: role, rollout number

    with dspy.context(adapter=Listening(dspy.ChatAdapter())):
        dspy.Predict("question -> answer")(question="...")      # whatever model answers here, its calls are logged

Keys are read from the environment when a model is created and are stored nowhere else.
"""

import base64
import contextvars
import functools
import hashlib
import json
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import dspy
from dspy.clients._deprecation import adapter_message_call
from dspy.utils import exceptions
from dspy.utils.callback import with_callbacks
from dspy.utils.exceptions import LMError, LMRateLimitError, LMTimeoutError, LMUnsupportedFeatureError

from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.calls import Call, Place, make_plain, text_of
from rsso_dspy.config import EMBEDDED, NOT_SENT, BackendConfig, Role, RoleOverride
from rsso_dspy.errors import BackendUnreachable, ConfigError, MissingKey, Stopped, UsageError, list_causes
from rsso_dspy.failures import (
    Form,
    dump_error,
    explain_missing_answer,
    find_other_form,
    lookup_policy,
    normalize_error,
    restore_error,
)
from rsso_dspy.playing import get_playing, is_cancelled, is_stopping
from rsso_dspy.records import Usage, drop_unreadable_counts, reaches_limit, read_usage
from rsso_dspy.redact import (
    is_location,
    is_secret_name,
    redact,
    register_address,
    register_secret,
    strip_credentials,
    watch_variable,
)
from rsso_dspy.replies import (
    ErrorResponse,
    MissingAnswer,
    choose_usage,
    drop_unreadable_usage,
    find_missing_answer,
    join_parts,
    list_endings,
    make_encodable,
    make_writable,
    read_body_usage,
    tell_http_bodies,
    tell_native_bodies,
)
from rsso_dspy.signatures.wrapped import WrappedAdapter

T = TypeVar("T")

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise LiteLLM downloads prices

# Asking through the log.

PARAMETERS = {
    "temperature", "top_p", "top_k", "top_a", "min_p", "typical_p", "tfs_z", "seed", "do_sample", "num_beams",
    "mirostat", "mirostat_eta", "mirostat_tau", "dynatemp_range", "xtc_probability", "xtc_threshold",
    "max_tokens", "max_completion_tokens", "max_output_tokens", "min_tokens", "num_ctx", "num_predict",
    "stop", "stop_sequences", "stop_token_ids", "ignore_eos", "truncation", "n", "best_of", "suffix", "echo",
    "presence_penalty", "frequency_penalty", "repetition_penalty", "repeat_penalty", "repeat_last_n",
    "length_penalty", "no_repeat_ngram_size", "logit_bias", "logprobs", "top_logprobs", "prompt_logprobs",
    "response_format", "grammar", "json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
    "structured_outputs", "chat_template_kwargs", "enable_thinking", "add_generation_prompt", "continue_final_message",
    "reasoning", "reasoning_effort", "thinking", "thinking_budget", "include_reasoning", "verbosity",
    "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "modalities", "prediction",
}  # fmt: skip
"""Keywords of a request that answers depend on and that hold nothing secret: they are logged as they are."""

WAYS = {
    "api_key", "api_base", "base_url", "headers", "extra_headers", "default_headers", "timeout", "request_timeout",
    "num_retries", "max_retries", "engine", "async_engine", "cache", "prompt_cache", "rollout_id", "callbacks",
}  # fmt: skip
"""Keywords that only say how the model is reached: no answer depends on them, and some are secret. They are not logged.
Of any other keyword the log has a digest."""


def describe_request(lm: dspy.BaseLM, prompt: Any, messages: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as data: model, messages and all parameters that answers may depend on. Of a keyword that is not
    known, and may be a password, there is a digest, by which requests can be told apart."""
    settings = {**lm.kwargs, **kwargs}
    parameters: dict[str, Any] = {}
    for name in sorted(settings):
        if name in WAYS or settings[name] is None:
            continue
        value = json.loads(json.dumps(settings[name], default=_make_stable))
        parameters[name] = value if name in PARAMETERS else digest_value(name, value)

    return {
        "model": lm.model,
        "messages": messages if messages is not None else [{"role": "user", "content": prompt}],
        "parameters": parameters,
    }


def _make_stable(value: Any) -> Any:
    """Convert what JSON cannot hold to what is the same in every process."""
    if callable(value) and not isinstance(value, type):
        return getattr(value, "__qualname__", type(value).__qualname__)
    plain = make_plain(value)
    return type(value).__qualname__ if isinstance(plain, str) and " at 0x" in plain else plain


DIGEST_ROUNDS = 100_000  # makes guessing a short password from a log slow


def digest_value(name: str, value: Any) -> str:
    """Return a digest of the value of a keyword, the same on every machine: ``digest:3f0a...``, 16 digits."""
    return _digest_text(name, json.dumps(value, sort_keys=True))


@functools.lru_cache(maxsize=256)
def _digest_text(name: str, text: str) -> str:
    key = f"rsso-dspy request parameter {name}"
    digest = hashlib.pbkdf2_hmac("sha256", text.encode(), key.encode("utf-8", "replace"), DIGEST_ROUNDS)
    return f"digest:{digest.hex()[:16]}"


# What is sent as a credential.

PLAIN = {
    "model", "model_name", "models", "fallbacks", "provider", "custom_llm_provider", "order", "only", "ignore",
    "api_version", "aws_region_name", "vertex_location", "name", "role", "type",
}  # fmt: skip
"""Keywords, and keys in their values, whose texts are shown in many places and are never secret."""
LONGEST_SECRET = 5000  # maximum characters of a text that is a secret although no name says so
HEADERS = {"headers", "extra_headers", "default_headers", "authorization"}
SCHEMES = {"bearer", "basic", "token", "apikey", "key"}  # words ahead of a credential in a header


def register_credentials(lm: dspy.BaseLM) -> None:
    """Make known to the filter what a model sends as a credential, before its first request."""
    register_keywords(lm.kwargs)
    for attribute in ("launch_kwargs", "train_kwargs"):
        register_keywords(getattr(lm, attribute, None) or {})
    for attribute, value in vars(lm).items():
        if is_secret_name(attribute):
            _register_secrets(attribute, value, is_known=False)

    if _prepare_litellm.cache_info().currsize:
        for name, value in vars(import_litellm()).items():
            if name.endswith("_key") and isinstance(value, str):  # litellm.api_key
                register_secret(value)


def register_keywords(keywords: Mapping[str, Any]) -> None:
    """Make known to the filter what these keywords of a model, or of one call of it, send as a credential."""
    for name, value in keywords.items():
        _register_secrets(name, value, is_known=name in PARAMETERS)


def _register_secrets(name: str, value: Any, is_known: bool) -> None:
    """Register the texts in a value. Of a parameter that is known, only those that are named like a secret."""
    if isinstance(value, Mapping):
        is_known = is_known and name.lower() not in HEADERS
        for key, nested in value.items():
            _register_secrets(str(key), nested, is_known or str(key) in PARAMETERS)
    elif isinstance(value, list | tuple | set):
        for nested in value:
            _register_secrets(name, nested, is_known)
    elif isinstance(value, bytes):
        _register_text(name, value.decode(errors="replace"), is_known)
    elif hasattr(value, "get_secret_value"):  # pydantic's SecretStr
        register_secret(str(value.get_secret_value()))
    elif isinstance(value, str):
        _register_text(name, value, is_known)


def _register_text(name: str, text: str, is_known: bool) -> None:
    is_named_so = is_secret_name(name) or name.lower() in HEADERS
    if name in PLAIN or (is_known and not is_named_so):
        return

    if text.lstrip().startswith("{"):  # a service account, or a header with fields
        with suppress(ValueError, RecursionError):
            _register_secrets(name, json.loads(text), is_known=False)
            return

    is_one_word = " " not in text.strip() and len(text) <= LONGEST_SECRET
    if is_location(text):
        register_address(text)
    elif is_named_so or is_one_word:
        register_secret(text)
    register_header(text)


def register_header(value: str) -> None:
    """Register the credential in the value of a header: what follows the word for its scheme, and what it encodes."""
    scheme, _, credential = value.strip().partition(" ")
    if scheme.lower() not in SCHEMES:
        return

    register_secret(credential.strip())
    if scheme.lower() == "basic":
        with suppress(ValueError):
            user_and_password = base64.b64decode(credential.strip()).decode()
            register_secret(user_and_password)
            register_secret(user_and_password.partition(":")[2])


# Limits of a request.

LONGEST_ANSWER = 100_000  # maximum characters of an answer; longer ones would fill records and later prompts


def call_with_timeout(seconds: float, request: Callable[[], T], model: str) -> T:
    """Return the result of `request`; raises `LMTimeoutError` after `seconds`. Clients limit only the wait for the next
    byte; the thread of a server that drips is abandoned, and never keeps the process alive."""
    answer: Future[T] = Future()
    context = contextvars.copy_context()

    def run_request() -> None:
        try:
            answer.set_result(context.run(request))
        except BaseException as error:  # of any kind: the waiting thread raises it
            answer.set_exception(error)

    threading.Thread(target=run_request, name="request", daemon=True).start()
    if not wait([answer], seconds).done:
        raise LMTimeoutError(f"no complete answer within {seconds:g} s (setting timeout)", model=model)
    return answer.result()


_preparing = threading.RLock()  # of clients, which is done once, whichever thread comes first


def watch_clients() -> None:
    """Have DSPy's own client, and LiteLLM's once DSPy imports it, tell what servers send."""
    with _preparing:
        _watch_clients()


@functools.cache
def _watch_clients() -> None:
    tell_native_bodies(_take_body, _take_error)

    client: Any = import_module("dspy.clients.lm")
    get_litellm = client._get_litellm

    def get_prepared_litellm() -> Any:
        import_litellm()
        return get_litellm()

    client._get_litellm = get_prepared_litellm


def import_litellm() -> Any:
    """Import LiteLLM, which takes seconds, and make the clients that it creates from now on tell what servers send and
    follow no redirect, as DSPy's own follows none: clients send most headers with keys along to the other host."""
    with _preparing:
        return _prepare_litellm()


@functools.cache
def _prepare_litellm() -> Any:
    import litellm
    from litellm.llms.custom_httpx.http_handler import HTTPHandler
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    litellm.suppress_debug_info = True
    handler: Any = HTTPHandler
    handler.follow_redirects = property(lambda _: False, lambda *_: None)
    create_handler_client = handler.create_client
    base: Any = BaseOpenAILLM
    create_client = base._get_sync_http_client

    def create_watched_client(handler: Any) -> Any:
        client = create_handler_client(handler)
        tell_http_bodies(client, _take_body, _take_error)
        return client

    def create_without_redirects() -> Any:
        client = create_client()
        client.follow_redirects = False
        tell_http_bodies(client, _take_body, _take_error)
        return client

    handler.create_client = create_watched_client
    base._get_sync_http_client = staticmethod(create_without_redirects)
    return litellm


def _take_body(body: Any) -> Any:
    """Hand the body of a response to the tracker of its request; return it as the client can read it."""
    tracker = dspy.settings.get("usage_tracker")
    if not isinstance(tracker, RequestTracker):
        return body
    tracker.bodies.append(body)
    return drop_unreadable_usage(join_parts(body)) if isinstance(body, Mapping) else {}


def _take_error(response: ErrorResponse) -> None:
    """Hand an error of a server to the tracker of its request."""
    tracker = dspy.settings.get("usage_tracker")
    if isinstance(tracker, RequestTracker):
        tracker.error_response = response


# Retries.

TICK = 0.2  # seconds between a waiting thread's checks whether it should stop
LONGEST_WAIT = 60.0  # longest wait in seconds that a server may ask for where no configuration says it


class RequestRetrier:
    """Retries of one backend, shared by its threads. The wait is the server's Retry-After, up to `longest` seconds,
    otherwise it doubles from one second, with jitter. A rate limit makes every thread wait. Waiting threads call
    `stopped` and raise `Stopped` when it returns True."""

    def __init__(self, retries: int, longest: float = LONGEST_WAIT, stopped: Callable[[], bool] = lambda: False):
        self.retries = retries
        self.longest = longest
        self.stopped = stopped
        self._until = 0.0  # when the last rate limit ends, on the monotonic clock

    def send_with_retries(self, request: Callable[[], T]) -> T:
        """Return the answer. Raises the last error if all attempts fail, and any lasting error at once."""
        for attempt in range(self.retries + 1):
            self._sleep_unless_stopped(0.0)
            try:
                return request()
            except BaseException as error:
                wait = self.wait_after(error, attempt)
                ledger = get_playing().ledger
                if ledger is not None and isinstance(error, LMError):
                    ledger.count_failure(type(error).__name__)
                if wait is None:
                    raise
                if isinstance(error, LMRateLimitError):
                    self._until = max(self._until, time.monotonic() + wait)
            self._sleep_unless_stopped(wait)
        raise AssertionError("unreachable")

    def wait_after(self, error: BaseException, attempt: int) -> float | None:
        """Return the seconds until the next attempt; None if there is none."""
        if lookup_policy(type(error)) != "retry" or attempt == self.retries:
            return None
        retry_after = getattr(error, "retry_after", None)
        if retry_after is not None and retry_after > self.longest:
            return None
        return (min(2.0**attempt, self.longest) if retry_after is None else retry_after) * random.uniform(1.0, 1.25)

    def _sleep_unless_stopped(self, seconds: float) -> None:
        """Sleep, and as long as a rate limit lasts."""
        end = time.monotonic() + seconds
        while (remaining := max(end, self._until) - time.monotonic()) > 0:
            if self.stopped():
                raise Stopped
            time.sleep(min(TICK, remaining))


# Models.

DECODING = ("temperature", "top_p", "top_k", "repetition_penalty", "max_tokens", "max_completion_tokens", "seed")
"""Options of a request that control decoding."""

LONGEST_NAME = 200  # maximum characters kept of a model name that a server reports


class RequestTracker:
    """What the client reports about one request. It replaces DSPy's usage tracker during the request, so that an
    abandoned request adds no usage to the trial that continued without it."""

    def __init__(self) -> None:
        self.usage: list[dict[str, Any]] = []
        self.bodies: list[Any] = []  # of the responses, as the server sent them
        self.error_response: ErrorResponse | None = None  # the last one
        self.name = ""  # of the model, as the server reported it
        self.changed = ""  # decoding settings that the client omitted or changed, in words
        self.cut = False  # whether the server reported that it truncated the answer
        self.kept = not dspy.settings.disable_history

    def add_usage(self, _model: str, usage: dict[str, Any]) -> None:
        self.usage.append(make_writable(choose_usage(usage, () if self.usage else self.bodies)))

    @property
    def ending(self) -> str:
        """Why the answer ended, in the provider's word; empty where it did not say so."""
        endings = [ending for body in self.bodies for ending in list_endings(body)]
        return make_writable(endings[-1])[:LONGEST_NAME] if endings else ""

    def find_missing_answer(self, answer: Any) -> MissingAnswer | None:
        """Return why the server sent no answer; None if it sent one, or no body is known."""
        is_empty = not any(_holds_text(text) for text in answer or ())
        for body in self.bodies:
            missing = find_missing_answer(body, is_empty)
            if missing is not None:
                return missing
        return MissingAnswer("no choice in the response") if answer == [] else None

    def list_paid_usage(self) -> list[dict[str, Any]]:
        """Return what a request without an answer has cost: what was reported, or what its bodies say of an answer that
        the client could not read."""
        if not self.usage:
            answers = [body for body in self.bodies if _holds_paid_answer(body)]
            return [make_writable(read_body_usage(body)) for body in answers]
        reported = [(usage, read_usage(usage)) for usage in self.usage]
        return [usage for usage, counts in reported if counts.input or counts.output]


def _holds_paid_answer(body: Any) -> bool:
    """Whether a body holds an answer that is billed: one of the model, also where a filter withheld it."""
    missing = find_missing_answer(body)
    return missing is None or missing.is_filtered


def _holds_text(text: Any) -> bool:
    """Whether a part of an answer holds text, or the call of a tool."""
    return bool(text.get("text") or text.get("tool_calls")) if isinstance(text, dict) else bool(text)


class Logged:
    """A mixin before a class of models: calls go through the log of the unit that is played."""

    model: str
    kwargs: dict[str, Any]
    patience: RequestRetrier  # in place of DSPy's own retries, which wait as long as a server asks
    seeds: int | None = None  # a rollout number, for each request to have its own seed
    replays = False  # whether nothing is sent
    asks_again = True  # whether adapters may ask a second time
    takes_system = True  # whether instructions may stand in a system message
    forms: AbstractSet[Form] = frozenset()  # in which requests are sent, as the server takes no other

    @property
    def is_player(self) -> bool:
        """Whether no model answers, but the offline player, which has no decoding settings and no name to report."""
        return self.model.startswith("embedded/")

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """Return the answer: from the unit's log, or from the log that is replayed, if they have it, else from the
        model. Raises errors of the model, live or recorded, and `Stopped` if the replayed log lacks the request."""
        ledger = get_playing().ledger
        calls = get_playing().calls
        number = 0
        register_keywords(kwargs)
        if messages is not None and not self.takes_system:
            messages = move_system_text(messages)
        if ledger is not None:
            if self.seeds is not None:
                kwargs = {"seed": ledger.draw_seed(self.seeds), **kwargs}
            settings = {**self.kwargs, **kwargs}
            if not self.is_player:
                ledger.note_settings({name: settings[name] for name in DECODING if settings.get(name) is not None})
        if calls is not None:
            place = Place(ledger.trial, ledger.attempt, ledger.step, ledger.speaker) if ledger else Place(0, 0, 0, "")
            request = describe_request(self, prompt, messages, kwargs)
            if (recorded := calls.find(place, request)) is not None:
                call, is_own = recorded
                if not is_own:
                    calls.copy(call)
                return self._give_again(call, is_own, prompt, messages, kwargs)
            number = calls.begin(place, request)
        if self.replays:
            raise UsageError(
                f"{self.model} is not called: its backend answers from the log of a run, which only runs, compiles "
                "and builds read; leave replay out of the backend's table to call the model"
            )
        if ledger is not None:
            ledger.is_paid = False
        try:
            return self.patience.send_with_retries(lambda: self._attempt(number, prompt, messages, kwargs))
        except LMError as error:
            if calls is not None:
                calls.end(number, error=dump_error(error))
            raise

    async def acall(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        return await dspy.asyncify(self.__call__)(prompt, messages=messages, **kwargs)

    def _attempt(self, number: int, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Ask the model once; write and book what comes of it."""
        tracker = RequestTracker()
        started_at = time.perf_counter()
        settings = {**self.kwargs, **kwargs}
        calls = get_playing().calls
        forms = frozenset(self.forms)  # other threads may find out more while this one waits
        try:
            answer = make_writable(self._ask(tracker, prompt, messages, kwargs, forms))
        except LMError as error:
            has_system = "system" not in forms and any(message.get("role") == "system" for message in messages or ())
            failure = normalize_error(error, tracker.error_response, self.model, has_system)
        else:
            answer, is_overlong = _drop_overlong_texts(answer)
            longest = settings.get("max_tokens") or settings.get("max_completion_tokens") or inf
            counts = [read_usage(usage) for usage in tracker.usage]
            is_cut = is_overlong or tracker.cut or any(reaches_limit(count, longest) for count in counts)
            undercounted = is_undercounted(messages, counts)
            if calls is not None:
                seconds = round(time.perf_counter() - started_at, 3)
                calls.end(
                    number,
                    answer=answer,
                    usage=tracker.usage,
                    served=tracker.name,
                    finish=tracker.ending,
                    forms=sorted(forms),
                    undercounted=undercounted,
                    cut=is_cut,
                    seconds=seconds,
                )
            self._book(tracker.usage, tracker.name, is_cut, undercounted, is_used_up(answer, tracker.ending))
            return answer

        usage = tracker.list_paid_usage()
        if calls is not None:
            calls.fail(number, type(failure).__name__ if isinstance(failure, LMError) else "", usage)
        self._book(usage, tracker.name, tracker.cut)
        if not self._adopt_other_form(failure, forms):
            raise failure  # outside the handler: otherwise its cause would be printed too, with keys
        ledger = get_playing().ledger
        if ledger is not None:
            ledger.count_failure(type(failure).__name__)
        return self._attempt(number, prompt, messages, kwargs)

    def _adopt_other_form(self, failure: Exception, tried: AbstractSet[Form]) -> bool:
        """Send requests from now on in a form that the server may take, which asks the same; False if none is known for
        what it refuses, or it was tried."""
        form = find_other_form(str(failure)) if isinstance(failure, LMUnsupportedFeatureError) else None
        if form is None or form in tried or not isinstance(self.forms, set):
            return False
        self.forms.add(form)
        return True

    def _ask(
        self, tracker: RequestTracker, prompt: Any, messages: Any, kwargs: dict[str, Any], forms: AbstractSet[Form]
    ) -> Any:
        """Return the answer. Raises `LMError` for none, and for one that was made with other settings."""
        if messages is not None and "system" in forms:
            messages = move_system_text(messages)
        if "max_completion_tokens" in forms:
            longest = {**self.kwargs, **kwargs}.get("max_tokens")
            kwargs = {**kwargs, "max_tokens": None, "max_completion_tokens": longest}
        try:
            answer = self.send(tracker, prompt, messages, kwargs)
        except LMError as error:
            missing = tracker.find_missing_answer(None)
            if missing is None:
                raise
            raise explain_missing_answer(error, missing, self.model) from error

        missing = tracker.find_missing_answer(answer)
        if missing is not None:
            tracker.name, tracker.cut = "", False  # what the client assumed of an answer
            raise explain_missing_answer(None, missing, self.model)
        if tracker.changed:
            raise LMUnsupportedFeatureError(
                f"{tracker.changed} on the way to {self.model}, which does not support it: change the setting of "
                "the backend, or leave it out",
                model=self.model,
            )
        return answer

    def _book(
        self,
        usage: Iterable[dict[str, Any]],
        served: str = "",
        cut: bool = False,
        undercounted: bool = False,
        used_up: bool = False,
    ) -> None:
        """Tell the ledger and DSPy's usage tracker what a request came to."""
        ledger = get_playing().ledger
        if cut and ledger is not None:
            ledger.note_truncated(used_up)  # of the usage that follows
        if undercounted and ledger is not None:
            ledger.note_undercounted()
        for entry in usage if dspy.settings.usage_tracker else ():
            dspy.settings.usage_tracker.add_usage(self.model, drop_unreadable_counts(entry))
        if served and ledger is not None:
            ledger.note_model(served)

    def _give_again(self, call: Call, is_paid: bool, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Return the answer of a recorded call or raise its error. Notifies the same listeners as a live request."""

        def request(instance: dspy.BaseLM, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
            """A stand-in for a request, with the signature that DSPy's callbacks expect."""

        call = _make_call_writable(call)
        ledger = get_playing().ledger
        if ledger is not None:
            ledger.is_paid = is_paid
        for kind, usage in call.failed:
            with_callbacks(request)(self, prompt, messages=messages, **kwargs)
            self._book(usage)
            if kind and ledger is not None:
                ledger.count_failure(kind)
        if call.error is not None:
            raise restore_error(call.error)
        with_callbacks(request)(self, prompt, messages=messages, **kwargs)
        self._book(call.usage, call.served, call.cut, call.undercounted, is_used_up(call.answer or (), call.finish))
        return list(call.answer or [])

    def update_history(self, entry: dict[str, Any]) -> None:
        """Take the model's name and changed settings from DSPy's entry of a request."""
        tracker = dspy.settings.get("usage_tracker")
        if isinstance(tracker, RequestTracker):
            name = make_writable(str(entry.get("response_model") or ""))
            tracker.name = "" if self.is_player else name[:LONGEST_NAME]
            notes = [note for note in entry.get("adaptations") or () if note.field.removeprefix("config.") in DECODING]
            changes = [f"{note.field.removeprefix('config.')} is {note.action}" for note in notes]
            tracker.changed = ", ".join(changes)
        if not isinstance(tracker, RequestTracker) or tracker.kept:
            super().update_history(entry)  # type: ignore[misc]

    def send(self, tracker: RequestTracker, prompt: Any, messages: Any, kwargs: dict[str, Any]) -> Any:
        """Ask the model itself, once and within its timeout."""

        def send_tracked() -> Any:
            from_adapter = adapter_message_call(self, messages)  # also those that were moved: DSPy warns of others
            with dspy.context(usage_tracker=tracker, disable_history=False), from_adapter:
                return super(Logged, self).__call__(prompt, messages=messages, **kwargs)  # type: ignore[misc]

        seconds = self.kwargs.get("timeout")
        streamed = dspy.settings.send_stream is not None  # chunks come from the thread that was asked
        return send_tracked() if seconds is None or streamed else call_with_timeout(seconds, send_tracked, self.model)


LENGTH_ENDINGS = ("length", "max_tokens", "max_output_tokens", "model_length")
"""Words of providers, in lower case, for an answer that ended at the limit of tokens."""


def is_used_up(answer: Sequence[Any], ending: str) -> bool:
    """Whether the limit of tokens went by without a word of the answer, in hidden reasoning."""
    return ending.lower() in LENGTH_ENDINGS and not any(_holds_text(text) for text in answer)


MOST_BYTES = 8  # of a token of a prompt on the average, in any language; texts in English have 4
SHORTEST_COUNTED = 4000  # bytes of a prompt from which on its tokens are compared with its length


def is_undercounted(messages: Sequence[Mapping[str, Any]] | None, counts: Sequence[Usage]) -> bool:
    """Whether a server counted far fewer tokens than were sent, which tells that it has cut the prompt."""
    sent_bytes = sum(len(text_of(message.get("content")).encode()) for message in messages or ())
    counted = sum(count.input for count in counts)
    return sent_bytes >= SHORTEST_COUNTED and 0 < counted * MOST_BYTES < sent_bytes


def move_system_text(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return messages with the text of a leading system message at the beginning of the first message of the user."""
    if not messages or messages[0].get("role") != "system":
        return list(messages)
    system, *rest = messages
    if not rest or rest[0].get("role") != "user":
        return [{**system, "role": "user"}, *rest]

    text = text_of(system.get("content"))
    content = rest[0].get("content")
    if isinstance(content, list):
        content = [{"type": "text", "text": text}, *content]
    else:
        content = f"{text}\n\n{content or ''}"
    return [{**rest[0], "content": content}, *rest[1:]]


def _make_call_writable(call: Call) -> Call:
    """Return a recorded call whose texts can be written again; a log may hold half characters as escapes."""
    return replace(
        call,
        answer=make_writable(call.answer),
        error=make_writable(call.error),
        failed=make_writable(call.failed),
        usage=make_writable(call.usage),
        served=make_writable(call.served),
    )


class LoggedLM(Logged, dspy.LM):
    """A model of a backend."""


@functools.cache
def _add_logging(kind: type[dspy.BaseLM]) -> type[dspy.BaseLM]:
    return type(kind.__name__, (Logged, kind), {"__module__": kind.__module__})


def make_logged(lm: dspy.BaseLM) -> dspy.BaseLM:
    """Return a copy of a model whose calls are logged, with all that is set on it; they go into its own history."""
    if isinstance(lm, Logged):
        return lm
    watch_clients()
    register_credentials(lm)
    logged: Any = lm.copy()
    kind: Any = type(lm)
    logged.__class__ = _add_logging(kind)
    logged.history = lm.history
    logged.patience = RequestRetrier(lm.num_retries, LONGEST_WAIT, is_stopping)
    logged.num_retries = 0
    logged.forms = _forms_of_users.setdefault(lm, set())
    return logged


_forms_of_users: MutableMapping[dspy.BaseLM, set[Form]] = WeakKeyDictionary()
"""Forms in which requests to models are sent that the user made."""


class Listening(WrappedAdapter):
    """An adapter that lets a logged copy of the model answer that DSPy has chosen. It asks nothing for a cancelled
    call."""

    def __call__(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> Any:
        _check_cancelled()
        with dspy.context(send_stream=choose_stream(lm)):
            return make_encodable(self.adapter(make_logged(lm), *asked, **named))

    async def acall(self, lm: dspy.BaseLM, *asked: Any, **named: Any) -> Any:
        _check_cancelled()
        with dspy.context(send_stream=choose_stream(lm)):
            return make_encodable(await self.adapter.acall(make_logged(lm), *asked, **named))


def _check_cancelled() -> None:
    if is_cancelled():
        raise Stopped


def choose_stream(lm: dspy.BaseLM) -> Any:
    """Return the stream that is open for chunks of answers; None if the model's engine, as that of the offline player,
    gives whole answers alone, for which DSPy would raise an error."""
    engine = getattr(lm, "engine", None)
    gives_chunks = engine is None or isinstance(engine, str) or hasattr(engine, "stream")
    return dspy.settings.send_stream if gives_chunks else None


def _drop_overlong_texts(answer: Any) -> tuple[Any, bool]:
    """Return the answer's texts, with overlong ones emptied, and whether any was overlong."""
    texts = [text["text"] if isinstance(text, dict) else text for text in answer]
    if not any(isinstance(text, str) and len(text) > LONGEST_ANSWER for text in texts):
        return answer, False
    return [text if len(text or "") <= LONGEST_ANSWER else "" for text in texts], True


class _CutOff(logging.Filter):
    """Counts DSPy's warnings of truncated answers instead of printing each."""

    def filter(self, record: logging.LogRecord) -> bool:
        tracker = dspy.settings.get("usage_tracker")
        if not isinstance(tracker, RequestTracker) or "truncated" not in record.msg:
            return True
        tracker.cut = True
        return False


logging.getLogger("dspy.clients.lm").addFilter(_CutOff())


# Backends.


class Provider(NamedTuple):
    """What is known of a provider that DSPy's own client supports."""

    address: str  # to find the proxy for it; other providers are assumed to be at https://NAME
    refused: tuple[str, ...] = ()  # settings that it lacks and may drop silently: refused before anything is sent
    instead: str = ""  # what to do about these
    hottest: float = inf  # highest temperature; DSPy would silently reduce a higher one
    bare: bool = False  # whether its address is usually given without /v1


OLLAMA = Provider(
    "http://localhost:11434", ("top_k", "repetition_penalty"), ", and set it in the model's Modelfile", bare=True
)
NATIVE = {
    "anthropic": Provider("https://api.anthropic.com", ("repetition_penalty", "seed"), hottest=1.0, bare=True),
    "openai": Provider("https://api.openai.com", OLLAMA.refused, ", or name a server of your own with base_url"),
    "hosted_vllm": Provider("http://localhost:8000"),
    "ollama": OLLAMA,
    "ollama_chat": OLLAMA,
}
"""Variables such as ANTHROPIC_BASE_URL make DSPy use LiteLLM instead, which builds other paths; an endpoint in the
configuration always uses DSPy's client."""


OTHER_FORMS: Mapping[Form, str] = {
    "system": "takes no system message: instructions stood at the beginning of the first user message. "
    '(system = "user" in its table spares the refused request)',
    "max_completion_tokens": "takes no max_tokens: the limit was sent as max_completion_tokens",
}


class Backend:
    """The models of one `[backends.NAME]` table, or `users_lm` in all roles. Thread-safe. Waiting threads give up when
    `stopped` returns True."""

    def __init__(
        self, config: BackendConfig, stopped: Callable[[], bool] = lambda: False, users_lm: dspy.BaseLM | None = None
    ):
        self.config = config
        self.users_lm = users_lm
        self.replay = Path(config.replay) if config.replay else None  # folder whose log answers
        self.patience = RequestRetrier(config.retries, config.longest_wait, stopped)
        self.forms: dict[tuple[str, str | None], set[Form]] = {}  # by model and address
        self.lm = functools.lru_cache(maxsize=1024)(self._build_lm)
        bypass_proxy()
        watch_clients()
        if users_lm is not None:
            register_credentials(users_lm)

    def describe_forms(self) -> list[str]:
        """Say in which forms requests were sent because a server refused the usual one."""
        return [f"{model} {OTHER_FORMS[form]}" for (model, _), forms in self.forms.items() for form in sorted(forms)]

    @property
    def rule_based(self) -> bool:
        return EMBEDDED in self.models.values()

    @property
    def models(self) -> dict[Role, str]:
        return {role: self.config.resolve_role(role).model or "" for role in get_args(Role)}

    @property
    def adapter(self) -> dspy.Adapter:
        """The answer format the backend asks for, read with tolerance for answers that do not keep to it."""
        return {"chat": ChatAdapter, "json": JSONAdapter}[self.config.adapter]()

    def check(self, retry_temperature: float | None = None) -> None:
        """Raise errors that would stop every unit: a malformed model name, a missing key, an unsupported setting."""
        for role in ("actor", *self.config.roles):
            self.lm(role, 0)
        if retry_temperature is None:
            return
        if self.users_lm is None and self.config.resolve_role("actor").temperature == NOT_SENT:
            raise ConfigError(
                f"protocol.retry_temperature = {retry_temperature:g} cannot be sent, as the actor's temperature is "
                f'"{NOT_SENT}": leave it out; such a model varies by itself'
            )
        self.lm("actor", 0, retry_temperature)

    def _build_lm(self, role: Role, rollout: int, temperature: float | None = None) -> dspy.LM:
        """Build the model of a role. `rollout` tells repeats of a request apart for backends that use seeds."""
        if self.users_lm is not None:
            return self.users_lm if temperature is None else self.users_lm.copy(temperature=temperature)
        settings = self.config.resolve_role(role, temperature)
        temperature = None if settings.temperature == NOT_SENT else settings.temperature
        max_tokens = None if settings.max_tokens == NOT_SENT else settings.max_tokens
        options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens}
        provider, slash, name = (settings.model or "").partition("/")
        if not slash or not name:
            raise ConfigError(
                f"model {settings.model!r} of role {role} is not of the form provider/model, "
                f"e.g. anthropic/claude-sonnet-4-6, openai/gpt-4.1-mini, ollama_chat/llama3.1 or {EMBEDDED}"
            )
        if provider == "embedded":
            if settings.model != EMBEDDED:
                raise ConfigError(f"model {settings.model!r}: the only embedded model is {EMBEDDED}")
            from rsso_dspy.offline import Explorer

            player = LoggedLM(settings.model, engine=Explorer(seed=rollout), cache=False, num_retries=0, **options)
            player.patience = RequestRetrier(0, 0.0, self.patience.stopped)
            return player
        addressed = settings.model_copy(update={"base_url": settings.base_url or "recorded"} if self.replay else {})
        options |= build_decoding_options(role, addressed, self.config.seed)
        options |= {} if self.replay else self._way_to(role, settings)
        try:
            lm = LoggedLM(f"{provider}/{name}", cache=False, num_retries=0, **options)
        except exceptions.LMConfigurationError as error:
            raise ConfigError(
                f"model {settings.model!r} of role {role} does not support temperature {settings.temperature} with "
                f"max_tokens {settings.max_tokens}: {error.message}"
            ) from None
        lm.patience = self.patience
        lm.seeds = rollout if self.config.seed else None
        lm.replays = self.replay is not None
        lm.asks_again = self.config.ask_again is not False
        lm.takes_system = settings.system != "user"
        lm.forms = self.forms.setdefault((settings.model or "", settings.base_url), set())
        return lm

    def _way_to(self, role: Role, settings: RoleOverride) -> dict[str, Any]:
        """Build the options for reaching a model: address, client, key, timeout."""
        options: dict[str, Any] = {"timeout": self.config.timeout}
        provider = (settings.model or "").partition("/")[0]
        if provider in NATIVE and "@" in urlsplit(settings.base_url or "").netloc:
            raise ConfigError(
                f"the address of role {role} contains a user name or a password, which requests for {settings.model} "
                "cannot carry: remove it, and name a variable with the server's key in key_variable"
            )
        if settings.base_url:
            bare = provider in NATIVE and NATIVE[provider].bare and not urlsplit(settings.base_url).path.strip("/")
            options["api_base"] = f"{settings.base_url.rstrip('/')}/v1" if bare else settings.base_url
            options["engine"] = "lm15" if provider in NATIVE else "auto"
        set_beside = settings.top_k is not None or settings.repetition_penalty is not None
        needs_litellm = set_beside and provider in ("openai", "hosted_vllm")  # where DSPy's own client omits these
        if needs_litellm:
            options["engine"] = "litellm"
        address = settings.base_url or resolve_provider_address(settings.model or "")
        by_variable = not settings.base_url and provider in NATIVE and address != NATIVE[provider].address
        if provider not in NATIVE or by_variable or needs_litellm:
            import_litellm()  # now, because its seconds should not count against the first request's timeout
        if key := read_key(settings.key_variable, settings.model or "", "--backend embedded"):
            options["api_key"] = key
        return options


def resolve_provider_address(model: str) -> str:
    """Return the address of a provider: that of its environment variables, otherwise its own."""
    provider = model.partition("/")[0]
    addresses = (os.environ.get(f"{provider.upper()}_{name}") for name in ("API_BASE", "BASE_URL"))
    own_address = NATIVE[provider].address if provider in NATIVE else f"https://{provider}"
    return next(filter(None, addresses), "") or own_address


# Proxies. Those of the environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`, in either case) apply as for
# any HTTP tool, except to this machine: a remote proxy could not reach it, and would see prompts and keys.

LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def bypass_proxy() -> None:
    """Make every HTTP library reach this machine without a proxy: in `no_proxy`, plain names mean the same to all."""
    proxies = getproxies()
    if {"http", "https", "all"} & set(proxies) and (spared := proxies.get("no", "").strip()) != "*":
        names = (name.strip() for name in (*spared.split(","), *LOOPBACK))
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(dict.fromkeys(filter(None, names)))


def find_proxy(address: str) -> str:
    """Return the proxy for this address without user and password, or an empty string."""
    parts = urlsplit(address)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return strip_credentials(proxy if "://" in proxy else f"http://{proxy}")


def read_key(variable: str | None, model: str, otherwise: str) -> str | None:
    """Return the key in an environment variable, without surrounding white space; without a `variable`, that in the
    provider's usual one if libraries would send it with white space, else None. Raises `MissingKey`, which names the
    option `otherwise` that needs none, and `ConfigError` for a key that no HTTP header can hold."""
    name = variable or f"{model.partition('/')[0].upper()}_API_KEY"
    watch_variable(name)
    value = os.environ.get(name, "")
    key = value.strip()
    if not key and variable is None:
        return None
    if not key:
        raise MissingKey(
            f"{model} needs a key, and the environment variable {name} is not set: "
            f"`export {name}=...`, or use {otherwise}, which needs none"
        )
    if odd := next((letter for letter in key if not " " <= letter <= "~"), None):
        character = "a line break" if odd in "\r\n" else f"the character U+{ord(odd):04X}"
        raise ConfigError(
            f"the key in {name} contains {character}, which no request can carry: set it again to the key alone, "
            f"`export {name}=...`"
        )
    register_secret(key)
    return key if variable or key != value else None


def build_decoding_options(role: str, settings: RoleOverride, seeded: bool) -> dict[str, Any]:
    """Return the decoding options except temperature and length. Raises `ConfigError` for one not supported."""
    values = {"top_p": settings.top_p, "top_k": settings.top_k, "repetition_penalty": settings.repetition_penalty}
    options: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    model = settings.model or ""
    provider = NATIVE.get(model.partition("/")[0], Provider(""))
    if isinstance(settings.temperature, float) and settings.temperature > provider.hottest:
        raise ConfigError(
            f"model {model!r} of role {role} does not support temperature {settings.temperature}: "
            f"{provider.hottest:g} is the highest that its provider supports"
        )
    for name in list_refused_settings(model, settings.base_url):
        if name in options or (name == "seed" and seeded):
            raise ConfigError(f"model {model!r} of role {role} does not support {name}: leave it out{provider.instead}")
    if "repetition_penalty" in options:
        options["repeat_penalty"] = options["repetition_penalty"]  # llama.cpp's name; vLLM uses the other one
    return options


def list_refused_settings(model: str, base_url: str | None) -> tuple[str, ...]:
    """Settings that the provider of a model does not take; none where a server of one's own speaks OpenAI's format."""
    provider = model.partition("/")[0]
    return NATIVE[provider].refused if provider in NATIVE and not (provider == "openai" and base_url) else ()


# Whether the models of a backend can answer.

CONNECT_SECONDS, FAULT_SECONDS = 1.5, 2.5  # that a server may take to accept a connection, and to name a fault
LONGEST_REFUSAL = 10_000  # bytes that are read of what a server says is wrong
FIXES = {"base_url": "start the server, or change", "key_variable": "set the key again, or change", "model": "change"}


def check_backend(table: BackendConfig, name_setting: Callable[[Role, str], str]) -> None:
    """Raise what keeps the models of a backend from answering, with the option or key that named them: a missing or
    refused key, a server that is not there, a model that it does not have. No model is asked anything, and nothing is
    checked where a log answers."""
    backend = Backend(table)
    checked: set[tuple[str | None, ...]] = set()
    roles: list[Role] = [] if table.replay else ["actor", *table.roles]
    for role in roles:
        settings = table.resolve_role(role)
        setting = name_setting(role, "model")
        model = settings.model or ""
        provider, _, name = model.partition("/")
        try:
            key = backend.lm(role, 0).kwargs.get("api_key")
        except UsageError as error:
            raise type(error)(f"{error} (named by {setting})") from None
        if provider not in NATIVE and model != EMBEDDED:
            litellm = import_litellm()
            try:
                litellm.get_llm_provider(model, api_base=settings.base_url)
            except litellm.exceptions.BadRequestError:
                raise ConfigError(f"no provider is called {provider!r}: change {setting}, e.g. openai/{name}") from None
        key = key or (None if settings.base_url else os.environ.get(f"{provider.upper()}_API_KEY"))
        place = (settings.base_url or resolve_provider_address(model), provider, name, key)
        if place in checked or not (settings.base_url or provider in NATIVE):
            continue
        checked.add(place)
        with suppress(LMTimeoutError):  # it is there, and slow
            wrong_setting, reason = call_with_timeout(FAULT_SECONDS, functools.partial(_find_fault, *place), name)
            if wrong_setting:
                kind = BackendUnreachable if wrong_setting == "base_url" else ConfigError
                raise kind(f"{reason}: {FIXES[wrong_setting]} {name_setting(role, wrong_setting)} (of the {role})")


def _find_fault(url: str, provider: str, name: str, key: str | None) -> tuple[str, str]:
    """Return the setting that is wrong and why, after asking a server of its model, and then with a request without
    messages, which costs nothing. llama.cpp's answers to any name, so its list tells. Empty where nothing is known to
    be wrong. No redirect is followed with the key."""
    import requests
    from urllib3.exceptions import HTTPError

    base = url.rstrip("/") + ("" if urlsplit(url).path.strip("/") else "/v1")
    address = strip_credentials(url)
    talks, headers = "chat/completions", {"Authorization": f"Bearer {key}"} if key else {}
    if provider == "anthropic":
        talks, headers = "messages", {"x-api-key": key or "", "anthropic-version": "2023-06-01"}

    def ask(way: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        options: Any = {
            "timeout": CONNECT_SECONDS,
            "allow_redirects": False,
            "stream": True,
            "auth": lambda request: request,
        }
        with requests.request(way, f"{base}/{path}", headers=headers, json=body, **options) as answer:
            reply = answer.raw.read(LONGEST_REFUSAL, decode_content=True).decode(errors="replace")
            return answer.status_code, redact(" ".join(reply.split()))

    try:
        status, reply = ask("GET", f"models/{quote(name, safe='')}")
        if provider in NATIVE and status != 200 and not (status == 404 and name in reply.replace(f"models/{name}", "")):
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                models = make_writable(json.loads(ask("GET", "models")[1]))["data"]
                aliases: list[str] = []
                for model in models:
                    aliases.extend(dict.fromkeys((model["id"], *model.get("aliases", ()))))
                if name not in aliases and {model["owned_by"] for model in models} == {"llamacpp"}:
                    available = ", ".join(f"{provider}/{alias}" for alias in aliases)
                    return "model", f"{address} has {available:.200}, not {name}, though it answers to any name"
            status, reply = ask("POST", talks, {"model": name, "messages": [], "max_tokens": 1})
    except (requests.RequestException, HTTPError, ValueError) as error:  # a redirect may lead to what is no address
        if isinstance(error, requests.exceptions.SSLError) or not isinstance(error, requests.ConnectionError):
            return "", ""  # the client of the model may trust other certificates
        route = f" through {proxy}, a proxy of the environment," if (proxy := find_proxy(url)) else ""
        cause = list_causes(error)[-1]
        responder = "nothing" if isinstance(cause, OSError) else "no model server"
        return "base_url", f"{responder} answers at {address}{route} ({' '.join(str(cause).split())})"
    if provider in NATIVE and status in (401, 403) and (key or f"{provider.upper()}_API_KEY" not in os.environ):
        refused = "this" if key else "to answer without a"
        return "key_variable", f"{address} refuses {refused} key ({status}: {reply:.200})"
    if provider in NATIVE and status == 404:
        wrong_setting = "model" if name in reply or "model" in reply.lower() else "base_url"
        missing = name if wrong_setting == "model" else f"/{talks}"
        return wrong_setting, f"{address} does not have {missing} (404: {reply:.200})"
    return "", ""
