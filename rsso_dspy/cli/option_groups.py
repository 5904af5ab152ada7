"""Options in groups, as `--help` shows them, and the values that a shell completes for them."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer

GROUPS = {
    "What to play": (
        "methods tasks variants per-task trials protocol seed setting train-trials train-per-task "
        "benchmark skills constitution frozen programs unconfirmed calib method optimizer from roles"
    ),
    "Who answers": "model base-url backend replay teacher",
    "Limits": "max-cost max-tokens max-rollouts max-lm-calls max-idle compile-trials compile-steps demo-tokens",
    "How to play": "jobs seeds engine shard retry out dry-run",
    "Configuration": "config set",
}
"""Title of a group to its options; the others stay under `Options`. A command with few options has no groups."""

FEW = 8
"""Number of options up to which a command has no groups."""


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


def complete_listed(incomplete: str, names: Any) -> list[str]:
    """Complete the last name of a comma-separated value."""
    before, comma, last = incomplete.rpartition(",")
    taken = set(before.split(","))
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]


def _complete_methods(incomplete: str) -> list[str]:
    from rsso_dspy.programs.methods import ADDITIONS, METHODS

    base, plus, _ = incomplete.rpartition(",")[2].partition("+")
    added = [f"{base}+{name}" for name in ADDITIONS] if plus and base in METHODS else []
    return complete_listed(incomplete, added or METHODS)


def _complete_tasks(ctx: typer.Context, incomplete: str) -> list[str]:
    from rsso_dspy.environments.benchmark import DEFAULT, get_benchmark

    benchmark = get_benchmark(ctx.params.get("benchmark") or DEFAULT)
    return complete_listed(incomplete, benchmark.table.tasks())


def _complete_settings(incomplete: str) -> list[str]:
    from rsso_dspy.config import Config
    from rsso_dspy.store.run_folder import flatten_keys

    keys = flatten_keys(Config().model_dump(mode="json", exclude={"backends", "prices"}))
    return [f"{key}=" for key in keys if key.startswith(incomplete)]


def _complete_backends(incomplete: str) -> list[str]:
    from rsso_dspy.config import load_config

    return [name for name in load_config().backends if name.startswith(incomplete)]


def complete_units(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the units and trainings of the folder of a run, by the names of their files."""
    from rsso_dspy.store.run_folder import find_logs

    folder = Path(ctx.params.get("folder") or ctx.params.get("run") or "")
    units = {f"{file.parent.name}::{file.stem.rpartition('-s')[0]}" for file in find_logs(folder / "units")}
    trainings = {file.parent.name for file in find_logs(folder / "trainings")}
    return sorted(name for name in units | trainings if name.startswith(incomplete))


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Return what completes one of these words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def _complete_names(place: str) -> Callable[[str], list[str]]:
    """Return what completes one of the names in a table, or of a function, at ``module:name``."""

    def complete_name(incomplete: str) -> list[str]:
        found = resolve_name(f"rsso_dspy.{place}")
        return complete_words(*(found() if callable(found) else found))(incomplete)

    return complete_name


COMPLETIONS: dict[str, Callable[..., list[str]]] = {
    "methods": _complete_methods,
    "method": _complete_methods,
    "tasks": _complete_tasks,
    "protocol": _complete_names("experiment.protocols:PRESETS"),
    "backend": _complete_backends,
    "benchmark": _complete_names("environments.benchmark:list_benchmarks"),
    "optimizer": _complete_names("optimize.optimizers:OPTIMIZERS"),
    "set": _complete_settings,
    "setting": complete_words("adaptation", "transfer"),
    "engine": complete_words("threads", "ray"),
    "retry": complete_words("stalled"),
    "rows": complete_words("trials", "steps"),
    "format": complete_words("parquet", "inspect"),
    "agent": complete_words("claude-code", "codex", "gemini", "cursor", "opencode"),
    "writer": complete_words("neural", "symbolic", "neuro-symbolic"),
    "extraction": complete_words("sliding", "reward-boundary"),
    "pairs": complete_words("across-trials", "any"),
    "variants": complete_words("sso", "first"),
    "calib": complete_words("1-per-task", "2-per-task", "3-per-task"),
    "roles": lambda incomplete: complete_listed(incomplete, ("actor", "reflector", "verbalizer", "advisor")),
}
"""Option to what completes its value."""
