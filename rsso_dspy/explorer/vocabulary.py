"""Words that belong together, as any reader of such games knows. It holds no places of particular things and no
solutions, only what a word in a task makes a player look for.
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
"""Verb of a task to the tools for it, the most common first."""

KINDS: dict[str, tuple[str, ...]] = {
    "plant": ("tree", "plant"),
    "animal": (
        *("egg", "baby", "hatchling", "juvenile", "adult", "bee", "butterfly", "moth", "ant", "dragonfly", "spider"),
        *("frog", "toad", "turtle", "tortoise", "snake", "crocodile", "chameleon", "parrot", "bird", "jay", "dove"),
        *("mouse", "rat", "rabbit", "hedgehog", "beaver", "wolf", "bear", "lion", "elephant"),
    ),
}
KINDS["living"] = KINDS["plant"] + KINDS["animal"]
"""Kind that a task asks for, to words that name things of that kind."""

STAGES = ("seed", "egg", "seedling", "baby", "hatchling", "juvenile", "adult", "reproducing")
"""Stages of a life, earliest first."""

SCENERY = frozenset({"agent", "air", "ground", "painting", "picture", "drawing", "axe"})
"""Things that are always there and never matter."""
