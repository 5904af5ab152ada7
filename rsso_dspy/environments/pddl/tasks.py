"""The four domains as task types, their problems and splits. Problems made here (`scripts/make_pddl.py`), in ``data``
with their plans, are graded by the length of these, short ones first in each split. At the end of the test split stand
AgentBoard's own problems, which this project does not hold: `environment.data` names the user's folder of them, a
folder a domain (``gripper/prob01.pddl``). The selection ``generated`` is spread over all grades of the made ones;
``agentboard`` is those of the user."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from itertools import accumulate
from pathlib import Path

from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.pddl.strips import Domain, Problem, World, read_domain, read_setup
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import DamagedFile, GoldUnknown, UsageError
from rsso_dspy.files import read_text
from rsso_dspy.records import Variant

SIZES = {"train": 40, "dev": 10, "test": 20}  # problems of each domain that were made here
FILES = {"gripper": 20, "blockworld": 10, "barman": 20, "tyreworld": 10}  # AgentBoard's problems of each domain
GOLD_OF_FILES = 20  # of AgentBoard's problems: half as many again are the 30 steps that they are given

_DEV, _TEST, _FILE = accumulate(SIZES.values())  # the first index of each split, and of AgentBoard's problems

TABLE = TaskTable(
    {
        domain: {
            "train": (0, _DEV - 1),
            "dev": (_DEV, _TEST - 1),
            "test": (_TEST, _FILE + files - 1),
            "generated": [*range(_TEST, _FILE, 2), *range(_TEST + 1, _FILE, 2)],
            "agentboard": range(_FILE, _FILE + files),
        }
        for domain, files in FILES.items()
    },
    samples=("generated", "agentboard"),
)


@cache
def load_domain(name: str) -> Domain:
    file = f"{name}.pddl"
    return read_domain(resources.files(__package__).joinpath("domains", file).read_text(encoding="utf-8"), file)


def get_gold_length(variant: Variant) -> int:
    return GOLD_OF_FILES if variant.index >= _FILE else len(_list_rows(variant.task)[variant.index][1])


def find_solution(variant: Variant) -> tuple[str, ...]:
    """The actions of the shipped plan, as the game offers them. Raises ``GoldUnknown`` for AgentBoard's problems."""
    if variant.index >= _FILE:
        raise GoldUnknown(f"no plan of {variant.key} is shipped: it is one of AgentBoard's problems")
    return _list_rows(variant.task)[variant.index][1]


def load_setup(variant: Variant, folder: str | None = None) -> Problem:
    """The problem of a variant. ``folder``: where AgentBoard's are. Raises ``UsageError`` when one of those is asked
    for and not there, ``DamagedFile`` with the reason when it cannot be read."""
    if variant.index >= _FILE:
        if not folder:
            why = f"{variant.key} is one of AgentBoard's problems, which this project does not hold"
            fix = f"name your folder of them, --set environment.data=DIR with DIR/{variant.task}/*.pddl in it"
            raise UsageError(f"{why}: {fix}, or play the selection `generated`")
        files = list_files(variant.task, Path(folder))
        place = variant.index - _FILE
        if place >= len(files):
            raise UsageError(f"{variant.key} is problem {place + 1} of {variant.task}; {folder} holds {len(files)}")
        return read_file(variant.task, files[place])
    return read_setup(_list_rows(variant.task)[variant.index][0], load_domain(variant.task), variant.key)


def check_files(variants: Iterable[Variant], folder: str | None) -> None:
    """Raise what `load_setup` raises for one of the variants, and ``DamagedFile`` where nothing can be done in it."""
    for variant in variants:
        if variant.index < _FILE:
            continue
        rules = load_domain(variant.task)
        problem = load_setup(variant, folder)
        world = World(rules, problem)
        if not world.list_applicable(world.start):
            path = list_files(variant.task, Path(str(folder)))[variant.index - _FILE]
            raise DamagedFile(
                path, f"no action of {variant.task} can be taken at its start: {', '.join(rules.actions)}"
            )


def list_files(domain: str, folder: Path) -> list[Path]:
    """The problem files of a domain, in AgentBoard's order; a definition of the domain beside them is none. Raises
    ``UsageError`` when there are none."""
    files = _find_files(domain, folder)
    if not files:
        message = f"no problems of {domain}: looked for *.pddl in {folder / domain}"
        misplaced = _find_problems(folder)
        hint = f"; {misplaced[0]} belongs into a folder that is named after its domain" if misplaced else ""
        raise UsageError(message + hint)
    return files


def _find_files(domain: str, folder: Path) -> list[Path]:
    """The problem files in the folder of a domain, which may be the folder itself."""
    homes = [path for path in _list_folder(folder) if path.name.lower() == domain and path.is_dir()]
    if not homes and folder.resolve().name.lower() == domain:
        homes = [folder]
    return [path for home in homes for path in _find_problems(home)]


def _find_problems(folder: Path) -> list[Path]:
    files = [path for path in _list_folder(folder) if path.suffix.lower() == ".pddl"]
    return [path for path in files if not _defines_domain(path)]


def _list_folder(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _defines_domain(path: Path) -> bool:
    """Whether a file begins with ``(define (domain``. One that cannot be read is taken for a problem, to be named."""
    try:
        text = read_text(path)
    except (OSError, DamagedFile):
        return False
    return re.match(r"\s*\(\s*define\s*\(\s*domain\b", re.sub(";.*", "", text.lower())) is not None


def digest_files(folder: str) -> str:
    """16 hexadecimal digits over all problem files of a folder, which may lack domains. Raises ``UsageError`` when it
    has none."""
    files = {domain: _find_files(domain, Path(folder)) for domain in FILES}
    if not any(files.values()):
        list_files(next(iter(FILES)), Path(folder))

    digest = hashlib.sha256()
    for domain, paths in files.items():
        for path in paths:
            digest.update(f"{domain}/{path.name}\n{read_text(path)}\n".encode())
    return digest.hexdigest()[:16]


def read_file(domain: str, path: Path) -> Problem:
    """A problem file of the user's. Raises ``DamagedFile`` for one that cannot be read."""
    return read_setup(read_text(path), load_domain(domain), str(path))


@cache
def _list_rows(domain: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(text, tuple(plan)) for text, plan in read_data(__package__, f"data/{domain}.json.gz")]
