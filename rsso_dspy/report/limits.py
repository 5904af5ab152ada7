"""What limits of length did to a run: answers that were cut off at `max_tokens`, and prompts that a server cut.

for sentence in describe_limits(records): ...
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rsso_dspy.records import UnitRecord, Usage

MOSTLY_HIDDEN = 0.5  # share of hidden reasoning in a role's output from which it is what used up the limit


@dataclass(slots=True)
class RoleLimits:
    """The answers of a role, in all arms."""

    setting: str  # the key of the configuration that limits them
    total: Usage = field(default_factory=Usage)
    limits: set[int] = field(default_factory=set)  # `max_tokens` as sent
    by_arm: dict[str, Usage] = field(default_factory=dict)


def describe_limits(records: Iterable[UnitRecord]) -> Iterator[str]:
    """Yield a sentence for each role whose answers were cut off, and for each whose prompts the server cut."""
    for role, answers in _sum_by_role(records).items():
        if answers.total.truncated:
            yield _describe_cut_answers(role, answers)
        if answers.total.undercounted:
            yield _describe_cut_prompts(role, answers)


def _sum_by_role(records: Iterable[UnitRecord]) -> Mapping[str, RoleLimits]:
    roles: dict[str, RoleLimits] = {}
    for record in records:
        for trial in record.trials:
            for role, usage in trial.usage.items():
                answers = roles.setdefault(role, RoleLimits(f"backends.{record.backend}.max_tokens"))
                answers.total += usage
                answers.by_arm[record.arm] = answers.by_arm.get(record.arm, Usage()) + usage
                limit = trial.sent.get(role, {}).get("max_tokens")
                if limit:
                    answers.limits.add(int(limit))
    return roles


def _describe_cut_answers(role: str, answers: RoleLimits) -> str:
    total = answers.total
    sent = f" ({', '.join(f'{limit:,}' for limit in sorted(answers.limits))})" if answers.limits else ""
    sentence = f"{total.truncated:,} of {total.calls:,} answers of the {role} were cut off at max_tokens{sent}"
    if total.reasoning > MOSTLY_HIDDEN * total.output:
        sentence += f", which hidden reasoning used up ({total.reasoning:,} of {total.output:,} tokens)"
    return f"{sentence}: raise {answers.setting}."


def _describe_cut_prompts(role: str, answers: RoleLimits) -> str:
    counts = [f"{arm} {usage.undercounted:,} of {usage.calls:,}" for arm, usage in answers.by_arm.items()]
    return (
        f"WARNING: the server counted far fewer tokens than were sent to the {role}, so it has cut the prompts "
        f"({', '.join(counts)} answers), those of arms with memories first: give the model a longer context (Ollama: "
        "num_ctx; llama.cpp: -c; vLLM: --max-model-len) and play again."
    )
