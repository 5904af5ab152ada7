"""What limits of length did to a run: answers that were cut off at `max_tokens`, prompts that a server cut, and actions
of several lines where the environment takes one.

for sentence in describe_limits(records): ...
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rsso_dspy.records import Step, UnitRecord, Usage

SMALLEST_SHARE = 0.01  # of a role's answers that were cut off, above which they are told
SMALLEST_SHARE_OF_ACTIONS = 0.1  # that lost lines, above which they are told
MOSTLY_HIDDEN = 0.5  # share of hidden reasoning in a role's output from which it is what used up the limit


@dataclass(slots=True)
class RoleLimits:
    """The answers of a role, in all arms."""

    setting: str  # the key of the configuration that limits them
    total: Usage = field(default_factory=Usage)
    limits: set[int] = field(default_factory=set)  # `max_tokens` as sent
    by_arm: dict[str, Usage] = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        """Whether a share of the answers was cut off that may matter."""
        return self.total.truncated > SMALLEST_SHARE * self.total.calls


def describe_limits(records: Iterable[UnitRecord]) -> Iterator[str]:
    """Yield a sentence on the roles whose answers were cut off, one for each whose prompts the server cut, and one on
    actions of which the first line alone was played."""
    records = list(records)
    roles = _sum_by_role(records)
    cut = {role: answers for role, answers in roles.items() if answers.is_cut}
    if cut:
        yield _describe_cut_answers(cut)

    for role, answers in roles.items():
        if answers.total.undercounted:
            yield _describe_cut_prompts(role, answers)

    yield from _describe_cut_actions(records)


def _describe_cut_actions(records: Iterable[UnitRecord]) -> Iterator[str]:
    steps = 0
    cut = 0
    for record in records:
        for trajectory in record.trajectories:
            steps += len(trajectory.steps)
            cut += sum(_lost_lines(step) for step in trajectory.steps)

    if cut > SMALLEST_SHARE_OF_ACTIONS * steps:
        yield (
            f"WARNING: of {cut:,} of {steps:,} actions the first line alone was played: the environment takes one "
            'line, unless it says action_form = "text".'
        )


def _lost_lines(step: Step) -> bool:
    """Whether an action is one line of several that were given, the marks of a fenced block aside."""
    lines = [line for line in step.cut.splitlines() if _says_something(line)]
    return len(lines) > 1 and len(step.action.splitlines()) == 1


def _says_something(line: str) -> bool:
    text = line.strip()
    return text != "" and not text.startswith(("```", "~~~"))


def _sum_by_role(records: Iterable[UnitRecord]) -> Mapping[str, RoleLimits]:
    roles: dict[str, RoleLimits] = {}
    for record in records:
        setting = f"backends.{record.backend}.max_tokens"
        for trial in record.trials:
            for role, usage in trial.usage.items():
                answers = roles.setdefault(role, RoleLimits(setting))
                answers.total += usage
                answers.by_arm[record.arm] = answers.by_arm.get(record.arm, Usage()) + usage

                decoding = trial.sent.get(role, {})
                limit = decoding.get("max_tokens")
                if limit:
                    answers.limits.add(int(limit))
    return roles


def _describe_cut_answers(roles: Mapping[str, RoleLimits]) -> str:
    counts = []
    limits: set[int] = set()
    settings: list[str] = []
    for role, answers in roles.items():
        counts.append(_count_cut_answers(role, answers.total))
        limits |= answers.limits
        if answers.setting not in settings:
            settings.append(answers.setting)

    limit_text = ""
    if limits:
        limit_text = f" ({', '.join(f'{limit:,}' for limit in sorted(limits))})"
    return f"Cut off at max_tokens{limit_text}: {', '.join(counts)}; raise {' and '.join(settings)}."


def _count_cut_answers(role: str, total: Usage) -> str:
    count = f"{total.truncated:,} of {total.calls:,} answers of the {role}"
    if total.reasoning > MOSTLY_HIDDEN * total.output:
        count += f", which hidden reasoning used up ({total.reasoning:,} of {total.output:,} tokens)"
    return count


def _describe_cut_prompts(role: str, answers: RoleLimits) -> str:
    counts = ", ".join(f"{arm} {usage.undercounted:,} of {usage.calls:,}" for arm, usage in answers.by_arm.items())
    return (
        f"WARNING: the server counted far fewer tokens than were sent to the {role} ({counts} answers), so "
        "it has cut the prompts, those of arms with memories first, unless it leaves out what its cache held: give the "
        "model a longer context (Ollama: num_ctx; llama.cpp: -c; vLLM: --max-model-len) and play again."
    )
