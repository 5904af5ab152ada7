"""Folders of runs, read as one: those of one experiment that differ in seeds or arms."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.cli.options import say
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.protocol.store import Store


def say_left_out(file: Path) -> None:
    """A line on stderr for a file that a store counts as `set_aside`."""
    from rsso_dspy.protocol.store import said_of

    say(f"{said_of(file)}: left out, and set aside by the next run")


def opened(folders: Sequence[Path]) -> "list[Store]":
    """The runs in them, to be read only. Raises `UsageError` for a folder that holds no run, for runs whose results
    depend on something else than the seed and what their arms start from, and when two hold the same unit or training.
    """
    from rsso_dspy.protocol.store import Store

    stores = [Store(folder) for folder in dict.fromkeys(folders)]
    for store in stores:
        store.read_only = True
    _check_alike(stores)
    _check_apart(stores)
    return stores


def _check_alike(stores: "list[Store]") -> None:
    from rsso_dspy.protocol.store import difference

    def bound(store: "Store") -> dict[str, Any]:
        known = {key: value for key, value in store.about()[0].items() if key not in ("config_hash", "carried")}
        config = known.get("config")
        return {**known, "config": {**config, "seed": ""}} if isinstance(config, dict) else known

    first = bound(stores[0])
    for store in stores[1:]:
        if (other := bound(store)) != first:
            raise UsageError(
                f"{stores[0].folder} and {store.folder} are not to be compared:\n{difference(first, other)}"
            )


def _check_apart(stores: "list[Store]") -> None:
    held: dict[Path, Path] = {}
    for store in stores:
        for kind in ("units", "trainings"):
            for file in (store.folder / kind).glob("*/*/*.json"):
                name = file.relative_to(store.folder)
                if (other := held.setdefault(name, store.folder)) != store.folder:
                    raise UsageError(f"{other} and {store.folder} both hold {name.with_suffix('')}; leave one out")
