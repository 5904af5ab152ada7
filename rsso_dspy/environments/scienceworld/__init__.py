"""ScienceWorld: text-game tasks of an elementary school science class (Wang et al. 2022), as run by the SSO papers.

jvm      one simulator process
driver   `ScienceWorld`, the environment over it
actions  action templates, repair of an action's wording
text     what of a state is shown in a history window
tasks    the 18 tasks, their splits and selections
golds    lengths of the gold paths, which step budgets come from
"""

from rsso_dspy.environments.scienceworld.driver import ScienceWorld

__all__ = ["ScienceWorld"]
