"""Limits the rule writer's signature to the categories that are kept, so that no discarded rules are paid for.

    select_category_fields(WriteRules, ("abstract", "error"))       # no field for progress, and no sentence about it

With all categories the signature stays equal byte for byte.
"""

import re
from functools import lru_cache

import dspy

from rsso_dspy.memory.constitution.rules import CATEGORIES
from rsso_dspy.records import Category

Categories = tuple[Category, ...]

_SENTENCES = re.compile(r"(?<=[.!?])\s+")


@lru_cache(maxsize=64)
def select_category_fields(signature: type[dspy.Signature], categories: Categories) -> type[dspy.Signature]:
    """Remove the fields of other categories, and the sentences that begin with their names, from the signature. Other
    sentences of compiled instructions stay. Cached, because building a signature class is expensive."""
    others = [category for category in CATEGORIES if category not in categories]
    fields = [name for category in others for name in (f"{category}_rules", f"gathered_{category}_rules")]
    if not any(name in signature.fields for name in fields):
        return signature
    for name in fields:
        signature = signature.delete(name)
    about = tuple(f"{category} rules " for category in others)
    told = [part for part in _SENTENCES.split(signature.instructions) if not part.lower().startswith(about)]
    asked: type[dspy.Signature] = signature.with_instructions(" ".join(told))
    return asked


def select_category_examples(examples: str, categories: Categories) -> str:
    """Remove the rules of other categories from the writer's examples. Empty if no rules are left."""
    left = examples
    for category in (category for category in CATEGORIES if category not in categories):
        left = re.sub(rf"^{category.capitalize()} rules:\n(?:- .*(?:\n|\Z))*", "", left, flags=re.M)
    return left if left == examples or re.search(r"^\w+ rules:$", left, re.M) else ""
