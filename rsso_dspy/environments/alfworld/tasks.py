"""The six types of tasks, their splits, and the user's games. The splits are ALFWorld's: its training games,
`valid_seen` for development, `valid_unseen` as the test. An index counts the games of a type in the order of their
paths. Where the user names no folder of games, tiny ones that come along are played in their place, one for each index
(`scripts/make_alfworld_games.py`)."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import DamagedFile, GoldUnknown, NotInstalled, UsageError
from rsso_dspy.files import read_bytes
from rsso_dspy.records import Split, Variant

COUNTS = {
    "pick_and_place_simple": (790, 35, 24),
    "look_at_obj_in_light": (308, 13, 18),
    "pick_clean_then_place_in_recep": (650, 27, 31),
    "pick_heat_then_place_in_recep": (459, 16, 23),
    "pick_cool_then_place_in_recep": (533, 25, 21),
    "pick_two_obj_and_place": (813, 24, 17),
}
"""Type to its games in train, valid_seen and valid_unseen."""

FOLDERS: dict[Split, str] = {"train": "train", "dev": "valid_seen", "test": "valid_unseen"}  # split to its folder
GOLD_LENGTH = 34  # what stands for the gold length of every variant: half as many again are 51, and a game ends at 50
PARTS = ("grammar", "pddl_domain", "pddl_problem")  # texts of a game file that the engine loads


TABLE = TaskTable(
    {
        name: {"train": (0, a - 1), "dev": (a, a + b - 1), "test": (a + b, a + b + c - 1)}
        for name, (a, b, c) in COUNTS.items()
    }
)


@dataclass(frozen=True, eq=False)
class Games:
    root: Path
    files: Mapping[tuple[str, Split], tuple[Path, ...]]  # type and split to its game files
    skipped: Mapping[str, str]  # files that cannot be played, and why
    digest: str

    @property
    def total(self) -> int:
        return sum(map(len, self.files.values()))

    def describe(self) -> str:
        skipped = self.describe_skipped()
        return f"{self.total} games in {self.root}" + (f"; {skipped}" if skipped else "")

    def describe_skipped(self) -> str:
        """Say which files are not played and why, those of one reason together; an empty text if all are."""
        if not self.skipped:
            return ""
        names: dict[str, list[str]] = {}
        for name, why in self.skipped.items():
            names.setdefault(why, []).append(name)
        reasons = [f"{why} ({_name_files(files)})" for why, files in names.items()]
        return f"{len(self.skipped)} skipped: {'; '.join(reasons)}"


NAMED = 5  # maximum number of files that are named for a reason


def _name_files(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    rest = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *rest])


def find_data() -> str | None:
    """The folder where `alfworld-download` has put the games, which a variable of the environment names."""
    return os.environ.get("ALFWORLD_DATA") or None


def describe_skipped_games(folder: str) -> str:
    return read_games(folder).describe_skipped()


def count_games(folder: str) -> dict[tuple[str, Split], int]:
    return {key: len(files) for key, files in read_games(folder).files.items()}


def check_games(variants: Iterable[Variant], folder: str | None) -> None:
    """Raise what `find_game` raises for one of the variants; without a folder, all can be played."""
    for variant in variants if folder else ():
        find_game(variant, str(folder))


def find_game(variant: Variant, folder: str) -> Path:
    """The file of a variant. Raises ``UsageError`` where the folder has fewer games."""
    games = read_games(folder)
    files = games.files.get((variant.task, variant.split), ())
    place = variant.index - TABLE.indices(variant.task, variant.split)[0]
    if place >= len(files):
        where = f"{variant.task} in {games.root / FOLDERS[variant.split]}"
        raise UsageError(f"{variant.key} is game {place + 1} of {where}, which holds {len(files)}: {games.describe()}")
    return files[place]


def load_game(variant: Variant, folder: str | None) -> tuple[dict[str, Any], object]:
    """The game of a variant and its name: a file of the folder, if there is one, else a tiny one that comes along.
    Raises what `find_game` and reading raise."""
    if not folder:
        return load_made_game(variant.task, variant.index), "a made game"
    path = find_game(variant, folder)
    return _parse_game(path, read_bytes(path)), path


def _parse_game(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        game = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, str(error)) from None
    if not isinstance(game, dict) or not all(isinstance(game.get(part), str) and game[part].strip() for part in PARTS):
        raise DamagedFile(path, f"it is no game of ALFWorld, which has {', '.join(PARTS)}")
    return game


def load_made_game(task: str, index: int) -> dict[str, Any]:
    """The content of a tiny game that comes along, as of a game file. Domain and grammar are those of the installed
    package. Raises ``NotInstalled``."""
    domain, grammar = _read_rules()
    goal, problem, walkthrough = read_data(__package__, f"data/games/{task}.json.bz2")[index]
    places = re.findall(r"^(\w+) - rtype$", problem, re.M)
    kinds = [kind for kind in re.findall(r"^(\w+) - otype$", problem, re.M) if kind != "DeskLampType"]
    head, marker, tail = problem.partition("(objectType ")
    can_contain = "".join(f"(canContain {place} {kind})\n" for place in places for kind in kinds)
    return {
        "pddl_domain": domain,
        "grammar": grammar.replace("UNKNOWN GOAL", goal),
        "pddl_problem": f"{head}{can_contain}{marker}{tail}",
        "solvable": True,
        "walkthrough": walkthrough,
    }


@cache
def _read_rules() -> tuple[str, str]:
    """Domain and grammar of the installed package, without importing it: that would make a folder at home."""
    spec = find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise NotInstalled("the benchmark alfworld needs the package alfworld: pip install 'rsso-dspy[alfworld]'")
    data = Path(spec.origin).parent / "data"
    return (data / "alfred.pddl").read_text(encoding="utf-8"), (data / "alfred.twl2").read_text(encoding="utf-8")


def find_walkthrough(variant: Variant, folder: str | None = None) -> tuple[str, ...]:
    """The actions that win a training game: one of the folder, else of the folder that the environment variable names,
    else the tiny one. Raises ``GoldUnknown`` where a game says none, and what `load_game` raises."""
    game, _ = load_game(variant, folder or find_data())
    if not game.get("walkthrough"):
        raise GoldUnknown(f"the game of {variant.key} names no walkthrough")
    return tuple(game["walkthrough"])


@lru_cache(maxsize=8)
def read_games(folder: str) -> Games:
    """Find all games below a folder, once in a process. Raises ``UsageError``: what was looked for and where."""
    root = _find_root(Path(folder).expanduser().absolute())
    files: dict[tuple[str, Split], tuple[Path, ...]] = {}
    skipped: dict[str, str] = {}
    digest = hashlib.sha256()
    for split, name in FOLDERS.items():
        for path in sorted((root / name).glob("*/*/game.tw-pddl")):
            kind = path.parent.parent.name.partition("-")[0]
            short = path.relative_to(root).as_posix()
            try:
                raw = _check_file(path, kind, short)
            except ValueError as why:
                skipped[short] = str(why)
            except DamagedFile as error:
                skipped[short] = f"damaged: {error.why}"
            except OSError as error:
                skipped[short] = f"damaged: {error.strerror}"
            else:
                digest.update(f"{short}\n{hashlib.sha256(raw).hexdigest()}\n".encode())
                files[kind, split] = (*files.get((kind, split), ()), path)
    games = Games(root, files, skipped, digest.hexdigest()[:16])
    if not games.total:
        raise UsageError(f"no ALFWorld game in it can be played: {games.describe()}. Run alfworld-download")
    return games


def _check_file(path: Path, kind: str, short: str) -> bytes:
    """Return the content of a file. Raises what reading it raises, and `ValueError`: why it is not played. ``short``:
    its path below the folder of games."""
    if kind not in COUNTS:
        raise ValueError(f"{kind} is none of the six types")
    if "movable" in short or "Sliced" in short:
        raise ValueError("movable containers and sliced things are not played, as in the package")
    raw = read_bytes(path)
    if _parse_game(path, raw).get("solvable") is False:
        raise ValueError("known to have no solution")
    return raw


def _find_root(folder: Path) -> Path:
    for root in (folder / "json_2.1.1", folder / "json_2.1.2", folder / "json_2.1.3", folder):
        if any((root / name).is_dir() for name in FOLDERS.values()):
            return root
    pattern = f"json_2.1.1/{{{','.join(FOLDERS.values())}}}/TYPE-*/trial_*/game.tw-pddl"
    raise UsageError(f"no ALFWorld games in {folder}: looked for {pattern} there. Run alfworld-download")
