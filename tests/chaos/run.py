"""A calm run, and one under faults, which is started again until it is complete.

    setup = Setup(folder, tasks="find-plant")
    calm, disturbed = play_calm(setup), play_disturbed(setup, faults=200, seed=0)

What happens is drawn from the seed; when it happens depends on the machine, as in life.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping
from math import ceil
from typing import Any

from tests.chaos.setup import Played, Setup, running, scripted
from tests.chaos.tormentor import BY_HAND, Tormentor
from tests.provider_formats import Said
from tests.provider_server import provider

BY_SERVER = {
    "rate limit": 14,
    "server error": 14,
    "overloaded": 14,
    "gateway page": 12,
    "hang": 10,
    "dropped before the headers": 12,
    "dropped after the headers": 12,
    "cut in the middle": 12,
    "invalid JSON": 7,
    "a page for an answer": 4,
    "dripping": 6,
}
"""Faults that a request meets, by their names in `provider_faults`."""

OUTAGE = "nothing but 503, eight times in a row"
OUTAGE_LENGTH = 8
SHARES = {**BY_HAND, **BY_SERVER, OUTAGE: 6}
"""Everything, and how much of it is among 200 faults."""


def play_calm(setup: Setup) -> Played:
    """The run with nothing in its way, then the same command again."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    with provider(scripted) as served:
        played = Played(setup.folder / "calm", served)
        with running(setup, played) as process:
            assert process.wait(1200) == 0, process.said
        played.ends["complete"] += 1
        played.said.append(process.said)
    played.seconds = time.perf_counter() - begun
    return played


def play_disturbed(
    setup: Setup,
    faults: int,
    seed: int,
    answers: int,
    without: Collection[str] = (),
    say: Callable[[str], None] = print,
) -> Played:
    """The run under at least so many faults, of all kinds but those `without`. `answers` is how many the calm one
    took."""
    dice, begun = random.Random(seed), time.perf_counter()
    shares = {kind: ceil(share * faults / 200) for kind, share in SHARES.items() if kind not in without}
    requests, names = _drawn_for_server(dice, shares, answers)
    stock = [kind for kind in BY_HAND for _ in range(shares.get(kind, 0))]
    dice.shuffle(stock)

    def behind(body: dict[str, Any]) -> Said:
        tormentor.called()
        return scripted(body)

    with provider(behind, requests) as served:
        played = Played(setup.folder / "disturbed", served, drawn=len(stock) + len(names))
        tormentor = Tormentor(setup, played, dice, stock, answers, say)
        tormentor.until_complete()
    played.inflicted.update(names[number] for number in served.inflicted if number in names)
    played.seconds = time.perf_counter() - begun
    return played


def _drawn_for_server(
    dice: random.Random, shares: Mapping[str, int], answers: int
) -> tuple[dict[int, str], dict[int, str]]:
    """Number of a request to the fault that it meets, and to what the fault is called where it counts as one. All are
    among the requests of a calm run, so that the disturbed one, which is longer, meets every one of them."""
    numbers = list(range(2, int(0.9 * answers)))
    requests: dict[int, str] = {}
    names: dict[int, str] = {}
    for _ in range(shares.get(OUTAGE, 0)):
        first = dice.choice([number for number in numbers if not requests.keys() & range(number, number + 10)])
        requests |= dict.fromkeys(range(first, first + OUTAGE_LENGTH), "overloaded")
        names[first] = OUTAGE
    drawn = [name for name in BY_SERVER for _ in range(shares.get(name, 0))]
    single = dict(zip(dice.sample([n for n in numbers if n not in requests], len(drawn)), drawn, strict=True))
    return requests | single, names | single
