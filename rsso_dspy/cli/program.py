"""`rsso-dspy program`: show a compiled program, compare two programs, check a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.program_diff import show_difference
from rsso_dspy.cli.program_show import show_candidates, show_origin, show_role
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.errors import SplitError, UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.program_checks import ProgramCheck
    from rsso_dspy.optimize.program_comparison import ProgramSide

app = typer.Typer(help="Show a compiled program, compare two, check a file.", no_args_is_help=True)


ProgramFile = Annotated[Path, typer.Argument(metavar="FILE", help="Compiled program.")]
ProgramName = Annotated[str, typer.Argument(metavar="PROGRAM", help="Compiled program, or zero-shot.")]
Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]


@app.command()
def show(
    file: ProgramFile,
    json_: Json = False,
) -> None:
    """Print a compiled program: how it was made, the candidates that were compared, and its prompts by role."""
    from rsso_dspy.optimize.description import describe_program
    from rsso_dspy.optimize.program_file import load

    found = describe_program(load(file))
    if json_:
        print_json(found.to_json_data())
        return
    show_origin(file, found.compiled, found.protocol)
    show_candidates(found.candidates, found.compiled.val)
    for role in found.roles.values():
        show_role(role)


@app.command()
def diff(a: ProgramName, b: ProgramName, json_: Json = False) -> None:
    """Print the differences between two programs, role by role. One of them may be zero-shot."""
    from dataclasses import asdict

    from rsso_dspy.optimize.program_comparison import compare_programs

    ours, theirs = _load_sides(a, b)
    found = compare_programs(ours, theirs)
    if json_:
        sides = {
            "a": {"program": ours.name, "method": ours.method},
            "b": {"program": theirs.name, "method": theirs.method},
        }
        print_json(
            {**sides, "same": not any(role.changed for role in found), "roles": [asdict(role) for role in found]}
        )
        return
    print_paragraph(f"- {ours.name}, {ours.method}", bold=True)
    print_paragraph(f"+ {theirs.name}, {theirs.method}", bold=True)
    for role in found:
        show_difference(role, ours.name, theirs.name)
    if same := [role.name for role in found if not role.changed]:
        echo()
        print_paragraph(f"unchanged roles: {', '.join(same)}")


@app.command()
def validate(file: ProgramFile, json_: Json = False) -> None:
    """Check a compiled file and print each check with its result. The exit code is 1 when a check fails."""
    found = _check_program_file(file)
    valid = not any(check.problem for check in found)
    if json_:
        rows = [
            {"check": c.what, "ok": None if c.problem is None else not c.problem, **_list_remarks(c)} for c in found
        ]
        print_json({"file": str(file), "valid": valid, "checks": rows})
    else:
        for check in found:
            mark = "not checked" if check.problem is None else "wrong" if check.problem else "ok"
            print_paragraph(f"{mark}: {check.what}", color="red" if check.problem else None)
            for text in _list_remarks(check).values():
                print_paragraph(text, "    ")
        print_paragraph(f"{file} {'is valid' if valid else 'is not valid: do not use it as it is'}", bold=True)
    if not valid:
        raise typer.Exit(1)


def _list_remarks(check: "ProgramCheck") -> dict[str, str]:
    return {key: text for key, text in (("problem", check.problem), ("note", check.note)) if text}


def _check_program_file(file: Path) -> "list[ProgramCheck]":
    """Return all checks, those of `load` first. When `load` fails, the others are not checked."""
    from rsso_dspy.optimize.program_checks import CHECKS, ProgramCheck, check_program
    from rsso_dspy.optimize.program_file import load

    whole = "the file is complete, its version can be read, it fits the signatures, and its prompts are those scored"
    split = "no calibration variant is held-out"
    try:
        compiled = load(file)
    except SplitError as error:
        return [ProgramCheck(split, str(error)), *(ProgramCheck(what, None) for what in (whole, *CHECKS))]
    except UsageError as error:
        if not file.is_file():
            raise
        return [ProgramCheck(whole, str(error)), *(ProgramCheck(what, None) for what in (split, *CHECKS))]
    return [ProgramCheck(whole), ProgramCheck(split), *check_program(compiled)]


def _load_sides(a: str, b: str) -> "tuple[ProgramSide, ProgramSide]":
    from rsso_dspy.optimize.program_comparison import build_side
    from rsso_dspy.optimize.program_file import load
    from rsso_dspy.records import ZERO_SHOT

    if a == b == ZERO_SHOT:
        raise UsageError(f"{ZERO_SHOT} alone names no method; give a compiled file as one of the two programs")
    ours, theirs = (None if text == ZERO_SHOT else load(text) for text in (a, b))
    method = next(compiled.method for compiled in (ours, theirs) if compiled)
    return build_side(ours, a, method), build_side(theirs, b, method)
