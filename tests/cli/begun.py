"""A run in a folder, made by hand, that looks as if it were played: for tests of who looks at it from outside."""

from pathlib import Path

from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Usage, Variant
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Arm, Unit
from tests.records import record

LEFT = [f"{arm}/boil::{index}/s0" for index in (22, 27) for arm in ("sso", "rsso")]


def unit(arm: str, index: int) -> Unit:
    return Unit(Arm(get_method(arm)), Variant("boil", index), 0, 9)


def begun(folder: Path, finished: bool = True) -> Store:
    """A run of two arms on two variants: one unit finished, one begun and under way, one errored."""
    store = Store(folder)
    store.open({"protocol": "sso-adapt/1"}, {"sso": "1", "rsso": "2"})
    store.note_event("started", {"left": LEFT, "jobs": 2, "engine": "threads"})
    if finished:
        store.save(record("sso", "boil", 22, [[10], [40]]))
        store.note_event("unit", {"unit": LEFT[0], "trials": 2, "best": 40, "error": None})
        store.save(record("rsso", "boil", 22, [[10], None]))
        store.note_event("unit", {"unit": LEFT[1], "trials": 2, "best": 10, "error": "LMServerError: 500"})
        store.save_started(record("sso", "boil", 27, [[10]]))
        store.note_under_way(unit("sso", 27), "actor", Usage(1, 1000, 100))
        store.note_abandoned("rsso", LEFT[1], {"actor": Usage(1, 7, 3)})
    return store
