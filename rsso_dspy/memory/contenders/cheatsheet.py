"""One text, rewritten after each attempt (Dynamic Cheatsheet, Suzgun et al. 2025, cumulative).

A variant reads the newest text that was written without it: while a variant is played again, that is the text from
before its first trial.
"""

from collections.abc import Sequence
from dataclasses import replace

from rsso_dspy.memory.contenders import Entry, EntryMemory, clean_text
from rsso_dspy.records import Trajectory


class Cheatsheet(EntryMemory):
    """Versions of one text. Two are kept: the newest, and the newest that was written without the present variant."""

    region, letter, asks, calls = "constitution", "V", ("cheatsheet_writer",), {"advisor": 1}

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        return readable[-1:]

    def format_entry(self, entry: Entry) -> str:
        return entry.text

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts["cut"] = 0
        sheet = self.held[-1].text if self.held else ""
        said = self.ask_about(trajectory, counts, cheatsheet=sheet)
        whole = said and "\n".join(filter(None, map(clean_text, str(said.new_cheatsheet or "").splitlines())))
        if not whole:
            counts["malformed"] += said is not None
            return
        most = self.settings.max_chars
        kept = whole[:most].rpartition("\n")[0] if len(whole) > most else whole
        counts["cut"] = len(whole) - len(kept)
        before = self.held[-1].learned if self.held else ()
        entry = self.add_entry(kept or whole[:most], trajectory)
        newest = replace(entry, learned=tuple(dict.fromkeys((*before, *entry.learned))))
        without = [each for each in self.held[:-1] if not each.is_learned_on(trajectory.variant.key)]
        self.held = [*without[-1:], newest]
        counts["written"] += 1
