"""Worlds that the offline player knows how to play, recognised by the words of their prompts.

Each module holds one world: how its sentences are read, what the player does by itself, and the habits that it takes up
only when something in the prompt tells it to: a rule, a reflection, a skill, an instruction, or its own notes of what
went wrong in this trial. Nothing here imports an environment, so nothing is known that a prompt does not say.
"""

from rsso_dspy.explorer.worlds import barman, blockworld, gripper, household, minigrid, tyreworld
from rsso_dspy.explorer.worlds.world import World

WORLDS: tuple[World, ...] = (
    minigrid.WORLD,
    gripper.WORLD,
    barman.WORLD,
    tyreworld.WORLD,
    household.WORLD,
    blockworld.WORLD,
)


def find_world(*texts: str) -> World | None:
    """The world that a prompt's texts are about; None if it is not known."""
    said = "\n".join(texts).lower()
    return next((world for world in WORLDS if world.sign.search(said)), None)
