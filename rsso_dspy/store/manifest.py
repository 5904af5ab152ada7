"""The manifest of a run: the arguments of each command and copies of its input files, to reproduce the run.

    RUN/given/orders.jsonl                       one `Invocation` per line, each once
    RUN/given/config.toml                        the configuration of the last command, without passwords in addresses
    RUN/given/{programs,skills,constitution,examples}/FILE

    Manifest.from_run_spec(config, spec).save(folder)
    load_invocations(folder)[0].to_options(folder)              # {"--config": "runs/x/given/config.toml",
    "--methods": "rsso", ...}

All commands of a folder share one configuration, as far as results depend on it; the folder refuses another.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.addresses import is_local, strip_addresses, strip_credentials
from rsso_dspy.config import Config, PriceConfig, format_override
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import (
    atomic_write_text,
    explain_unreadable,
    parse_json,
    pick_quarantine_path,
    read_bytes,
    read_text,
    read_toml,
)
from rsso_dspy.records import SCHEMA_VERSION, ZERO_SHOT
from rsso_dspy.store.run_spec import RunSpec

FOLDER = "given"
ORDERS = "orders.jsonl"
CONFIG = "config.toml"

FileWriter = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class Invocation:
    """The arguments of one command, without its configuration.

    Files are named ``FOLDER/NAME`` below ``given/``; a name without a folder refers to the working directory, for a run
    that kept no copy.
    """

    methods: tuple[str, ...]
    programs: tuple[str, ...] = (ZERO_SHOT,)
    tasks: tuple[str, ...] | None = None
    """Task types; None means all."""
    variants: tuple[str, ...] = ("sso",)
    per_task: int | None = None
    skills: str | None = None
    constitution: str | None = None
    examples: str | None = None
    """Value of `memory.constitution.examples`."""
    shard: str = ""
    withheld: tuple[str, ...] = ()
    """Keys of addresses with a password or a query, which is not stored."""
    unconfirmed: bool = False
    """Whether to play the candidates of compiled programs that are not confirmed."""
    settings: tuple[str, ...] | None = None
    """``key=value`` settings instead of a stored configuration; None if one is stored."""
    schema: int = SCHEMA_VERSION

    def describe_selection(self) -> str:
        """Return the options that select variants."""
        tasks = f"--tasks {','.join(self.tasks)} " if self.tasks else ""
        return f"{tasks}--variants {','.join(self.variants)}" + (
            f" --per-task {self.per_task}" if self.per_task else ""
        )

    def to_options(self, folder: Path, settings: Sequence[str] = ()) -> dict[str, str | list[str]]:
        """Return the options of `rsso-dspy run` by name, with these settings added and without ``--out``.

        A flag has an empty value.

        Raises `UsageError` for a folder with a comma in its name.
        """
        given = folder / FOLDER

        def resolve_file(file: str) -> str:
            return str(given / file) if "/" in file else file

        programs = [name if name == ZERO_SHOT else resolve_file(name) for name in self.programs]
        if any("," in name for name in programs):
            raise UsageError(f"{folder} has a comma in its name, which would split --programs; rename the folder")
        examples = (
            [format_override("memory.constitution.examples", resolve_file(self.examples))] if self.examples else []
        )
        found: dict[str, str | list[str] | None] = {
            "--config": str(given / CONFIG) if self.settings is None else os.devnull,
            "--set": [*(self.settings or ()), *examples, *settings],
            "--methods": ",".join(self.methods),
            "--programs": ",".join(programs) if self.programs != (ZERO_SHOT,) else None,
            "--tasks": ",".join(self.tasks) if self.tasks else None,
            "--variants": ",".join(self.variants) or None,
            "--per-task": str(self.per_task) if self.per_task else None,
            "--skills": resolve_file(self.skills) if self.skills else None,
            "--constitution": resolve_file(self.constitution) if self.constitution else None,
            "--shard": self.shard or None,
            "--unconfirmed": "" if self.unconfirmed else None,
        }
        return {name: value for name, value in found.items() if value is not None and value != []}


_ASKED = TypeAdapter(Invocation)
_PRICES = TypeAdapter(dict[str, PriceConfig])


@dataclass(frozen=True, slots=True)
class Manifest:
    """The arguments and input files of one command."""

    asked: Invocation
    config: str
    """Configuration as TOML."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Input files by path below ``given/``."""

    @classmethod
    def from_run_spec(cls, config: Config, spec: RunSpec) -> "Manifest":
        """Build the manifest of `spec`. Raises `OSError` for an unreadable file."""
        text, withheld = dump_config_toml(config)
        book = config.memory.constitution.examples
        named: dict[str, Sequence[Path]] = {
            "programs": spec.compiled,
            "skills": [spec.skills] if spec.skills else [],
            "constitution": [spec.constitution] if spec.constitution else [],
            "examples": [Path(book)] if book else [],
        }
        files = {f"{kind}/{path.name}": read_bytes(path) for kind, paths in named.items() for path in paths}
        copies = {path.stem: f"programs/{path.name}" for path in spec.compiled}
        asked = Invocation(
            methods=spec.methods,
            programs=tuple(copies.get(name, name) for name in spec.programs),
            tasks=spec.tasks,
            variants=spec.variants,
            per_task=spec.per_task,
            skills=f"skills/{spec.skills.name}" if spec.skills else None,
            constitution=f"constitution/{spec.constitution.name}" if spec.constitution else None,
            examples=f"examples/{Path(book).name}" if book else None,
            shard=str(spec.shard or ""),
            withheld=withheld,
            unconfirmed=spec.unconfirmed,
        )
        return cls(asked, text, files)

    def save(self, folder: Path, write: FileWriter = atomic_write_text) -> None:
        """Save it into the folder of a run, beside the arguments of earlier commands."""
        given = folder / FOLDER
        for name, content in self.files.items():
            _write_if_changed(given / name, content, write)
        if _read_kept_text(given / CONFIG) != self.config:
            write(given / CONFIG, self.config)
        try:
            load_invocations(folder)
        except UsageError:  # earlier arguments are lost, but the run can go on
            os.replace(given / ORDERS, pick_quarantine_path(given / ORDERS))
        _append_invocations(folder, [self.asked], write)


def load_invocations(folder: Path) -> list[Invocation]:
    """Load the arguments of all commands of a folder, in order; empty if it stores none.

    Raises `UsageError` if the file is damaged.
    """
    file = folder / FOLDER / ORDERS
    if not os.path.lexists(file):
        return []
    try:
        return [_ASKED.validate_python(parse_json(line, file)) for line in read_text(file).split("\n") if line]
    except (ValidationError, DamagedFile):
        raise UsageError(f"{file} is damaged or from a newer rsso-dspy; restore or remove it") from None


def load_stored_prices(folders: Iterable[Path]) -> dict[str, PriceConfig]:
    """Return the prices that these runs were played with, by model; none from a folder that stores none or damaged
    ones."""
    found: dict[str, PriceConfig] = {}
    for folder in folders:
        with suppress(OSError, UsageError, DamagedFile, ValidationError):
            found |= _PRICES.validate_python(read_toml(folder / FOLDER / CONFIG).get("prices", {}))
    return found


def merge_manifests(sources: Iterable[Path], target: Path) -> None:
    """Take over the arguments and input files of the parts of a run."""
    for source in sources:
        if asked := load_invocations(source):
            _append_invocations(target, [replace(each, shard="") for each in asked])
            for file in sorted((source / FOLDER).glob("*/*")):
                _write_if_missing(target / FOLDER / file.relative_to(source / FOLDER), read_bytes(file))
            if not (target / FOLDER / CONFIG).exists():
                atomic_write_text(target / FOLDER / CONFIG, read_text(source / FOLDER / CONFIG))


def dump_config_toml(config: Config) -> tuple[str, tuple[str, ...]]:
    """Return the configuration as TOML with the selected backend only, and the keys of shortened addresses.

    Text before an @ or after a ? in an address may be a secret and is removed.
    """
    import tomlkit

    data = config.model_dump(mode="json", exclude_none=True)
    data["backends"] = {config.backend: data["backends"][config.backend]}
    data["backends"][config.backend].pop("replay", None)  # equal arguments, whoever answers
    withheld = tuple(strip_addresses(data))
    return f"# Written by rsso-dspy: what this run was played with.\n{tomlkit.dumps(data)}", withheld


def list_remote_addresses(config: Config) -> list[str]:
    """Return the configured remote addresses without secrets, each with the variable of its key.

    Default addresses of providers are not included.
    """
    backend, embedder = config.active_backend, config.embedder
    sent = [(backend.base_url, backend.key_variable)]
    for own in backend.roles.values():
        same = not own.model or own.model.partition("/")[0] == backend.model.partition("/")[0]
        url = own.base_url or (backend.base_url if same else None)
        key = backend.key_variable if same and url == backend.base_url else None
        sent.append((url, own.key_variable or key))
    if embedder.model.startswith("litellm/"):
        sent.append((embedder.base_url, embedder.key_variable))
    return [
        f"{strip_credentials(url)} with the key in {variable}" if variable else strip_credentials(url)
        for url, variable in dict.fromkeys(sent)
        if url and not is_local(url)
    ]


def _append_invocations(folder: Path, asked: Iterable[Invocation], write: FileWriter = atomic_write_text) -> None:
    before = load_invocations(folder)
    after = list(dict.fromkeys([*before, *asked]))
    if after != before:
        lines = [json.dumps(asdict(each), ensure_ascii=False) for each in after]
        write(folder / FOLDER / ORDERS, "\n".join(lines) + "\n")


def _read_kept_text(file: Path) -> str | None:
    """Read the stored text, or None. Anything but a regular file is moved aside."""
    if explain_unreadable(file):
        os.replace(file, pick_quarantine_path(file))
    try:
        return read_text(file)
    except (FileNotFoundError, DamagedFile):
        return None


def _write_if_changed(file: Path, content: bytes, write: FileWriter) -> None:
    """Store an input file in place of an earlier one of the same name.

    The folder's identity covers what plays, such as the prompts of a compiled file, but not what else a file says,
    such as the trials it was scored by and its verdict: of those, the last file given is right.
    """
    text = content.decode("utf-8")
    if _read_kept_text(file) != text:
        write(file, text)


def _write_if_missing(file: Path, content: bytes) -> None:
    """Take over an input file of a part of a run, unless an earlier part had one of the same name."""
    if not file.exists():
        atomic_write_text(file, content.decode("utf-8"))
