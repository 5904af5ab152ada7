"""Workflows induced from successes (Agent Workflow Memory, Wang et al. 2024, online).

A model turns every solved attempt into workflows: a description, which is the subgoal that the actor may name, and
steps with what differs from task to task replaced by a placeholder.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rsso_dspy.memory import NOTHING, Recall
from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings
from rsso_dspy.records import Trajectory

MOST_WORKFLOWS = 3
"""How many workflows are taken from one attempt."""


class WorkflowText(NamedTuple):
    """One workflow in a writer's answer."""

    description: str
    steps: tuple[str, ...]


Induce = Callable[[Trajectory, Sequence[str]], Sequence[WorkflowText] | None]
"""Takes a solved attempt and the descriptions of known workflows; returns workflows, or None for a malformed answer."""


class AgentWorkflowMemory(EntryMemory):
    """Workflows, shown as subgoals with instructions. A new workflow replaces one with the same description."""

    region, letter = "skills", "W"

    def __init__(self, induce: Induce, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._induce = induce

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if not trajectory.solved:
            return
        counts["calls"] += 1
        found = self._induce(trajectory, [entry.data["target"] for entry in self.entries])
        if found is None:
            counts["malformed"] += 1
            return
        for description, steps in found[:MOST_WORKFLOWS]:
            if description and steps:
                self._replace(description, "\n".join(steps), trajectory)
                counts["written"] += 1

    def _replace(self, description: str, text: str, trajectory: Trajectory) -> None:
        same = [entry for entry in self.entries if entry.data["target"].lower() == description.lower()]
        self.entries = [entry for entry in self.entries if entry not in same]
        self.add_entry(text, trajectory, trajectory.task, target=description)

    def format_entry(self, entry: Entry) -> str:
        steps = entry.text.splitlines()
        return "\n".join([entry.data["target"], *(f"  {number}. {step}" for number, step in enumerate(steps, start=1))])

    def render_entries(self, shown: Sequence[Entry]) -> Recall:
        if not shown:
            return NOTHING
        lines = [f"Subgoal {number}: {self.format_entry(entry)}" for number, entry in enumerate(shown, start=1)]
        lines += [f"({self._left_out} more are left out.)"] if self._left_out else []
        targets = tuple(entry.data["target"] for entry in shown)
        return Recall("\n".join(lines), tuple(entry.id for entry in shown), targets)
