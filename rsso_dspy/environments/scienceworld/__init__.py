"""ScienceWorld: text-game tasks of an elementary school science class (Wang et al. 2022), as run by the SSO papers.

benchmark  `BENCHMARK`, all that the rest of the project knows of it
jvm      one simulator process
driver   `ScienceWorld`, the environment over it
actions  action templates, repair of an action's wording
text     what of a state is shown in a history window
tasks    the 18 tasks, their splits and selections
grammar  how actions are worded in prose
goal_advice  what feedback says about kinds of goals
golds    lengths of the gold paths, which step budgets come from
"""

from rsso_dspy.environments.scienceworld.benchmark import BENCHMARK
from rsso_dspy.environments.scienceworld.driver import ScienceWorld

__all__ = ["BENCHMARK", "ScienceWorld"]
