"""`rsso-dspy doctor`: check what works on this machine, and say how to fix the rest."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rsso_dspy.cli.options import BackendName, BaseUrl, BenchmarkName, ConfigFile, ModelName, Overrides, build_config
from rsso_dspy.cli.run_plan import describe_proxies
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import BackendFailure
from rsso_dspy.redact import redact

if TYPE_CHECKING:
    from rsso_dspy.config import Config

PATIENCE = 15.0
"""Time limit in seconds for one short answer of a backend."""

SHOWN = 40
"""Maximum number of printed characters of an answer."""

ANSWERS = {
    "chat": "[[ ## answer ## ]] and the answer below it",
    "json": '{"answer": ...}',
    "xml": "<answer>...</answer>",
}
"""The answer that each format expects to the test question."""

DISK_NEEDED = 2.0
"""Disk space in GB that a full held-out run of four methods may take."""


def check_setup(
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Check simulator, embedder, backend and disk by using each of them."""
    settings = build_config(config, set_, backend, model=model, base_url=base_url, benchmark=benchmark)
    # A self-hosted server may have to load its model first.
    patience = PATIENCE if model is None else settings.active_backend.timeout
    checks: list[tuple[str, Callable[[Config], str]]] = [
        ("simulator", _check_simulator),
        ("embedder", _check_embedder),
        (f"backend {settings.backend}", lambda of: _check_backend(of, patience)),
        ("disk", _check_disk),
    ]
    for line in describe_proxies(settings):
        echo(f"note    {line}")
    failed = 0
    for name, check in checks:
        echo(f"checking {name} ...", err=True)
        try:
            echo(f"ok      {name}: {check(settings)}")
        except Exception as error:  # report every failure as a finding
            failed += 1
            echo(f"failed  {name}: {' '.join(redact(str(error)).split())}", fg="red")
    if failed:
        raise typer.Exit(1)


def _check_simulator(config: "Config") -> str:
    return config.active_benchmark.smoke_test(config.environment)


def _check_embedder(config: "Config") -> str:
    from rsso_dspy.embed import Embedder

    embedder = Embedder(config.embedder.model_copy(update={"timeout": PATIENCE, "retries": 0, "cache": False}))
    embedder.check()
    dimensions = embedder(["a text"]).shape[1]
    where = f", from {source}" if (source := embedder.describe_source()) else ""
    return f"{config.embedder.model} ({embedder.route}) gives {dimensions} dimensions{where}"


def _check_backend(config: "Config", seconds: float) -> str:
    import dspy
    from dspy.utils.exceptions import AdapterParseError

    from rsso_dspy.lm import Backend

    backend = Backend(config.active_backend.model_copy(update={"timeout": seconds, "retries": 0}))
    backend.check()
    backend.check_connections()
    try:
        with dspy.context(disable_history=True, adapter=backend.adapter):
            answer = dspy.Predict("question -> answer")(question="Is water wet?", lm=backend.lm("actor", 0)).answer
    except AdapterParseError as error:
        raise BackendFailure(_explain_unreadable_answer(config, str(error.lm_response or ""))) from None
    rule = " (rule-based, offline)" if backend.rule_based else ""
    return f"{config.active_backend.model}{rule} answered {redact(str(answer))[:SHOWN]!r}"


def _explain_unreadable_answer(config: "Config", said: str) -> str:
    """Describe the expected answer and the settings to change."""
    own, at = config.active_backend, f"--set backends.{config.backend}"
    others = " or ".join(f"{at}.adapter={name}" for name in ANSWERS if name != own.adapter)
    return (
        f"{own.model} answered {redact(said)[:SHOWN]!r}, which cannot be parsed: adapter {own.adapter} expects "
        f"{ANSWERS[own.adapter]}. Try {others}; {at}.max_tokens={2 * (own.max_tokens or 1024)} if the answer "
        "was cut off; or another model"
    )


def _check_disk(config: "Config") -> str:  # noqa: ARG001
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    if free < DISK_NEEDED:
        raise OSError(f"{free:.1f} GB free here, but a full run may need {DISK_NEEDED:.0f} GB; choose another --out")
    return f"{free:.0f} GB free"
