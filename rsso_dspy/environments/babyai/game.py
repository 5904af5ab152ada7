"""One world played in texts: what AgentBoard's BabyAI wrapper says, and how it counts.

    game = Game(make_world("GoToRedBall"), 1234, [["There is a red ball **", ...]])
    game.first
    game.step("go to red ball 1")
    list(game.offer.moves)

``patterns`` are AgentBoard's labels, one or more lists of equal length; None where there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rsso_dspy.environments.babyai.actions import Offer, list_actions
from rsso_dspy.environments.babyai.subgoals import PatternProgress
from rsso_dspy.environments.babyai.view import View

NO_CHANGE = "No change in state."
NOT_KNOWN = "The action is not recognized. Please check valid actions."
COMPLETED = "\n The task is completed."
ENOUGH = 0.5
"""A mission that ends counts where more than this share of its patterns was met."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one text."""

    observation: str
    moves: int = 0
    """How many moves were made."""


def rewrite_mission(mission: str) -> str:
    """The goal as the wrapper words it, in which the order of two parts is lost."""
    return mission.replace("then", "and").replace("after you", "and")


class Game:
    """One episode."""

    def __init__(self, world: Any, seed: int, patterns: Sequence[Sequence[str]] | None):
        self._world = world
        seen, _ = world.reset(seed=seed)
        self.mission = str(world.mission)
        self.goal = rewrite_mission(self.mission)
        self._patterns = PatternProgress(patterns) if patterns else None
        self._look(seen)
        self.first = self.view.describe()
        self.progress = 0.0
        self.done = False
        """As AgentBoard counts it."""
        self.ended = False
        """The mission ended, achieved or failed for good, by the last move of the last action, which is all that
        AgentBoard looks at."""
        self.reward = 0.0
        """What minigrid gave for that move: above 0 when the mission is achieved."""
        self.achieved: bool | None = None
        """minigrid's verdict on the mission, by whichever move it ended first; None before."""
        self.valid: bool | None = None
        """Of the last text; None before any."""

    @cached_property
    def offer(self) -> Offer:
        """What can be done now."""
        return list_actions(self.view)

    def step(self, text: str) -> Answer:
        """Take one text as it was written."""
        asked = text.lower().strip()
        if "check" in asked:
            self.valid = True
            return Answer(f"You can take the following actions: {', '.join(self.offer.moves)}")
        if not asked or asked not in self.offer.moves:
            self.valid = False
            return Answer(self.offer.messages.get(asked, NOT_KNOWN) if asked else NO_CHANGE)
        moves = self.offer.moves[asked]
        if not moves:
            return Answer(NO_CHANGE)
        self.valid = True
        made = self._carry_out(moves)
        observation = self.view.describe()
        if self._patterns is None:
            self.progress = max(self.progress, self.reward)
        else:
            self._patterns.read(observation)
            self.progress = self._patterns.share
        self.done = (self.ended and self.progress > ENOUGH) or self.progress >= 1
        return Answer(observation + COMPLETED if self.ended or self.done else observation, made)

    def _carry_out(self, moves: Sequence[int]) -> int:
        """Make moves until one leaves the image as it was; how many were made."""
        for number, move in enumerate(moves, 1):
            before = self._image
            seen, self.reward, self.ended, _, _ = self._world.step(move)
            if self.ended and self.achieved is None:
                self.achieved = self.reward > 0
            self._look(seen)
            if self._image == before:
                return number
        return len(moves)

    def _look(self, seen: Any) -> None:
        world, image = self._world, seen["image"]
        self._image = image.tobytes()
        carried = world.carrying
        carrying = f"{carried.color} {carried.type}" if carried is not None else ""
        x, y = (int(each) for each in world.agent_pos)
        self.view = View(image.tolist(), x, y, int(world.agent_dir), carrying)
        self.__dict__.pop("offer", None)
