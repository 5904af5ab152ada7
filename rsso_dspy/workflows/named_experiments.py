"""Whole experiments by name: the options of the command that plays them.

    get_experiment("rsso-paper").methods        # ("react", "reflexion", "sso", "rsso")

Further options of a command override those of the experiment. --preset ignores rsso.toml; a file named with --config
sets what the experiment leaves open.
"""

from dataclasses import dataclass

from rsso_dspy.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment; unset fields take their defaults."""

    name: str
    about: str
    methods: tuple[str, ...] = ()
    tasks: str = "all"
    variants: str | None = None
    per_task: int | None = None
    settings: tuple[str, ...] = ()
    """``key=value`` settings, which override a file named with --config."""


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
"""The paper (rSSO, section 4) gives no temperature; the backend profile's is used."""


def get_experiment(name: str | None) -> Experiment:
    """Return the experiment called `name`, or an empty one for None. Raises `UnknownName` with the nearest names."""
    if name is None:
        return NONE
    if name not in EXPERIMENTS:
        raise UnknownName("preset of a run", name, EXPERIMENTS, "Presets of protocols are named with --protocol.")
    return EXPERIMENTS[name]


def describe_experiments() -> str:
    """Describe all experiments in one line of help."""
    return "; ".join(f"{row.name}: {row.about}" for row in EXPERIMENTS.values())
