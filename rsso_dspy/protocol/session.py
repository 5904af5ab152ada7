"""A configuration brought to life: simulators, models and embedder, ready for programs to be called.

    with session() as live:                     # the defaults: offline, no key
        Agent("rsso")(variant="find-plant::228", trials=3)

Nothing is started before it is needed, and simulators end with the block.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import dspy

from rsso_dspy.backends import Backend
from rsso_dspy.backends.embedders import Embedder
from rsso_dspy.config import Config, load
from rsso_dspy.environments.pool import Pool
from rsso_dspy.environments.scienceworld.driver import ScienceWorld
from rsso_dspy.environments.scienceworld.golds import gold_length
from rsso_dspy.environments.scienceworld.tasks import parse
from rsso_dspy.memory.constitution.file import examples_of
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.protocol.presets import Preset, configured
from rsso_dspy.trajectory import Variant


@dataclass(frozen=True)
class Session:
    """What `session` lends: the configuration, its protocol, its models, and the runtime made of them."""

    config: Config
    protocol: Preset
    backend: Backend
    embedder: Embedder
    runtime: Runtime
    jobs: int = 1
    """How many simulators may live at once."""

    @contextmanager
    def here(self) -> Iterator[None]:
        """Make the runtime current in this thread, with DSPy's unbounded histories off and the backend's format. Who
        wants a trace opens one inside, as DSPy's optimizers do."""
        with dspy.context(disable_history=True, trace=None, adapter=self.backend.adapter), self.runtime.active():
            yield


@contextmanager
def session(config: Config | None = None, jobs: int = 1) -> Iterator[Session]:
    """Lend a session and make it current in this thread; simulators end with the block.

    `jobs` is how many simulators may live at once. Nothing is started before it is needed. Raises `MissingKey` or
    `ConfigError` at once when the backend cannot work.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    config = config or load()
    protocol = configured(config)
    backend = Backend(config.active_backend, Runtime.stopping)
    backend.check(protocol.rules.retry_temperature)
    embedder = Embedder(config.embedder)
    settings, book = config.environment, config.memory.constitution

    def environment() -> ScienceWorld:
        return ScienceWorld(heap=settings.heap, step_limit=settings.step_seconds, stopped=Runtime.stopping)

    pool = Pool(environment, size=jobs)

    def variant(key: str) -> Variant:
        return replace(parse(key), simplification=settings.simplification)

    runtime = Runtime(
        environments=pool,
        variant=variant,
        budget=lambda chosen: protocol.budget(gold_length(chosen)),
        lm=backend.lm,
        embed=embedder,
        rules=protocol.rules,
        constitution=protocol.constitution,
        examples=examples_of(Path(book.examples) if book.examples else None),
        reflections=config.memory.reflections,
        skills=protocol.skills,
    )
    live = Session(config, protocol, backend, embedder, runtime, jobs)
    try:
        with live.here():
            yield live
    finally:
        pool.close()
