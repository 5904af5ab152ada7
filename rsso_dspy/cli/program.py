"""`rsso-dspy program`: look at a compiled program, at what two of them say differently, and whether a file is sound."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.cli.options import count
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.report.terminal import visible

if TYPE_CHECKING:
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.optimize.describe import Candidate, Check, Role, RoleDifference, Row, Side

app = typer.Typer(help="Compiled programs: read one, compare two, check a file.", no_args_is_help=True)

WIDE = 100
"""Columns from which on two texts stand side by side."""
ABRIDGED = 160
"""Characters of a demonstration's field that are printed; `--json` has all of them."""

File = Annotated[Path, typer.Argument(metavar="FILE", help="Compiled program.")]
Program = Annotated[str, typer.Argument(metavar="PROGRAM", help="Compiled program, or zero-shot.")]
Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]

_ENDED = {
    None: "the optimizer came to its end",
    "rollouts": "the rollouts were spent",
    "lm-calls": "the model calls were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}


@app.command()
def show(
    file: File,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the candidates and their scores into this .svg or .png, too.")
    ] = None,
    json_: Json = False,
) -> None:
    """Print a compiled program: where it came from, what was compared, what it says in each role."""
    from rsso_dspy.cli.candidates import figure_of
    from rsso_dspy.optimize.compiled import load
    from rsso_dspy.optimize.describe import describe
    from rsso_dspy.report.figures import save

    found = describe(load(file))
    if figure is not None:
        save(figure_of(found, file.name), figure)
        typer.echo(f"figure: {figure}", err=True)
    if json_:
        _json(found.data())
        return
    _origin(file, found.compiled, found.protocol)
    _compared(found.candidates, found.compiled.choose)
    for role in found.roles.values():
        _role(role)


@app.command()
def diff(a: Program, b: Program, json_: Json = False) -> None:
    """Print what changes from one program to another, role by role. One of them may be zero-shot."""
    from dataclasses import asdict

    from rsso_dspy.optimize.describe import compare

    ours, theirs = _sides(a, b)
    found = compare(ours, theirs)
    if json_:
        sides = {
            "a": {"program": ours.name, "method": ours.method},
            "b": {"program": theirs.name, "method": theirs.method},
        }
        _json({**sides, "same": not any(role.changed for role in found), "roles": [asdict(role) for role in found]})
        return
    _wrapped(f"- {ours.name}, {ours.method}", bold=True)
    _wrapped(f"+ {theirs.name}, {theirs.method}", bold=True)
    for role in found:
        _role_difference(role, ours.name, theirs.name)
    if same := [role.name for role in found if not role.changed]:
        typer.echo()
        _wrapped(f"the same: {', '.join(same)}")


@app.command()
def validate(file: File, json_: Json = False) -> None:
    """Check a compiled file, and say what is checked. Exit code 1 when something is wrong."""
    found = _checked(file)
    valid = not any(check.problem for check in found)
    if json_:
        rows = [{"check": c.what, "ok": None if c.problem is None else not c.problem, **_said(c)} for c in found]
        _json({"file": str(file), "valid": valid, "checks": rows})
    else:
        for check in found:
            mark = "not checked" if check.problem is None else "wrong" if check.problem else "ok"
            _wrapped(f"{mark}: {check.what}", color="red" if check.problem else None)
            for text in _said(check).values():
                _wrapped(text, "    ")
        _wrapped(f"{file} {'is sound' if valid else 'is not to be used as it is'}", bold=True)
    if not valid:
        raise typer.Exit(1)


def _said(check: "Check") -> dict[str, str]:
    return {key: text for key, text in (("problem", check.problem), ("note", check.note)) if text}


def _checked(file: Path) -> "list[Check]":
    """All checks; those of `load` first, which after a failure leave nothing to look at."""
    from rsso_dspy.optimize.compiled import load
    from rsso_dspy.optimize.describe import CHECKS, Check, checks

    whole = "it is whole, of this version, fits the signatures here, and its prompts are those that were scored"
    split = "its calibration holds no held-out variant"
    try:
        compiled = load(file)
    except SplitError as error:
        return [Check(split, str(error)), *(Check(what, None) for what in (whole, *CHECKS))]
    except UsageError as error:
        if not file.is_file():
            raise
        return [Check(whole, str(error)), *(Check(what, None) for what in (split, *CHECKS))]
    return [Check(whole), Check(split), *checks(compiled)]


def _sides(a: str, b: str) -> "tuple[Side, Side]":
    from rsso_dspy.optimize.compiled import load
    from rsso_dspy.optimize.describe import side
    from rsso_dspy.trajectory import ZERO_SHOT

    if a == b == ZERO_SHOT:
        raise UsageError(
            f"{ZERO_SHOT} is whatever the other program's method starts from; name a compiled file as well"
        )
    ours, theirs = (None if text == ZERO_SHOT else load(text) for text in (a, b))
    method = next(compiled.method for compiled in (ours, theirs) if compiled)
    return side(ours, a, method), side(theirs, b, method)


# show


def _origin(file: Path, found: "Compiled", protocol: str) -> None:
    from dataclasses import astuple

    from rsso_dspy.trajectory import RULE_BASED_NOTE

    _wrapped(f"{file}: {found.method}, compiled by {found.optimizer}", bold=True)
    before, after = found.before, found.after
    if before is None or after is None:
        _wrapped("It ended before the zero-shot program was scored, and holds that one.")
    elif found.improved:
        _wrapped(f"metric {before.metric:.3f} -> {after.metric:.3f}, Mean {before.mean:.2f} -> {after.mean:.2f}")
    else:
        _wrapped(
            f"Nothing better was found: it holds the zero-shot program (metric {before.metric:.3f}, "
            f"Mean {before.mean:.2f})."
        )
    _wrapped(f"learnt from {count(found.learn, 'variant')}: {', '.join(found.learn)}")
    _wrapped(f"chosen by {count(found.choose, 'variant')}: {', '.join(found.choose)}")
    _wrapped(
        f"rollouts: {found.rollouts} of {found.max_rollouts}, each {found.trials} trials of {found.steps} steps at "
        f"most; {_ENDED[found.ended_by]}"
    )
    calls = f" of {found.max_lm_calls:,}" if found.max_lm_calls is not None else ""
    _wrapped(f"model calls: {found.lm_calls:,}{calls}; tokens: {_tokens(found.usage.values())}")
    for role, usage in found.usage.items():
        _wrapped(f"{role}: {usage.calls:,} calls, {_tokens([usage])}", "  ")
    _wrapped(f"model: {found.model}; proposer: {found.proposer}")
    name, version, easier = astuple(found.environment)
    _wrapped(f"protocol: {protocol}, seed {found.seed}, {name} {version}, simplification {easier or 'none'}")
    for note in found.notes:
        _wrapped(f"note: {note}")
    if found.rule_based:
        _wrapped(RULE_BASED_NOTE)


def _tokens(usages: Iterable[Any]) -> str:
    both = [(usage.input, usage.output) for usage in usages]
    return f"{sum(given for given, _ in both):,} in, {sum(said for _, said in both):,} out"


def _compared(candidates: "Sequence[Candidate]", choose: Sequence[str]) -> None:
    """All programs that were compared, then their scores variant by variant where the file holds them."""
    _title(f"{count(candidates, 'program')} compared, on the variants to choose by")
    if candidates:
        typer.echo(f"{'#':>3} {'program':<12} metric   Mean")
    for number, each in enumerate(candidates):
        marks = [name for name, there in (("zero-shot", each.zero_shot), ("chosen", each.chosen)) if there]
        line = f"{number:3d} {visible(each.program)[:12]:<12} {each.metric:6.3f} {each.mean:6.2f} {', '.join(marks)}"
        typer.echo(line.rstrip())
    if not any(each.per_variant for each in candidates):
        return
    keys = dict.fromkeys([*choose, *(key for each in candidates for key in each.per_variant)])
    _title("Metric per calibration variant; * to choose by")
    _scores({f"{'*' if key in choose else ' '}{key}": [c.per_variant.get(key) for c in candidates] for key in keys})


def _scores(rows: Mapping[str, Sequence[float | None]]) -> None:
    """Rows of numbers under the candidates' numbers; in blocks of columns, and with names on lines of their own, where
    they would be wider than the terminal."""
    names = max(map(len, rows))
    narrow = names + 7 > _width()
    room = max(1, (_width() - (2 if narrow else names)) // 7)
    columns = max(map(len, rows.values()))
    for first in range(0, columns, room):
        here = range(first, min(first + room, columns))
        typer.echo(" " * (2 if narrow else names) + "".join(f"{f'#{number}':>7}" for number in here))
        for name, scores in rows.items():
            cells = "".join("      -" if scores[n] is None else f"{scores[n]:7.3f}" for n in here)
            if narrow:
                typer.echo("\n".join(visible(name)[at : at + _width()] for at in range(0, len(name), _width())))
            typer.echo(("  " if narrow else f"{visible(name):<{names}}") + cells)


def _role(role: "Role") -> None:
    _title(f"{role.name}: {'changed' if role.changed else 'the zero-shot instruction'}")
    if not role.changed or role.instruction == role.zero_shot:
        _paragraphs(role.instruction)
    elif _width() >= WIDE:
        _beside("zero-shot", _cell(role.zero_shot), "compiled", _cell(role.instruction))
    else:
        for name, text in (("zero-shot", role.zero_shot), ("compiled", role.instruction)):
            typer.secho(f"  {name}:", bold=True)
            _paragraphs(text, "    ")
    if role.fields:
        _wrapped(f"other words of the fields: {', '.join(role.fields)}", "  ")
    for number, demo in enumerate(role.demonstrations, start=1):
        _demonstration(f"demonstration {number} of {len(role.demonstrations)}", demo)


def _demonstration(title: str, demo: Mapping[str, str]) -> None:
    _wrapped(title, "  ", bold=True)
    for field, text in demo.items():
        flat = " ".join(text.split())
        cut = f"{flat[:ABRIDGED].rstrip()} ... ({len(text):,} characters)" if len(flat) > ABRIDGED else flat
        _wrapped(f"{field}: {cut}", "    ")


# diff


def _role_difference(role: "RoleDifference", ours: str, theirs: str) -> None:
    if not role.changed:
        return
    _title(role.name)
    if any(row.op != "same" for row in role.rows):
        _side_by_side(role.rows, ours, theirs) if _terminal() and _width() >= WIDE else _unified(role.rows)
    elif role.respaced:
        _wrapped("the same words, with other spaces or line breaks", "  ")
    if role.fields:
        _wrapped(f"other words of the fields: {', '.join(role.fields)}", "  ")
    for sign, demos in (("-", role.removed), ("+", role.added)):
        for demo in demos:
            _demonstration(f"{sign} demonstration", demo)
    if role.kept:
        _wrapped(f"{role.kept} of the demonstrations {'is' if role.kept == 1 else 'are'} in both", "  ")


def _unified(rows: "Sequence[Row]") -> None:
    """Sentences with a sign before each; of those that stayed, the number."""
    same = 0
    for row in [*rows, None]:
        if row is not None and row.op == "same":
            same += 1
            continue
        if same:
            _wrapped(f"... {same} {'sentence' if same == 1 else 'sentences'} the same", "  ")
            same = 0
        if row is not None and row.a:
            _wrapped(f"- {row.a}", "  ", color="red")
        if row is not None and row.b:
            _wrapped(f"+ {row.b}", "  ", color="green")


def _side_by_side(rows: "Sequence[Row]", ours: str, theirs: str) -> None:
    """Sentences next to each other; of those that changed, the words that did are marked."""
    from rich.text import Text

    styles = {"same": "", "removed": "bold red strike", "added": "bold green"}
    pairs = []
    for row in rows:
        words = row.words or ((row.op, row.a or row.b),)
        left, right = (
            Text(" ").join(Text(visible(text), styles[op]) for op, text in words if op != hidden)
            for hidden in ("added", "removed")
        )
        pairs.append((left, right))
    _table(ours, theirs, pairs)


def _beside(a: str, left: Any, b: str, right: Any) -> None:
    _table(a, b, [(left, right)])


def _table(a: str, b: str, rows: Iterable[tuple[Any, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2), expand=True)
    for name in (a, b):
        table.add_column(Text(visible(name)), ratio=1, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(width=_width(), highlight=False)
    with console.capture() as printed:
        console.print(table)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=console.is_terminal or None)


def _cell(instruction: str) -> Any:
    from rich.text import Text

    from rsso_dspy.optimize.describe import paragraphs

    return Text(visible("\n".join(paragraphs(instruction))))


# Text


def _json(data: Any) -> None:
    import json

    typer.echo(json.dumps(data, indent=1, ensure_ascii=False))


def _title(text: str) -> None:
    typer.echo()
    _wrapped(text, bold=True)


def _paragraphs(instruction: str, indent: str = "  ") -> None:
    from rsso_dspy.optimize.describe import paragraphs

    for part in paragraphs(instruction) or ["(empty)"]:
        _wrapped(part, indent)


def _wrapped(text: str, indent: str = "", bold: bool | None = None, color: str | None = None) -> None:
    """A paragraph, no wider than the terminal."""
    from textwrap import fill

    lines = fill(
        visible(text), _width(), initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False
    )
    typer.secho(lines, bold=bold, fg=color)


def _width() -> int:
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 30)


def _terminal() -> bool:
    from rich.console import Console

    return Console().is_terminal
