"""Workflows induced from successes (Agent Workflow Memory, Wang et al. 2024, online).

A model turns every solved attempt into workflows: a description, which is the subgoal that the actor may name, and
steps with what differs from task to task replaced by a placeholder.
"""

from collections.abc import Sequence
from dataclasses import replace

from rsso_dspy.memory import Recall
from rsso_dspy.memory.contenders import Entry, EntryMemory, clean_text
from rsso_dspy.records import Trajectory

MOST_WORKFLOWS = 3
"""How many workflows are taken from one attempt."""


class AgentWorkflowMemory(EntryMemory):
    """Workflows, shown as subgoals with instructions. A new workflow replaces one with the same description."""

    region, letter, asks, calls = "skills", "W", ("workflow_writer",), {"verbalizer": 1}

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if not trajectory.solved:
            return
        said = self.ask_about(trajectory, counts, known_workflows=[entry.data["target"] for entry in self.held])
        for each in ((said and said.workflows) or ())[:MOST_WORKFLOWS]:
            description, steps = clean_text(each.description), [*filter(None, map(clean_text, each.steps))]
            if description and steps:
                others = [entry for entry in self.held if entry.data["target"].lower() != description.lower()]
                self.held = others
                self.add_entry("\n".join(steps), trajectory, trajectory.task, target=description)
                counts["written"] += 1

    def format_entry(self, entry: Entry) -> str:
        steps = entry.text.splitlines()
        return "\n".join([entry.data["target"], *(f"  {number}. {step}" for number, step in enumerate(steps, start=1))])

    def render_entries(self, shown: Sequence[Entry]) -> Recall:
        recall = super().render_entries(shown)
        return replace(recall, targets=tuple(entry.data["target"] for entry in shown))

    def number_entry(self, number: int, text: str) -> str:
        return f"Subgoal {number}: {text}"
