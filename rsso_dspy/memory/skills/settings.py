"""The constants of Skill Set Optimization, each with where it comes from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

__all__ = ["FREE", "Extraction", "Pairs", "SkillSettings", "complete_stored_settings", "dump_settings"]

Extraction = Literal["reward-boundary", "sliding"]

Pairs = Literal["across-trials", "any"]

BEFORE: dict[str, Any] = {"pairs": "any"}
"""What files say nothing of because they are older than the setting, where that was not today's default."""


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """What a ``SkillMemory`` is configured with. The defaults are the preset ``sso-adapt/1``.

    "Release" below is the published code, allenai/sso at commit 133b6a7, with the values its command line puts in
    force; "paper" is the rSSO paper, and the SSO paper (Nottingham et al., 2024) where rSSO is silent.
    """

    extraction: Extraction = "reward-boundary"
    """Which stretches of a trajectory are windows. ``reward-boundary``: those that end at a positive reward and hold
    none in between (paper, section 2). ``sliding``: every stretch of a piece (release, skillset.py:99-105)."""
    pairs: Pairs = "across-trials"
    """Which pieces are matched. ``across-trials``: those of different trajectories, so that one trial makes no skill by
    itself (paper, section 2.2: at least two trajectories). ``any``: also two pieces that one long trajectory was cut
    into (release, skillset.py:60-75, 90-117)."""
    max_trajectories: int = 10
    """Newest pieces that are compared with each other (release, skillset.py:90)."""
    max_piece: int = 50
    """States in a piece at most; a longer trajectory becomes several (release, skillset.py:60-75)."""
    min_piece: int = 3
    """States in a piece at least: one smallest window. The release asks for 4."""
    min_window: int = 3
    """States in a window at least, its first and last included (paper, section 2)."""
    max_window: int = 6
    """States in a window at most (paper, section 2). The loop of the release stops at 5 (skillset.py:100)."""
    windows_per_skill: int = 2
    """Examples of a skill: candidates are pairs, and verbalization shows both (release, max_traj_count)."""
    beams: int = 20
    """Width of the search for a skill set (release, num_beams)."""
    pool_size: int = 5000
    """Candidates kept for the next search at most (release, max_skills)."""
    retrieved: int = 3
    """Skills shown per step at most (paper, Algorithm 1, TOPSKILLS)."""
    coverage_weight: float = 0.01
    """Weight of the number of steps in the windows (release, main.py:196-215)."""
    reward_weight: float = 0.1
    """Weight of the mean reward sum of the windows (release, main.py:196-215; 0.01 is only its class default)."""
    state_weight: float = 1.0
    """Weight of state similarity, in matching and in the score (release, main.py:196-215)."""
    action_weight: float = 1.0
    """Weight of action similarity, in matching and in the score (release, main.py:196-215)."""
    feedback: bool = False
    """Let the return that followed a targeted skill enter its score. The paper leaves it out (section 4); the release
    always has it."""
    feedback_weight: float = 1.0
    """Weight of one feedback event (release, class default); also part of the divisor while ``feedback`` is on."""
    feedback_trials: int = 20
    """Newest trials whose feedback is remembered (release, skill_memory_scale x max_trajectories)."""
    discount: float = 0.9
    """Discount per step of the return that feedback uses (release, skillset.py:77-85)."""
    build_repeats: bool = True
    """Match a piece that equals an earlier one. The release skips it, so that an exact repeat teaches nothing
    (skillset.py:93-95)."""
    keep_when_constant: bool = True
    """While a similarity has had one value only, its mean separates nothing: the filter lets every candidate pass
    (True) or none (release)."""
    inventory_first: bool = False
    """Embed state descriptions with the inventory in front. Where the embedder reads the beginning of a text only, as
    all-MiniLM-L6-v2 does with 256 word pieces, the release's order loses the inventory of cluttered rooms."""
    past_reward: bool = False
    """Put one action more into words than the windows of a skill hold, where both examples go on with the same one: a
    window ends at a reward, and what earns the next one at once is too short to be a skill of its own."""
    count_overhang: bool = False
    """Meet the last windows of a new piece a second time, as windows one state too long for it. They change nothing
    but the running means. A by-product of a loop bound of the release (skillset.py:99-105)."""

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
                raise ValueError(f"{name} is {' or '.join(map(repr, known))}, not {getattr(self, name)!r}")

    @classmethod
    def sso_adapt_1(cls) -> "SkillSettings":
        """The protocol ``sso-adapt/1``: the paper's rules."""
        return cls()

    @classmethod
    def adapt_2(cls) -> "SkillSettings":
        """The protocol ``adapt/2``: the same, put into words as far as the examples agree."""
        return cls(past_reward=True)

    @classmethod
    def sso_release(cls) -> "SkillSettings":
        """The published code's constants and rules, wherever they are not defects."""
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


FREE = frozenset({"past_reward"})
"""Settings that a stored memory need not agree with: they only concern how the next skills are put into words."""


def dump_settings(settings: SkillSettings) -> dict[str, Any]:
    """The settings as a file holds them; those that files before them had not are left out while they are off."""
    return {name: value for name, value in asdict(settings).items() if value or name not in FREE}


def complete_stored_settings(data: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a file holds, with those that are younger than it as they were before they could be set."""
    return {**asdict(SkillSettings()), **BEFORE, **data}
