"""The settings of Skill Set Optimization with their sources, and its records, from a stretch of a trajectory to a skill
in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from rsso_dspy.memory import BILLION
from rsso_dspy.records import State

FREE = frozenset({"past_reward", "skip_reached"})
"""Settings that a stored memory need not agree with: they concern how the next skills are put into words and when they
are shown."""

Extraction = Literal["reward-boundary", "sliding"]

Pairs = Literal["across-trials", "any"]


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """Settings of a ``SkillMemory``. The defaults are the preset ``sso-adapt/2``.

    "Release" below is the published code, allenai/sso at commit 133b6a7, with the defaults of its command line;
    "paper" is the rSSO paper, and the SSO paper (Nottingham et al., 2024) where rSSO is silent.
    """

    extraction: Extraction = "reward-boundary"
    """How windows are cut. ``reward-boundary``: windows end at a positive reward and contain no other (paper, section
    2). ``sliding``: every stretch of a piece (release, skillset.py:99-105)."""
    pairs: Pairs = "across-trials"
    """Which pieces are matched. ``across-trials``: pieces of different trajectories, so that one trial alone makes no
    skill (paper, section 2.2: at least two trajectories). ``any``: also two pieces of one long trajectory (release,
    skillset.py:60-75, 90-117)."""
    max_trajectories: int = 10
    """Number of newest pieces to match with each other (release, skillset.py:90)."""
    max_piece: int = 50
    """Maximum states in a piece; longer trajectories are cut (release, skillset.py:60-75)."""
    min_piece: int = 3
    """Minimum states in a piece: one smallest window. The release uses 4."""
    min_window: int = 3
    """Minimum states in a window, including first and last (paper, section 2)."""
    max_window: int = 6
    """Maximum states in a window (paper, section 2). The loop of the release stops at 5 (skillset.py:100)."""
    windows_per_skill: int = 2
    """Examples of a skill: candidates are pairs, and verbalization shows both (release, max_traj_count)."""
    beams: int = 20
    """Beam width of the search for a skill set (release, num_beams)."""
    pool_size: int = 5000
    """Maximum candidates kept for the next search (release, max_skills)."""
    retrieved: int = 3
    """Maximum skills shown per step (paper, Algorithm 1, TOPSKILLS)."""
    coverage_weight: float = 0.01
    """Weight of the number of steps in the windows (release, main.py:196-215)."""
    reward_weight: float = 0.1
    """Weight of the mean reward sum of the windows (release, main.py:196-215; 0.01 is only its class default)."""
    state_weight: float = 1.0
    """Weight of state similarity, in matching and in the score (release, main.py:196-215)."""
    action_weight: float = 1.0
    """Weight of action similarity, in matching and in the score (release, main.py:196-215)."""
    feedback: bool = False
    """Include the return after a targeted skill in its score. The paper omits it (section 4); the release always uses
    it."""
    feedback_weight: float = 1.0
    """Weight of one feedback event (release, class default); also part of the divisor while ``feedback`` is on."""
    feedback_trials: int = 20
    """Number of newest trials whose feedback counts (release, skill_memory_scale x max_trajectories)."""
    discount: float = 0.9
    """Discount per step of the return that feedback uses (release, skillset.py:77-85)."""
    build_repeats: bool = True
    """Match a piece that equals an earlier one. The release skips it, so an exact repeat teaches nothing
    (skillset.py:93-95)."""
    keep_when_constant: bool = True
    """While a similarity has had only one value, the filter passes every candidate (True) or none (release)."""
    inventory_first: bool = False
    """Embed state descriptions with the inventory first. An embedder that reads only the beginning of a text, such as
    all-MiniLM-L6-v2 with 256 word pieces, otherwise loses the inventory in cluttered rooms."""
    skip_reached: bool = False
    """Do not show a skill again that was carried out in the last steps."""
    past_reward: bool = False
    """Verbalize one action beyond the windows of a skill if both examples continue with the same one: a window ends at
    a reward, and the action that earns the next reward at once is too short to be a skill of its own."""
    count_overhang: bool = False
    """Count the last windows of a new piece twice, as windows one state too long. This changes only the running means.
    A by-product of a loop bound of the release (skillset.py:99-105)."""

    def dump(self) -> dict[str, Any]:
        """The settings as a file holds them: free ones are left out while they are off."""
        return {name: value for name, value in asdict(self).items() if value or name not in FREE}

    def __post_init__(self) -> None:
        if not 2 <= self.min_window <= self.max_window <= self.max_piece:
            raise ValueError(
                "windows need 2 <= min_window <= max_window <= max_piece, "
                f"not {self.min_window}, {self.max_window}, {self.max_piece}"
            )
        if self.windows_per_skill != 2:
            raise ValueError(f"a skill is a pair of windows; windows_per_skill must be 2, not {self.windows_per_skill}")
        for name, known in (("extraction", get_args(Extraction)), ("pairs", get_args(Pairs))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")

    @classmethod
    def adapt(cls) -> "SkillSettings":
        """The protocol ``adapt/3``: the same, put into words as far as the examples agree, and none again at once."""
        return cls(past_reward=True, skip_reached=True)

    @classmethod
    def sso_release(cls) -> "SkillSettings":
        """Return the published code's constants and rules, except defects."""
        return cls(
            extraction="sliding",
            pairs="any",
            min_piece=4,
            max_window=5,
            feedback=True,
            build_repeats=False,
            keep_when_constant=False,
            count_overhang=True,
        )


class Span(NamedTuple):
    """States [``start``, ``end``) of the piece with that index."""

    piece: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A stored part of a trajectory, ending at a positive reward. The three sequences are aligned by state."""

    trial: int
    offset: int
    """Index in the trial of the first state."""
    states: tuple[State, ...]
    actions: tuple[str, ...]
    """The action before each state; empty for the start of a trial."""
    rewards: tuple[int, ...]
    """Points gained at each state."""
    trajectory: int = 0
    """Pieces of one trajectory share a number. Trials of other units have their own numbers."""

    def __len__(self) -> int:
        return len(self.states)

    @property
    def content(self) -> tuple[str, ...]:
        return (*(state.description for state in self.states), *self.actions)

    def dump(self, texts: dict[str, int]) -> dict[str, Any]:
        """The piece as JSON data with the indices of its texts, which are added to `texts`."""

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
    def from_span(cls, span: Span, piece: Piece) -> "Window":
        part = slice(span.start, span.end)
        return cls(*span, piece.states[part], piece.actions[part][1:], piece.rewards[part])

    @property
    def span(self) -> Span:
        return Span(self.piece, self.start, self.end)


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """Two matched windows, the earlier piece first; similarities in billionths."""

    spans: tuple[Span, ...]
    state: int
    action: int

    @property
    def state_similarity(self) -> float:
        """Mean cosine of the aligned state descriptions, -1 to 1."""
        return self.state / BILLION

    @property
    def action_similarity(self) -> float:
        """Mean cosine of the aligned actions, -1 to 1."""
        return self.action / BILLION

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
    feedback: float
    """Sum over feedback events, negative if the skill was targeted without a reward; 0 without events."""
    total: float


@dataclass(frozen=True, slots=True)
class Verbalization:
    """A language model's description of a skill (SSO, section 3: summary, instructions, target)."""

    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    """The observation that marks the end of the skill; shown to the actor as the subgoal."""


@dataclass(frozen=True, slots=True)
class Skill:
    """A verbalized member of the skill set."""

    id: str
    """Digest of the content of its windows: the same examples have the same id in every run."""
    summary: str
    name: str
    instructions: tuple[str, ...]
    target: str
    windows: tuple[Window, ...] = field(repr=False)
    scores: SkillScores
    retrieved: int = 0
    """Number of steps at which it was shown."""
    targeted: int = 0
    """Number of steps at which the actor named its target as the subgoal."""
    beyond: int = 0
    """Number of actions by which its words go beyond its windows (`SkillSettings.past_reward`): 0 or 1."""

    def describe(self) -> str:
        """Target and instructions in one line, for the question whether two skills are equivalent."""
        return f"Target: {self.target} Instructions: {'; '.join(self.instructions)}"

    def dump(self) -> dict[str, Any]:
        """JSON data with the windows as bounds; `beyond` is left out while it is 0."""
        data = {
            "id": self.id,
            "name": self.name,
            "summary": self.summary,
            "instructions": list(self.instructions),
            "target": self.target,
            "windows": [list(window.span) for window in self.windows],
            "scores": asdict(self.scores),
            "retrieved": self.retrieved,
            "targeted": self.targeted,
        }
        return data | ({"beyond": self.beyond} if self.beyond else {})

    @classmethod
    def load(cls, entry: dict[str, Any], pieces: Sequence[Piece]) -> "Skill":
        spans = [Span(*numbers) for numbers in entry["windows"]]
        read = {
            "instructions": tuple(entry["instructions"]),
            "windows": tuple(Window.from_span(span, pieces[span.piece]) for span in spans),
            "scores": SkillScores(**entry["scores"]),
            "beyond": entry.get("beyond", 0),
        }
        names = ("id", "summary", "name", "target", "retrieved", "targeted")
        return cls(**{name: entry[name] for name in names}, **read)
