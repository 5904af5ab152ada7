"""Pair windows of pieces, which come from different trials unless ``pairs="any"`` (SSO, section 3.1): every window of a
new piece with its best one in each earlier piece. Two windows of n states are as similar as their n aligned state
descriptions, and the n - 1 actions between them, are in the mean: a difference of cumulative sums along a diagonal of
one matrix per pair of pieces. Each distinct text is embedded once and referred to by its index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.errors import BackendFailure
from rsso_dspy.memory.skills.skill import WEIGHTS, Piece, Skill, SkillCandidate, SkillSettings, Span, normalize_text
from rsso_dspy.memory.texts import BILLION, Embed
from rsso_dspy.records import State, Trajectory

Integers = NDArray[np.int64]
Partner = tuple[Span, int, int]  # best window of an earlier piece; its state and action similarity in billionths


# Cut a trajectory into pieces, and a piece into windows (release, skillset.py:60-75, 99-105).


def cut_trajectory(trajectory: Trajectory, settings: SkillSettings, number: int = 0) -> list[Piece]:
    """Pieces end at a positive reward, and the smallest holds one window. ``number`` identifies the trajectory."""
    states = trajectory.states
    actions = ("", *(step.action for step in trajectory.steps))
    rewards = (0, *(step.reward for step in trajectory.steps))
    return [
        Piece(trajectory.trial, start, states[start:end], actions[start:end], rewards[start:end], number)
        for start, end in _find_piece_bounds(rewards, settings)
    ]


def _find_piece_bounds(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of each piece. It ends after the last reward in reach; the cut moves on if that is short."""
    bounds: list[tuple[int, int]] = []
    start, fewest = 0, max(settings.min_piece, settings.min_window)
    while start < len(rewards):
        stop = min(start + settings.max_piece, len(rewards))
        end = next((index + 1 for index in range(stop - 1, start - 1, -1) if rewards[index] > 0), start)
        if end - start >= fewest:
            bounds.append((start, end))
            start = end
        else:
            start += 1
    return bounds


def list_windows(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of every window of a piece, by start, then by length. With ``count_overhang`` some ends lie
    one past the piece: those windows hold one state less than their bounds."""
    lengths = range(settings.min_window, settings.max_window + 1)
    if settings.extraction == "sliding":
        size, spare = len(rewards), 1 if settings.count_overhang else 0
        found = [(start, start + length) for start in range(size) for length in lengths]
        fit = [each for each in found if each[1] <= size + spare]
        return [(start, end) for start, end in fit if min(end, size) - start >= settings.min_window]
    # The state after a reward ends one segment and starts the next.
    boundaries = [index for index, reward in enumerate(rewards) if reward > 0]
    first = dict(zip(boundaries, [0, *boundaries], strict=False))
    return sorted(
        (boundary + 1 - length, boundary + 1)
        for boundary in boundaries
        for length in lengths
        if boundary + 1 - length >= first[boundary]
    )


# Texts and their similarities.


def get_embedding_text(state: State, settings: SkillSettings) -> str:
    return state.inventory_first if settings.inventory_first else state.description


class TextIndex:
    def __init__(self, embed: Embed):
        self._embed = embed
        self._index: dict[str, int] = {}
        self._meaning: dict[str, int] = {}
        self._meanings: list[int] = []
        self._rows: list[NDArray[np.float64]] = []

    def index_texts(self, texts: Iterable[str]) -> Integers:
        wanted = list(texts)
        new = [text for text in dict.fromkeys(wanted) if text not in self._index]
        if new:
            rows = np.asarray(self._embed(new), dtype=np.float64)
            if rows.ndim != 2 or len(rows) != len(new) or not np.isfinite(rows).all():
                raise BackendFailure(
                    f"the embedder answered {len(new)} texts with an array of shape {rows.shape}; expected "
                    f"({len(new)}, d) finite numbers. Check the backend of `embed`."
                )
            for text, row in zip(new, rows, strict=True):
                self._index[text] = len(self._rows)
                self._rows.append(row)
                self._meanings.append(self._meaning.setdefault(normalize_text(text), len(self._meaning)))
        return np.array([self._index[text] for text in wanted], dtype=np.int64)

    def compute_similarities(self, left: Integers, right: Integers) -> Integers:
        """Return (len(left), len(right)) cosines in billionths; texts that are equal after normalization count as 1."""
        (rows, row), (columns, column) = (np.unique(side, return_inverse=True) for side in (left, right))
        ours, theirs = (np.stack([self._rows[index] for index in side]) for side in (rows, columns))
        billionths = np.rint(ours @ theirs.T * BILLION).astype(np.int64)
        meanings = np.array(self._meanings, dtype=np.int64)
        same = meanings[rows][:, None] == meanings[columns][None, :]
        return np.where(same, BILLION, billionths)[row[:, None], column[None, :]]


def rank_by_similarity(
    library: Sequence[Skill], state: State, texts: TextIndex, settings: SkillSettings
) -> list[tuple[Skill, int]]:
    """Rank all skills by the mean cosine, in billionths, of ``state`` and the first states of their windows, best
    first, equals in library order (paper, Algorithm 1; release, skillset.py:140-161)."""
    if not library:
        return []
    here = texts.index_texts([get_embedding_text(state, settings)])
    starts = texts.index_texts(
        get_embedding_text(window.states[0], settings) for skill in library for window in skill.windows
    )
    cosines = iter(texts.compute_similarities(starts, here)[:, 0].tolist())
    means = [sum(next(cosines) for _ in skill.windows) // len(skill.windows) for skill in library]
    return sorted(zip(library, means, strict=True), key=lambda pair: -pair[1])


# Match windows.


@dataclass(frozen=True, slots=True)
class PieceTexts:
    states: Integers
    actions: Integers  # the action before each state
    windows: tuple[tuple[int, int], ...]

    @classmethod
    def from_piece(cls, piece: Piece, texts: TextIndex, settings: SkillSettings) -> "PieceTexts":
        described = [get_embedding_text(state, settings) for state in piece.states]
        both = texts.index_texts([*described, *piece.actions])
        return cls(both[: len(piece)], both[len(piece) :], tuple(list_windows(piece.rewards, settings)))

    def find_window_starts(self, length: int) -> Integers:
        inside = [start for start, end in self.windows if end <= len(self.states) and end - start == length]
        return np.array(inside, dtype=np.int64)


def match_windows(
    new: int, earlier: Sequence[int], pieces: Mapping[int, PieceTexts], texts: TextIndex, settings: SkillSettings
) -> list[SkillCandidate]:
    piece, others = pieces[new], [pieces[old] for old in earlier]
    # Two products serve all pieces; many small ones would spend more time on starting threads than on arithmetic.
    ends = np.cumsum([len(other.states) for other in others])[:-1]
    states = texts.compute_similarities(piece.states, np.concatenate([other.states for other in others]))
    actions = texts.compute_similarities(piece.actions, np.concatenate([other.actions for other in others]))
    parts = zip(earlier, np.split(states, ends, axis=1), np.split(actions, ends, axis=1), strict=True)
    partners = [
        _find_best_partners(old, piece, pieces[old], _sum_diagonals(state), _sum_diagonals(action), settings)
        for old, state, action in parts
    ]
    found = []
    for start, end in piece.windows:
        length = min(end, len(piece.states)) - start
        for best in partners:
            if partner := best.get((start, length)):
                span, state, action = partner
                found.append(SkillCandidate((span, Span(new, start, end)), state, action))
    return found


def _find_best_partners(
    index: int, new: PieceTexts, old: PieceTexts, states: Integers, actions: Integers, settings: SkillSettings
) -> dict[tuple[int, int], Partner]:
    """Return the most similar window of the old piece for each (start, length) of the new, the earliest of equals."""
    best: dict[tuple[int, int], Partner] = {}
    for length in range(settings.min_window, settings.max_window + 1):
        rows, columns = new.find_window_starts(length)[:, None], old.find_window_starts(length)[None, :]
        if not rows.size or not columns.size:
            continue
        state = _divide_rounded(states[rows + length, columns + length] - states[rows, columns], length)
        action = _divide_rounded(actions[rows + length, columns + length] - actions[rows + 1, columns + 1], length - 1)
        choice = np.argmax(WEIGHTS["state"] * state + WEIGHTS["action"] * action, axis=1)
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
    return (sums + count // 2) // count
