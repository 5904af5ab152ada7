"""ScienceWorld: text-game tasks of an elementary school science class (Wang et al. 2022), as run by the SSO papers.

jvm            one simulator process
environment    `ScienceWorld` over it, and the display of states in a history window
actions        action templates, repair of an action's wording; `grammar`, their wording in prose
whole          how actions in any wording are carried out, for the interface `complete`
lessons        what an episode teaches
tasks          the 18 tasks, their splits, selections and gold lengths
"""

from rsso_dspy.environments.scienceworld.benchmark import BENCHMARK
from rsso_dspy.environments.scienceworld.environment import ScienceWorld

__all__ = ["BENCHMARK", "ScienceWorld"]
