"""What is installed and configured: `rsso-dspy doctor` and `rsso-dspy config`."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import BenchmarkName, Settings, echo, expand_options
from rsso_dspy.errors import BackendFailure, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.redact import redact

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.environments.examination import Examination

config_app = typer.Typer(help="Show the active configuration, or write a file to start from.", no_args_is_help=True)
PATIENCE = 15.0  # time limit in seconds for one short answer of a backend
SHOWN = 40  # maximum number of printed characters of an answer


@expand_options
def check_setup(*, benchmark: BenchmarkName = None, settings: Settings) -> None:
    """Check simulator, embedder and backend by using each of them. A benchmark that is named is played too: replay,
    points, lists, templates and leaks."""
    config = settings.build_config({"benchmark": benchmark})
    with ExitStack() as stack:
        examinations = list["Examination"]()

        def check_simulator() -> str:
            examinations.append(stack.enter_context(_open_examination(config)))
            return examinations[0].check_simulator()

        failed = _run_checks(
            {
                "simulator": check_simulator,
                "embedder": lambda: _check_embedder(config),
                f"backend {config.backend}": lambda: _ask_backend(config, settings),
            }
        )
        if benchmark is not None and "simulator" not in failed:
            failed += _run_checks(examinations[0].checks)
    if failed:
        raise typer.Exit(1)


def _run_checks(checks: Mapping[str, Callable[[], str]]) -> list[str]:
    """Print what each check finds, and return the names of those that failed."""
    failed = list[str]()
    for name, check in checks.items():
        echo(f"checking {name} ...", err=True)
        try:
            echo(f"ok      {name}: {check()}")
        except Exception as error:  # report every failure as a finding
            failed.append(name)
            echo(f"failed  {name}: {' '.join(redact(str(error)).split())}", fg="red")
    return failed


def _open_examination(config: "Config") -> AbstractContextManager["Examination"]:
    from rsso_dspy.environments.examination import open_examination
    from rsso_dspy.protocol import resolve_protocol

    interface = resolve_protocol(config).rules.interface
    return open_examination(config.active_benchmark, config.environment, interface, config.simplification)


def _check_embedder(config: "Config") -> str:
    from rsso_dspy.embed import Embedder

    embedder = Embedder(config.embedder.model_copy(update={"timeout": PATIENCE, "retries": 0}))
    embedder.check()
    return f"{config.embedder.model} gives {embedder(['a text']).shape[1]} dimensions"


def _ask_backend(config: "Config", settings: Settings) -> str:
    import dspy
    from dspy.utils.exceptions import AdapterParseError

    from rsso_dspy.lm import Backend

    settings.check_backend(config)
    table = config.active_backend
    at = f"--set backends.{config.backend}"
    longest = table.max_tokens if isinstance(table.max_tokens, int) else 1024
    seconds = PATIENCE if settings.model is None else table.timeout  # a server of one's own may have to load its model
    backend = Backend(table.model_copy(update={"timeout": seconds, "retries": 0}))
    try:
        with dspy.context(disable_history=True, adapter=backend.adapter):
            answer = dspy.Predict("question -> answer")(question="Is water wet?", lm=backend.lm("actor", 0)).answer
    except AdapterParseError as error:
        raise BackendFailure(
            f"{table.model} answered {redact(str(error.lm_response or ''))[:SHOWN]!r}, which adapter {table.adapter} "
            f"cannot parse. Try {at}.adapter={'chat' if table.adapter == 'json' else 'json'}; {at}.max_tokens="
            f"{2 * longest} if the answer was cut off; or another model"
        ) from None
    rule = " (rule-based, offline)" if backend.rule_based else ""
    return f"{table.model}{rule} answered {redact(str(answer))[:SHOWN]!r}"


@config_app.command("show")
@expand_options
def show_config(settings: Settings) -> None:
    """Print the active configuration as JSON, with every key, the selected backend, what the protocol resolves to, and
    the hash of everything that results depend on."""
    from rsso_dspy.protocol import resolve_protocol

    config = settings.build_config()
    resolved = {"resolved_protocol": asdict(resolve_protocol(config))}
    echo(json.dumps({"hash": config.hash(), **config.dump_settings(), **resolved}, indent=1))


@config_app.command("init")
def write_config(path: Annotated[Path, typer.Argument(help="File to write.")] = Path("rsso.toml")) -> None:
    """Write a configuration file with every key, its default and its meaning."""
    from rsso_dspy.config import render_config_template

    if path.exists():
        raise UsageError(f"{path} already exists; name another file or move it away")
    check_output_path(path, "file")
    atomic_write_text(path, render_config_template())
    echo(f"wrote {path}; commands started in this folder read it, others with --config {path}")
