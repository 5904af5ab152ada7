"""The commands of a run and copies of its input files, which `run.json` holds, to play the run again.

commands    the arguments of each command once; files are named as in `given`
given       path to text: config.toml, the configuration of the last command, without passwords in addresses, and
            {programs,skills,constitution,constitution+NAME,examples}/FILE
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.bounds import MOST_DIGITS, MOST_SHARDS, shorten_text
from rsso_dspy.config import Config, PriceConfig
from rsso_dspy.constitutions import name_kind
from rsso_dspy.errors import UsageError
from rsso_dspy.files import atomic_write_text, read_text
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.store.run_folder import RUN_FILE, Store

CONFIG = "config.toml"


@dataclass(frozen=True, slots=True)
class Shard:
    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Parse ``i/n``. Raises `UsageError` for anything else."""
        number, slash, of = text.partition("/")
        numbers = [int(part) if part.isdecimal() and len(part) <= MOST_DIGITS else 0 for part in (number, of)]
        if not (slash and 1 <= numbers[0] <= numbers[1] <= MOST_SHARDS):
            form = f"i/n with i from 1 to n, and n at most {MOST_SHARDS:,}, e.g. 2/8"
            raise UsageError(f"--shard {shorten_text(text)}: expected {form}")
        return cls(*numbers)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def list_missing_shards(played: Iterable[str]) -> list[str]:
    """The shards that complete these, each as ``i/n``. Raises `UsageError`."""
    parts = {Shard.parse(text) for text in played}
    totals = sorted({part.of for part in parts})
    missing = []
    for of in totals:
        for number in range(1, of + 1):
            shard = Shard(number, of)
            if shard not in parts:
                missing.append(str(shard))
    return missing


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The arguments of a run, from the command line or from Python."""

    methods: tuple[str, ...]
    out: Path  # folder of the run
    programs: tuple[str, ...] = (ZERO_SHOT,)
    compiled: tuple[Path, ...] = ()  # files of the compiled programs, which are named after them
    unconfirmed: bool = False  # whether compiled programs that are not confirmed play their candidates
    tasks: tuple[str, ...] | None = None  # task types; None means all
    variants: tuple[str, ...] = ()  # a named selection or keys of variants; empty: the benchmark's default
    per_task: int | None = None
    rounds: int | None = None  # number of rounds, each of one variant of every task type
    margin: float | None = None  # points from which a gain matters in rounds; None means the usual
    until_decided: bool = False  # whether the run stops after the round that decides
    skills: Path | None = None  # skill library that every unit starts from
    # The constitution that units of a method with a constitution start from, or several by name, each of its own arm.
    constitution: Path | dict[str, Path] | None = None
    shard: Shard | None = None  # the shard to play; None means the whole run

    @property
    def constitutions(self) -> dict[str, Path]:
        """Name to file, with an empty name for a constitution without one."""
        if isinstance(self.constitution, dict):
            return self.constitution
        return {} if self.constitution is None else {"": self.constitution}

    def locate_files(self, folder: Path, out: Path) -> "RunSpec":
        return self.name_files(lambda _, path: folder / path, out)

    def name_files(self, name: Callable[[str, Path], Path], out: Path) -> "RunSpec":
        """Return the same with other names of its input files, given by their kind and name."""
        constitutions = {of: name(name_kind(of), path) for of, path in self.constitutions.items()}
        return replace(
            self,
            out=out,
            compiled=tuple(name("programs", path) for path in self.compiled),
            skills=name("skills", self.skills) if self.skills else None,
            constitution=constitutions.get("", constitutions or None),
        )


_SPEC, _PRICES = TypeAdapter(RunSpec), TypeAdapter(dict[str, PriceConfig])


def describe_command(config: Config, spec: RunSpec) -> tuple[RunSpec, dict[str, str]]:
    """The arguments of a command with its input files named as in `given`, and these: the configuration with the
    selected backend only and without secrets in addresses."""
    import tomlkit

    data = config.dump_settings(exclude_none=True)
    data["backends"][config.backend].pop("replay", None)  # equal arguments, whoever answers
    files = {CONFIG: f"# Written by rsso-dspy: what this run was played with.\n{tomlkit.dumps(data)}"}

    def add(kind: str, path: Path) -> Path:
        files[f"{kind}/{path.name}"] = read_text(path)
        return Path(kind, path.name)

    if config.memory.constitution.examples:
        add("examples", Path(config.memory.constitution.examples))
    return spec.name_files(add, Path()), files


def add_command(store: Store, asked: RunSpec, files: Mapping[str, str]) -> dict[str, Any]:
    """The commands and files of a run with these added; of two files of one name the later (a verdict may differ)."""
    data = store.read_file() if store.exists else {}
    command = _SPEC.dump_python(asked, mode="json")
    commands = [*data.get("commands", ()), *([command] if command not in data.get("commands", ()) else [])]
    return {"commands": commands, "given": {**data.get("given", {}), **files}}


def load_commands(store: Store) -> list[RunSpec]:
    try:
        return [_SPEC.validate_python(command) for command in store.read_file().get("commands", ())]
    except (ValidationError, TypeError):
        raise UsageError(f"{store.folder / RUN_FILE} is damaged: its commands cannot be read; restore it") from None


def read_given(store: Store) -> dict[str, str]:
    texts = store.read_file().get("given", {}) if store.exists else {}
    return {str(path): str(text) for path, text in texts.items()} if isinstance(texts, dict) else {}


def extract_given(store: Store, folder: Path) -> list[Path]:
    """Write the copies of the input files of a run into a folder. Raises `UsageError` for a name that leads
    out of it."""
    texts = {folder / name: text for name, text in read_given(store).items()}
    for path, text in texts.items():
        if "\0" in str(path) or not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{store.folder / RUN_FILE} is damaged: it was given a file called {str(path)!a}")
        atomic_write_text(path, text)
    return list(texts)


def load_stored_prices(folders: Iterable[Path]) -> dict[str, PriceConfig]:
    prices: dict[str, PriceConfig] = {}
    for folder in folders:
        with suppress(OSError, ValueError, UsageError):
            text = read_given(Store(folder, read_only=True)).get(CONFIG, "")
            prices |= _PRICES.validate_python(tomllib.loads(text).get("prices", {}))
    return prices
