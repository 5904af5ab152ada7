"""Prints a compiled program: how it was made, the candidates that were compared, and its prompts by role."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.cli.options import format_plural
from rsso_dspy.cli.terminal_text import WIDE, echo, get_terminal_width, print_paragraph, print_side_by_side, print_title
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rich.text import Text

    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.optimize.program_text import ComparedProgram, RolePrompt

ABRIDGED = 160
"""How many characters of a demonstration's field are printed; `--json` prints all."""


def show_origin(file: Path, found: "Compiled", protocol: str) -> None:
    """Print how the program was made: optimizer, scores, variants, cost, models and protocol."""
    from dataclasses import astuple

    from rsso_dspy.optimize.compile import ENDED
    from rsso_dspy.optimize.program_file import describe_verdict
    from rsso_dspy.optimize.program_text import describe_noise
    from rsso_dspy.records import RULE_BASED_NOTE

    if found.is_made_elsewhere:
        _show_elsewhere(file, found)
        return
    print_paragraph(f"{file}: {found.method}, compiled by {found.optimizer}", bold=True)
    before, after = found.before, found.after
    if before is None or after is None:
        print_paragraph(
            "The compile ended before it scored the zero-shot program; the file holds the zero-shot program."
        )
    elif found.improved or found.candidate:
        print_paragraph(
            f"metric {before.metric:.3f} -> {after.metric:.3f}, Mean {before.mean:.2f} -> {after.mean:.2f}, on val"
        )
    else:
        print_paragraph(
            f"The compile found nothing better; the file holds the zero-shot program (metric {before.metric:.3f}, "
            f"Mean {before.mean:.2f})."
        )
    for line in (describe_verdict(found), *describe_noise(found)):
        print_paragraph(line)
    if found.candidate:
        print_paragraph("The candidate below is not confirmed, and plays only with --unconfirmed.")
    parts = {"train": (*found.train, *found.fresh), "val": found.val, "confirm": found.confirm}
    for part, keys in parts.items():
        print_paragraph(f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys) or 'none'}")
    print_paragraph(
        f"rollouts: {found.rollouts} of {found.max_rollouts}, each {found.trials} trials of {found.steps} steps at "
        f"most; {found.search_end or ENDED.get(found.ended_by or '', 'the optimizer finished')}"
    )
    calls = f" of {found.max_lm_calls:,}" if found.max_lm_calls is not None else ""
    print_paragraph(f"model calls: {found.lm_calls:,}{calls}; tokens: {_format_token_counts(found.usage.values())}")
    for role, usage in found.usage.items():
        print_paragraph(f"{role}: {usage.calls:,} calls, {_format_token_counts([usage])}", "  ")
    if found.abandoned:
        calls = f"{sum(usage.calls for usage in found.abandoned.values()):,} calls"
        print_paragraph(
            f"also, attempts that were cut short: {calls}; tokens: {_format_token_counts(found.abandoned.values())}"
        )
    print_paragraph(f"model: {found.model}; proposer: {found.proposer}")
    if found.teacher:
        print_paragraph(
            f"teacher: {found.teacher} played train for demonstrations of at most {found.demo_tokens} tokens"
        )
    if found.environment is not None:
        name, version, easier = astuple(found.environment)
        print_paragraph(f"protocol: {protocol}, seed {found.seed}, {name} {version}, simplification {easier or 'none'}")
    for note in found.notes:
        print_paragraph(f"note: {note}")
    if found.rule_based:
        print_paragraph(RULE_BASED_NOTE)


def _show_elsewhere(file: Path, found: "Compiled") -> None:
    """Print what a file says of a program that `rsso-dspy compile` did not make."""
    from rsso_dspy.cli.options import format_command

    print_paragraph(f"{file}: {found.method}, made from an agent", bold=True)
    print_paragraph(
        "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
        f"{format_command('evaluate', file)}"
    )
    print_paragraph(f"differs from the zero-shot program in: {', '.join(found.changes) or 'nothing'}")
    for part, keys in {"train": found.train, "val": found.val}.items():
        print_paragraph(f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys) or 'none named'}")
    if found.environment is not None:
        print_paragraph(f"benchmark: {found.environment}")
    for note in found.notes:
        print_paragraph(f"note: {note}")


def _format_token_counts(usages: Iterable[Any]) -> str:
    both = [(usage.input, usage.output) for usage in usages]
    return f"{sum(given for given, _ in both):,} in, {sum(said for _, said in both):,} out"


def show_candidates(candidates: "Sequence[ComparedProgram]", val: Sequence[str]) -> None:
    """Print all programs that were compared, then their scores per variant if the file holds them."""
    if not candidates:
        return
    print_title(f"{format_plural(candidates, 'program')} compared, on the val variants")
    echo(f"{'#':>3} {'program':<12} metric   Mean")
    for each in candidates:
        kinds = {"zero-shot": each.zero_shot, "placebo": each.placebo, "dropped": each.dropped, "chosen": each.chosen}
        marks = [name for name, there in kinds.items() if there]
        line = f"{each.number:3d} {each.program[:12]:<12} {each.metric:6.3f} {each.mean:6.2f} {', '.join(marks)}"
        echo(line.rstrip())
    if not any(each.per_variant for each in candidates):
        return
    keys = dict.fromkeys([*val, *(key for each in candidates for key in each.per_variant)])
    print_title("Metric per calibration variant; * in val")
    _print_scores(
        {f"{'*' if key in val else ' '}{key}": [c.per_variant.get(key) for c in candidates] for key in keys},
        [each.number for each in candidates],
    )


def _print_scores(rows: Mapping[str, Sequence[float | None]], numbers: Sequence[int]) -> None:
    """Print a table of scores, one column for each candidate. Where it would be wider than the terminal, columns are
    split into blocks and names stand on lines of their own."""
    names, width = max(map(len, rows)), get_terminal_width()
    narrow = names + 7 > width
    room = max(1, (width - (2 if narrow else names)) // 7)
    columns = max(map(len, rows.values()))
    for first in range(0, columns, room):
        here = range(first, min(first + room, columns))
        echo(" " * (2 if narrow else names) + "".join(f"{f'#{numbers[n]}':>7}" for n in here))
        for name, scores in rows.items():
            cells = "".join("      -" if scores[n] is None else f"{scores[n]:7.3f}" for n in here)
            if narrow:
                for at in range(0, len(name), width):
                    echo(name[at : at + width])
            echo(("  " if narrow else f"{name:<{names}}") + cells)


def show_role(role: "RolePrompt") -> None:
    """Print the prompt of one role, beside the zero-shot prompt where the two differ."""
    print_title(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}")
    if not role.changed or role.instruction == role.zero_shot:
        _print_instruction(role.instruction)
    elif get_terminal_width() >= WIDE:
        print_side_by_side("zero-shot", "compiled", [(_build_cell(role.zero_shot), _build_cell(role.instruction))])
    else:
        for name, text in (("zero-shot", role.zero_shot), ("compiled", role.instruction)):
            echo(f"  {name}:", bold=True)
            _print_instruction(text, "    ")
    if role.fields:
        print_paragraph(f"field descriptions that differ: {', '.join(role.fields)}", "  ")
    for number, demo in enumerate(role.demonstrations, start=1):
        show_demonstration(f"demonstration {number} of {len(role.demonstrations)}", demo)


def _print_instruction(instruction: str, indent: str = "  ") -> None:
    from rsso_dspy.optimize.program_text import split_paragraphs

    for part in split_paragraphs(instruction) or ["(empty)"]:
        print_paragraph(part, indent)


def _build_cell(instruction: str) -> "Text":
    from rich.text import Text

    from rsso_dspy.optimize.program_text import split_paragraphs

    return Text(replace_controls("\n".join(split_paragraphs(instruction))))


def show_demonstration(title: str, demo: Mapping[str, str]) -> None:
    """Print one demonstration, field by field; long fields are shortened."""
    print_paragraph(title, "  ", bold=True)
    for field, text in demo.items():
        flat = " ".join(text.split())
        cut = f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)" if len(flat) > ABRIDGED else flat
        print_paragraph(f"{field}: {cut}", "    ")
