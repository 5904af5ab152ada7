"""What a reader of such games knows beforehand: words that belong together. No places of particular things, no
solutions; only what a word in a task makes one look for.
"""

HEATERS = ("stove", "blast furnace", "oven", "fire pit")
COOLERS = ("ultra low temperature freezer", "freezer", "fridge")
VESSELS = ("metal pot", "tin cup", "ceramic cup", "glass cup", "wood cup", "bowl", "glass jar", "jug")

CRAFTS: dict[str, tuple[str, ...]] = {
    "boil": HEATERS,
    "melt": HEATERS,
    "heat": HEATERS,
    "freeze": COOLERS,
    "cool": COOLERS,
}
"""A verb of the task and the tools that do it, those one meets most often first."""

KINDS: dict[str, tuple[str, ...]] = {
    "plant": ("tree", "plant"),
    "animal": (
        *("egg", "baby", "hatchling", "juvenile", "adult", "bee", "butterfly", "moth", "ant", "dragonfly", "spider"),
        *("frog", "toad", "turtle", "tortoise", "snake", "crocodile", "chameleon", "parrot", "bird", "jay", "dove"),
        *("mouse", "rat", "rabbit", "hedgehog", "beaver", "wolf", "bear", "lion", "elephant"),
    ),
}
KINDS["living"] = KINDS["plant"] + KINDS["animal"]
"""A kind that a task asks for and words that name things of that kind."""

STAGES = ("seed", "egg", "seedling", "baby", "hatchling", "juvenile", "adult", "reproducing")
"""Stages of a life, earliest first."""

SCENERY = frozenset({"agent", "air", "ground", "painting", "picture", "drawing", "axe"})
"""Things that are always there and never the point."""
