"""What memories put into the prompts of a trial, each distinct text once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rsso_dspy.memory import Recall

TEMPLATES = "action_templates"
"""The region of the action templates."""


@dataclass(slots=True)
class ShownTexts:
    """The texts of one trial, in the form of `TrialResult.shown`."""

    texts: dict[str, str] = field(default_factory=dict)

    def note_templates(self, templates: str, implied: str | None) -> None:
        """Note the action templates of the trial's variant where they are not the implied ones."""
        if implied is not None and templates != implied:
            self.texts[TEMPLATES] = templates

    def note_prompt(
        self, preambles: Mapping[str, Recall], recalls: Mapping[str, Recall], progress: str, step: int
    ) -> None:
        """Note what stands in the prompt of a step."""
        self._note_change("progress", progress, step)
        for region, recall in preambles.items():
            if recall.text:
                self.texts[region] = recall.text
        for region, recall in recalls.items():
            if recall.text and recall.ids:
                self.texts[f"{region}:{','.join(recall.ids)}"] = recall.text
            elif not preambles[region].text:
                self._note_change(region, recall.text, step)

    def _note_change(self, region: str, text: str, step: int) -> None:
        """What stands in a region from this step on, unless it stood there before."""
        before = next((said for name, said in reversed(self.texts.items()) if name.startswith(f"{region}@")), "")
        if text != before:
            self.texts[f"{region}@{step}"] = text
