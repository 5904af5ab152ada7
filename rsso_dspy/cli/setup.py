"""What is installed and configured: `rsso-dspy doctor`, `rsso-dspy config` and `rsso-dspy tasks`."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from rsso_dspy.cli.options import (
    BackendName,
    BaseUrl,
    BenchmarkName,
    ConfigFile,
    ModelName,
    Overrides,
    build_config,
)
from rsso_dspy.cli.run_plan import describe_proxies
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import BackendFailure, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.records import Split
from rsso_dspy.redact import redact

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.environments.benchmark import Benchmark

config_app = typer.Typer(help="Show the active configuration, or write a file to start from.", no_args_is_help=True)

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
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Check simulator, embedder, backend and disk by using each of them."""
    settings = build_config(config, set_, backend, model=model, base_url=base_url)
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
    return f"{config.embedder.model} gives {embedder(['a text']).shape[1]} dimensions"


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


def _explain_unreadable_answer(config: "Config", answer: str) -> str:
    """Describe the expected answer and the settings to change."""
    own, at = config.active_backend, f"--set backends.{config.backend}"
    others = " or ".join(f"{at}.adapter={name}" for name in ANSWERS if name != own.adapter)
    return (
        f"{own.model} answered {redact(answer)[:SHOWN]!r}, which cannot be parsed: adapter {own.adapter} expects "
        f"{ANSWERS[own.adapter]}. Try {others}; {at}.max_tokens={2 * (own.max_tokens or 1024)} if the answer "
        "was cut off; or another model"
    )


def _check_disk(config: "Config") -> str:  # noqa: ARG001
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    if free < DISK_NEEDED:
        raise OSError(f"{free:.1f} GB free here, but a full run may need {DISK_NEEDED:.0f} GB; choose another --out")
    return f"{free:.0f} GB free"


@config_app.command("show")
def show_config(
    config: ConfigFile = None,
    set_: Overrides = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
) -> None:
    """Print the active configuration as JSON, with every key and the selected backend.

    Also prints what the protocol resolves to, with what departs from its preset in its id; the hash of everything that
    results depend on; and the proxies that requests would go through.
    """
    from rsso_dspy.lm import list_backend_proxies
    from rsso_dspy.protocol import resolve_protocol

    settings = build_config(config, set_, backend, model=model, base_url=base_url)
    proxies = {"proxies": through} if (through := list_backend_proxies(settings)) else {}
    resolved = {"resolved_protocol": asdict(resolve_protocol(settings))}
    echo(json.dumps({"hash": settings.hash(), **settings.shown(), **resolved, **proxies}, indent=1))


@config_app.command("init")
def write_config(path: Annotated[Path, typer.Argument(help="File to write.")] = Path("rsso.toml")) -> None:
    """Write a configuration file with every key, its default and its meaning."""
    from rsso_dspy.config import render_config_template

    if path.exists():
        raise UsageError(f"{path} already exists; name another file or move it away")
    check_output_path(path, "file")
    atomic_write_text(path, render_config_template())
    echo(f"wrote {path}; commands started in this folder read it, others with --config {path}")


def print_tasks(benchmark: BenchmarkName = None, config: ConfigFile = None) -> None:
    """List the task types of the benchmark with their splits and held-out variants, and the benchmarks installed."""
    from rich.table import Table

    from rsso_dspy.environments.splits import FIRST
    from rsso_dspy.report.terminal import SafeConsole

    of = build_config(config, None, None, benchmark=benchmark).active_benchmark
    selection = of.tasks.selections[0]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("task", "train", "dev", "test", "held-out", "steps"):
        text = column.startswith(("task", "held"))
        table.add_column(column, no_wrap=not column.startswith("held"), justify="left" if text else "right")
    for task in of.tasks.names():
        variants = of.tasks.held_out(task, selection)
        budgets = [of.limit_steps(int(1.5 * of.budget.gold_length(variant))) for variant in variants]
        table.add_row(
            task,
            *(str(len(of.tasks.indices(task, split))) for split in get_args(Split)),
            " ".join(str(variant.index) for variant in variants),
            f"{min(budgets)}-{max(budgets)}",
        )
    SafeConsole().print(table)
    sample = "the first of the test split" if selection == FIRST else f"selection {selection}"
    steps = f"floor(1.5 x gold length) per trial, smallest to largest of these.{_describe_limits(of)}"
    echo(f"Held-out: {sample}. Steps: {steps}")
    echo("Installed benchmarks, for --benchmark:")
    for line in _describe_benchmarks():
        echo(line)


def _describe_benchmarks() -> Iterator[str]:
    """Yield a line for each installed benchmark: name and version, or why it cannot be loaded."""
    from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
    from rsso_dspy.errors import UsageError

    for name in list_benchmarks():
        try:
            yield f"{name} {get_benchmark(name).version}"
        except UsageError as error:
            yield f"{name}: {error}"


def _describe_limits(of: "Benchmark") -> str:
    """Say whether environments end an episode by themselves; empty if not."""
    return f" {of.name} ends a trial after {of.budget.most_steps}." if of.budget.most_steps else ""
