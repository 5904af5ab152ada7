"""The most that a plan can cost: an upper bound of calls, and tokens of an average call."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rsso_dspy.environments import Interface
from rsso_dspy.programs.methods import Method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage

TOKENS_PER_CALL: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "complete": {
        "actor": (2760, 145), "reflector": (3040, 185), "verbalizer": (790, 35), "advisor": (4200, 65),
        "proposer": (4000, 250),
    },
    "sso": {
        "actor": (2530, 150), "reflector": (1420, 185), "verbalizer": (1300, 32), "advisor": (2820, 77),
        "proposer": (4000, 250),
    },
}  # fmt: skip
"""Interface to input and output tokens of an average call by role, on the default benchmark: those of the units that
`benchmarks/observed.py` makes a table of, played on the embedded backend."""

OBSERVED = "data/observed.json"
"""That table, beside this file."""

TEACHING = "teacher-"
"""Ahead of a role that a teacher plays in a compile, in its account."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper bound of calls and estimate of tokens, per role."""

    calls: dict[str, int]
    sizes: str = "complete"
    """Key of `load_token_sizes`."""

    @property
    def total_calls(self) -> int:
        return sum(self.calls.values())

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens if every call were made and of average size."""
        usage = self.usage
        return sum(spent.input for spent in usage.values()), sum(spent.output for spent in usage.values())

    @property
    def usage(self) -> dict[str, Usage]:
        """The same by role."""
        sizes = {role: load_token_sizes()[self.sizes][role.removeprefix(TEACHING)] for role in self.calls}
        return {role: Usage(n, n * sizes[role][0], n * sizes[role][1]) for role, n in self.calls.items()}


@cache
def load_token_sizes() -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """Return `TOKENS_PER_CALL`, and likewise the means of every other benchmark that `OBSERVED` has units of."""
    sums: dict[str, dict[str, Usage]] = {}
    for row in json.loads(resources.files(__package__).joinpath(OBSERVED).read_text(encoding="utf-8"))["units"]:
        roles = sums.setdefault(row.get("benchmark", ""), {})
        for role, spent in row["usage"].items():
            roles[role] = roles.get(role, Usage()) + Usage(*spent)
    del sums[""]
    means = {
        name: {role: (spent.input // spent.calls, spent.output // spent.calls) for role, spent in roles.items()}
        for name, roles in sums.items()
    }
    return {**TOKENS_PER_CALL, **{name: {**TOKENS_PER_CALL["complete"], **each} for name, each in means.items()}}


def choose_sizes(benchmark: str, interface: Interface) -> str:
    """Return the key of `load_token_sizes` for a benchmark: the default one's for one that was not measured."""
    return benchmark if benchmark in load_token_sizes() else interface


def count_calls(
    method: Method, budgets: Sequence[int], rules: TrialRules, known: int, played: int, alone: bool
) -> dict[str, int]:
    """Return the maximum calls per role of serial trials with these steps.

    Depends on the states known to the skill memory, the finished trials, and whether a single trial can make skills.
    """
    learnt = 0 if rules.frozen else len(budgets) if rules.learn_after_last else len(budgets) - 1
    of_solved = len(budgets) if rules.learn_after_success and not rules.frozen else learnt
    calls: Counter[str] = Counter(actor=sum(budgets[played:]))
    states = [*([known] if known else []), *(steps + 1 for steps in budgets)]
    for memory in map(load_memory, method.memories):
        lasts = memory.region in rules.lasting and not rules.frozen
        trials = len(budgets) if lasts else of_solved if memory.learns_from_success else learnt
        for trial in range(played + 1, trials + 1):
            calls.update(memory.most_calls(states[: trial + bool(known)], alone))
    return dict(calls)
