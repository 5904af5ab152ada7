"""Cut a trajectory into pieces, and a piece into windows (SSO, section 3.1; release, skillset.py:60-75, 99-105)."""

from collections.abc import Sequence

from rsso_dspy.memory.skills.skill import Piece, SkillSettings
from rsso_dspy.records import Trajectory


def cut_trajectory(trajectory: Trajectory, settings: SkillSettings, number: int = 0) -> list[Piece]:
    """Cut a trajectory into pieces that end at a positive reward and have ``min_piece`` to ``max_piece`` states.

    A trajectory without positive rewards gives none. ``number`` identifies the trajectory.
    """
    states = trajectory.states
    actions = ("", *(step.action for step in trajectory.steps))
    rewards = (0, *(step.reward for step in trajectory.steps))
    return [
        Piece(trajectory.trial, start, states[start:end], actions[start:end], rewards[start:end], number)
        for start, end in _find_piece_bounds(rewards, settings)
    ]


def _find_piece_bounds(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of each piece.

    While more than ``max_piece`` states remain, a piece ends after its last reward; if that makes it too short, the cut
    moves on by one state.
    """
    bounds: list[tuple[int, int]] = []
    start = 0
    while start < len(rewards):
        stop = min(start + settings.max_piece, len(rewards))
        end = next((index + 1 for index in range(stop - 1, start - 1, -1) if rewards[index] > 0), start)
        if end - start >= settings.min_piece:
            bounds.append((start, end))
            start = end
        else:
            start += 1
    return bounds


def list_windows(rewards: Sequence[int], settings: SkillSettings) -> list[tuple[int, int]]:
    """Return [start, end) of every window of a piece, by start, then by length.

    With ``count_overhang`` some ends lie one past the piece: those windows hold one state less than their bounds.
    """
    lengths = range(settings.min_window, settings.max_window + 1)
    if settings.extraction == "sliding":
        found = [(start, start + length) for start in range(len(rewards)) for length in lengths]
        spare = 1 if settings.count_overhang else 0
        shortest = settings.min_window
        return [
            (start, end)
            for start, end in found
            if end <= len(rewards) + spare and min(end, len(rewards)) - start >= shortest
        ]
    # The state after a reward ends one segment and starts the next.
    boundaries = [index for index, reward in enumerate(rewards) if reward > 0]
    first = dict(zip(boundaries, [0, *boundaries], strict=False))
    return sorted(
        (boundary + 1 - length, boundary + 1)
        for boundary in boundaries
        for length in lengths
        if boundary + 1 - length >= first[boundary]
    )
