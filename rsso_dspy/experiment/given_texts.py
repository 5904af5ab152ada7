"""Texts that units start from because the configuration names them: `memory.given` and `memory.coding`."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.experiment.guards import check_sources
from rsso_dspy.experiment.initial_memories import InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.memory.coding_entries import read_coding_entries
from rsso_dspy.memory.given import read_given
from rsso_dspy.store.memory_sources import sources_of


def load_given_texts(config: Config, plan: Plan, say: Callable[[str], None] = lambda _: None) -> list[InitialMemories]:
    """What the configuration names. Raises what `read_given`, `read_coding_entries` and `check_sources` raise: texts
    that say they were learned on a variant that the plan holds out are refused."""
    loads = []
    if config.memory.given:
        path = Path(config.memory.given).expanduser()
        snapshot, variants = read_given(path)
        check_sources(path, {}, variants, config, plan, say)
        loads.append(_make_initial("given", snapshot, path, variants))
    if config.memory.coding:
        path = Path(config.memory.coding).expanduser()
        loads.append(_make_initial("coding", read_coding_entries(path), path))
    return loads


def _make_initial(name: str, snapshot: dict[str, Any], path: Path, variants: tuple[str, ...] = ()) -> InitialMemories:
    memories = {name: snapshot}
    digest = hashlib.sha256(json.dumps(memories, sort_keys=True).encode()).hexdigest()[:12]
    return InitialMemories(memories, sources_of(memories, "file", path.name, digest), variants=variants)
