"""The simulator of ScienceWorld in a Java process."""

from rsso_dspy.environments import jvm
from rsso_dspy.environments.jvm import Simulator


class Jvm(jvm.Jvm):
    @classmethod
    def locate(cls) -> Simulator:
        from scienceworld.constants import JAR_PATH

        return Simulator("ScienceWorld", JAR_PATH, "scienceworld.runtime.pythonapi.PythonInterface")

    def clear_path_cache(self) -> None:
        """Clear the solver's table of walks through the house, which lives as long as the process. The first variant
        that needs a walk draws it at random, so gold paths would depend on what was solved before."""
        walks = self._call_java("z:scienceworld.goldagent.PathFinder", "precomputedExhaustivePaths")
        self._call_java(walks, "clear")
