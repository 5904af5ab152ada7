"""Selection of the skill set: beam search for the conflict-free candidates with the largest sum of scores (SSO,
section 3.3; release, skillset.py:241-273).

Two candidates conflict if any of their windows overlap or touch in the same piece. Sets are bit masks over the pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rsso_dspy.memory.skills.skill import SkillCandidate


@dataclass(frozen=True, slots=True)
class Selection:
    """Positions in the pool."""

    best: tuple[int, ...]
    """The best set, best candidate first."""
    used: tuple[int, ...]
    """Every candidate of any beam, most used first; equally used ones in pool order."""


class Beam(NamedTuple):
    score: int
    members: tuple[int, ...]
    mask: int
    open: int
    """Candidates that may still join: later in the pool than all members, and without conflicts."""


def search_skill_set(pool: Sequence[SkillCandidate], scores: Sequence[int], width: int) -> Selection:
    """Search a pool, sorted by decreasing score, with ``width`` beams, each extended ``width`` times a round.

    Scores are integers, so equal sums tie exactly and keep the order in which they were found. All beams start empty
    with the whole pool, so the first round tries up to ``width`` squared single candidates.
    """
    if not pool:
        return Selection((), ())
    conflicts = ConflictMasks(pool)
    beams = [Beam(0, (), 0, (1 << len(pool)) - 1)] * width
    seen: set[int] = set()
    uses = [0] * len(pool)
    while any(beam.open for beam in beams):
        grown = [beam._replace(open=0) for beam in beams]
        for beam in beams:
            for position in _take_unseen_extensions(beam, seen, width):
                later = beam.open >> (position + 1) << (position + 1)
                grown.append(
                    Beam(
                        beam.score + scores[position],
                        (*beam.members, position),
                        beam.mask | 1 << position,
                        later & ~conflicts[position],
                    )
                )
        beams = sorted(grown, key=lambda beam: -beam.score)[:width]
        for beam in beams:
            for position in beam.members:
                uses[position] += 1
    used = sorted((position for position, count in enumerate(uses) if count), key=lambda position: -uses[position])
    return Selection(beams[0].members, tuple(used))


def _take_unseen_extensions(beam: Beam, seen: set[int], limit: int) -> list[int]:
    """Return the first ``limit`` open candidates that form a new set, and mark these sets as seen."""
    found: list[int] = []
    rest = beam.open
    while rest and len(found) < limit:
        lowest = rest & -rest
        rest ^= lowest
        if beam.mask | lowest not in seen:
            seen.add(beam.mask | lowest)
            found.append(lowest.bit_length() - 1)
    return found


class ConflictMasks:
    """Masks of conflicting candidates, including the candidate itself; rows are computed on demand."""

    def __init__(self, pool: Sequence[SkillCandidate]):
        self._spans = np.array([candidate.spans for candidate in pool], dtype=np.int64).reshape(len(pool), -1, 3)
        self._rows: dict[int, int] = {}

    def __getitem__(self, position: int) -> int:
        if position not in self._rows:
            piece, start, end = np.moveaxis(self._spans, 2, 0)
            hit = np.zeros(len(self._spans), dtype=bool)
            for own_piece, own_start, own_end in self._spans[position]:
                near = (np.maximum(start, own_start) <= np.minimum(end, own_end)) & (piece == own_piece)
                hit |= near.any(axis=1)
            self._rows[position] = int.from_bytes(np.packbits(hit, bitorder="little").tobytes(), "little")
        return self._rows[position]
