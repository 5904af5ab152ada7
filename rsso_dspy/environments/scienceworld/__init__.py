"""ScienceWorld: text-game tasks of an elementary school science class (Wang et al. 2022), as run by the SSO papers.

benchmark      `BENCHMARK`, all that the rest of the project knows about it
jvm            one simulator process
driver         `ScienceWorld`, the environment over it
actions        action templates, repair of an action's wording
state_text     the display of a state in a history window
tasks          the 18 tasks, their splits and selections
grammar        the wording of actions in prose
goal_advice    feedback about kinds of goals
gold_lengths   lengths of the gold paths, the basis of step budgets
"""

from rsso_dspy.environments.scienceworld.benchmark import BENCHMARK
from rsso_dspy.environments.scienceworld.driver import ScienceWorld

__all__ = ["BENCHMARK", "ScienceWorld"]
