"""Options that several commands share, the configuration that they give, and how commands print."""

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from shutil import get_terminal_size
from textwrap import TextWrapper
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.bounds import MOST_DOLLARS, MOST_JOBS, MOST_PER_TASK, MOST_TRIALS
from rsso_dspy.errors import UsageError
from rsso_dspy.report.terminal import escape_controls, replace_controls

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.pricing import PriceOf

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file (default: rsso.toml here, if it exists).", show_default=False)
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="A config key, e.g. protocol.trials=3.", metavar="KEY=VALUE")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Variants = Annotated[
    str | None, typer.Option(help="sso (the paper's seeded sample), first, or a list: boil::22,freeze::21.")
]
PerTask = Annotated[int | None, typer.Option(min=1, max=MOST_PER_TASK, help="Variants per task at most.")]
Trials = Annotated[int | None, typer.Option(min=1, max=MOST_TRIALS, help="Trials per variant.")]
TaskNames = Annotated[str | None, typer.Option("--tasks", help="Task types, comma-separated, or all.")]
ProtocolName = Annotated[
    str | None,
    typer.Option(help="adapt/4, sso-adapt/3 (-cap60 of both), release/2, omnireflect/3, agentboard/3, reflexion/3."),
]
Jobs = Annotated[int, typer.Option(min=1, max=MOST_JOBS, help="Units played at once, each with its own simulator.")]
BenchmarkName = Annotated[str | None, typer.Option("--benchmark", metavar="NAME", help="Installed benchmark to play.")]

USUAL_JOBS = 8  # maximum where nobody says how many; a simulator may take half a gigabyte
GIVEN = "model"  # name of the backend that `--model` creates


@dataclass(frozen=True)
class Settings:
    """What names the model and the configuration. What is None changes nothing."""

    model: Annotated[
        str | None, typer.Option(metavar="PROVIDER/MODEL", help="Model for all roles, e.g. hosted_vllm/NAME.")
    ] = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of its server, e.g. http://127.0.0.1:8000/v1.")
    ] = None
    backend: Annotated[str | None, typer.Option(help="A built-in profile or a table of the file.")] = None
    config: ConfigFile = None
    set_: Overrides = None

    def build_config(
        self,
        keys: Mapping[str, object] = MappingProxyType({}),
        replay: Path | None = None,
        assumed: Mapping[str, object] = MappingProxyType({}),
    ) -> "Config":
        """Load the configuration with these options and keys; those of `assumed` hold where no --set says otherwise.
        With `replay`, logs answer in place of the backend that they were made with, or of the named one."""
        from rsso_dspy.config import RECORDED, format_override, load_config

        of_model = name_model(self.model, self.base_url, self.backend)
        overrides = self.set_ or []
        backend = self.backend or (GIVEN if of_model else None)
        if replay is not None:
            backend = backend or RECORDED
            overrides = [*overrides, format_override(f'backends."{backend}".replay', str(replay))]
            print_status(f"answering from the logs in {replay}: no model is asked, and costs in the plan do not apply")
        extra = format_given({"backend": backend, **keys})
        return load_config(self.config, [*of_model, *format_given(assumed), *overrides, *extra])

    def check_backend(self, config: "Config") -> None:
        """Raise what keeps a model of the configuration from answering."""
        from rsso_dspy.lm import check_backend

        check_backend(config.active_backend, partial(self.name_setting, config))

    def name_setting(self, config: "Config", role: Any, key: str) -> str:
        """Return the option that was typed for a key of the backend, else the key."""
        from rsso_dspy.config import PROFILES

        table = config.active_backend
        place = f"backends.{config.backend}.{key}"
        value = {"model": self.model, "base_url": self.base_url or self.model}.get(key)
        if getattr(table.roles.get(role), key, None) is not None:
            return f"backends.{config.backend}.roles.{role}.{key}"
        if value and not any(override.startswith(f"{place}=") for override in self.set_ or ()):
            return f"--{key.replace('_', '-')}"
        if getattr(table, key) == PROFILES.get(config.backend, {key: 0}).get(key):
            return "--backend" if self.backend else "backend"
        return place


def format_given(keys: Mapping[str, object]) -> list[str]:
    """The keys that have a value, as overrides of a configuration."""
    return [f"{key}={value}" for key, value in keys.items() if value is not None]


@dataclass(frozen=True)
class Start(Settings):
    """The same, and how a command starts what it has planned."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost without playing.")] = False
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, max=MOST_DOLLARS, help="Limit in US dollars; what is finished is kept.", metavar="USD"),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Start without a question, whatever it may cost.")] = False


def build_config(file: Path | None, overrides: list[str] | None = None, **more: Any) -> "Config":
    return Settings(config=file, set_=overrides).build_config(**more)


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that are fields of its last parameter's class: Typer knows no groups of options."""
    *own_parameters, group = (
        parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in inspect.signature(command).parameters.values()
    )
    kind = group.annotation
    shared = [
        group.replace(name=option.name, default=option.default, annotation=option.type) for option in fields(kind)
    ]

    @wraps(command)
    def call(**typed: Any) -> None:
        settings = kind(**{option.name: typed.pop(option.name) for option in fields(kind)})
        command(**typed, **{group.name: settings})

    call.__signature__ = inspect.Signature([*own_parameters, *shared])  # type: ignore[attr-defined]
    return call


def load_prices(file: Path | None, overrides: list[str] | None, folders: Iterable[Path] = ()) -> "PriceOf":
    """Return what looks up the prices of the configuration, then those that the runs of `folders` were played with."""
    from rsso_dspy.config import load_config
    from rsso_dspy.pricing import make_price_lookup
    from rsso_dspy.store.commands import load_stored_prices

    return make_price_lookup({**load_stored_prices(folders), **load_config(file, overrides or ()).prices})


def name_model(model: str | None, base_url: str | None, backend: str | None) -> list[str]:
    """Translate `--model` and `--base-url` into settings. A model of a built-in profile's provider takes address and
    key from that profile, but no key with an explicit address."""
    from rsso_dspy.config import PROFILES, format_override

    if model is None and base_url is None:
        return []
    if model is None and backend is None:
        raise UsageError("--base-url needs --model, e.g. --model hosted_vllm/NAME")
    table: dict[str, str] = {"model": model} if model is not None else {}
    if base_url is None and model is not None and backend is None:
        provider = model.partition("/")[0]
        profile = next((entry for entry in PROFILES.values() if entry["model"].partition("/")[0] == provider), {})
        table |= {name: profile[name] for name in ("base_url", "key_variable") if name in profile}
    if base_url is not None:
        table["base_url"] = base_url
    return [format_override(f'backends."{backend or GIVEN}".{name}', value) for name, value in table.items()]


def count_usual_jobs() -> int:
    """How many simulators a command starts where nobody says: one for each core that this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, USUAL_JOBS)


def split_names(text: str, option: str) -> tuple[str, ...]:
    """Split a comma-separated option, without duplicates."""
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty; give comma-separated names")
    return parts


def split_tasks(text: str | None) -> tuple[str, ...] | None:
    """Split the option `--tasks`; None means all."""
    return None if text in (None, "all") else split_names(text, "--tasks")


def format_plural(things: Sized | int, noun: str) -> str:
    count = things if isinstance(things, int) else len(things)
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_command(*words: object) -> str:
    return shlex.join(["rsso-dspy", *map(str, words)])


# Printing


def echo(text: str = "", err: bool = False, **style: Any) -> None:
    """Print text with control characters replaced, as all commands do. `style` as in `typer.style`."""
    typer.secho(replace_controls(text), err=err, **style)


def print_status(text: str) -> None:
    echo(text, err=True)


def print_json(text: str) -> None:
    """Print the text of a JSON file. Control characters are escaped, so that nothing is lost."""
    typer.echo(escape_controls(text), nl=False)


def print_paragraph(
    text: str,
    indent: str = "",
    bold: bool | None = None,
    color: str | None = None,
    dim: bool | None = None,
    hanging: str = "  ",
) -> None:
    """Print a text wrapped to the terminal, its second and later lines further in by `hanging`."""
    width = max(get_terminal_size().columns, 30)
    lines = TextWrapper(width, indent, indent + hanging, break_on_hyphens=False).fill(replace_controls(text))
    echo(lines, bold=bold, fg=color, dim=dim)


def print_lines(text: str, indent: str = "", dim: bool | None = None) -> None:
    """Print each line of a text as a paragraph, as far in as it is itself."""
    for line in text.expandtabs(4).splitlines():
        words = line.lstrip()
        print_paragraph(words, indent + " " * (len(line) - len(words)), dim=dim)


def print_plan(first: str, *lines: str) -> None:
    """Print a plan on stderr, its lines indented below the first and wrapped to the terminal, if there is one."""
    width = max(get_terminal_size().columns, 30) if sys.stderr.isatty() else 10_000
    for line, indent in ((first, 0), *((line, 6) for line in lines)):
        print_status(TextWrapper(width, " " * indent, " " * 8, break_on_hyphens=False).fill(line))


def indent_text(text: str) -> str:
    return "\n".join(f"      {line}" for line in replace_controls(text).splitlines())
