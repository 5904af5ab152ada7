"""The 28 levels of AgentBoard's BabyAI, and minigrid's worlds behind them.

A world is fixed by its level and seed. minigrid draws until a world fits; one that draws without end is given up after
a fixed number of draws, wherever it runs.
"""

from typing import Any

from rsso_dspy.errors import SimulatorDied

_NAMES = (
    "GoToRedBallGrey GoToRedBall GoToRedBallNoDists GoToObjS6 GoToLocalS8N7 GoToObjMazeS7 GoToImpUnlock "
    "GoToSeqS5R2 GoToRedBlueBall GoToDoor GoToObjDoor Open OpenRedDoor OpenDoorLoc OpenRedBlueDoorsDebug "
    "OpenDoorsOrderN4Debug Pickup UnblockPickup PickupLoc PickupDistDebug PickupAbove Unlock UnlockLocalDist "
    "UnlockPickupDist BlockedUnlockPickup UnlockToUnlock FindObjS7 KeyCorridorS6R3"
)
LEVELS = tuple(_NAMES.split())
"""In AgentBoard's order."""

THROUGH_LOCKED_DOORS = frozenset(
    {"GoToImpUnlock", "UnlockPickupDist", "BlockedUnlockPickup", "UnlockToUnlock", "KeyCorridorS6R3"}
)
"""Levels whose missions lead through their locked doors."""

_RENAMED = {"GoToObjS6": "GoToObjS4"}
"""What a level that was made anew since was called before its rooms grew."""

MOST_DRAWS = 300_000
"""Random numbers that one world may take; the most that any of those played takes is some thousands."""


def make_world(name: str) -> Any:
    """minigrid's world of a level, without wrappers. `reset` it with a seed. Its generator raises ``SimulatorDied``
    when it draws without end."""
    import gymnasium
    import minigrid  # noqa: F401 - registers the worlds
    import minigrid.envs.babyai.core.roomgrid_level as generator

    generator.print = _say_nothing  # type: ignore[attr-defined]  # it tells of each draw that did not fit
    world: Any = gymnasium.make(f"BabyAI-{_RENAMED.get(name, name)}-v0", disable_env_checker=True).unwrapped
    _limit_draws(world, name)
    return world


def _say_nothing(*_: object) -> None: ...


def _limit_draws(world: Any, name: str) -> None:
    draw_int, start = world._rand_int, world.reset
    left = MOST_DRAWS

    def count_draw(low: int, high: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise SimulatorDied(f"the generator of {name} drew {MOST_DRAWS:,} numbers without making a world")
        return draw_int(low, high)  # as it is: some worlds compare such numbers by identity

    def reset(**options: Any) -> Any:
        nonlocal left
        left = MOST_DRAWS
        return start(**options)

    world._rand_int, world.reset = count_draw, reset
