"""The most that a plan can cost: an upper bound of calls, and tokens of an average call."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsso_dspy.programs.methods import Method, load_memory
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Usage

TOKENS_PER_CALL: Mapping[str, tuple[int, int]] = {
    "actor": (2760, 145), "reflector": (3040, 185), "verbalizer": (790, 35), "advisor": (4200, 65),
    "proposer": (4000, 250),
}  # fmt: skip
"""Role to input and output tokens of an average call: means of 324 units of the offline player on the default
benchmark (nine methods, 36 units each, protocol adapt/2-cap60). Those of the proposer are assumed."""

TEACHING = "teacher-"
"""Ahead of a role that a teacher plays in a compile, in its account."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Upper bound of calls and estimate of tokens, per role."""

    calls: dict[str, int]

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
        sizes = {role: TOKENS_PER_CALL[role.removeprefix(TEACHING)] for role in self.calls}
        return {role: Usage(n, n * sizes[role][0], n * sizes[role][1]) for role, n in self.calls.items()}


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
