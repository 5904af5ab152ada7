"""Whole experiments by name: what a command would have to say to play them.

    get_experiment("rsso-paper").methods        # ("react", "reflexion", "sso", "rsso")

Options that a command is given beside the name come after an experiment's own, so they win. --preset reads no
rsso.toml; name one with --config: what an experiment leaves open is then as in that file.
"""

from dataclasses import dataclass

from rsso_dspy.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Experiment:
    """One row. What it leaves open is the default."""

    name: str
    about: str
    methods: tuple[str, ...] = ()
    tasks: str = "all"
    variants: str | None = None
    per_task: int | None = None
    settings: tuple[str, ...] = ()
    """``key=value`` for the configuration; they are stronger than a file named with --config."""


NONE = Experiment("", "")

EXPERIMENTS = {
    row.name: row
    for row in (
        Experiment(
            "rsso-paper",
            "the paper's experiment: react, reflexion, sso and rsso, 5 trials on each of 164 held-out variants of 18 "
            "tasks, by Claude Sonnet 4.6",
            ("react", "reflexion", "sso", "rsso"),
            variants="sso",
            settings=(
                "backend=anthropic",
                "backends.anthropic.model=anthropic/claude-sonnet-4-6",
                "protocol.preset=sso-adapt/1",
                "protocol.setting=adaptation",
                "protocol.trials=5",
            ),
        ),
    )
}
"""The paper (rSSO, section 4) gives no temperature; the one of the backend's profile is sent."""


def get_experiment(name: str | None) -> Experiment:
    """The experiment called `name`, one that says nothing for None. Raises `UnknownName` with the nearest."""
    if name is None:
        return NONE
    if name not in EXPERIMENTS:
        raise UnknownName("preset of a run", name, EXPERIMENTS, "Presets of protocols are named with --protocol.")
    return EXPERIMENTS[name]


def describe_experiments() -> str:
    """All of them, for a line of help."""
    return "; ".join(f"{row.name}: {row.about}" for row in EXPERIMENTS.values())
