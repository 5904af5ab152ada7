"""Skill extraction the slow and obvious way: copies of windows, nested loops, lists. The array version must agree.

Written from the rules, not from the package. Similarities are rounded to whole billionths by definition, so that the
two can be compared without tolerance up to the scores.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import sqrt
from typing import NamedTuple

from rsso_dspy.memory.skill_windows import SkillSettings
from rsso_dspy.records import Trajectory


class Spot(NamedTuple):
    """What stands at one state of a piece."""

    description: str
    action: str
    reward: int


Bounds = tuple[int, int, int]
Pair = tuple[Bounds, Bounds]


def cut(trajectory: Trajectory, settings: SkillSettings) -> list[list[Spot]]:
    spots = [Spot(trajectory.start.description, "", 0)]
    spots += [Spot(step.state.description, step.action, step.reward) for step in trajectory.steps]
    pieces = []
    while spots:
        chunk = spots[: settings.max_piece]
        while chunk and chunk[-1].reward <= 0:
            chunk.pop()
        if len(chunk) >= max(settings.min_piece, settings.min_window):
            pieces.append(chunk)
            spots = spots[len(chunk) :]
        else:
            spots = spots[1:]
    return pieces


def windows(piece: list[Spot], settings: SkillSettings) -> list[tuple[int, int]]:
    found = []
    for start in range(len(piece)):
        for end in range(start + settings.min_window, start + settings.max_window + 1):
            inside = piece[start:end]
            if settings.extraction == "reward-boundary":
                whole = end <= len(piece)
                if whole and inside[-1].reward > 0 and not any(spot.reward > 0 for spot in inside[1:-1]):
                    found.append((start, end))
            else:
                limit = len(piece) + (1 if settings.count_overhang else 0)
                if end <= limit and len(inside) >= settings.min_window:
                    found.append((start, end))
    return found


class Oracle:
    """The memory up to the selected set; no words."""

    def __init__(self, cosine: Callable[[str, str], float], settings: SkillSettings):
        self.cosine = cosine
        self.settings = settings
        self.pieces: list[list[Spot]] = []
        self.taken_from: list[int] = []
        self.learnt = 0
        self.built = 0
        self.states_met: list[int] = []
        self.actions_met: list[int] = []
        self.candidates: list[tuple[Pair, int, int]] = []
        self.pool: list[tuple[Pair, int, int, float]] = []
        self.selected: list[Pair] = []

    def similarity(self, left: str, right: str) -> int:
        def cleaned(text: str) -> list[str]:
            words = [word.strip(".,!?\"')(}{][:;") for word in text.lower().split()]
            return [word for word in words if word not in ("", "to", "the", "for", "on", "in", "a", "an")]

        if cleaned(left) == cleaned(right):
            return 10**9
        return round(self.cosine(left, right) * 10**9)

    def mean(self, pairs: Sequence[tuple[str, str]]) -> int:
        total = sum(self.similarity(left, right) for left, right in pairs)
        return (2 * total + len(pairs)) // (2 * len(pairs))

    def learn(self, trajectory: Trajectory) -> None:
        self.pieces += cut(trajectory, self.settings)
        self.taken_from += [self.learnt] * (len(self.pieces) - len(self.taken_from))
        self.learnt += 1
        oldest = max(0, len(self.pieces) - self.settings.max_trajectories)
        self.candidates = []
        for new in range(oldest + 1, len(self.pieces)):
            if new < self.built:
                continue
            if not self.settings.build_repeats and any(
                self.same_text(piece, self.pieces[new]) for piece in self.pieces[:new]
            ):
                continue
            for start, end in windows(self.pieces[new], self.settings):
                for old in range(oldest, new):
                    if self.settings.pairs != "any" and self.taken_from[old] == self.taken_from[new]:
                        continue
                    self.pair((new, start, end), old)
        self.built = len(self.pieces)
        if self.candidates:
            self.update()

    def same_text(self, left: list[Spot], right: list[Spot]) -> bool:
        return [spot[:2] for spot in left] == [spot[:2] for spot in right]

    def pair(self, bounds: Bounds, old: int) -> None:
        window = self.pieces[bounds[0]][bounds[1] : bounds[2]]
        best = None
        for start, end in windows(self.pieces[old], self.settings):
            if end > len(self.pieces[old]) or end - start != len(window):
                continue
            other = self.pieces[old][start:end]
            state = self.mean([(a.description, b.description) for a, b in zip(window, other, strict=True)])
            action = self.mean([(a.action, b.action) for a, b in zip(window[1:], other[1:], strict=True)])
            weighted = state + action
            if best is None or weighted > best[0]:
                best = (weighted, ((old, start, end), bounds), state, action)
        if best:
            self.candidates.append(best[1:])

    def update(self) -> None:
        self.states_met += [state for _, state, _ in self.candidates]
        self.actions_met += [action for _, _, action in self.candidates]
        pool = [(pair, state, action) for pair, state, action, _ in self.pool]
        for pair, state, action in self.candidates:
            if self.passes(state, self.states_met) and self.passes(action, self.actions_met):
                pool.append((pair, state, action))
        distinct = []
        for entry in pool:
            if all(self.content(entry[0]) != self.content(other[0]) for other in distinct):
                distinct.append(entry)
        scored = [(*entry, self.score(*entry)) for entry in distinct]
        scored.sort(key=lambda entry: -entry[3])
        best, used = search(
            [entry[0] for entry in scored], [round(entry[3] * 10**9) for entry in scored], self.settings.beams
        )
        self.selected = [scored[index][0] for index in best]
        self.pool = [scored[index] for index in used][: self.settings.pool_size]

    def passes(self, value: int, met: list[int]) -> bool:
        if min(met) == max(met):
            return self.settings.keep_when_constant
        return value > Fraction(sum(met), len(met))

    def content(self, pair: Pair) -> list[list[tuple[str, ...]]]:
        said = []
        for piece, start, end in pair:
            spots = self.pieces[piece][start:end]
            said.append([tuple(spot.description for spot in spots), tuple(spot.action for spot in spots[1:])])
        return sorted(said)

    def score(self, pair: Pair, state: int, action: int) -> float:
        copies = [self.pieces[piece][start:end] for piece, start, end in pair]
        recent = self.pieces[-self.settings.max_trajectories :]
        paid = [spot.reward for piece in recent for spot in piece if spot.reward > 0]
        steps = sum(len(window) - 1 for window in copies)
        gained = sum(spot.reward for window in copies for spot in window) / len(copies)
        total = 0.01 * above_average(steps, [3, 4, 5, 6])
        total += 0.1 * above_average(gained, paid)
        total += above_average(state, self.states_met)
        total += above_average(action, self.actions_met)
        return round(total / (3.11 if self.settings.feedback else 2.11), 9)

    def rank(self, description: str) -> list[Pair]:
        def nearness(pair: Pair) -> int:
            firsts = [self.pieces[piece][start].description for piece, start, _ in pair]
            return -(sum(self.similarity(first, description) for first in firsts) // 2)

        return sorted(self.selected, key=nearness)


def above_average(value: float, population: Sequence[int]) -> float:
    if min(population) == max(population):
        return 2.0
    mean = sum(population) / len(population)
    deviation = sqrt(
        float(
            sum((Fraction(x) - Fraction(sum(population), len(population))) ** 2 for x in population) / len(population)
        )
    )
    return max(0.0, (value - mean + 2 * deviation) / deviation)


def conflict(left: Pair, right: Pair) -> bool:
    return any(one[0] == two[0] and max(one[1], two[1]) <= min(one[2], two[2]) for one in left for two in right)


def search(pool: Sequence[Pair], scores: Sequence[int], width: int) -> tuple[list[int], list[int]]:
    """Best set and used candidates, as positions in the pool."""
    beams: list[tuple[list[int], list[int]]] = [([], list(range(len(pool)))) for _ in range(width)]
    made: list[list[int]] = []
    uses = [0 for _ in pool]
    while any(rest for _, rest in beams):
        grown: list[tuple[list[int], list[int]]] = [(members, []) for members, _ in beams]
        for members, rest in beams:
            extensions = 0
            while rest and extensions < width:
                joining, rest = rest[0], rest[1:]
                if any(conflict(pool[joining], pool[member]) for member in members):
                    continue
                if sorted([*members, joining]) in made:
                    continue
                made.append(sorted([*members, joining]))
                grown.append(([*members, joining], list(rest)))
                extensions += 1
        grown.sort(key=lambda beam: -sum(scores[member] for member in beam[0]))
        beams = [
            (members, [item for item in rest if not any(conflict(pool[item], pool[member]) for member in members)])
            for members, rest in grown[:width]
        ]
        for members, _ in beams:
            for member in members:
                uses[member] += 1
    used = [position for position, count in enumerate(uses) if count]
    return beams[0][0], sorted(used, key=lambda position: -uses[position])
