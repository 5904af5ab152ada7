"""`rsso-dspy program`: look at a compiled program, at what two of them say differently, and whether a file is sound."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.program_diff import show_difference
from rsso_dspy.cli.program_show import show_candidates, show_origin, show_role
from rsso_dspy.cli.prose import echo, paragraph, print_json
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.whole import check_place

if TYPE_CHECKING:
    from rsso_dspy.optimize.describe import Check, Side

app = typer.Typer(help="Compiled programs: read one, compare two, check a file.", no_args_is_help=True)


File = Annotated[Path, typer.Argument(metavar="FILE", help="Compiled program.")]
Program = Annotated[str, typer.Argument(metavar="PROGRAM", help="Compiled program, or zero-shot.")]
Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]


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
    from rsso_dspy.report.figures import PICTURE, save

    found = describe(load(file))
    if figure is not None:
        check_place(figure, "--figure", PICTURE)
        figure.parent.mkdir(parents=True, exist_ok=True)
        save(figure_of(found, file.name), figure)
        echo(f"figure: {figure}", err=True)
    if json_:
        print_json(found.data())
        return
    show_origin(file, found.compiled, found.protocol)
    show_candidates(found.candidates, found.compiled.choose)
    for role in found.roles.values():
        show_role(role)


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
        print_json(
            {**sides, "same": not any(role.changed for role in found), "roles": [asdict(role) for role in found]}
        )
        return
    paragraph(f"- {ours.name}, {ours.method}", bold=True)
    paragraph(f"+ {theirs.name}, {theirs.method}", bold=True)
    for role in found:
        show_difference(role, ours.name, theirs.name)
    if same := [role.name for role in found if not role.changed]:
        echo()
        paragraph(f"the same: {', '.join(same)}")


@app.command()
def validate(file: File, json_: Json = False) -> None:
    """Check a compiled file, and say what is checked. Exit code 1 when something is wrong."""
    found = _checked(file)
    valid = not any(check.problem for check in found)
    if json_:
        rows = [{"check": c.what, "ok": None if c.problem is None else not c.problem, **_said(c)} for c in found]
        print_json({"file": str(file), "valid": valid, "checks": rows})
    else:
        for check in found:
            mark = "not checked" if check.problem is None else "wrong" if check.problem else "ok"
            paragraph(f"{mark}: {check.what}", color="red" if check.problem else None)
            for text in _said(check).values():
                paragraph(text, "    ")
        paragraph(f"{file} {'is sound' if valid else 'is not to be used as it is'}", bold=True)
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
