"""What skills are made of: the settings of Skill Set Optimization with their sources; records, from a stretch of a
trajectory to a skill in words; and the pairs of windows that skills are chosen from, which come from different trials
unless ``pairs="any"`` (SSO, section 3.1): every window of a new piece with its best one in each earlier piece. Two
windows of n states are as similar as their n aligned state descriptions, and the n - 1 actions between them, are in the
mean: a difference of cumulative sums along a diagonal of one matrix per pair of pieces. Each distinct text is embedded
once and referred to by its index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.errors import BackendFailure, UsageError
from rsso_dspy.memory.texts import BILLION, Embed
from rsso_dspy.records import State, Trajectory

Integers = NDArray[np.int64]

WEIGHTS = {"coverage": 0.01, "reward": 0.1, "state": 1.0, "action": 1.0, "feedback": 1.0}
"""Weights of the terms of a score, those of similarities also in matching (release, main.py:196-215; the class default
for rewards is 0.01). Feedback counts while it is on, in the divisor too."""


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """The defaults are the preset ``sso-adapt/3``. "Release" is the published code, allenai/sso at commit 133b6a7, with
    the defaults of its command line; "paper" is the rSSO paper, or where it is silent Nottingham et al. (2024)."""

    extraction: Literal["reward-boundary", "sliding"] = "reward-boundary"
    """How windows are cut. ``reward-boundary``: windows end at a positive reward and contain no other (paper, section
    2). ``sliding``: every stretch of a piece (release, skillset.py:99-105)."""
    pairs: Literal["across-trials", "any"] = "across-trials"  # (paper, section 2.2; release)
    max_trajectories: int = 10  # number of newest pieces to match with each other (release, skillset.py:90)
    max_piece: int = 50  # maximum states in a piece; longer trajectories are cut (release, skillset.py:60-75)
    min_piece: int = 3  # minimum states in a piece, or those of one smallest window. The release uses 4.
    min_window: int = 3  # minimum states in a window, including first and last: one more than it has actions
    max_window: int = 6  # the release stops at 5 (skillset.py:100). The paper's 3 to 6 steps are 4 to 7 states.
    beams: int = 20  # beam width of the search for a skill set (release, num_beams)
    pool_size: int = 5000  # maximum candidates kept for the next search (release, max_skills)
    retrieved: int = 3  # maximum skills shown per step (paper, Algorithm 1, TOPSKILLS)
    feedback: bool = False  # score the return after a targeted skill: the release does, the paper does not
    build_repeats: bool = True  # match a piece that equals an earlier one; the release skips it (skillset.py:93-95)
    keep_when_constant: bool = True  # what a similarity that has had one value only lets pass: all, or none (release)
    inventory_first: bool = False  # for embedders that read only the beginning
    skip_reached: bool = False  # do not show a skill again that was carried out in the last steps
    past_reward: bool = False  # verbalize one action beyond the windows where both examples continue with the same one
    trim_excerpts: bool = False  # show the verbalizer of an excerpt only what differs from the one before it
    count_overhang: bool = False  # count last windows twice in running means, as the release does (skillset.py:99)

    def __post_init__(self) -> None:
        if not 2 <= self.min_window <= self.max_window <= self.max_piece:
            raise UsageError(
                "memory.skills: windows need 2 <= min_window <= max_window <= max_piece, "
                f"not {self.min_window}, {self.max_window}, {self.max_piece}"
            )

    def describe(self, state: State) -> str:
        return state.inventory_first if self.inventory_first else state.description

    @classmethod
    def adapt(cls) -> "SkillSettings":
        return cls(past_reward=True, skip_reached=True, trim_excerpts=True)

    @classmethod
    def sso_release(cls) -> "SkillSettings":
        return cls(
            extraction="sliding", pairs="any", min_piece=4, max_window=5, feedback=True, build_repeats=False,
            keep_when_constant=False, count_overhang=True,
        )  # fmt: skip


class Span(NamedTuple):
    """States [``start``, ``end``) of the piece with that index."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored part of a trajectory, ending at a positive reward. The three sequences are aligned by state."""

    trial: int
    offset: int  # index in the trial of the first state
    states: tuple[State, ...]
    actions: tuple[str, ...]  # the action before each state; empty for the start of a trial
    rewards: tuple[int, ...]  # points gained at each state
    trajectory: int = 0  # pieces of one trajectory share a number. Trials of other units have their own numbers.

    def __len__(self) -> int:
        return len(self.states)

    @property
    def content(self) -> tuple[str, ...]:
        return (*(state.description for state in self.states), *self.actions)

    def dump(self, texts: dict[str, int]) -> dict[str, Any]:
        def intern(*said: str) -> list[int]:
            return [texts.setdefault(text, len(texts)) for text in said]

        return {
            "trial": self.trial,
            "offset": self.offset,
            "trajectory": self.trajectory,
            "states": [intern(state.observation, state.look, state.inventory) for state in self.states],
            "actions": intern(*self.actions),
            "rewards": list(self.rewards),
        }

    @classmethod
    def load(cls, entry: dict[str, Any], texts: Sequence[str]) -> "Piece":
        states = tuple(State(*(texts[index] for index in state)) for state in entry["states"])
        actions = tuple(texts[index] for index in entry["actions"])
        return cls(entry["trial"], entry["offset"], states, actions, tuple(entry["rewards"]), entry["trajectory"])


@dataclass(frozen=True, slots=True)
class Window:
    """One example of a skill: n states, the n - 1 actions between them, and the points gained on arriving at each."""

    piece: int
    start: int
    end: int
    states: tuple[State, ...]
    actions: tuple[str, ...]
    rewards: tuple[int, ...]

    @classmethod
    def from_span(cls, span: Span, pieces: Sequence[Piece]) -> "Window":
        piece = pieces[span.piece]
        part = slice(span.start, span.end)
        return cls(*span, piece.states[part], piece.actions[part][1:], piece.rewards[part])


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """Two matched windows, the earlier piece first, with their similarities in billionths."""

    spans: tuple[Span, ...]
    state: int
    action: int

    def dump(self) -> list[int]:
        return [self.state, self.action, *(number for span in self.spans for number in span)]

    @classmethod
    def load(cls, row: Sequence[int]) -> "SkillCandidate":
        state, action, *numbers = row
        return cls(tuple(Span(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)), state, action)


@dataclass(frozen=True, slots=True)
class SkillScores:
    """The terms of a candidate's score before weighting (2 = average), and their weighted mean."""

    coverage: float
    reward: float
    state: float
    action: float
    feedback: float  # sum over feedback events, negative if the skill was targeted without a reward; 0 without events
    total: float


@dataclass(frozen=True, slots=True)
class Verbalization:
    """A language model's description of a skill (SSO, section 3: summary, instructions, target)."""

    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str  # the observation that marks the end of the skill; shown to the actor as the subgoal


@dataclass(frozen=True, slots=True)
class Skill(Verbalization):
    id: str  # digest of the content of its windows: the same examples have the same id in every run
    spans: tuple[Span, ...]  # of its windows, the earlier piece first
    scores: SkillScores
    retrieved: int = 0  # number of steps at which it was shown
    targeted: int = 0  # number of steps at which the actor named its target as the subgoal
    beyond: int = 0  # number of actions by which its words go beyond its windows (`SkillSettings.past_reward`): 0 or 1

    def dump(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in _PLAIN}
        data |= {"instructions": list(self.instructions), "scores": asdict(self.scores)}
        return data | {"windows": [list(span) for span in self.spans]}

    @classmethod
    def load(cls, entry: dict[str, Any]) -> "Skill":
        spans = tuple(Span(*numbers) for numbers in entry["windows"])
        instructions = tuple(entry["instructions"])
        scores = SkillScores(**entry["scores"])
        return cls(**{name: entry[name] for name in _PLAIN}, instructions=instructions, spans=spans, scores=scores)


_PLAIN = ("id", "name", "summary", "target", "retrieved", "targeted", "beyond")


# Texts.

PUNCTUATION = ".,!?\"')(}{][:;"
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})


def normalize_text(text: str, keep_fill_words: bool = False) -> str:
    """Normalize a text for comparison: lower case, without punctuation and fill words (release, utils.py:12-20)."""
    words = (word.strip(PUNCTUATION) for word in text.lower().split())
    return " ".join(word for word in words if word and (keep_fill_words or word not in FILL_WORDS))


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
    start = 0
    fewest = max(settings.min_piece, settings.min_window)
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
        size = len(rewards)
        last = size + settings.count_overhang
        bounds = [(start, start + length) for start in range(size) for length in lengths if start + length <= last]
        return [(start, end) for start, end in bounds if min(end, size) - start >= settings.min_window]
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


class TextIndex:
    def __init__(self, embed: Embed):
        self._embed = embed
        self._index: dict[str, int] = {}
        self._meaning: dict[str, int] = {}
        self._meanings: list[int] = []
        self._rows: list[NDArray[np.float64]] = []

    def index_texts(self, texts: Iterable[str]) -> Integers:
        all_texts = list(texts)
        new = [text for text in dict.fromkeys(all_texts) if text not in self._index]
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
        return np.array([self._index[text] for text in all_texts], dtype=np.int64)

    def compute_similarities(self, left: Integers, right: Integers) -> Integers:
        """Return (len(left), len(right)) cosines in billionths; texts that are equal after normalization count as 1."""
        rows, row = np.unique(left, return_inverse=True)
        columns, column = np.unique(right, return_inverse=True)
        ours = np.stack([self._rows[index] for index in rows])
        theirs = np.stack([self._rows[index] for index in columns])
        billionths = np.rint(ours @ theirs.T * BILLION).astype(np.int64)
        meanings = np.array(self._meanings, dtype=np.int64)
        same = meanings[rows][:, None] == meanings[columns][None, :]
        return np.where(same, BILLION, billionths)[row[:, None], column[None, :]]


# Match windows.

Partner = tuple[Span, int, int]  # best window of an earlier piece; its state and action similarity in billionths


@dataclass(frozen=True, slots=True)
class PieceTexts:
    states: Integers
    actions: Integers  # the action before each state
    windows: tuple[tuple[int, int], ...]

    @classmethod
    def from_piece(cls, piece: Piece, texts: TextIndex, settings: SkillSettings) -> "PieceTexts":
        indices = texts.index_texts([*map(settings.describe, piece.states), *piece.actions])
        return cls(indices[: len(piece)], indices[len(piece) :], tuple(list_windows(piece.rewards, settings)))

    def find_window_starts(self, length: int) -> Integers:
        inside = [start for start, end in self.windows if end <= len(self.states) and end - start == length]
        return np.array(inside, dtype=np.int64)


def match_windows(
    new: int, earlier: Sequence[int], pieces: Mapping[int, PieceTexts], texts: TextIndex, settings: SkillSettings
) -> list[SkillCandidate]:
    piece = pieces[new]
    old_pieces = [pieces[old] for old in earlier]
    # Two products serve all pieces; many small ones would spend more time on starting threads than on arithmetic.
    ends = np.cumsum([len(old_piece.states) for old_piece in old_pieces])[:-1]
    states = texts.compute_similarities(piece.states, np.concatenate([old_piece.states for old_piece in old_pieces]))
    actions = texts.compute_similarities(piece.actions, np.concatenate([old_piece.actions for old_piece in old_pieces]))
    parts = zip(earlier, np.split(states, ends, axis=1), np.split(actions, ends, axis=1), strict=True)
    partners = [
        _find_best_partners(old, piece, pieces[old], _sum_diagonals(state), _sum_diagonals(action), settings)
        for old, state, action in parts
    ]
    candidates = []
    for start, end in piece.windows:
        length = min(end, len(piece.states)) - start
        for best in partners:
            if partner := best.get((start, length)):
                span, state, action = partner
                candidates.append(SkillCandidate((span, Span(new, start, end)), state, action))
    return candidates


def _find_best_partners(
    index: int, new: PieceTexts, old: PieceTexts, states: Integers, actions: Integers, settings: SkillSettings
) -> dict[tuple[int, int], Partner]:
    """Return the most similar window of the old piece for each (start, length) of the new, the earliest of equals."""
    best: dict[tuple[int, int], Partner] = {}
    for length in range(settings.min_window, settings.max_window + 1):
        rows = new.find_window_starts(length)[:, None]
        columns = old.find_window_starts(length)[None, :]
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
