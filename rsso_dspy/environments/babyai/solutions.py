"""Solutions of training worlds in the texts of actions: each is the action after which minigrid's bot, which knows what
was in sight so far, has the fewest moves left."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf
from typing import Any

from minigrid.utils.baby_ai_bot import BabyAIBot

from rsso_dspy.environments.babyai.environment import BabyAi
from rsso_dspy.errors import GoldUnknown
from rsso_dspy.records import Variant

MOST_MOVES = 100  # of minigrid's; what takes more takes long to find
MOST_SEARCHES = 100  # of a bot before one move; some never end


def find_solution(variant: Variant) -> tuple[str, ...]:
    """Raises ``GoldUnknown`` where the bot fails or makes too many moves."""
    environment = BabyAi()
    environment.reset(variant)
    actions = list[str]()
    guided = _Guided(environment)
    guided.make_plan()
    moves_left = guided.count_moves(MOST_MOVES)
    while 0 < moves_left < inf:
        best: tuple[float, int, str, _Guided] = (inf, 0, "", guided)
        for text, moves in guided.environment.list_moves().items():
            if len(moves) > 1 or moves == [guided.advised]:
                branch = deepcopy(guided)
                branch.make_moves(moves)
                candidate = branch.count_moves(min(best[0], moves_left - 1)), len(moves), text, branch
                best = min(best, candidate, key=lambda choice: choice[:2])
        moves_left, _, text, guided = best
        actions.append(text)
    if moves_left:
        raise GoldUnknown(f"no solution of {variant.key} is known: minigrid's bot finds none of {MOST_MOVES} moves")
    return tuple(actions)


class _Bot(BabyAIBot):
    def _breadth_first_search(self, *given: Any, **named: Any) -> Any:
        if self.bfs_counter >= MOST_SEARCHES:
            raise RecursionError
        return super()._breadth_first_search(*given, **named)


@dataclass(eq=False)
class _Guided:
    """A world and a bot in it."""

    environment: BabyAi
    bot: Any = None  # a `_Bot`
    advised: int | None = None  # the bot's next move; None if it fails

    def make_plan(self) -> None:
        """Have a new bot that knows what the old one has seen: an old one would undo what it had not advised."""
        self.environment.world.instrs = _find_rest(self.environment.world.instrs)
        seen_cells = self.bot.vis_mask if self.bot else False
        self.bot = _Bot(self.environment.world)
        self.bot.vis_mask |= seen_cells
        self._ask(None)

    def make_moves(self, moves: Sequence[int]) -> None:
        is_advised = True
        for move in moves:
            is_advised &= move == self.advised
            self.environment.carry_out([move])
            if self.environment.achieved is not None:
                return
            self._ask(move)
        if not is_advised:
            self.make_plan()

    def count_moves(self, most: float) -> float:
        """How many moves the bot makes to the end; infinity if it fails, or makes more than `most`."""
        ahead = deepcopy(self)
        count = 0
        while ahead.environment.achieved is None and ahead.advised is not None and count < most:
            ahead.make_moves([ahead.advised])
            count += 1
        return count if ahead.environment.achieved else inf

    def _ask(self, move: int | None) -> None:
        self.bot.bfs_counter = 0
        try:
            self.advised = self.bot.replan(move)
        except Exception:  # its own, and assertions
            self.advised = None


def _find_rest(mission: Any) -> Any:
    """What is left of a mission of two parts when one is done."""
    if getattr(mission, "a_done", "") == "success":
        return _find_rest(mission.instr_b)
    return _find_rest(mission.instr_a) if getattr(mission, "b_done", "") == "success" else mission
