"""Relates the scene to the goals: what is worth a note, what is still wanted, what is already in its place."""

import re

from rsso_dspy.explorer.commands import extract_content_words
from rsso_dspy.explorer.goals import FocusTarget, TaskGoals
from rsso_dspy.explorer.scene_parser import Scene, VisibleThing
from rsso_dspy.explorer.vocabulary import CRAFTS, SCENERY, STAGES


def is_noteworthy(name: str, goals: TaskGoals) -> bool:
    """Whether a thing is worth a note."""
    found = extract_content_words(name)
    if found & SCENERY:
        return False
    tool = any(name in CRAFTS[craft] for craft in goals.crafts) or (bool(goals.growing) and "pot" in found)
    return bool(found & goals.vocabulary) or "recipe" in found or tool


def is_still_wanted(name: str, scene: Scene, goals: TaskGoals) -> bool:
    """A noted thing that is still to be dealt with."""
    pending = [
        target for target in goals.targets if not any(target.is_matched_by(done) for done in scene.notes.focused)
    ]
    if any(target.is_matched_by(name) and not target.last for target in pending):
        return True
    if any(extract_content_words(tool) <= extract_content_words(name) for tool in goals.tools):
        return name not in scene.held
    if is_every_target_done(scene, goals):
        loads = [thing for thing in scene.things.values() if thing.held]
        if goals.crafts and any(name in CRAFTS[craft] for craft in goals.crafts):
            return bool(loads)
        return any(choice.container == name for choice in goals.choices)
    return False


def is_every_target_done(scene: Scene, goals: TaskGoals) -> bool:
    return all(
        target.last or any(target.is_matched_by(name) for name in scene.notes.focused) for target in goals.targets
    )  # fmt: skip


def find_target_things(scene: Scene, target: FocusTarget) -> list[VisibleThing]:
    return [
        thing
        for thing in scene.things.values()
        if target.is_matched_by(thing.name) and not extract_content_words(thing.name) & SCENERY
    ]


def find_named_things(scene: Scene, name: str, exact: bool = False) -> list[VisibleThing]:
    wanted = extract_content_words(name)
    return [
        t
        for t in scene.things.values()
        if t.name == name or (not exact and wanted and wanted <= extract_content_words(t.name))
    ]


def is_delivered(goals: TaskGoals, thing: VisibleThing) -> bool:
    return bool(goals.box) and thing.inside == goals.box


def list_ingredients(scene: Scene, goals: TaskGoals) -> list[str]:
    """What a recipe that was read names; without a recipe, everything of the product's own sort (paints for paint)."""
    if recipe := scene.notes.facts.get("recipe"):
        return recipe.split(" + ")
    sort = goals.product.split()[-1]
    return [name for name in scene.things if name.split()[-1] == sort and name != goals.product]


def rank_thing_stage(thing: VisibleThing) -> int:
    """Rank of the stage of life that a thing is named with; a kind without a stage counts as grown."""
    near = re.search(rf"\b{re.escape(thing.name)} in the (\w+) stage", thing.line)
    said = (near.group(1) if near else "") or thing.name
    return next((rank for rank, stage in enumerate(STAGES) if stage in said.split()), STAGES.index("adult"))


def rank_option_stage(scene: Scene, option: str) -> int:
    """Rank of the stage of life that an option of the world's question refers to, by the pot it names."""
    for name, thing in scene.things.items():
        if "pot" in name and not thing.inside and f"in {name}" in option:
            return next((rank for rank, stage in enumerate(STAGES) if f"{stage} stage" in thing.line), len(STAGES))
    return 0
