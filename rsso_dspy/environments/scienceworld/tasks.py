"""The 18 tasks of the adaptation protocol, their splits, and the selection of variants.

    >>> parse("boil::22")
    Variant(task='boil', index=22, split='test', simplification='easy')
    >>> [variant.index for variant in held_out("identify-life-stages-2")]
    [7, 6, 8, 9]

Splits are contiguous ranges of variant indices, as in ScienceWorld itself; they are stored in a data file, so planning
a run needs no simulator. The selection ``sso`` is the sample that the SSO reference draws (seed 42, training variants
first, then test variants). With seed 42, training samples equal those of the SSO reference; gold lengths of these ten
are shipped.
"""

import json
from importlib import resources
from typing import Any

from rsso_dspy.environments.splits import TaskTable


def _read_splits() -> Any:
    text = resources.files(__package__).joinpath("data/splits.json").read_text(encoding="utf-8")
    return json.loads(text)["tasks"]


TABLE = TaskTable(_read_splits, samples=("sso",), example="find-plant::228", simplification="easy")

tasks, indices, split_of, variant, parse = TABLE.tasks, TABLE.indices, TABLE.split_of, TABLE.variant, TABLE.parse
held_out, train_sample, dev_sample = TABLE.held_out, TABLE.train_sample, TABLE.dev_sample
