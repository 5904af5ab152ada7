"""One configuration tree, read from TOML and `--set a.b=value` overrides.

    load_config(path="rsso.toml", overrides=["backend=anthropic", "protocol.trials=3"])
    load_run_options(path)          # what a file holds beside: the options of a run; `load_compile_options` likewise
    render_config_template()        # a file with every default

Without a file the defaults apply, which need no key and no network. The tree never holds secrets: a backend names
the environment variable with its key.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rsso_dspy.bounds import shorten_text
from rsso_dspy.calls import read_replayed_backend
from rsso_dspy.config.sections import (
    EMBEDDED,
    MINILM,
    PROFILES,
    BackendConfig,
    CommandOptions,
    CompileOptions,
    Config,
    EmbedderConfig,
    EnvironmentConfig,
    MemoryConfig,
    PriceConfig,
    ProtocolConfig,
    Role,
    RoleOverride,
    RunOptions,
)
from rsso_dspy.errors import ConfigError, DamagedFile, NotInstalled, UnknownName, UsageError
from rsso_dspy.files import parse_toml, read_toml

__all__ = [
    "EMBEDDED",
    "MINILM",
    "PROFILES",
    "BackendConfig",
    "CompileOptions",
    "Config",
    "EmbedderConfig",
    "EnvironmentConfig",
    "MemoryConfig",
    "PriceConfig",
    "ProtocolConfig",
    "Role",
    "RoleOverride",
    "RunOptions",
    "format_override",
    "load_compile_options",
    "load_config",
    "load_run_options",
    "render_config_template",
    "validate_config",
]

RECORDED = "replay"
"""Name of the backend that stands for the recorded one."""

DEFAULT_FILE = "rsso.toml"
"""File that is read from the working directory if it exists and no other is named."""


def load_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Config:
    """Load a file (or `rsso.toml` here, or the defaults) and apply `key=value` overrides.

    Raises `ConfigError` for an unreadable file or an invalid value, and `UnknownName` for an unknown key, with the
    nearest keys.
    """
    data = _read_settings(path, overrides)
    for section in CommandOptions.model_fields:
        data.pop(section, None)
    named = data.setdefault("backends", {})
    if not isinstance(named, dict) or not all(isinstance(table, dict) for table in named.values()):
        raise ConfigError('a backend must be a table: [backends.NAME] with model = "provider/model"')
    _name_recorded(data)
    for name, profile in PROFILES.items():
        named[name] = {**profile, **named.get(name, {})}
    config = validate_config(data, path)
    _ = config.active_backend
    _check_simplification(config, path)
    return config


def load_run_options(path: Path | None, overrides: Sequence[str] = (), **given: object) -> RunOptions:
    """Load section `[run]` of the same settings; `given` overrides it, unless None. Raises what `load_config`
    raises."""
    return _load_command_options(path, overrides, "run", **given).run


def load_compile_options(path: Path | None, overrides: Sequence[str] = ()) -> CompileOptions:
    """Load section `[compile]` of the same settings. Raises what `load_config` raises."""
    return _load_command_options(path, overrides, "compile").compile


def _load_command_options(path: Path | None, overrides: Sequence[str], section: str, **given: object) -> CommandOptions:
    table = _read_settings(path, overrides).get(section, {})
    options = {name: value for name, value in given.items() if value is not None}
    try:
        return CommandOptions.model_validate({section: {**table, **options} if isinstance(table, dict) else table})
    except ValidationError as error:
        raise _explain_invalid(error, path, CommandOptions) from None


def validate_config(data: Mapping[str, Any], path: Path | None = None) -> Config:
    """Return the configuration of these values. Raises `ConfigError` or `UnknownName`, naming the file if there is
    one."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise _explain_invalid(error, path) from None


def _name_recorded(data: dict[str, Any]) -> None:
    """Replace the backend `replay` by the recorded one, so that results carry its name and settings.

    Raises `UsageError` if there is no log.
    """
    table = data["backends"].pop(RECORDED, None)
    if data.get("backend") != RECORDED:
        return
    folder = (table or {}).get("replay")
    if not isinstance(folder, str):
        raise ConfigError(
            f'backend "{RECORDED}" needs a log: add --replay DIR to run, elsewhere --set backends.replay.replay=DIR'
        )
    data["backend"], settings = read_replayed_backend(Path(folder))
    data["backends"][data["backend"]] = {**settings, "replay": folder}


def _check_simplification(config: Config, path: Path | None) -> None:
    try:
        _ = config.simplification
    except (UnknownName, NotInstalled):  # of the benchmark, not of this key
        raise
    except UsageError as error:
        raise ConfigError(
            f"config key environment.simplification{f' in {path}' if path else ''}: {error} "
            f"(it is {shorten_text(repr(config.environment.simplification))})"
        ) from None


def format_override(key: str, value: Any) -> str:
    """Return ``key=value`` such that `load_config` reads this value."""
    import tomlkit

    return f"{key}={tomlkit.item(value).as_string()}"


def _read_settings(path: Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """Read the file and apply the overrides."""
    data = _read_config_file(path)
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {override!r} must have the form key=value, e.g. --set protocol.trials=3")
        _assign_value(data, _split_key(key.strip()), _parse_value(value.strip()))
    return data


def _read_config_file(path: Path | None) -> dict[str, Any]:
    if path is None:
        path = Path(DEFAULT_FILE)
        if not os.path.lexists(path):
            return {}
    try:
        return read_toml(path)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}; `rsso-dspy config init` writes one") from None
    except DamagedFile as error:
        raise ConfigError(str(error)) from None


def _assign_value(data: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    for key in keys[:-1]:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {'.'.join(keys)}: {key} holds a value, not a table")
    data[keys[-1]] = value


def _split_key(key: str) -> list[str]:
    """Split a dotted key; a part that contains dots is quoted."""
    return [
        _parse_value(quoted) if quoted else plain for quoted, plain in re.findall(r'("(?:[^"\\]|\\.)*")|([^."]+)', key)
    ]


def _parse_value(text: str) -> Any:
    """Parse a TOML value, or return the text itself if it is none: model names need no quotes."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:  # also for a number with thousands of digits
        return text


def _explain_invalid(
    error: ValidationError, path: Path | None, root: type[BaseModel] = Config
) -> ConfigError | UnknownName:
    errors = error.errors()
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    where = ".".join(str(part) for part in first["loc"])
    source = f" in {path}" if path else ""
    if where.endswith(".[key]"):
        return UnknownName(f"role{source}", str(first["input"]), get_args(Role))
    if first["type"] == "extra_forbidden":
        section = where.rpartition(".")[0]
        keys = [f"{section}.{key}".lstrip(".") for key in _list_keys(section, root)]
        hint = "Options of `run` stand in its section [run]." if where in RunOptions.model_fields else ""
        return UnknownName(f"config key{source}", where, keys, hint)
    message = first["msg"].removeprefix("Value error, ")
    return ConfigError(f"config key {where}{source}: {message[0].lower()}{message[1:]} (it is {_show_value(first)})")


def _show_value(flaw: Any) -> str:
    """Return the invalid value, shortened, and for an address without the part before an @."""
    value = flaw["input"]
    if flaw["loc"][-1] == "base_url" and isinstance(value, str) and "@" in value:
        return repr(f"***@{value.rpartition('@')[2]}")
    return shorten_text(repr(value))


def _list_keys(section: str, model: type[BaseModel]) -> list[str]:
    """Return the field names of the section at a dotted path below a model."""
    parts = section.split(".") if section else []
    while parts:
        part = parts.pop(0)
        if part == "backends":
            model, parts = BackendConfig, parts[1:]
        elif part == "roles":
            model, parts = RoleOverride, parts[1:]
        elif part == "prices":
            model, parts = PriceConfig, parts[1:]
        else:
            annotation = model.model_fields[part].annotation
            assert isinstance(annotation, type)
            model = annotation
    return list(model.model_fields)


def render_config_template() -> str:
    """Render a TOML file with every default, each key below a comment that explains it."""
    import tomlkit

    document: tomlkit.TOMLDocument = _fill_table(tomlkit.document(), Config(), "")
    return document.as_string()


def _fill_table(table: Any, values: BaseModel, section: str) -> Any:
    """Render a TOML table with these values; `section` is the prefix of the names in its header."""
    import tomlkit
    from tomlkit import comment

    for name, field in type(values).model_fields.items():
        value = getattr(values, name)
        note = " ".join((field.description or "").split())
        if isinstance(value, BaseModel):
            table.add(name, _fill_table(tomlkit.table().comment(note), value, f"{section}{name}."))
        elif name == "backends":
            backends = tomlkit.table(is_super_table=True)
            for backend, settings in value.items():
                backends.add(backend, _fill_table(tomlkit.table(), settings, f"{name}.{backend}."))
            table.add(name, backends)
        elif name == "roles":
            keys = ", ".join(RoleOverride.model_fields)
            table.add(comment(f"[{section}roles.actor]  # overrides of one role: {keys}"))
        elif name == "prices":
            keys = ", ".join(PriceConfig.model_fields)
            table.add(tomlkit.nl()).add(comment(note)).add(comment(f'[prices."provider/model"]  # {keys}'))
        else:
            table.add(comment(note))
            table.add(comment(f"{name} =")) if value is None else table.add(name, value)
    return table
