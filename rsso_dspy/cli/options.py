"""Options that several commands share, their groups in `--help`, what a shell completes, and the configuration that
they give."""

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.bounds import MOST_DOLLARS, MOST_JOBS, MOST_PER_TASK, MOST_TRIALS
from rsso_dspy.cli.terminal_text import echo, get_terminal_width
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.pricing import PriceOf

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file (default: rsso.toml in this folder, if it exists).", show_default=False),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a config key, e.g. --set protocol.trials=3.", metavar="KEY=VALUE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Variants = Annotated[
    str | None,
    typer.Option(
        help="Selection: sso (the paper's seeded sample), first, or a list: boil::22,freeze::21.",
        show_default="sso",
    ),
]
PerTask = Annotated[int | None, typer.Option(min=1, max=MOST_PER_TASK, help="Maximum number of variants per task.")]
Trials = Annotated[
    int | None, typer.Option(min=1, max=MOST_TRIALS, help="Trials per variant (default: the protocol's).")
]
TaskNames = Annotated[
    str | None, typer.Option("--tasks", help="Task types, comma-separated, or all.", show_default="all")
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        help="Protocol: adapt/2, sso-adapt/1, either with -cap60, release, omnireflect/1, agentboard/1 or reflexion/1."
    ),
]
Jobs = Annotated[
    int, typer.Option(min=1, max=MOST_JOBS, help="Number of units played at once, each with its own simulator.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and its estimated cost without playing.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=MOST_DOLLARS,
        help="Spend limit in US dollars, checked between steps; what is finished is kept.",
        metavar="USD",
    ),
]
BackendName = Annotated[
    str | None, typer.Option("--backend", help="Backend: a built-in profile or a table of the configuration.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/MODEL",
        help="Model for all roles, without a file: hosted_vllm/NAME for a self-hosted server, "
        "ollama_chat/NAME, anthropic/NAME, openai/NAME. With --backend, the model of that backend.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of the model's server, e.g. http://127.0.0.1:8000/v1. Servers without keys are sent none.",
    ),
]
BenchmarkName = Annotated[
    str | None,
    typer.Option(
        "--benchmark", metavar="NAME", help="Installed benchmark to play (default: that of the configuration)."
    ),
]

GROUPS = {
    "What to play": (
        "methods tasks variants per-task trials protocol seed benchmark skills constitution programs candidate calib "
        "method optimizer writer explore"
    ),
    "Who answers": "model base-url backend replay teacher",
    "Limits": "max-cost max-rollouts",
    "How to play": "jobs seeds engine shard out dry-run",
    "Configuration": "config set",
}
"""Title of a group to its options; the others stay under `Options`. A command with few options has no groups."""

FEW = 8
"""Number of options up to which a command has no groups."""

PLAN_INDENT = 6
"""Columns by which the lines of a plan stand below its first word."""

GIVEN = "model"
"""Name of the backend that `--model` creates."""


def group_options(app: typer.Typer) -> None:
    """Give the options of every command their group, and those with known names their completion."""
    titles = {name: title for title, names in GROUPS.items() for name in names.split()}
    for command in _iterate_commands(app):
        options = list(_iterate_options(command))
        for name, option in options:
            if len(options) > FEW and option.rich_help_panel is None:
                option.rich_help_panel = titles.get(name)
            if name in COMPLETIONS and option.autocompletion is None and option.shell_complete is None:
                option.autocompletion = COMPLETIONS[name]


def _iterate_commands(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    yield from (command.callback for command in app.registered_commands if command.callback)
    for group in app.registered_groups:
        if group.typer_instance:
            yield from _iterate_commands(group.typer_instance)


def _iterate_options(command: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options of a command with their long names, without dashes."""
    for name, parameter in inspect.signature(command).parameters.items():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(option, typer.models.OptionInfo):
                # Of an annotation, Typer takes the first name for a default until the command is built.
                names = [option.default, *(option.param_decls or ())]
                long = [each for each in names if isinstance(each, str) and each.startswith("--")]
                yield (long[0] if long else name.strip("_").replace("_", "-")).removeprefix("--"), option


def _complete_listed(incomplete: str, names: Iterable[str]) -> list[str]:
    """Complete the last name of a comma-separated value."""
    before, comma, last = incomplete.rpartition(",")
    taken = set(before.split(","))
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]


def _complete_methods(incomplete: str) -> list[str]:
    from rsso_dspy.programs.methods import ADDITIONS, METHODS

    base, plus, _ = incomplete.rpartition(",")[2].partition("+")
    added = [f"{base}+{name}" for name in ADDITIONS] if plus and base in METHODS else []
    return _complete_listed(incomplete, added or METHODS)


def _complete_tasks(ctx: typer.Context, incomplete: str) -> list[str]:
    from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark

    return _complete_listed(incomplete, get_benchmark(ctx.params.get("benchmark") or DEFAULT).tasks.names())


def _complete_settings(incomplete: str) -> list[str]:
    from rsso_dspy.config import CompileOptions, Config
    from rsso_dspy.store.run_folder import flatten_keys

    keys = flatten_keys(Config().model_dump(mode="json", exclude={"backends", "prices"}))
    keys |= {f"compile.{name}": None for name in CompileOptions.model_fields}
    return [f"{key}=" for key in keys if key.startswith(incomplete)]


def _complete_backends(incomplete: str) -> list[str]:
    from rsso_dspy.config import load_config

    return [name for name in load_config().backends if name.startswith(incomplete)]


def complete_units(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the units and trainings of the folder of a run, by the names of their files."""
    from rsso_dspy.store.run_folder import find_logs

    folder = Path(ctx.params.get("source") or ctx.params.get("run") or "")
    units = {f"{file.parent.name}::{file.stem.rpartition('-s')[0]}" for file in find_logs(folder / "units")}
    trainings = {file.parent.name for file in find_logs(folder / "trainings")}
    return sorted(name for name in units | trainings if name.startswith(incomplete))


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Return what completes one of these words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def _complete_names(place: str) -> Callable[[str], list[str]]:
    """Return what completes one of the names in a table, or of a function, at ``module:name``."""

    def complete_name(incomplete: str) -> list[str]:
        names = resolve_name(f"rsso_dspy.{place}")
        return complete_words(*(names() if callable(names) else names))(incomplete)

    return complete_name


COMPLETIONS: dict[str, Callable[..., list[str]]] = {
    "methods": _complete_methods,
    "method": _complete_methods,
    "tasks": _complete_tasks,
    "protocol": _complete_names("protocol:PRESETS"),
    "backend": _complete_backends,
    "benchmark": _complete_names("environments.benchmark:list_benchmarks"),
    "optimizer": _complete_names("optimize.optimizers:OPTIMIZERS"),
    "set": _complete_settings,
    "engine": complete_words("threads", "ray"),
    "rows": complete_words("trials", "steps"),
    "format": complete_words("parquet", "inspect"),
    "writer": complete_words("neural", "symbolic", "neuro-symbolic"),
    "variants": complete_words("sso", "first"),
    "calib": complete_words("1-per-task", "2-per-task", "3-per-task"),
}
"""Option to what completes its value."""


def build_config(
    file: Path | None,
    overrides: list[str] | None,
    backend: str | None,
    replay: Path | None = None,
    model: str | None = None,
    base_url: str | None = None,
    **keys: object,
) -> "Config":
    """Load the configuration and apply the command's options; an option that is None changes nothing.

    With `replay`, logs answer in place of the backend that they were made with, or of the named one.
    """
    from rsso_dspy.config import RECORDED, format_override, load_config

    of_model = name_model(model, base_url, backend)
    backend = backend or (GIVEN if of_model else None)
    if replay is not None:
        backend = backend or RECORDED
        overrides = [*(overrides or ()), format_override(f'backends."{backend}".replay', str(replay))]
        print_status(f"answering from the logs in {replay}: no model is asked, and costs in the plan do not apply")
    named = {"backend": backend, **{key.replace("__", "."): value for key, value in keys.items()}}
    extra = [f"{key}={value}" for key, value in named.items() if value is not None]
    return load_config(file, [*of_model, *(overrides or []), *extra])


def load_prices(file: Path | None, overrides: list[str] | None, folders: Iterable[Path] = ()) -> "PriceOf":
    """Return what looks up the prices of the configuration, then those that the runs of `folders` were played with."""
    from rsso_dspy.config import load_config
    from rsso_dspy.pricing import make_price_lookup
    from rsso_dspy.store.commands import load_stored_prices

    return make_price_lookup({**load_stored_prices(folders), **load_config(file, overrides or ()).prices})


def name_model(model: str | None, base_url: str | None, backend: str | None) -> list[str]:
    """Translate `--model` and `--base-url` into settings.

    A model of a built-in profile's provider takes address and key from that profile, but no key with an explicit
    address. Raises `UsageError` for an address without a model.
    """
    from rsso_dspy.config import PROFILES, format_override

    if model is None and base_url is None:
        return []
    if model is None and backend is None:
        raise UsageError("--base-url needs --model, e.g. --model hosted_vllm/NAME")
    table: dict[str, str] = {"model": model} if model is not None else {}
    if model is not None and backend is None:
        provider = model.partition("/")[0]
        profile = next((each for each in PROFILES.values() if each["model"].partition("/")[0] == provider), {})
        taken = ("base_url",) if base_url else ("base_url", "key_variable")
        table |= {name: profile[name] for name in taken if name in profile}
    if base_url is not None:
        table["base_url"] = base_url
    return [format_override(f'backends."{backend or GIVEN}".{name}', value) for name, value in table.items()]


def split_names(text: str, option: str) -> list[str]:
    """Split a comma-separated option, without duplicates."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty; give comma-separated names")
    return parts


def split_tasks(text: str | None) -> list[str] | None:
    """Split the option `--tasks`; None means all."""
    return None if text in (None, "all") else split_names(text, "--tasks")


def format_plural(things: Sized, noun: str) -> str:
    """Return the number of things with their noun, e.g. `2 units`."""
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"


def format_command(*words: object) -> str:
    """Return the shell command that runs this program with these words."""
    return shlex.join(["rsso-dspy", *map(str, words)])


def print_plan(*texts: str) -> None:
    """Print lines of a plan on stderr, indented below its first line and wrapped to the terminal, if it is one."""
    wide = sys.stderr.isatty() or "COLUMNS" in os.environ
    for line in "\n".join(texts).split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        wrapped = fill(
            line.strip(),
            get_terminal_width(),
            initial_indent=indent,
            subsequent_indent=" " * PLAN_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
        print_status(wrapped if wide else line)


def print_status(text: str) -> None:
    """Print a progress line on stderr."""
    echo(text, err=True)
