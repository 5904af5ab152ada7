"""A compiled program, printed: how it was made, the candidates that were compared, its prompts."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rsso_dspy.cli.options import format_command, format_plural
from rsso_dspy.cli.run_plan import describe_spending
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.report.terminal import create_named_table, print_renderable, to_plain_text

if TYPE_CHECKING:
    from rsso_dspy.optimize.program_file import Compiled, RoleDifference

ABRIDGED = 160
"""How many characters of a demonstration's field are printed; `--json` prints all."""


def show_program(file: Path, json_: bool) -> None:
    """Print a compiled program. Raises what `load` raises."""
    from rsso_dspy.optimize.program_file import FILE, compare_states, load
    from rsso_dspy.programs.agent import Agent

    compiled = load(file)
    if json_:
        print_json(FILE.dump_python(compiled, mode="json"))
        return
    print_paragraph(str(file), bold=True)
    for line in _describe_origin(file, compiled):
        print_paragraph(line)
    _print_candidates(compiled)
    for role in compare_states(Agent(compiled.method).dump_state(), compiled.chosen_state):
        _print_role(role)


def describe_compile(compiled: "Compiled") -> Iterator[str]:
    """Yield what a compile found and took, a line each; scores are on the scale of 0 to 100."""
    from rsso_dspy.optimize.program_file import describe_noise, describe_verdict
    from rsso_dspy.records import RULE_BASED_NOTE, ZERO_SHOT

    before, after = compiled.before, compiled.after
    start = "the zero-shot program" if compiled.start == ZERO_SHOT else "the program it started from"
    if before is None or after is None:
        scores = f"the budget ended before {start} was scored"
    elif compiled.improved or compiled.candidate:
        scores = f"metric {100 * before.metric:.1f} -> {100 * after.metric:.1f}, Mean {before.mean:.1f} -> "
        scores += f"{after.mean:.1f}"
    else:
        scores = f"nothing better than {start} was found (metric {100 * before.metric:.1f}, Mean {before.mean:.1f})"
    yield (
        f"{compiled.method}, {compiled.optimizer}: {scores}, on {format_plural(compiled.val, 'val variant')}; "
        f"{format_plural(compiled.tried, 'program')} compared; the search ended: {compiled.search_end}"
    )
    yield describe_verdict(compiled)
    yield from describe_noise(compiled)
    yield (
        f"spent: {compiled.rollouts} of {compiled.max_rollouts} rollouts, "
        f"{describe_spending(compiled.usage, calls=compiled.lm_calls)}; a rollout is {compiled.trials} trials of "
        f"{compiled.steps} steps at most"
    )
    if compiled.abandoned:
        yield f"attempts that were cut short cost more: {describe_spending(compiled.abandoned)}"
    if compiled.improved or compiled.candidate:
        yield f"{'changed' if compiled.improved else 'the candidate changes'}: {', '.join(compiled.changes)}"
    if not compiled.improved:
        beside = "the candidate beside it, which plays only by evaluate --candidate" if compiled.candidate else ""
        yield f"The file holds {start}{', and ' * bool(beside)}{beside or ', marked as such'}."
    yield from (f"note: {note}" for note in compiled.notes)
    if compiled.rule_based:
        yield RULE_BASED_NOTE


def _describe_origin(file: Path, compiled: "Compiled") -> Iterator[str]:
    """Yield how the program was made: what came of it, variants, models and protocol, a line each."""
    if compiled.is_made_elsewhere:
        yield f"{compiled.method}, made from an agent"
        yield (
            "It was not scored or confirmed here; to compare it with the zero-shot program on held-out variants, use "
            f"{format_command('evaluate', file)}"
        )
        yield f"differs from the zero-shot program in: {', '.join(compiled.changes) or 'nothing'}"
        yield from (f"note: {note}" for note in compiled.notes)
    else:
        yield from describe_compile(compiled)
        taught = f"; teacher: {compiled.teacher}" if compiled.teacher else ""
        yield f"model: {compiled.model}; proposer: {compiled.proposer}{taught}"
        yield f"protocol: {compiled.protocol}, seed {compiled.seed}"
    parts = {"train": (*compiled.train, *compiled.fresh), "val": compiled.val, "confirm": compiled.confirm}
    yield from (f"{part}, {format_plural(keys, 'variant')}: {', '.join(keys)}" for part, keys in parts.items() if keys)
    if of := compiled.environment:
        yield f"benchmark: {of.name} {of.version}" + (f", simplification {of.simplification}" * bool(of.simplification))


def _print_candidates(compiled: "Compiled") -> None:
    """Print all programs that were compared."""
    candidates = compiled.tried
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


def _print_role(role: "RoleDifference") -> None:
    """Print the instruction of one role, sentence by sentence where it differs from the zero-shot one, and its
    demonstrations."""
    echo()
    print_paragraph(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}", bold=True)
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
