"""Ids of all benchmarks in Gymnasium's registry: ``gymnasium.make("rsso_dspy/NAME-v0", split="train")``.

Gymnasium calls `register_environments` itself, through the entry point group ``gymnasium.envs``. `make` takes the
arguments of `to_gymnasium`. Nothing of a benchmark is loaded before one is made.
"""

from rsso_dspy.environments.benchmark import list_benchmarks

NAMESPACE = "rsso_dspy"


def register_environments() -> None:
    """Register every installed benchmark; those that are registered already are left as they are."""
    from gymnasium.envs.registration import register, registry

    for name in list_benchmarks():
        if (known := f"{NAMESPACE}/{name}-v0") not in registry:
            register(
                id=known,
                entry_point="rsso_dspy.benchmarks.to_gymnasium:to_gymnasium",
                kwargs={"benchmark": name},
            )
