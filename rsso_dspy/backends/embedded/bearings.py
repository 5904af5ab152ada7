"""How the scene bears on the goals: what is worth a note, what is still wanted, what is already where it belongs."""

import re

from rsso_dspy.backends.embedded.commands import words
from rsso_dspy.backends.embedded.goals import Goals, Target
from rsso_dspy.backends.embedded.lore import CRAFTS, SCENERY, STAGES
from rsso_dspy.backends.embedded.world import Scene, Thing


def matters(name: str, goals: Goals) -> bool:
    """Whether a thing is worth a note."""
    found = words(name)
    if found & SCENERY:
        return False
    tool = any(name in CRAFTS[craft] for craft in goals.crafts) or (bool(goals.growing) and "pot" in found)
    return bool(found & goals.vocabulary) or "recipe" in found or tool


def still_wanted(name: str, scene: Scene, goals: Goals) -> bool:
    """A noted thing that is still to be dealt with."""
    pending = [target for target in goals.targets if not any(target.fits(done) for done in scene.notes.focused)]
    if any(target.fits(name) and not target.last for target in pending):
        return True
    if any(words(tool) <= words(name) for tool in goals.tools):
        return name not in scene.held
    if targets_done(scene, goals):
        loads = [thing for thing in scene.things.values() if thing.held]
        if goals.crafts and any(name in CRAFTS[craft] for craft in goals.crafts):
            return bool(loads)
        return any(choice.container == name for choice in goals.choices)
    return False


def targets_done(scene: Scene, goals: Goals) -> bool:
    return all(
        target.last or any(target.fits(name) for name in scene.notes.focused) for target in goals.targets
    )  # fmt: skip


def fitting(scene: Scene, target: Target) -> list[Thing]:
    return [thing for thing in scene.things.values() if target.fits(thing.name) and not words(thing.name) & SCENERY]


def named(scene: Scene, name: str, exact: bool = False) -> list[Thing]:
    wanted = words(name)
    return [t for t in scene.things.values() if t.name == name or (not exact and wanted and wanted <= words(t.name))]


def delivered(goals: Goals, thing: Thing) -> bool:
    return bool(goals.box) and thing.inside == goals.box


def ingredients(scene: Scene, goals: Goals) -> list[str]:
    """What a recipe that was read names; without a recipe, everything of the product's own sort (paints for paint)."""
    if recipe := scene.notes.facts.get("recipe"):
        return recipe.split(" + ")
    sort = goals.product.split()[-1]
    return [name for name in scene.things if name.split()[-1] == sort and name != goals.product]


def stage_in(thing: Thing) -> int:
    """Rank of the stage of life that a thing is named with; a kind without a stage counts as grown."""
    near = re.search(rf"\b{re.escape(thing.name)} in the (\w+) stage", thing.line)
    said = (near.group(1) if near else "") or thing.name
    return next((rank for rank, stage in enumerate(STAGES) if stage in said.split()), STAGES.index("adult"))


def stage_of(scene: Scene, option: str) -> int:
    """Rank of the stage of life that an option of the world's question refers to, by the pot it names."""
    for name, thing in scene.things.items():
        if "pot" in name and not thing.inside and f"in {name}" in option:
            return next((rank for rank, stage in enumerate(STAGES) if f"{stage} stage" in thing.line), len(STAGES))
    return 0
