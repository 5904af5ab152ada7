"""Pair every window of a new piece with its best window in each earlier piece (SSO, section 3.1).

The state similarity of two windows of n states is the mean cosine of their n aligned state descriptions, and their
action similarity that of the n - 1 actions between them. All windows of one length lie on diagonals of one matrix per
pair of pieces, so their means are differences of cumulative sums along diagonals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rsso_dspy.memory.skills.retrieve import Integers, TextIndex
from rsso_dspy.memory.skills.skill import SkillCandidate, SkillSettings, Span

Partner = tuple[Span, int, int]
"""The best window of an earlier piece, its state similarity and its action similarity in billionths."""


@dataclass(frozen=True, slots=True)
class PieceTexts:
    """A piece as text indices, one per state, with its windows."""

    states: Integers
    actions: Integers
    """The action before each state."""
    windows: tuple[tuple[int, int], ...]

    def find_window_starts(self, length: int) -> Integers:
        """Return the first states of the windows with exactly ``length`` states."""
        inside = [start for start, end in self.windows if end <= len(self.states) and end - start == length]
        return np.array(inside, dtype=np.int64)


def match_windows(
    new: int, earlier: Sequence[int], pieces: Mapping[int, PieceTexts], texts: TextIndex, settings: SkillSettings
) -> list[SkillCandidate]:
    """Return one candidate per window of piece ``new`` and earlier piece with a window of that length, in order."""
    piece = pieces[new]
    states, actions = _compute_piece_similarities(piece, [pieces[old] for old in earlier], texts)
    partners = [
        _find_best_partners(old, piece, pieces[old], _sum_diagonals(state), _sum_diagonals(action), settings)
        for old, state, action in zip(earlier, states, actions, strict=True)
    ]
    found = []
    for start, end in piece.windows:
        length = min(end, len(piece.states)) - start
        for best in partners:
            if partner := best.get((start, length)):
                span, state, action = partner
                found.append(SkillCandidate((span, Span(new, start, end)), state, action))
    return found


def _compute_piece_similarities(
    new: PieceTexts, earlier: Sequence[PieceTexts], texts: TextIndex
) -> tuple[list[Integers], list[Integers]]:
    """Return the (n, m) similarities of states and of actions per earlier piece.

    Two products serve all pieces; many small ones would spend more time on starting threads than on arithmetic.
    """
    ends = np.cumsum([len(piece.states) for piece in earlier])[:-1]
    states = texts.compute_similarities(new.states, np.concatenate([piece.states for piece in earlier]))
    actions = texts.compute_similarities(new.actions, np.concatenate([piece.actions for piece in earlier]))
    return np.split(states, ends, axis=1), np.split(actions, ends, axis=1)


def _find_best_partners(
    index: int, new: PieceTexts, old: PieceTexts, states: Integers, actions: Integers, settings: SkillSettings
) -> dict[tuple[int, int], Partner]:
    """Return the most similar window of the old piece for each (start, length) of the new one, the earliest of equals.

    ``states`` and ``actions`` are diagonal sums.
    """
    best: dict[tuple[int, int], Partner] = {}
    for length in range(settings.min_window, settings.max_window + 1):
        rows, columns = new.find_window_starts(length)[:, None], old.find_window_starts(length)[None, :]
        if not rows.size or not columns.size:
            continue
        state = _divide_rounded(states[rows + length, columns + length] - states[rows, columns], length)
        action = _divide_rounded(actions[rows + length, columns + length] - actions[rows + 1, columns + 1], length - 1)
        choice = np.argmax(settings.state_weight * state + settings.action_weight * action, axis=1)
        for row, (start, column) in enumerate(zip(rows[:, 0].tolist(), choice.tolist(), strict=True)):
            first = int(columns[0, column])
            partner = Span(index, first, first + length)
            best[start, length] = (partner, int(state[row, column]), int(action[row, column]))
    return best


def _sum_diagonals(matrix: Integers) -> Integers:
    """Return (n + 1, m + 1) sums: entry [i, j] is the sum of the diagonal that ends just before (i, j)."""
    sums = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1), dtype=np.int64)
    for row in range(matrix.shape[0]):
        sums[row + 1, 1:] = sums[row, :-1] + matrix[row]
    return sums


def _divide_rounded(sums: Integers, count: int) -> Integers:
    """Round to the nearest whole billionth."""
    return (sums + count // 2) // count
