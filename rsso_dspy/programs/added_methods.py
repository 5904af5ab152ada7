"""Methods from outside the package.

add_method(Method("mine", "flat", ("diary",), "a paper"), diary=Diary)      # every verb and `Agent` knows it now
"""

import re
import warnings

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.memory import Memory
from rsso_dspy.programs.actor import SCAFFOLDS, add_regions
from rsso_dspy.programs.methods import ADDITIONS, MEMORIES, METHODS, MODULES, Method, load_memory
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.regions import REGIONS

_TAKEN = {name for actor in SCAFFOLDS.values() for name in actor.fields} | {"self", "recalled", "signature", "lm"}
_TAKEN |= {"demos", "config", "new_signature", "completions"}
"""Names that a region cannot have: fields that the actor has already, and what a call is told besides fields."""

_RESERVED = (ZERO_SHOT, *ADDITIONS)
"""Names of a program, and of what may be added to a method."""


def add_method(row: Method, **memories: type[Memory]) -> None:
    """Make a method known under its name, with the classes of its own memories by name. Every verb and `Agent` knows it
    from then on, in this process.

    Raises `UsageError` for a name that is taken or cannot name a folder, and for a memory whose region cannot be a new
    field of the actor's signature; `UnknownName` for a memory or module that is nowhere to be found.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row.name):
        raise UsageError(f"method {row.name!r}: its name takes small letters, digits, - and _, for it names folders")
    if taken := [*({row.name} & {*METHODS, *_RESERVED}), *(memories.keys() & MEMORIES.keys())]:
        raise UsageError(f"{', '.join(taken)} is taken; give it another name")
    for name in row.memories:
        if name not in memories:
            load_memory(name)
    asked = [name for memory in memories.values() for name in memory.asks]
    for name in (*row.modules, *asked):
        if name not in MODULES:
            raise UnknownName("module", name, MODULES)
    for name, memory in memories.items():
        region = memory.region
        if region not in REGIONS and (region in _TAKEN or not _can_be_field(region, memory.about)):
            raise UsageError(
                f"region {region!r} of {name} cannot be a new field of the actor; give it another name, and say in "
                "`about` what it holds"
            )
    MEMORIES.update(memories)
    METHODS[row.name] = row


def _can_be_field(name: str, description: str) -> bool:
    """Whether both actors can have this field. What DSPy and pydantic refuse, or warn of, is theirs to know."""
    if not name.isidentifier() or not description:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for actor in SCAFFOLDS.values():
                add_regions(actor, ((name, description),))
    except Exception:  # errors of every kind, by the name
        return False
    return True
