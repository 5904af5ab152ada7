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

TOPICS: tuple[frozenset[str], ...] = tuple(
    frozenset(group.split())
    for group in (
        "mix mixture chemistry chemical combine",
        "lifespan longevity liv",
        "genetic mendelian inherit heredity dominant recessive trait",
        "boil heat state",
        "melt heat state",
        "freez cool state",
        "phase state matter",
        "incline inclin slope ramp plane angle friction",
        "paint color colour secondary",
        "creature animal",
        "grow germinate cultivate",
        "thermometer temperature",
        "identify stage life",
    )
)
"""Words that mean the same sort of task: the task need not use the word that a piece of advice about it does. In the
form of `wordings.stem`."""

TOPIC_WORDS = frozenset(
    {"animal", "boil", "chang", "chemical", "chemistry", "color", "colour", "cool", "find", "freez", "friction"}
    | {"fruit", "genetic", "grow", "heat", "inclin", "life", "lifespan", "liv", "longevity", "measur", "melt"}
    | {"mendelian", "mix", "mixtur", "paint", "plan", "plant", "point", "slop", "span", "stag", "stat"}
    | {"temperatur", "thermometer"}
)
"""Words that alone make a label the name of a sort of task, as in "Life span: ..."."""
