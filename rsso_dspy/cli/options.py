"""Options that several verbs share, and how they become a configuration."""

import shlex
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_DOLLARS, MOST_JOBS, MOST_PER_TASK, MOST_SEED, MOST_TRIALS
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rsso_dspy.config import Config

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="TOML file; rsso.toml here is read when it exists.", show_default=False)
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Override a config key, e.g. --set protocol.trials=3.", metavar="KEY=VALUE"),
]
WHICH_VARIANTS = "sso (the paper's seeded sample), first, or a list: 228,229 or boil::22,freeze::21."
Variants = Annotated[str | None, typer.Option(help=WHICH_VARIANTS, show_default="sso")]
PerTask = Annotated[int | None, typer.Option(min=1, max=MOST_PER_TASK, help="At most this many variants per task.")]
Trials = Annotated[
    int | None, typer.Option(min=1, max=MOST_TRIALS, help="Trials per variant; the preset's when absent.")
]
ProtocolName = Annotated[
    str | None, typer.Option(help="Protocol preset: adapt/2, sso-adapt/1, each also with -cap60, or release.")
]
Seed = Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="Seed of everything that is drawn or played.")]
Jobs = Annotated[int, typer.Option(min=1, max=MOST_JOBS, help="Played at once, each with its own simulator.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and what it may cost; play nothing.")]
MaxCost = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=MOST_DOLLARS,
        help="Stop between two steps once this many US dollars are spent on the run.",
        metavar="USD",
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Stop between two steps once this many tokens, in and out, are spent."),
]
Mlflow = Annotated[
    str | None,
    typer.Option(help="MLflow tracking server that the run is logged to, e.g. http://127.0.0.1:5000.", metavar="URI"),
]
Record = Annotated[
    bool,
    typer.Option(
        "--record", help="Keep every exchange with a model, compressed and without keys, so that it can be replayed."
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Answers come from what --record kept there, exactly or not at all; no model is asked."
    ),
]
Retry = Annotated[
    str | None,
    typer.Option(
        help="stalled: play units again in which a trial stalled, from that trial on where no memory learnt from it."
    ),
]
BackendName = Annotated[
    str | None, typer.Option("--backend", help="Backend to use: a built-in profile or one of the config's.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/MODEL",
        help="Model that answers in every role, without a file: hosted_vllm/NAME for a server of your own, "
        "ollama_chat/NAME, anthropic/NAME, openai/NAME. With --backend, that backend's model.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of the model's server, e.g. http://127.0.0.1:8000/v1. A server that needs no key is sent none.",
    ),
]
BenchmarkName = Annotated[
    str | None,
    typer.Option(
        "--benchmark",
        metavar="NAME",
        help="Benchmark to play, of those that are installed; the config's when absent.",
    ),
]


def build_config(
    file: Path | None,
    overrides: list[str] | None,
    backend: str | None,
    replay: Path | None = None,
    model: str | None = None,
    base_url: str | None = None,
    **keys: object,
) -> "Config":
    """The configuration with the command's own options on top; options that are None change nothing. With `replay`, the
    backend is the one whose answers these recordings are, or else the one named, answered by them."""
    from rsso_dspy.config import RECORDED, format_override, load_config

    of_model = name_model(model, base_url, backend)
    backend = backend or (GIVEN if of_model else None)
    if replay is not None:
        backend = backend or RECORDED
        overrides = [*(overrides or ()), format_override(f'backends."{backend}".replay', str(replay))]
        print_status(f"answers come from the recordings in {replay}: no model is asked, whatever a plan says it costs")
    named = {"backend": backend, **{key.replace("__", "."): value for key, value in keys.items()}}
    extra = [f"{key}={value}" for key, value in named.items() if value is not None]
    return load_config(file, [*of_model, *(overrides or []), *extra])


GIVEN = "model"
"""Name of the backend that `--model` makes."""


def name_model(model: str | None, base_url: str | None, backend: str | None) -> list[str]:
    """The settings that `--model` and `--base-url` stand for. A model of a built-in profile's provider has what that
    profile says of address and key, but no key where an address is given. Raises `UsageError` for an address alone."""
    from rsso_dspy.config import PROFILES, format_override

    if model is None and base_url is None:
        return []
    if model is None and backend is None:
        raise UsageError("--base-url is the address of a model: add --model, e.g. --model hosted_vllm/NAME")
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
    """The parts of a comma-separated option, each once."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError(f"{option} is empty; give comma-separated names")
    return parts


def format_plural(things: Sized, noun: str) -> str:
    """How many things, in words."""
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"


def parse_retry(retry: str | None) -> bool:
    """Whether `--retry` asks for it. Raises `UnknownName` for anything else."""
    if retry not in (None, "stalled"):
        raise UnknownName("--retry", retry, ["stalled"])
    return retry is not None


def format_command(*words: object) -> str:
    """What calls this program with these words, as a shell takes it."""
    return shlex.join(["rsso-dspy", *map(str, words)])


def print_status(text: str) -> None:
    """A line for the person who waits, on stderr."""
    echo(text, err=True)
