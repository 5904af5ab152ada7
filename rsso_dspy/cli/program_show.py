"""A compiled program in words: where it came from, what was compared, what it says in each role."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.cli.options import count
from rsso_dspy.cli.prose import WIDE, echo, paragraph, side_by_side, title, width
from rsso_dspy.report.terminal import visible

if TYPE_CHECKING:
    from rich.text import Text

    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.optimize.describe import Candidate, Role

ABRIDGED = 160
"""Characters of a demonstration's field that are printed; `--json` has all of them."""

_ENDED = {
    None: "the optimizer came to its end",
    "rollouts": "the rollouts were spent",
    "lm-calls": "the model calls were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}


def show_origin(file: Path, found: "Compiled", protocol: str) -> None:
    """Where it came from: what it was compiled with, on, and at what expense."""
    from dataclasses import astuple

    from rsso_dspy.trajectory import RULE_BASED_NOTE

    paragraph(f"{file}: {found.method}, compiled by {found.optimizer}", bold=True)
    before, after = found.before, found.after
    if before is None or after is None:
        paragraph("It ended before the zero-shot program was scored, and holds that one.")
    elif found.improved:
        paragraph(f"metric {before.metric:.3f} -> {after.metric:.3f}, Mean {before.mean:.2f} -> {after.mean:.2f}")
    else:
        paragraph(
            f"Nothing better was found: it holds the zero-shot program (metric {before.metric:.3f}, "
            f"Mean {before.mean:.2f})."
        )
    paragraph(f"learnt from {count(found.learn, 'variant')}: {', '.join(found.learn)}")
    paragraph(f"chosen by {count(found.choose, 'variant')}: {', '.join(found.choose)}")
    paragraph(
        f"rollouts: {found.rollouts} of {found.max_rollouts}, each {found.trials} trials of {found.steps} steps at "
        f"most; {_ENDED[found.ended_by]}"
    )
    calls = f" of {found.max_lm_calls:,}" if found.max_lm_calls is not None else ""
    paragraph(f"model calls: {found.lm_calls:,}{calls}; tokens: {_tokens(found.usage.values())}")
    for role, usage in found.usage.items():
        paragraph(f"{role}: {usage.calls:,} calls, {_tokens([usage])}", "  ")
    if found.abandoned:
        calls = f"{sum(usage.calls for usage in found.abandoned.values()):,} calls"
        paragraph(f"besides, attempts that were cut short: {calls}; tokens: {_tokens(found.abandoned.values())}")
    paragraph(f"model: {found.model}; proposer: {found.proposer}")
    if found.environment is not None:
        name, version, easier = astuple(found.environment)
        paragraph(f"protocol: {protocol}, seed {found.seed}, {name} {version}, simplification {easier or 'none'}")
    for note in found.notes:
        paragraph(f"note: {note}")
    if found.rule_based:
        paragraph(RULE_BASED_NOTE)


def _tokens(usages: Iterable[Any]) -> str:
    both = [(usage.input, usage.output) for usage in usages]
    return f"{sum(given for given, _ in both):,} in, {sum(said for _, said in both):,} out"


def show_candidates(candidates: "Sequence[Candidate]", choose: Sequence[str]) -> None:
    """All programs that were compared, then their scores variant by variant where the file holds them."""
    title(f"{count(candidates, 'program')} compared, on the variants to choose by")
    if candidates:
        echo(f"{'#':>3} {'program':<12} metric   Mean")
    for number, each in enumerate(candidates):
        marks = [name for name, there in (("zero-shot", each.zero_shot), ("chosen", each.chosen)) if there]
        line = f"{number:3d} {visible(each.program)[:12]:<12} {each.metric:6.3f} {each.mean:6.2f} {', '.join(marks)}"
        echo(line.rstrip())
    if not any(each.per_variant for each in candidates):
        return
    keys = dict.fromkeys([*choose, *(key for each in candidates for key in each.per_variant)])
    title("Metric per calibration variant; * to choose by")
    _scores({f"{'*' if key in choose else ' '}{key}": [c.per_variant.get(key) for c in candidates] for key in keys})


def _scores(rows: Mapping[str, Sequence[float | None]]) -> None:
    """Rows of numbers under the candidates' numbers; in blocks of columns, and with names on lines of their own, where
    they would be wider than the terminal."""
    names = max(map(len, rows))
    narrow = names + 7 > width()
    room = max(1, (width() - (2 if narrow else names)) // 7)
    columns = max(map(len, rows.values()))
    for first in range(0, columns, room):
        here = range(first, min(first + room, columns))
        echo(" " * (2 if narrow else names) + "".join(f"{f'#{number}':>7}" for number in here))
        for name, scores in rows.items():
            cells = "".join("      -" if scores[n] is None else f"{scores[n]:7.3f}" for n in here)
            if narrow:
                echo("\n".join(visible(name)[at : at + width()] for at in range(0, len(name), width())))
            echo(("  " if narrow else f"{visible(name):<{names}}") + cells)


def show_role(role: "Role") -> None:
    """What it says in one role, beside the zero-shot prompt where they differ."""
    title(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}")
    if not role.changed or role.instruction == role.zero_shot:
        _paragraphs(role.instruction)
    elif width() >= WIDE:
        side_by_side("zero-shot", "compiled", [(_cell(role.zero_shot), _cell(role.instruction))])
    else:
        for name, text in (("zero-shot", role.zero_shot), ("compiled", role.instruction)):
            echo(f"  {name}:", bold=True)
            _paragraphs(text, "    ")
    if role.fields:
        paragraph(f"other words of the fields: {', '.join(role.fields)}", "  ")
    for number, demo in enumerate(role.demonstrations, start=1):
        show_demonstration(f"demonstration {number} of {len(role.demonstrations)}", demo)


def _paragraphs(instruction: str, indent: str = "  ") -> None:
    from rsso_dspy.optimize.describe import paragraphs

    for part in paragraphs(instruction) or ["(empty)"]:
        paragraph(part, indent)


def _cell(instruction: str) -> "Text":
    from rich.text import Text

    from rsso_dspy.optimize.describe import paragraphs

    return Text(visible("\n".join(paragraphs(instruction))))


def show_demonstration(title: str, demo: Mapping[str, str]) -> None:
    """One demonstration, field by field; long ones abridged."""
    paragraph(title, "  ", bold=True)
    for field, text in demo.items():
        flat = " ".join(text.split())
        cut = f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)" if len(flat) > ABRIDGED else flat
        paragraph(f"{field}: {cut}", "    ")
