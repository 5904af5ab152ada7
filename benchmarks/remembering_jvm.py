"""A simulator that answers from memory what it has answered before, so that the same path need not be played again."""

from typing import Any, ClassVar

from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld.jvm import Jvm

CHANGES = frozenset({"load", "step", "getValidActionObjectCombinations"})
"""Calls after which the simulator may answer otherwise: the list of valid actions draws random numbers."""


class RememberingJvm(Jvm):
    """Equal calls since a variant was loaded have equal answers, which is what replaying records rests on. A call that
    was made before at the same place is not made again, until one comes that was not: then all that are behind are
    made first. An input that no action matches changes nothing, and so no place."""

    _remembered: ClassVar[dict[Any, Any]] = {}
    _place: tuple[Any, ...] = ()
    _behind: tuple[Any, ...] = ()

    def call(self, method: str, *arguments: str | int | bool, limit: float | None = None) -> Any:
        whole = (method, *arguments)
        if method == "load":
            self._place = self._behind = ()
        key = (self._place, whole)
        known = key in self._remembered
        if not known:
            for each in self._behind:
                super().call(*each)
            self._behind = ()
            self._remembered[key] = super().call(method, *arguments, limit=limit)
        answer = self._remembered[key]
        if method in CHANGES and answer != actions.NOT_KNOWN:
            self._place += (whole,)
            self._behind += (whole,) if known else ()
        return answer
