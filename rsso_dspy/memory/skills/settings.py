"""The constants of Skill Set Optimization with their sources."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Extraction = Literal["reward-boundary", "sliding"]

Pairs = Literal["across-trials", "any"]


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """Settings of a ``SkillMemory``. The defaults are the preset ``sso-adapt/1``.

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
    past_reward: bool = False
    """Verbalize one action beyond the windows of a skill if both examples continue with the same one: a window ends at
    a reward, and the action that earns the next reward at once is too short to be a skill of its own."""
    count_overhang: bool = False
    """Count the last windows of a new piece twice, as windows one state too long. This changes only the running means.
    A by-product of a loop bound of the release (skillset.py:99-105)."""

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
    def sso_adapt_1(cls) -> "SkillSettings":
        """Return the settings of ``sso-adapt/1``: the paper's rules."""
        return cls()

    @classmethod
    def adapt_2(cls) -> "SkillSettings":
        """The protocol ``adapt/2``: the same, put into words as far as the examples agree."""
        return cls(past_reward=True)

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


FREE = frozenset({"past_reward"})
"""Settings that a stored memory need not agree with: they only concern how the next skills are put into words."""


def dump_settings(settings: SkillSettings) -> dict[str, Any]:
    """The settings as a file holds them: free ones are left out while they are off."""
    return {name: value for name, value in asdict(settings).items() if value or name not in FREE}
