"""A session: simulators, models and embedder of a configuration, ready for programs. All starts on first use.

with session() as live:                     # the defaults: offline, no key
    Agent("rsso")(variant="find-plant::228", trials=3)
"""

import atexit
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import dspy

from rsso_dspy.calls import read_replayed_protocol
from rsso_dspy.config import EMBEDDED, BackendConfig, Config, load_config, validate_config
from rsso_dspy.embed import Embedder
from rsso_dspy.environments import Environment
from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark
from rsso_dspy.environments.pool import EnvironmentPool
from rsso_dspy.environments.wrappers import DemonstratingEnvironment, DemonstrationKey
from rsso_dspy.errors import UsageError
from rsso_dspy.experience import read_stored_reflections
from rsso_dspy.lm import Backend, Listening
from rsso_dspy.memory.contenders import EntrySettings
from rsso_dspy.memory.formats import format_examples
from rsso_dspy.playing import get_playing, playing
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import find_users_lm
from rsso_dspy.programs.runtime import Runtime, set_default_session
from rsso_dspy.protocol import (
    NamedProtocol,
    apply_decoding,
    check_prompts_of,
    make_reflection_settings,
    resolve_protocol,
)

USERS = "dspy"  # name of the backend that stands for DSPy's configured model


@dataclass(frozen=True)
class Session:
    """A configuration with its protocol, models and runtime; see `session`."""

    config: Config
    protocol: NamedProtocol
    backend: Backend
    embedder: Embedder
    runtime: Runtime
    jobs: int = 1  # maximum number of simulators

    @contextmanager
    def activate_for_run(self) -> Iterator[None]:
        """Activate the runtime for a run or compile, with the session's models alone, and neither history nor trace."""
        alone = {"lm": None, "disable_history": True, "trace": None}
        adapter = Listening(self.backend.adapter)
        with dspy.context(**alone, adapter=adapter), playing(session_models_only=True), self.runtime.activate():
            yield

    @contextmanager
    def activate_for_user(self) -> Iterator[Runtime]:
        """Activate the runtime for a user's own calls. DSPy's settings stay the user's: only the predictors of an agent
        are asked in the backend's format, where the user has set no adapter, and only their calls are logged."""
        with playing(session=self), self.runtime.activate() as runtime:
            yield runtime

    def check_models(self, agents: Iterable[Agent] = ()) -> None:
        """Raise `UsageError` if a model would answer that records would not name: DSPy's or a predictor's own."""
        users = find_users_lm()
        models = [predictor.lm for agent in agents for predictor in agent.predictors_by_name.values()]
        models += [users] if users is not self.backend.users_lm else []
        if model_names := {str(getattr(lm, "model", lm)) for lm in models if lm is not None}:
            raise UsageError(
                f"{', '.join(sorted(model_names))} would answer instead of {self.backend.models['actor']}, the model "
                "named in records: runs and compiles take their models from the session. Configure DSPy before opening "
                "the session, or name the model in the configuration ([backends.NAME] model = ...)"
            )


@contextmanager
def session(
    config: Config | None = None, jobs: int = 1, asks: bool = True, benchmark: str | None = None
) -> Iterator[Session]:
    """Open a session and activate it in this thread; its simulators, `jobs` at most, end with the block. A model set by
    `dspy.configure(lm=...)` answers in every role, and the configuration may name no other. Without `asks`, no model is
    asked, so keys may be missing. `benchmark` goes before the one in `rsso.toml`; raises `UsageError` if `config` names
    another."""
    if jobs < 1:
        raise UsageError(f"{jobs} jobs play nothing; give at least 1")
    live = make_session(choose_config(config, benchmark), jobs, asks)
    try:
        with live.activate_for_user():
            yield live
    finally:
        live.runtime.environments.close()


def choose_config(config: Config | None = None, benchmark: str | None = None) -> Config:
    """Return a configuration, that of `rsso.toml` where none is given, with this benchmark. Raises `UsageError` if the
    given one names another."""
    if config is None:
        return load_config(overrides=[] if benchmark is None else [f"benchmark={benchmark}"])
    if benchmark in (None, config.benchmark):
        return config
    if "benchmark" in config.model_fields_set:
        raise UsageError(
            f"two benchmarks are named: benchmark={benchmark!r}, and the configuration is of {config.benchmark}. "
            "Drop one of them"
        )
    return validate_config({**config.model_dump(exclude_unset=True), "benchmark": benchmark})


def make_session(config: Config, jobs: int, asks: bool = True) -> Session:
    """Create a session without activating it. The caller closes its environments. Raises what `session` raises."""
    users_lm = find_users_lm()
    config = apply_decoding(config if users_lm is None else name_users_lm(config, users_lm))
    protocol = resolve_protocol(config)
    backend = Backend(config.active_backend, Runtime.is_stopping, users_lm)
    if backend.replay is not None:
        check_prompts_of(read_replayed_protocol(backend.replay))
    if asks:
        backend.check(protocol.rules.retry_temperature)
    embedder = Embedder(config.embedder, replays=backend.replay is not None)
    benchmark = config.active_benchmark
    book = config.memory.constitution
    demonstrations: dict[DemonstrationKey, tuple[str, ...]] = {}

    def make_environment() -> Environment:
        environment = benchmark.make_environment(config.environment, Runtime.is_stopping)
        if not (count := protocol.rules.demonstrations):
            return environment
        source = config.benchmark_in_data
        data = benchmark.locate_data(config.environment.data)
        thoughts = protocol.rules.demonstration_thoughts
        return cast(Environment, DemonstratingEnvironment(environment, source, count, demonstrations, data, thoughts))

    runtime = Runtime(
        environments=EnvironmentPool(make_environment, jobs, Runtime.is_stopping),
        variant=lambda key: benchmark.simplify(benchmark.tasks.parse(key), config.simplification),
        budget=lambda variant: protocol.find_budget(variant, benchmark),
        lm=backend.lm,
        listen=lambda adapter: Listening(adapter or backend.adapter),
        embed=embedder,
        rules=protocol.rules,
        constitution=protocol.constitution,
        examples=format_examples(Path(book.examples) if book.examples else None, benchmark.hints.examples()),
        about=benchmark.hints.about,
        benchmark="" if config.benchmark == DEFAULT else config.benchmark,
        benchmark_name=config.benchmark,
        implied_templates=get_benchmark().action_templates["sso"],
        reflections=make_reflection_settings(config),
        stored=read_stored_reflections(config),
        skills=protocol.skills,
        entries=EntrySettings(**config.memory.entries.model_dump()),
    )
    return Session(config, protocol, backend, embedder, runtime, jobs)


def name_users_lm(config: Config, lm: dspy.BaseLM) -> Config:
    """Make DSPy's configured model the backend of the configuration, so that records name it; what it leaves to its
    provider is None. Raises `UsageError` if the configuration names a model too."""
    name = str(getattr(lm, "model", type(lm).__name__))
    if set(Backend(config.active_backend).models.values()) != {EMBEDDED}:
        raise UsageError(
            f"two models are named: DSPy is configured with {name}, and the backend {config.backend} is "
            f'{config.active_backend.model}. Drop one: dspy.configure(lm=None), or backend = "embedded"'
        )
    users = BackendConfig(
        model=name if "/" in name else f"{USERS}/{name}",
        temperature=lm.kwargs.get("temperature"),
        top_p=lm.kwargs.get("top_p") or None,
        top_k=lm.kwargs.get("top_k") or None,
        max_tokens=lm.kwargs.get("max_tokens") or lm.kwargs.get("max_completion_tokens"),
    )
    return config.model_copy(update={"backend": USERS, "backends": {**config.backends, USERS: users}})


_default: list[Session] = []
_opening = threading.Lock()


@contextmanager
def open_default_session(benchmark: str | None = None) -> Iterator[Runtime]:
    """Activate the default session, which starts with the first call and ends with the process. `benchmark` counts in
    the first call."""
    with _opening:
        if not _default:
            with playing(session_models_only=True):
                _default.append(make_session(choose_config(benchmark=benchmark), os.cpu_count() or 1))
            atexit.register(_default[0].runtime.environments.close)
    if (users_lm := find_users_lm()) is not None:
        name_users_lm(_default[0].config, users_lm)  # raises if the configuration names another
    with _default[0].activate_for_user() as runtime:
        yield runtime


set_default_session(open_default_session)


@contextmanager
def find_session(benchmark: str | None = None) -> Iterator[Session]:
    """Yield the session that is open here, or the default one, of this benchmark if the call is the first."""
    live: Session | None = get_playing().session
    if live is not None:
        yield live
        return
    with open_default_session(benchmark):
        yield _default[0]
