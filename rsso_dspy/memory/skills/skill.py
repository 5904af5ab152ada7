"""A skill: the settings of Skill Set Optimization with their sources, its records from a stretch of a trajectory to a
skill in words, its text in the prompt, and which skill a step pursued."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Recall
from rsso_dspy.records import State, Step

WEIGHTS = {"coverage": 0.01, "reward": 0.1, "state": 1.0, "action": 1.0, "feedback": 1.0}
"""Weights of the terms of a score, those of similarities also in matching (release, main.py:196-215; the class default
for rewards is 0.01). Feedback counts while it is on, in the divisor too."""


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """The defaults are the preset ``sso-adapt/2``. "Release" is the published code, allenai/sso at commit 133b6a7, with
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
    count_overhang: bool = False  # count last windows twice in running means, as the release does (skillset.py:99)

    def __post_init__(self) -> None:
        if not 2 <= self.min_window <= self.max_window <= self.max_piece:
            raise UsageError(
                "memory.skills: windows need 2 <= min_window <= max_window <= max_piece, "
                f"not {self.min_window}, {self.max_window}, {self.max_piece}"
            )

    @classmethod
    def adapt(cls) -> "SkillSettings":
        return cls(past_reward=True, skip_reached=True)

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
        piece, part = pieces[span.piece], slice(span.start, span.end)
        return cls(*span, piece.states[part], piece.actions[part][1:], piece.rewards[part])

    @property
    def span(self) -> Span:
        return Span(self.piece, self.start, self.end)


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
    windows: tuple[Window, ...] = field(repr=False)
    scores: SkillScores
    retrieved: int = 0  # number of steps at which it was shown
    targeted: int = 0  # number of steps at which the actor named its target as the subgoal
    beyond: int = 0  # number of actions by which its words go beyond its windows (`SkillSettings.past_reward`): 0 or 1

    def dump(self) -> dict[str, Any]:
        data = {name: getattr(self, name) for name in _PLAIN}
        data |= {"instructions": list(self.instructions), "scores": asdict(self.scores)}
        return data | {"windows": [list(window.span) for window in self.windows]}

    @classmethod
    def load(cls, entry: dict[str, Any], pieces: Sequence[Piece]) -> "Skill":
        return cls(
            **{name: entry[name] for name in _PLAIN},
            instructions=tuple(entry["instructions"]),
            windows=tuple(Window.from_span(Span(*numbers), pieces) for numbers in entry["windows"]),
            scores=SkillScores(**entry["scores"]),
        )


_PLAIN = ("id", "name", "summary", "target", "retrieved", "targeted", "beyond")


# Texts.

PUNCTUATION = ".,!?\"')(}{][:;"
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})


def normalize_text(text: str, keep_fill_words: bool = False) -> str:
    """Normalize a text for comparison: lower case, without punctuation and fill words (release, utils.py:12-20)."""
    words = (word.strip(PUNCTUATION) for word in text.lower().split())
    return " ".join(word for word in words if word and (keep_fill_words or word not in FILL_WORDS))


def describe_skill(skill: Skill) -> str:
    return f"Target: {skill.target} Instructions: {'; '.join(skill.instructions)}"


def render_skills(skills: Sequence[Skill]) -> Recall:
    items = tuple(
        "\n".join(
            [f"Subgoal {number}: {skill.target}", *(f"{i}. {text}" for i, text in enumerate(skill.instructions, 1))]
        )
        for number, skill in enumerate(skills, start=1)
    )
    return Recall("", tuple(skill.id for skill in skills), tuple(skill.target for skill in skills), items=items)


# Which skill a step pursued.


def find_pursued_skill(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Return the id of the shown skill whose target the actor named as its subgoal."""
    wanted = normalize_text(step.subgoal or "", keep_fill_words=True)
    shown = (name for name in step.recalled if name in skills)
    return next((name for name in shown if wanted and normalize_text(skills[name].target, True) == wanted), None)


LATELY = 10  # number of steps for which a completed skill is not offered again


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Return the ids of skills completed in the last steps: points were gained in pursuit (unless its words go beyond
    its examples), or as many steps pursued it as it has instructions and the last follows the last of them."""
    lately = steps[-LATELY:]
    pursued = [find_pursued_skill(step, skills) for step in lately]
    reached = set()
    for place, (step, name) in enumerate(zip(lately, pursued, strict=True), start=1):
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        instructions = skills[name].instructions
        gained = step.reward > 0 and not skills[name].beyond
        if gained or (pursued[:place].count(name) >= len(instructions) and _follows(step.action, instructions[-1])):
            reached.add(name)
    return frozenset(reached)


def _follows(action: str, instruction: str) -> bool:
    wanted = " ".join(word for word in instruction.split() if not word.strip(".,").isupper())
    return set(normalize_text(wanted).split()) <= set(normalize_text(action).split())
