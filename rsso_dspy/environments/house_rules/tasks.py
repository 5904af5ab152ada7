"""Rules as task types, requests as variants: what can be played of a repository, and its solutions."""

from collections.abc import Sequence
from functools import lru_cache

from rsso_dspy.environments.house_rules.rules import Repository, Request
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import UsageError
from rsso_dspy.records import Variant


@lru_cache(maxsize=64)
def make_table(repository: Repository) -> TaskTable:
    """Return the task table of a repository: training requests first, then those of development, then the held-out."""
    rows = {}
    for name, rule in repository.rules.items():
        row = {}
        first = 0
        for split in ("train", "dev", "test"):
            count = len(rule.requests[split])
            row[split] = (first, first + count - 1)
            first += count
        rows[name] = row
    return TaskTable(rows)


def get_request(variant: Variant, repository: Repository) -> Request:
    table = make_table(repository)
    split = table.split_of(variant.task, variant.index)
    place = variant.index - table.indices(variant.task, split).start
    return repository.rules[variant.task].requests[split][place]


def find_solution(variant: Variant, repository: Repository) -> tuple[str, ...]:
    return get_request(variant, repository).gold


def check_variants(variants: Sequence[Variant], repository: Repository) -> None:
    """Raise `UsageError` for a variant that the repository does not have."""
    rules = repository.rules
    for variant in variants:
        if variant.task not in rules:
            raise UsageError(f"{variant.key} is no request of {repository.name}, whose rules are {', '.join(rules)}")


def list_strata(variant: Variant, repository: Repository) -> tuple[str, ...]:
    """Return how much the refusals of a variant's rule tell, and whether it asks for what one would do anyway. The
    second is unknown of rules of one's own."""
    rule = repository.rules[variant.task]
    telling = f"refusal: {rule.telling}"
    if not rule.values:
        return (telling,)
    return telling, "usual rule" if rule.is_usual else "unusual rule"
