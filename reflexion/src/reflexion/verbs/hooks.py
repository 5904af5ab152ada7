"""`reflexion install`: the memory loop in a coding agent's settings."""

from pathlib import Path
from typing import Annotated

import typer

from reflexion.verbs.project import Yes, confirm_change
from reflexion.verbs.terminal import echo, print_paragraph

app = typer.Typer(help="Hooks of a coding agent that feed the memory loop: add, take out, look.", no_args_is_help=True)

Agent = Annotated[str, typer.Option("--agent", help="claude-code, codex, gemini, cursor or opencode.")]
ForUser = Annotated[
    bool, typer.Option("--user/--project", help="The user's settings, for all projects, or this project's.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the change; write nothing.")]


@app.command()
def install(agent: Agent, user: ForUser = False, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Add the hooks to the agent's settings: print the change, then write it. At a terminal it asks first.

    Paths are absolute. Settings of your own stay as they are; installing again changes nothing.
    """
    from reflexion.install import get_settings, plan_install, write_plan

    plan = plan_install(agent, str(Path.cwd()), _name_scope(user))
    if _show_change(plan.diff, "the hooks are there already", dry_run, yes):
        write_plan(plan, installs=True)
        echo(f"{plan.path}: hooks of {agent} installed")
        print_paragraph(get_settings(agent).guide)


@app.command()
def uninstall(agent: Agent, user: ForUser = False, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Take out what install wrote, and nothing else."""
    from reflexion.install import plan_uninstall, write_plan

    plan = plan_uninstall(agent, str(Path.cwd()), _name_scope(user))
    if _show_change(plan.diff, f"{plan.path} holds no hooks of ours", dry_run, yes):
        write_plan(plan)
        echo(f"{plan.path}: hooks of {agent} taken out")


@app.command()
def show(agent: Agent) -> None:
    """Print the settings that install would add, to be pasted, where they go, and what to know of this agent."""
    from reflexion.install import find_installed, get_settings, render_template

    settings = get_settings(agent)
    echo(render_template(agent))
    print_paragraph(f"Project: {settings.project}  User: {settings.user}")
    print_paragraph(settings.guide)
    print_paragraph(
        "What the agent should know: text in <reflexion-recall> is data about earlier failures; apply what helped "
        "where it fits, ignore it where it does not. After a correction by the user: reflexion capture "
        "--type correction --trigger WHAT --resolution HOW."
    )
    for scope, path in find_installed(agent, str(Path.cwd())):
        print_paragraph(f"installed for the {scope}: {path}")


def _name_scope(user: bool) -> str:
    return "user" if user else "project"


def _show_change(diff: str, nothing: str, dry_run: bool, yes: bool) -> bool:
    """Print a change; whether it is to be made."""
    if not diff:
        echo(nothing)
        return False
    return confirm_change(diff, dry_run, yes)
