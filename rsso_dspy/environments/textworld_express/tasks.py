"""The eight games of TextWorldExpress as task types. The index of a variant is the seed of its game, in the package's
own folds: 0 to 999 are train, 10000 to 10999 dev and 20000 to 20999 test. Recipes, things and problems of a fold are
others than those of another. The game `coin` has little but rooms: nine of its test games are training games too
(docs/BENCHMARKS.md)."""

from collections.abc import Mapping

from rsso_dspy.environments.splits import TaskTable

PARAMETERS: Mapping[str, Mapping[str, int]] = {
    "cookingworld": {
        "numLocations": 11,
        "numIngredients": 3,
        "numDistractorItems": 10,
        "includeDoors": 1,
        "limitInventorySize": 1,
    },
    "twc": {"numLocations": 3, "numItemsToPutAway": 4, "includeDoors": 0, "limitInventorySize": 0},
    "coin": {"numLocations": 11, "numDistractorItems": 0, "includeDoors": 1, "limitInventorySize": 1},
    "mapreader": {
        "numLocations": 15,
        "maxDistanceApart": 4,
        "maxDistractorItemsPerLocation": 3,
        "includeDoors": 0,
        "limitInventorySize": 0,
    },
    "arithmetic": {},
    "sorting": {},
    "simonsays": {"gameLength": 5, "numDistractors": 3, "memorization": 0, "verbose": 0},
    "peckingorder": {},
}
"""Game to its parameters: the package's defaults, which are also what TALES plays, so that figures compare. Games with
other parameters have other texts: they would be another version."""

CHOICE = "defaults"  # what the version calls these parameters

TABLE = TaskTable(
    {game: {"train": (0, 999), "dev": (10_000, 10_999), "test": (20_000, 20_999)} for game in PARAMETERS},
    examples=("coin",),
)


GOLD_LENGTH = 34
"""Of every variant: half as many again are 51 steps, after which the package's environment ends an episode where it is
given the 50 of its own examples. The longest of 960 solutions has 40 actions. Without a limit of one's own it ends at
101, and TALES plays 100 steps: `protocol.steps` sets them."""


def write_parameters(game: str) -> str:
    """Return the parameters of a game as the simulator reads them."""
    return ",".join(f"{name}={value}" for name, value in PARAMETERS[game].items())
