"""DSPy's optimizers by name, each set up for programs that play episodes. Adding one is a function and a row.

An optimizer only tries candidates; `compile_agent` chooses among all that were played.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.optimizers import demonstrations, gepa, mipro
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent


@dataclass(frozen=True, slots=True)
class Optimizer:
    """One row."""

    name: str
    source: str
    least: Callable[[Calibration], int]
    """Fewest rollouts with which one candidate can be compared with the program to improve."""
    most: Callable[[Calibration], int | None]
    """Most rollouts that it can use; None for any number."""
    proposals: Callable[[Calibration, int], int]
    """Maximum proposer calls per predictor, given the rollouts."""
    run: Callable[[Agent, Calibration, Rollouts, int, int], Agent]
    """Takes program to improve, calibration, rollouts, seed and jobs; returns the optimizer's own choice."""
    searches: bool = True
    """Whether it tries anything but the program to improve."""
    needs: str | None = None
    """The package that it needs, in the extra of the optimizer's name."""


def get_optimizer(name: str) -> Optimizer:
    """The optimizer called `name`. Raises `UnknownName` with the nearest, and `UsageError` when a package that it needs
    is not installed."""
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    row = OPTIMIZERS[name]
    if row.needs is not None and find_spec(row.needs) is None:
        raise UsageError(f"{name} needs the package {row.needs}; pip install 'rsso-dspy[{name}]'")
    return row


def run_none(agent: Agent, calibration: Calibration, rollouts: Rollouts, seed: int, jobs: int) -> Agent:  # noqa: ARG001
    """Return the program as it is: a baseline that is scored on the same variants and saved in the same form."""
    return agent


OPTIMIZERS = {
    row.name: row
    for row in (
        Optimizer(
            "gepa",
            "Agrawal et al. 2025, dspy.GEPA",
            least=gepa.count_least_rollouts,
            most=lambda _: None,
            proposals=gepa.count_proposals,
            run=gepa.run_gepa,
        ),
        Optimizer(
            "mipro",
            "Opsahl-Ong et al. 2024, dspy.MIPROv2",
            least=demonstrations.count_one_set_rollouts,
            most=lambda _: None,
            proposals=mipro.count_proposals,
            run=mipro.run_mipro,
            needs="optuna",
        ),
        Optimizer(
            "bootstrap",
            "Khattab et al. 2023, dspy.BootstrapFewShot",
            least=demonstrations.count_one_set_rollouts,
            most=demonstrations.count_one_set_rollouts,
            proposals=lambda _, __: 0,
            run=demonstrations.run_bootstrap,
        ),
        Optimizer(
            "bootstrap-random",
            "Khattab et al. 2023, dspy.BootstrapFewShotWithRandomSearch",
            least=demonstrations.count_one_set_rollouts,
            most=demonstrations.count_all_sets_rollouts,
            proposals=lambda _, __: 0,
            run=demonstrations.run_bootstrap_random,
        ),
        Optimizer(
            "none",
            "the program as it is",
            least=lambda c: c.val_rollouts,
            most=lambda c: c.val_rollouts,
            proposals=lambda _, __: 0,
            run=run_none,
            searches=False,
        ),
    )
}
