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
        descriptions = [state.description for state in self.states]
        return (*descriptions, *self.actions)

    def dump(self, texts: dict[str, int]) -> dict[str, Any]:
        def intern(*own_texts: str) -> list[int]:
            return [texts.setdefault(text, len(texts)) for text in own_texts]

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
        states = []
        for indices in entry["states"]:
            own_texts = [texts[index] for index in indices]
            states.append(State(*own_texts))
        actions = [texts[index] for index in entry["actions"]]
        return cls(
            trial=entry["trial"],
            offset=entry["offset"],
            states=tuple(states),
            actions=tuple(actions),
            rewards=tuple(entry["rewards"]),
            trajectory=entry["trajectory"],
        )


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
        return cls(
            piece=span.piece,
            start=span.start,
            end=span.end,
            states=piece.states[part],
            actions=piece.actions[part][1:],
            rewards=piece.rewards[part],
        )


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """Two matched windows, the earlier piece first, with their similarities in billionths."""

    spans: tuple[Span, ...]
    state: int
    action: int

    def dump(self) -> list[int]:
        row = [self.state, self.action]
        for span in self.spans:
            row += span
        return row

    @classmethod
    def load(cls, row: Sequence[int]) -> "SkillCandidate":
        state, action, *numbers = row
        spans = [Span(*numbers[first : first + 3]) for first in range(0, len(numbers), 3)]
        return cls(tuple(spans), state, action)


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
        data["instructions"] = list(self.instructions)
        data["scores"] = asdict(self.scores)
        data["windows"] = [list(span) for span in self.spans]
        return data

    @classmethod
    def load(cls, entry: dict[str, Any]) -> "Skill":
        spans = tuple(Span(*numbers) for numbers in entry["windows"])
        instructions = tuple(entry["instructions"])
        scores = SkillScores(**entry["scores"])
        plain = {name: entry[name] for name in _PLAIN}
        return cls(**plain, instructions=instructions, spans=spans, scores=scores)


_PLAIN = ("id", "name", "summary", "target", "retrieved", "targeted", "beyond")


# Texts.

PUNCTUATION = ".,!?\"')(}{][:;"
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})


def normalize_text(text: str, keep_fill_words: bool = False) -> str:
    """Normalize a text for comparison: lower case, without punctuation and fill words (release, utils.py:12-20)."""
    words = []
    for token in text.lower().split():
        word = token.strip(PUNCTUATION)
        if word and (keep_fill_words or word not in FILL_WORDS):
            words.append(word)
    return " ".join(words)


# Cut a trajectory into pieces, and a piece into windows (release, skillset.py:60-75, 99-105).


def cut_trajectory(trajectory: Trajectory, settings: SkillSettings, number: int = 0) -> list[Piece]:
    """Pieces end at a positive reward, and the smallest holds one window. ``number`` identifies the trajectory."""
    states = trajectory.states
    actions = ("", *(step.action for step in trajectory.steps))
    rewards = (0, *(step.reward for step in trajectory.steps))

    pieces = []
    for start, end in _find_piece_bounds(rewards, settings):
        piece = Piece(
            trial=trajectory.trial,
            offset=start,
            states=states[start:end],
            actions=actions[start:end],
            rewards=rewards[start:end],
            trajectory=number,
        )
        pieces.append(piece)
    return pieces


def _find_piece_bounds(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of each piece. It ends after the last reward in reach; the cut moves on if that is short."""
    bounds: list[tuple[int, int]] = []
    start = 0
    fewest = max(settings.min_piece, settings.min_window)
    while start < len(rewards):
        stop = min(start + settings.max_piece, len(rewards))
        end = _find_piece_end(rewards, start, stop)
        if end - start >= fewest:
            bounds.append((start, end))
            start = end
        else:
            start += 1
    return bounds


def _find_piece_end(rewards: Sequence[int], start: int, stop: int) -> int:
    """The index behind the last positive reward of a stretch; `start` if there is none."""
    for index in range(stop - 1, start - 1, -1):
        if rewards[index] > 0:
            return index + 1
    return start


def list_windows(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of every window of a piece, by start, then by length. With ``count_overhang`` some ends lie
    one past the piece: those windows hold one state less than their bounds."""
    if settings.extraction == "sliding":
        return _list_sliding_windows(len(rewards), settings)
    return _list_reward_windows(rewards, settings)


def _list_sliding_windows(size: int, settings: SkillSettings) -> list[tuple[int, int]]:
    last_end = size + settings.count_overhang
    windows = []
    for start in range(size):
        for length in range(settings.min_window, settings.max_window + 1):
            end = start + length
            states_inside = min(end, size) - start
            if end <= last_end and states_inside >= settings.min_window:
                windows.append((start, end))
    return windows


def _list_reward_windows(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Windows at the ends of segments. The state after a reward ends one segment and starts the next."""
    windows = []
    first = 0  # of the segment
    for index, reward in enumerate(rewards):
        if reward <= 0:
            continue
        end = index + 1
        for length in range(settings.min_window, settings.max_window + 1):
            start = end - length
            if start >= first:
                windows.append((start, end))
        first = index
    return sorted(windows)


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
            for text, row in zip(new, self._compute_rows(new), strict=True):
                self._add_text(text, row)
        return np.array([self._index[text] for text in all_texts], dtype=np.int64)

    def _compute_rows(self, texts: Sequence[str]) -> NDArray[np.float64]:
        rows = np.asarray(self._embed(texts), dtype=np.float64)
        if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
            raise BackendFailure(
                f"the embedder answered {len(texts)} texts with an array of shape {rows.shape}; expected "
                f"({len(texts)}, d) finite numbers. Check the backend of `embed`."
            )
        return rows

    def _add_text(self, text: str, row: NDArray[np.float64]) -> None:
        self._index[text] = len(self._rows)
        self._rows.append(row)
        meaning = self._meaning.setdefault(normalize_text(text), len(self._meaning))
        self._meanings.append(meaning)

    def compute_similarities(self, left: Integers, right: Integers) -> Integers:
        """Return (len(left), len(right)) cosines in billionths; texts that are equal after normalization count as 1."""
        rows, row_of = np.unique(left, return_inverse=True)
        columns, column_of = np.unique(right, return_inverse=True)
        ours = np.stack([self._rows[index] for index in rows])
        theirs = np.stack([self._rows[index] for index in columns])

        cosines = ours @ theirs.T
        billionths = np.rint(cosines * BILLION).astype(np.int64)

        meanings = np.array(self._meanings, dtype=np.int64)
        have_same_meaning = meanings[rows][:, None] == meanings[columns][None, :]
        similarities = np.where(have_same_meaning, BILLION, billionths)
        return similarities[row_of[:, None], column_of[None, :]]


# Match windows.


class Partner(NamedTuple):
    """The best window of an earlier piece, with its similarities in billionths."""

    span: Span
    state: int
    action: int


@dataclass(frozen=True, slots=True)
class PieceTexts:
    states: Integers
    actions: Integers  # the action before each state
    windows: tuple[tuple[int, int], ...]

    @classmethod
    def from_piece(cls, piece: Piece, texts: TextIndex, settings: SkillSettings) -> "PieceTexts":
        descriptions = [settings.describe(state) for state in piece.states]
        indices = texts.index_texts([*descriptions, *piece.actions])
        windows = list_windows(piece.rewards, settings)
        return cls(states=indices[: len(piece)], actions=indices[len(piece) :], windows=tuple(windows))

    def find_window_starts(self, length: int) -> Integers:
        starts = []
        for start, end in self.windows:
            is_inside = end <= len(self.states)
            if is_inside and end - start == length:
                starts.append(start)
        return np.array(starts, dtype=np.int64)


def match_windows(
    new: int, earlier: Sequence[int], pieces: Mapping[int, PieceTexts], texts: TextIndex, settings: SkillSettings
) -> list[SkillCandidate]:
    piece = pieces[new]
    old_pieces = [pieces[old] for old in earlier]
    old_states = [old_piece.states for old_piece in old_pieces]
    old_actions = [old_piece.actions for old_piece in old_pieces]

    # Two products serve all pieces; many small ones would spend more time on starting threads than on arithmetic.
    ends = np.cumsum([len(states) for states in old_states])[:-1]
    state_similarities = texts.compute_similarities(piece.states, np.concatenate(old_states))
    action_similarities = texts.compute_similarities(piece.actions, np.concatenate(old_actions))
    state_parts = np.split(state_similarities, ends, axis=1)
    action_parts = np.split(action_similarities, ends, axis=1)

    partners = []
    for old, state_part, action_part in zip(earlier, state_parts, action_parts, strict=True):
        state_sums = _sum_diagonals(state_part)
        action_sums = _sum_diagonals(action_part)
        partners.append(_find_best_partners(old, piece, pieces[old], state_sums, action_sums, settings))

    candidates = []
    for start, end in piece.windows:
        length = min(end, len(piece.states)) - start
        for best in partners:
            partner = best.get((start, length))
            if partner is not None:
                spans = (partner.span, Span(new, start, end))
                candidates.append(SkillCandidate(spans, partner.state, partner.action))
    return candidates


def _find_best_partners(
    index: int, new: PieceTexts, old: PieceTexts, states: Integers, actions: Integers, settings: SkillSettings
) -> dict[tuple[int, int], Partner]:
    """Return the most similar window of the old piece for each (start, length) of the new, the earliest of equals.
    `states` and `actions` are sums of similarities along the diagonals, as of `_sum_diagonals`."""
    best: dict[tuple[int, int], Partner] = {}
    for length in range(settings.min_window, settings.max_window + 1):
        rows = new.find_window_starts(length)[:, None]
        columns = old.find_window_starts(length)[None, :]
        if not rows.size or not columns.size:
            continue

        state_sums = states[rows + length, columns + length] - states[rows, columns]
        action_sums = actions[rows + length, columns + length] - actions[rows + 1, columns + 1]
        state = _divide_rounded(state_sums, length)
        action = _divide_rounded(action_sums, length - 1)
        scores = WEIGHTS["state"] * state + WEIGHTS["action"] * action

        choice = np.argmax(scores, axis=1)
        for row, column in enumerate(choice.tolist()):
            start = int(rows[row, 0])
            first = int(columns[0, column])
            best[start, length] = Partner(
                span=Span(index, first, first + length),
                state=int(state[row, column]),
                action=int(action[row, column]),
            )
    return best


def _sum_diagonals(matrix: Integers) -> Integers:
    """Return (n + 1, m + 1) sums: entry [i, j] is the sum of the diagonal that ends just before (i, j)."""
    height, width = matrix.shape
    sums = np.zeros((height + 1, width + 1), dtype=np.int64)
    for row in range(height):
        sums[row + 1, 1:] = sums[row, :-1] + matrix[row]
    return sums


def _divide_rounded(sums: Integers, count: int) -> Integers:
    return (sums + count // 2) // count
