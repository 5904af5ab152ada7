"""`rsso-dspy skills`: extract skills without a model, show the library of a unit, export it to a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.bounds import MOST_STATES, MOST_TRIALS
from rsso_dspy.cli.option_groups import complete_units
from rsso_dspy.cli.options import Json, format_plural, print_status
from rsso_dspy.cli.run_folders import print_left_out_files
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.errors import UsageError
from rsso_dspy.files import check_output_path

if TYPE_CHECKING:
    from rsso_dspy.experiment.skill_libraries import SkillSource

app = typer.Typer(help="Skill libraries: build one offline, show or export that of a unit.", no_args_is_help=True)

ROWS = 12
"""Maximum number of printed candidates; `--json` prints all."""

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
    preset: Annotated[str, typer.Option(help="sso-adapt/1 (the paper) or release (the published code).")] = (
        "sso-adapt/1"
    ),
    embedder: Annotated[
        str | None,
        typer.Option(
            help="Embedder, as in embedder.model: a sentence-transformers model, numpy/NAME, lexical, hash, ..."
        ),
    ] = None,
    extraction: Annotated[str | None, typer.Option(help="Windows: sliding or reward-boundary.")] = None,
    pairs: Annotated[
        str | None, typer.Option(help="Pairs: across-trials, or any (windows of one long trajectory may make a skill).")
    ] = None,
    max_window: Annotated[
        int | None, typer.Option(min=2, max=MOST_STATES, help="Maximum number of states in a window.")
    ] = None,
    feedback: Annotated[
        bool | None, typer.Option("--feedback/--no-feedback", help="Include the results of using a skill in its score.")
    ] = None,
    beams: Annotated[
        int | None, typer.Option(min=1, max=MOST_STATES, help="Beam width of the search for a skill set.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Score weights, e.g. coverage=0.01,reward=0.1,state=1,action=1.")
    ] = None,
    benchmark: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Expected benchmark of the trajectories: units of another one are refused."),
    ] = None,
    json_: Json = False,
) -> None:
    """Build a library from trajectories and print every step of the extraction.

    No model is used: skills are described by the words of their examples.

    The file is a list of trajectories, {"trajectories": [...]}, {"cases": [{"trajectories": [...]}]}, or a
    unit of a run (RUN/units/ARM/TASK/VARIANT-sSEED.jsonl). A trajectory is a list of states
    {"description", "action", "reward"}: the whole state as one text, the action that led to it, and its reward as a
    share of 1.
    """
    from dataclasses import asdict

    from rsso_dspy.config import EmbedderConfig
    from rsso_dspy.embed import Embedder
    from rsso_dspy.environments.benchmark import get_benchmark as benchmark_called
    from rsso_dspy.experiment import offline_skills

    settings = offline_skills.make_offline_settings(
        preset,
        offline_skills.parse_weights(weights) if weights is not None else None,
        extraction=extraction,
        pairs=pairs,
        max_window=max_window,
        feedback=feedback,
        beams=beams,
    )
    of = benchmark_called(benchmark).name if benchmark else None
    given = offline_skills.read_trajectories(file, case, of)
    embed = Embedder(EmbedderConfig().model if embedder is None else embedder)
    embed.check()
    built = offline_skills.build_library(given, embed, settings)
    if settings.feedback and any(step.subgoal for trajectory in given for step in trajectory.steps):
        print_status("feedback: recorded subgoals use the words of their run; they count only if the words are equal")
    if json_:
        named = {"benchmark": of} if of else {}
        print_json({**named, "embedder": embed.model, "settings": asdict(settings), **built})
        return
    for number, (trajectory, update) in enumerate(zip(given, built["after_each"], strict=True), start=1):
        echo(f"Trajectory {number}: {len(trajectory.states)} states, {trajectory.accumulator} points gained", bold=True)
        _print_update(update)
    echo(f"Library: {format_plural(built['library'], 'skill')}, described by their examples", bold=True)
    for number, skill in enumerate(built["library"], start=1):
        _print_skill(number, skill)


def _print_update(update: dict[str, Any]) -> None:
    """Print one update: pieces, candidates, pool and skill set. A window is piece[start:end)."""
    echo(f"  pieces (states): {' '.join(map(str, update['pieces'])) or 'none'}")
    _print_candidate_rows(
        "candidates (state, action similarity)", update["candidates"], ("state_similarity", "action_similarity")
    )
    _print_candidate_rows("pool (score), most used first", update["pool"], ("score",))
    _print_candidate_rows("selected (score), best first", update["selected"], ("score",))


def _print_candidate_rows(title: str, entries: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    echo(f"  {title}: {len(entries) or 'none'}")
    for entry in entries[:ROWS]:
        windows = "  ".join(f"{piece}[{start}:{end})" for piece, start, end in entry["windows"])
        echo(f"    {windows:<24}" + "".join(f"{entry[column]:>13.9f}" for column in columns))
    if len(entries) > ROWS:
        echo(f"    and {len(entries) - ROWS:,} more; --json has all")


@app.command()
def show(
    run: RunFolder,
    unit: UnitKey,
    arm: SkillArm = None,
    trial: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_TRIALS, help="Show the skills in the prompts of this trial instead of the library."
        ),
    ] = None,
    json_: Json = False,
) -> None:
    """Print a unit's skills with their examples, scores, use in prompts, and results."""
    from rsso_dspy.experiment.skill_libraries import load_skill_source

    found = load_skill_source(run, unit, arm, print_left_out_files)
    data = _describe_unit(found) | (_collect_library(found) if trial is None else found.describe_prompts(trial))
    if json_:
        print_json(data)
        return
    _print_library_heading(data)
    if trial is None:
        _print_library(data)
    else:
        _print_prompts(data)


def _describe_unit(found: "SkillSource") -> dict[str, Any]:
    names = ("start", "arm", "seed", "protocol", "model", "rule_based")
    about = {name: getattr(found.record, name) for name in names}
    return {"unit": found.record.key, **about, "embedder": found.embedder, "trials": len(found.record.trials)}


def _collect_library(found: "SkillSource") -> dict[str, Any]:
    accounts = found.accounts
    return {
        "learnt_from": found.learnt_from,
        "library": [entry for entry in accounts if entry["in_use"]],
        "retired": [entry for entry in accounts if not entry["in_use"]],
    }


def _print_library_heading(data: dict[str, Any]) -> None:
    from rsso_dspy.records import RULE_BASED_NOTE

    echo(f"{data['unit']}  {data['arm']}  seed {data['seed']}", bold=True)
    print_paragraph(f"{data['protocol']}, {data['model']}")
    if data["rule_based"]:
        print_paragraph(RULE_BASED_NOTE)


def _print_library(data: dict[str, Any]) -> None:
    from rsso_dspy.report.tables import format_ranges

    learnt = ", ".join(format_ranges(data["learnt_from"], least=2)) or "none"
    print_paragraph(
        f"Library after trial {data['trials']}: {format_plural(data['library'], 'skill')}, learned from trials: "
        f"{learnt}. Use is counted over all trials."
    )
    if data["start"]:
        print_paragraph(f"It started from: {data['start']}; examples may come from trials there.")
    if not data["library"]:
        print_paragraph("It is empty: a skill needs two trials that gained points in similar ways.")
    for number, skill in enumerate(data["library"], start=1):
        _print_skill(number, skill)
        _print_skill_history(skill)
    if data["retired"]:
        echo("\nNo longer in use:")
    for skill in data["retired"]:
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


def _print_prompts(data: dict[str, Any]) -> None:
    from rsso_dspy.report.tables import format_ranges

    print_paragraph(f"Trial {data['trial']}, {data['steps']} steps. {data['note']}")
    for shown in data["prompts"]:
        echo()
        print_paragraph(
            f"steps {', '.join(format_ranges(shown['steps'], least=2))}: {', '.join(shown['names'])}", bold=True
        )
        for line in shown["text"].splitlines():
            print_paragraph(line, "   ")
    for step in data["pursued"]:
        print_paragraph(f"step {step['step']} pursued {step['name']}: {step['action']} ({step['reward']:+d})", "   ")


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
    from rsso_dspy.errors import UnknownName
    from rsso_dspy.experiment.portable_formats import export_skill_folder
    from rsso_dspy.experiment.skill_libraries import LIBRARY, export_library, load_skill_source
    from rsso_dspy.files import atomic_write_text

    if format_ not in ("library", "skill"):
        raise UnknownName("format", format_, ("library", "skill"))
    if format_ == "skill":
        found = load_skill_source(run, unit, arm, print_left_out_files)
        out = export_skill_folder(found, out)
    else:
        if out.is_dir():
            raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'skills.json'}")
        check_output_path(out, kind=LIBRARY)
        found = load_skill_source(run, unit, arm, print_left_out_files)
        atomic_write_text(out, export_library(found).to_json())
    echo(f"{out}: {format_plural(found.held.library, 'skill')} of {unit}, {found.record.arm}, from {run}")
