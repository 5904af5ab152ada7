"""The texts that memories put into the prompts of a trial, each distinct text once."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from rsso_dspy.memory import Recall
from rsso_dspy.regions import PROGRESS, TEMPLATES


def fill_regions(preambles: Mapping[str, Recall], recalls: Mapping[str, Recall]) -> dict[str, str]:
    """What memories put into the prompt of a step, by region."""
    filled = {name: preambles[name].text or recalled.text for name, recalled in recalls.items()}
    return filled | {PROGRESS: "\n".join(each.progress for each in recalls.values() if each.progress)}


@dataclass(slots=True)
class ShownTexts:
    """The texts of one trial, in the form of `TrialResult.shown`."""

    texts: dict[str, str] = field(default_factory=dict)

    def note_templates(self, templates: str, implied: str | None) -> None:
        """Note the action templates of the trial's variant if they differ from the implied ones."""
        if implied is not None and templates != implied:
            self.texts[TEMPLATES] = templates

    def note_prompt(
        self, preambles: Mapping[str, Recall], recalls: Mapping[str, Recall], progress: str, step: int
    ) -> None:
        self._note_change(PROGRESS, progress, step)
        for region, recall in preambles.items():
            if recall.text:
                self.texts[region] = recall.text
        for region, recall in recalls.items():
            if recall.text and recall.ids:
                self.texts[f"{region}:{','.join(recall.ids)}"] = recall.text
            elif not preambles[region].text:
                self._note_change(region, recall.text, step)

    def _note_change(self, region: str, text: str, step: int) -> None:
        """Note the text of a region from this step on, if it changed."""
        before = next((said for name, said in reversed(self.texts.items()) if name.startswith(f"{region}@")), "")
        if text != before:
            self.texts[f"{region}@{step}"] = text
