"""A compiled program, printed: how it was made, the candidates that were compared, its prompts."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.cli.options import format_command, format_plural
from rsso_dspy.cli.terminal_text import print_json, print_paragraph, print_title
from rsso_dspy.report.terminal import create_named_table, print_renderable, to_plain_text

if TYPE_CHECKING:
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.optimize.program_text import RoleDifference

ABRIDGED = 160
"""How many characters of a demonstration's field are printed; `--json` prints all."""


def show_program(file: Path, json_: bool) -> None:
    """Print a compiled program. Raises what `load` raises."""
    from rsso_dspy.optimize.program_file import FILE, load
    from rsso_dspy.optimize.program_text import compare_states
    from rsso_dspy.programs.agent import Agent

    compiled = load(file)
    if json_:
        print_json(FILE.dump_python(compiled, mode="json"))
        return
    for line in _describe_origin(file, compiled):
        print_paragraph(line, bold=line.startswith(f"{file}: "))
    _print_candidates(compiled)
    for role in compare_states(Agent(compiled.method).dump_state(), compiled.chosen_state):
        _print_role(role)


def _describe_origin(file: Path, compiled: "Compiled") -> Iterator[str]:
    """Yield how the program was made: optimizer, scores, variants, cost, models and protocol, a line each."""
    from dataclasses import astuple

    from rsso_dspy.optimize.compile import ENDED
    from rsso_dspy.optimize.program_file import describe_verdict
    from rsso_dspy.optimize.program_text import describe_noise
    from rsso_dspy.records import RULE_BASED_NOTE

    if compiled.is_made_elsewhere:
        yield from _describe_agent(file, compiled)
        return
    yield f"{file}: {compiled.method}, compiled by {compiled.optimizer}"
    yield describe_scores(compiled)
    yield describe_verdict(compiled)
    yield from describe_noise(compiled)
    if compiled.candidate:
        yield "The candidate below is not confirmed, and plays only by evaluate --candidate."
    parts = {"train": (*compiled.train, *compiled.fresh), "val": compiled.val, "confirm": compiled.confirm}
    for part, keys in parts.items():
        yield f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys) or 'none'}"
    ended = compiled.search_end or ENDED.get(compiled.ended_by or "", "the optimizer finished")
    yield (
        f"rollouts: {compiled.rollouts} of {compiled.max_rollouts}, each {compiled.trials} trials of {compiled.steps} "
        f"steps at most; {ended}"
    )
    yield f"model calls: {compiled.lm_calls:,}; tokens: {_format_tokens(compiled.usage.values())}"
    for role, usage in compiled.usage.items():
        yield f"{role}: {usage.calls:,} calls, {_format_tokens([usage])}"
    if compiled.abandoned:
        calls = f"{sum(usage.calls for usage in compiled.abandoned.values()):,} calls"
        yield f"also, attempts that were cut short: {calls}; tokens: {_format_tokens(compiled.abandoned.values())}"
    yield f"model: {compiled.model}; proposer: {compiled.proposer}"
    if compiled.teacher:
        tokens = compiled.demo_tokens
        yield f"teacher: {compiled.teacher} played train for demonstrations of at most {tokens} tokens"
    if compiled.environment is not None:
        name, version, easier = astuple(compiled.environment)
        yield (
            f"protocol: {compiled.protocol}, seed {compiled.seed}, {name} {version}, simplification {easier or 'none'}"
        )
    yield from (f"note: {note}" for note in compiled.notes)
    if compiled.rule_based:
        yield RULE_BASED_NOTE


def _describe_agent(file: Path, compiled: "Compiled") -> Iterator[str]:
    """Yield what a file says of a program that `rsso-dspy compile` did not make."""
    yield f"{file}: {compiled.method}, made from an agent"
    yield (
        "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
        f"{format_command('evaluate', file)}"
    )
    yield f"differs from the zero-shot program in: {', '.join(compiled.changes) or 'nothing'}"
    for part, keys in {"train": compiled.train, "val": compiled.val}.items():
        yield f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys) or 'none named'}"
    if compiled.environment is not None:
        yield f"benchmark: {compiled.environment}"
    yield from (f"note: {note}" for note in compiled.notes)


def describe_scores(compiled: "Compiled") -> str:
    """Describe what a compile scored on val, on the scale of 0 to 100."""
    from rsso_dspy.records import ZERO_SHOT

    before, after = compiled.before, compiled.after
    start = "the zero-shot program" if compiled.start == ZERO_SHOT else "the program it started from"
    if before is None or after is None:
        return f"the budget ended before {start} was scored"
    if compiled.improved or compiled.candidate:
        return (
            f"metric {100 * before.metric:.1f} -> {100 * after.metric:.1f}, Mean {before.mean:.1f} -> {after.mean:.1f}"
        )
    return f"nothing better than {start} was found (metric {100 * before.metric:.1f}, Mean {before.mean:.1f})"


def _format_tokens(usages: Iterable[Any]) -> str:
    both = [(usage.input, usage.output) for usage in usages]
    return f"{sum(sent for sent, _ in both):,} in, {sum(answered for _, answered in both):,} out"


def _print_candidates(compiled: "Compiled") -> None:
    """Print all programs that were compared, then their scores per variant if the file holds them."""
    candidates, val = compiled.tried, compiled.val
    if not candidates:
        return
    title = f"{format_plural(candidates, 'program')} compared, on the val variants; scores from 0 to 100"
    table = create_named_table(f"\n{title}", "program", "#", "metric", "Mean", "kind", words=("kind",))
    numbers = [place if each.number is None else each.number for place, each in enumerate(candidates)]
    for number, each in zip(numbers, candidates, strict=True):
        chosen = each.program == compiled.chosen_program
        kinds = {"start": number == 0, "placebo": each.placebo, "dropped": each.dropped, "chosen": chosen}
        kind = ", ".join(name for name, there in kinds.items() if there)
        scores = (f"{100 * each.scores.metric:.1f}", f"{each.scores.mean:.1f}")
        table.add_row(to_plain_text(each.program[:12]), str(number), *scores, kind)
    print_renderable(table)
    if not any(each.per_variant for each in candidates):
        return
    table = create_named_table(
        "\nMetric per calibration variant; * in val", "variant", *(f"#{number}" for number in numbers)
    )
    for key in dict.fromkeys([*val, *(key for each in candidates for key in each.per_variant)]):
        known = [each.per_variant.get(key) for each in candidates]
        cells = ("-" if score is None else f"{100 * score:.1f}" for score in known)
        table.add_row(to_plain_text(f"{'*' if key in val else ' '}{key}"), *cells)
    print_renderable(table)


def _print_role(role: "RoleDifference") -> None:
    """Print the instruction of one role, sentence by sentence where it differs from the zero-shot one, and its
    demonstrations."""
    print_title(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}")
    marks = {"same": ("", None), "removed": ("- ", "red"), "added": ("+ ", "green")}
    for op, text in role.rows:
        mark, color = marks[op]
        print_paragraph(f"{mark}{text}", "  ", color=color)
    if role.fields:
        print_paragraph(f"field descriptions that differ: {', '.join(role.fields)}", "  ")
    for number, demo in enumerate(role.added, start=1):
        print_paragraph(f"demonstration {number} of {len(role.added)}", "  ", bold=True)
        for field, text in demo.items():
            flat = " ".join(text.split())
            cut = f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)" if len(flat) > ABRIDGED else flat
            print_paragraph(f"{field}: {cut}", "    ")
