"""`rsso-dspy skills`: extract skills without a model, show the library of a unit, export it to a file."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rsso_dspy.cli.options import Json, Overrides, build_config, complete_units, format_plural, print_status
from rsso_dspy.cli.show import print_left_out_files
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path

app = typer.Typer(help="Skill libraries: build one offline, show or export that of a unit.", no_args_is_help=True)

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")]
UnitKey = Annotated[
    str,
    typer.Argument(
        metavar="TASK::VARIANT",
        help="Variant, e.g. find-plant::228, or TASK for a training.",
        autocompletion=complete_units,
    ),
]
SkillArm = Annotated[str | None, typer.Option(help="Arm (default: the first with skills).")]


@app.command()
def build(
    file: Annotated[Path, typer.Argument(metavar="TRAJECTORIES", help="File of trajectories; see below.")],
    case: Annotated[int | None, typer.Option(min=1, help="Which case of a file with `cases`.")] = None,
    protocol: Annotated[
        str, typer.Option(help="sso-adapt/1 (the paper) or release (the published code), or another protocol.")
    ] = "sso-adapt/1",
    json_: Json = False,
    set_: Overrides = None,
) -> None:
    """Build a library from trajectories; --json prints every step of the extraction.

    No model is used: skills are described by the words of their examples. --set memory.skills.max_window=4 and the
    like change the extraction, --set embedder.model=hash the embedder.

    The file is a list of trajectories, {"trajectories": [...]}, {"cases": [{"trajectories": [...]}]}, or a
    unit of a run (RUN/units/ARM/TASK/VARIANT-sSEED.jsonl). A trajectory is a list of states
    {"description", "action", "reward"}: the whole state as one text, the action that led to it, and its reward as a
    share of 1.
    """
    from rsso_dspy.embed import Embedder
    from rsso_dspy.memory_files import build_library, read_trajectories
    from rsso_dspy.protocol import resolve_protocol

    config = build_config(None, set_, None, protocol__preset=protocol)
    settings = resolve_protocol(config).skills
    trajectories = read_trajectories(file, case)
    embed = Embedder(config.embedder)
    embed.check()
    built = build_library(trajectories, embed, settings)
    if settings.feedback and any(step.subgoal for trajectory in trajectories for step in trajectory.steps):
        print_status("feedback: recorded subgoals use the words of their run; they count only if the words are equal")
    if json_:
        print_json({"embedder": embed.model, "settings": asdict(settings), **built})
        return
    for number, (trajectory, update) in enumerate(zip(trajectories, built["after_each"], strict=True), start=1):
        echo(
            f"Trajectory {number}: {len(trajectory.states)} states, {trajectory.accumulator} points gained; "
            f"{len(update['candidates'])} candidates, {len(update['pool'])} in the pool, "
            f"{len(update['selected'])} selected"
        )
    echo(f"Library: {format_plural(built['library'], 'skill')}, described by their examples", bold=True)
    for number, skill in enumerate(built["library"], start=1):
        _print_skill(number, skill)


@app.command()
def show(run: RunFolder, unit: UnitKey, arm: SkillArm = None, json_: Json = False) -> None:
    """Print a unit's skills with their examples, scores, use in prompts, and results.

    `rsso-dspy show RUN UNIT --prompts` prints the skills that each step was shown.
    """
    from rsso_dspy.memory_files import load_skill_source
    from rsso_dspy.records import RULE_BASED_NOTE
    from rsso_dspy.report.tables import format_ranges

    source = load_skill_source(run, unit, arm, print_left_out_files)
    record = source.record
    library, retired = ([each for each in source.accounts if each["in_use"] is wanted] for wanted in (True, False))
    if json_:
        names = ("start", "arm", "seed", "protocol", "model", "rule_based")
        about = {"unit": record.key, **{name: getattr(record, name) for name in names}, "embedder": source.embedder}
        learnt = {"trials": len(record.trials), "learnt_from": source.learnt_from}
        print_json({**about, **learnt, "library": library, "retired": retired})
        return
    echo(f"{record.key}  {record.arm}  seed {record.seed}", bold=True)
    print_paragraph(f"{record.protocol}, {record.model}")
    if record.rule_based:
        print_paragraph(RULE_BASED_NOTE)
    learnt_from = ", ".join(format_ranges(source.learnt_from, least=2)) or "none"
    print_paragraph(
        f"Library after trial {len(record.trials)}: {format_plural(library, 'skill')}, learned from trials: "
        f"{learnt_from}. Use is counted over all trials."
    )
    if record.start:
        print_paragraph(f"It started from: {record.start}; examples may come from trials there.")
    if not library:
        print_paragraph("It is empty: a skill needs two trials that gained points in similar ways.")
    for number, skill in enumerate(library, start=1):
        _print_skill(number, skill)
        _print_skill_history(skill)
    if retired:
        echo("\nNo longer in use:")
    for skill in retired:
        print_paragraph(f"- {skill['name']}: {_describe_use(skill)}", "  ")


def _print_skill(number: int, skill: dict[str, Any]) -> None:
    """Print name, target and instructions of a skill."""
    echo()
    print_paragraph(f"{number}. {skill['name']}  ({skill['id']})", bold=True)
    print_paragraph(f"target: {skill['target']}", "   ")
    for index, instruction in enumerate(skill["instructions"], start=1):
        print_paragraph(f"{index}. {instruction}", "   ")


def _print_skill_history(skill: dict[str, Any]) -> None:
    """Print score, use and examples of a skill."""
    terms = dict(skill["scores"])
    total = terms.pop("total")
    print_paragraph(f"score {total:.3f}: " + ", ".join(f"{name} {value:.3f}" for name, value in terms.items()), "   ")
    print_paragraph(_describe_use(skill), "   ")
    for pursuit in skill["pursuits"]:
        print_paragraph(
            f"trial {pursuit['trial']}, from step {pursuit['first']} on: +{pursuit['gained']} points, "
            f"{pursuit['outcome']}",
            "   ",
        )
    for example in skill["examples"]:
        echo(f"   example: trial {example['trial']}, steps {example['first']} to {example['last']}")
        for at, (action, points) in enumerate(zip(example["actions"], example["points"], strict=True)):
            gain = f"  {points:+d}" if points else ""
            print_paragraph(f"{example['first'] + at:3d} > {action or '(malformed answer)'}{gain}", "     ")


def _describe_use(skill: dict[str, Any]) -> str:
    return f"in the prompt of {skill['retrieved']} steps, pursued at {skill['targeted']}"


@app.command()
def export(
    run: RunFolder,
    unit: UnitKey,
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write; with --format skill, the folder NAME.")],
    arm: SkillArm = None,
    format_: Annotated[
        str, typer.Option("--format", help="library (a JSON file) or skill (a folder of the Agent Skills format).")
    ] = "library",
) -> None:
    """Write a unit's library and its provenance into one JSON file, or into a folder of the Agent Skills format.

    From Python, `rsso_dspy.memory.skills.load_library` restores the file.
    """
    from rsso_dspy.memory_files import LIBRARY, export_library, export_skill_folder, load_skill_source

    if format_ not in ("library", "skill"):
        raise UnknownName("format", format_, ("library", "skill"))
    if format_ == "library":
        if out.is_dir():
            raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'skills.json'}")
        check_output_path(out, kind=LIBRARY)
    source = load_skill_source(run, unit, arm, print_left_out_files)
    if format_ == "skill":
        out = export_skill_folder(source, out)
    else:
        atomic_write_text(out, export_library(source).to_json())
    echo(f"{out}: {format_plural(source.held.library, 'skill')} of {unit}, {source.record.arm}, from {run}")
