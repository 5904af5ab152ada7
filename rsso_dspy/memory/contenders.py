"""Contenders: memories from other papers, a small class each at the end of this file, and their base: a list of texts,
each with the trials that wrote it, shown within bounds. A memory that is handed on in a stream never shows a variant a
text that was learned on that variant: `list_readable` is the only way to the prompt, and it leaves such entries out."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from rsso_dspy.memory import NOTHING, Memory, Recall, Services
from rsso_dspy.memory.texts import clean_text, find_nearest
from rsso_dspy.records import State, Step, Trajectory, Variant

Source = tuple[str, int]  # variant and trial of an attempt


@dataclass(frozen=True, slots=True)
class EntrySettings:
    max_entries: int = 100  # how many entries are kept
    max_chars: int = 12_000  # how many characters of entries a prompt shows
    retrieved: int = 3  # for memories that retrieve: from how many attempts at other tasks entries are shown


@dataclass(frozen=True, slots=True)
class Entry:
    id: str  # letter of the memory and a number that is never reused, e.g. `S7`.
    text: str
    learned: tuple[Source, ...]  # the attempts that wrote the text or changed it, oldest first
    about: str = ""  # the task that the entry comes from; memories that retrieve compare it with the present task
    data: Mapping[str, Any] = field(default_factory=dict)  # e.g. a title, votes or counts

    def is_learned_on(self, variant: str) -> bool:
        return any(key == variant for key, _ in self.learned)

    def dump(self) -> dict[str, Any]:
        row = asdict(self)
        row["learned"] = [list(source) for source in self.learned]
        for name in ("about", "data"):
            if not row[name]:
                del row[name]
        return row


class EntryMemory(Memory):
    """A memory of entries, kept in the order in which they were written. Votes and counts of an entry are no part of
    its lineage: a variant whose trials only voted on an entry may read it."""

    letter: str  # the letter that ids begin with
    newest_first = True  # whether the newest of the selected stay when they are too long, or the first
    heading = ""  # what stands before an entry in the prompt, with `{}` for its place

    def __init__(self, services: Services):
        super().__init__(services)
        self.settings: EntrySettings = services.runtime.entries or EntrySettings()
        self.shared = self.region in services.handed_on
        self.held: list[Entry] = []
        self.shown = NOTHING  # what the prompts of the trial hold
        self._numbered = 0
        self._left_out = 0
        self._variant = ""
        self._task = ""

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant = variant.key
        self._task = task
        readable = self.list_readable()
        self.shown = self.render_entries(self.select_entries(readable))

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        return self.shown

    def list_readable(self) -> list[Entry]:
        if not self.shared:
            return list(self.held)
        return [entry for entry in self.held if not entry.is_learned_on(self._variant)]

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries to show: the most important last if `newest_first`, otherwise first."""
        return sorted(readable, key=self.weigh)

    def weigh(self, entry: Entry) -> int:  # noqa: ARG002
        """How much an entry is worth; the oldest of the least worth is left out and dropped first."""
        return 0

    def rank_by_task(self, entries: Sequence[Entry]) -> list[Entry]:
        tasks = [entry.about for entry in entries]
        nearest = find_nearest(self.services.runtime.embed, self._task, tasks)
        return [entries[place] for place, _ in nearest]

    def render_entries(self, selected: Sequence[Entry]) -> Recall:
        """The text of the region: the entries that fit, the first of them shortened if need be, and how many do not."""
        if self.newest_first:
            fitting = self._fit_entries(reversed(selected))[::-1]
        else:
            fitting = self._fit_entries(selected)
        self._left_out = len(selected) - len(fitting)
        if not fitting:
            return NOTHING

        lines = []
        for place, entry in enumerate(fitting, start=1):
            lines.append(self.heading.format(place) + self.format_entry(entry))
        if self._left_out:
            lines.append(f"({self._left_out} more are left out.)")
        return Recall(
            text="\n".join(lines),
            ids=tuple(entry.id for entry in fitting),
            targets=tuple(entry.data["target"] for entry in fitting if "target" in entry.data),
        )

    def _fit_entries(self, entries: Iterable[Entry]) -> list[Entry]:
        """As many of the first entries as fit together, and of the first at least its end."""
        room = self.settings.max_chars
        fitting: list[Entry] = []
        for entry in entries:
            size = len(self.format_entry(entry)) + 1
            if size > room and not fitting:
                most = max(0, len(entry.text) - size + room)
                entry = replace(entry, text=shorten_text(entry.text, most))
                size = room
            if size > room:
                break
            room -= size
            fitting.append(entry)
        return fitting

    def format_entry(self, entry: Entry) -> str:
        return f"- {entry.text}"

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts: ``calls`` of a writer, ``malformed`` answers, entries ``written``, ``dropped`` because there were too
        many, ``left_out`` of the trial's prompts because of their length, and ``held`` now."""
        counts = {
            "calls": 0,
            "written": 0,
            "malformed": 0,
            "dropped": 0,
            "left_out": self._left_out,
        }
        last_number = self._numbered
        self.write_entries(trajectory, counts)
        counts["written"] = self._numbered - last_number

        while len(self.held) > self.settings.max_entries:
            self.held.remove(min(self.held, key=self.weigh))
            counts["dropped"] += 1
        return counts | {"held": len(self.held)}

    @abstractmethod
    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Add entries, and change them; `counts`, but for those written, may be raised or extended."""

    def add_entry(self, text: str, trajectory: Trajectory, about: str = "", **data: Any) -> Entry:
        self._numbered += 1
        name = f"{self.letter}{self._numbered}"
        learned = ((trajectory.variant.key, trajectory.trial),)
        entry = Entry(name, text, learned, about, data)
        self.held.append(entry)
        return entry

    def change_entry(self, entry: Entry, text: str = "", learned: Sequence[Source] = (), **data: Any) -> None:
        """Change an entry's data, and its text with the attempts that it comes from now."""
        sources = tuple(dict.fromkeys((*entry.learned, *learned)))
        changed = replace(entry, text=text or entry.text, learned=sources, data={**entry.data, **data})
        self.held[self.held.index(entry)] = changed

    def tell_attempt(self, trajectory: Trajectory) -> str:
        transcript = self.services.tell_transcript(trajectory)
        outcome = self.services.tell_outcome(trajectory)
        return f"{transcript}\n{outcome}"

    def ask(self, trajectory: Trajectory, counts: dict[str, int], **inputs: Any) -> Any:
        """Ask the memory's module about an attempt; None for a malformed answer. Both are counted."""
        answer = self.services.ask(self.asks[0], task=trajectory.task, **inputs)
        counts["calls"] += 1
        counts["malformed"] += answer is None
        return answer

    def ask_about(self, trajectory: Trajectory, counts: dict[str, int], **inputs: Any) -> Any:
        transcript = self.services.tell_transcript(trajectory)
        outcome = self.services.tell_outcome(trajectory)
        return self.ask(trajectory, counts, attempt=transcript, outcome=outcome, **inputs)

    def snapshot(self) -> dict[str, Any]:
        return {"entries": [entry.dump() for entry in self.held], "numbered": self._numbered}

    def restore(self, data: dict[str, Any]) -> None:
        self.held = self.entries(data)
        self._numbered = int(data["numbered"])
        self.shown = NOTHING

    @classmethod
    def entries(cls, snapshot: Mapping[str, Any]) -> list[Entry]:
        entries = []
        for row in snapshot["entries"]:
            learned = tuple(map(tuple, row["learned"]))
            entries.append(Entry(**row | {"learned": learned}))
        return entries


_CUT = "(the first {} lines are left out)"


def shorten_text(text: str, most: int) -> str:
    """Return the end of a text in whole lines of at most `most` characters, below a line with the number left out."""
    if len(text) <= most:
        return text
    lines = text.splitlines()
    room = most - len(_CUT.format(len(lines)))
    first = len(lines)
    while first:
        room -= len(lines[first - 1]) + 1
        if room < 0:
            break
        first -= 1
    return "\n".join([_CUT.format(first), *lines[first:]])


def _clean_texts(texts: Iterable[object]) -> list[str]:
    """The texts, cleaned, less those that say nothing."""
    cleaned = map(clean_text, texts)
    return [text for text in cleaned if text]


class LongContext(EntryMemory):
    """All attempts at the task, which EvoMemBench (2026) finds hard to beat. The oldest are left out, in whole, of a
    prompt that is full; a single one that is too long loses its beginning."""

    region = "past_attempts"
    letter = "T"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:  # noqa: ARG002
        self.add_entry(self.tell_attempt(trajectory), trajectory, trajectory.task, trial=trajectory.trial)

    def format_entry(self, entry: Entry) -> str:
        number = entry.data["trial"]
        if entry.is_learned_on(self._variant):
            return f"Attempt {number} at this task:\n{entry.text}"
        return f"Attempt {number} at another task: {entry.about}\n{entry.text}"


class LastTrajectory(LongContext):
    """The last failed attempt alone: Reflexion's baseline with the last trajectory (Shinn et al. 2023)."""

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if not trajectory.solved:
            self.held.clear()
            super().write_entries(trajectory, counts)


class ExpRag(EntryMemory):
    """Attempts at other tasks (ExpRAG of Evo-Memory, Wei et al. 2025): the `retrieved` ones whose tasks are worded most
    like the present one, nearest first, each whole unless it exceeds its share of the prompt."""

    region = "experience"
    letter = "X"
    newest_first = False

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        return self.rank_by_task(readable)[: self.settings.retrieved]

    def format_entry(self, entry: Entry) -> str:
        return f"Task: {entry.about}\n{entry.text}\n"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:  # noqa: ARG002
        share = self.settings.max_chars // self.settings.retrieved
        room = share - len(trajectory.task) - len("Task: \n\n\n")
        text = shorten_text(self.tell_attempt(trajectory), max(0, room))
        self.add_entry(text, trajectory, trajectory.task)


class ReasoningBank(EntryMemory):
    """Strategies with title, description and content, from successes and failures (ReasoningBank, Ouyang et al. 2025).
    Those of the `retrieved` attempts are shown whose tasks are worded most like the present one."""

    region = "past_strategies"
    letter = "S"
    newest_first = False
    asks = ("strategy_writer",)
    calls: ClassVar[dict[str, int]] = {"verbalizer": 1}
    MOST = 3  # how many strategies are taken from one attempt (section 3.2)

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        nearest = self.rank_by_task(readable)
        attempts = list(dict.fromkeys(entry.learned for entry in nearest))
        retrieved = attempts[: self.settings.retrieved]
        return [entry for entry in nearest if entry.learned in retrieved]

    def format_entry(self, entry: Entry) -> str:
        title = entry.data["title"]
        description = entry.data["description"]
        return f"- {title}: {description}\n  {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        answer = self.ask_about(trajectory, counts)
        if not answer:
            return
        for strategy in (answer.strategies or ())[: self.MOST]:
            title = clean_text(strategy.title)
            description = clean_text(strategy.description)
            content = clean_text(strategy.content)
            if content:
                self.add_entry(content, trajectory, trajectory.task, title=title, description=description)


class AgentWorkflowMemory(EntryMemory):
    """Workflows of solved attempts (Agent Workflow Memory, Wang et al. 2024, online): a description, which is the
    subgoal that the actor may name, and steps with placeholders. A new one replaces one of the same description."""

    region = "skills"
    letter = "W"
    asks = ("workflow_writer",)
    calls: ClassVar[dict[str, int]] = {"verbalizer": 1}
    heading = "Subgoal {}: "
    MOST = 3  # how many workflows are taken from one attempt

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if not trajectory.solved:
            return
        targets = [entry.data["target"] for entry in self.held]
        answer = self.ask_about(trajectory, counts, known_workflows=targets)
        if not answer:
            return
        for workflow in (answer.workflows or ())[: self.MOST]:
            description = clean_text(workflow.description)
            steps = _clean_texts(workflow.steps)
            if description and steps:
                self._drop_workflow(description)
                self.add_entry("\n".join(steps), trajectory, trajectory.task, target=description)

    def _drop_workflow(self, description: str) -> None:
        name = description.lower()
        self.held = [entry for entry in self.held if entry.data["target"].lower() != name]

    def format_entry(self, entry: Entry) -> str:
        lines = [entry.data["target"]]
        for number, step in enumerate(entry.text.splitlines(), start=1):
            lines.append(f"  {number}. {step}")
        return "\n".join(lines)


class Cheatsheet(EntryMemory):
    """One text, rewritten after each attempt (Dynamic Cheatsheet, Suzgun et al. 2025, cumulative). Two versions are
    kept: the newest, and the newest that was written without the present variant, which it reads."""

    region = "constitution"
    letter = "V"
    asks = ("cheatsheet_writer",)
    calls: ClassVar[dict[str, int]] = {"advisor": 1}

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        return readable[-1:]

    def format_entry(self, entry: Entry) -> str:
        return entry.text

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts["cut"] = 0
        sheet = self.held[-1].text if self.held else ""
        answer = self.ask_about(trajectory, counts, cheatsheet=sheet)
        lines = str(answer.new_cheatsheet or "").splitlines() if answer else []
        new_sheet = "\n".join(_clean_texts(lines))
        if not new_sheet:
            counts["malformed"] += answer is not None
            return

        limit = self.settings.max_chars
        cut_sheet = new_sheet
        if len(new_sheet) > limit:
            cut_sheet = new_sheet[:limit].rpartition("\n")[0]
        counts["cut"] = len(new_sheet) - len(cut_sheet)

        learned = self.held[-1].learned if self.held else ()
        entry = self.add_entry(cut_sheet or new_sheet[:limit], trajectory)
        sources = dict.fromkeys((*learned, *entry.learned))
        newest = replace(entry, learned=tuple(sources))
        variant = trajectory.variant.key
        without = [version for version in self.held[:-1] if not version.is_learned_on(variant)]
        self.held = [*without[-1:], newest]


class Playbook(EntryMemory):
    """Bullets with counts of help and harm, merged by code (Agentic Context Engineering, Zhang et al. 2025). After
    every attempt a model tags the bullets that were shown, and gives new ones; no text is ever rewritten."""

    region = "constitution"
    letter = "B"
    asks = ("playbook_reviewer",)
    calls: ClassVar[dict[str, int]] = {"reflector": 1}
    ALIKE = 0.9  # two bullets with this cosine or more count as equal
    MOST = 5  # how many new bullets are taken from one attempt
    TAGS = ("helpful", "harmful")  # tags that are counted; a model may also call a bullet neutral

    def weigh(self, entry: Entry) -> int:
        return int(entry.data["helpful"]) - int(entry.data["harmful"])

    def format_entry(self, entry: Entry) -> str:
        counts = []
        for tag in self.TAGS:
            count = entry.data[tag]
            if count:
                counts.append(f"{tag} {count}")
        label = entry.id
        if counts:
            label += f": {', '.join(counts)}"
        return f"- [{label}] {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"helpful": 0, "harmful": 0, "again": 0}
        answer = self.ask_about(trajectory, counts, playbook=self.shown.text)
        if answer is None:
            return

        tags = {bullet.id: bullet.tag for bullet in answer.bullet_tags or ()}
        shown = [entry for entry in self.held if entry.id in self.shown.ids]
        for entry in shown:
            tag = tags.get(entry.id, "")
            if tag in self.TAGS:
                self.change_entry(entry, **{tag: entry.data[tag] + 1})
                counts[tag] += 1

        for text in _clean_texts(answer.new_bullets or ())[: self.MOST]:
            bullets = [entry.text for entry in self.held]
            nearest = find_nearest(self.services.runtime.embed, text, bullets)
            if nearest and nearest[0][1] >= self.ALIKE:
                counts["again"] += 1
            else:
                self.add_entry(text, trajectory, helpful=0, harmful=0)


class Expel(EntryMemory):
    """Insights with votes, from pairs of a worse and a better attempt at one task type, and from successes (ExpeL, Zhao
    et al. 2024). Agreement and rewording add a vote, removal takes one, and one without votes is dropped."""

    region = "constitution"
    letter = "I"
    asks = ("insight_writer",)
    calls: ClassVar[dict[str, int]] = {"advisor": 2}
    FIRST_VOTES = 2
    SUCCESSES = 3  # how many successes the model reads together
    LONGEST = 6_000  # how many characters of an attempt are kept for the comparison with another attempt

    def __init__(self, services: Services):
        super().__init__(services)
        self._last: dict[str, list[Any]] = {}  # task type to variant, trial, points and text of its last attempt
        self._solved: list[list[Any]] = []  # variant, trial and text of successes that were not read yet

    def weigh(self, entry: Entry) -> int:
        return int(entry.data["votes"])

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"agreed": 0, "edited": 0, "removed": 0}
        variant = trajectory.variant
        points = trajectory.accumulator
        text = shorten_text(self.tell_attempt(trajectory), self.LONGEST)

        key, trial, earlier_points, earlier_text = self._last.get(variant.task, ("", 0, points, ""))
        self._last[variant.task] = [variant.key, trajectory.trial, points, text]
        if points > earlier_points:
            self._revise(trajectory, counts, [(key, trial)], earlier_text, [text])
        elif points < earlier_points:
            self._revise(trajectory, counts, [(key, trial)], text, [earlier_text])

        if trajectory.solved:
            self._solved.append([variant.key, trajectory.trial, text])
        if len(self._solved) == self.SUCCESSES:
            successes = self._solved
            self._solved = []
            sources = [(key, trial) for key, trial, _ in successes]
            texts = [text for _, _, text in successes]
            self._revise(trajectory, counts, sources, "", texts)

    def _revise(
        self, trajectory: Trajectory, counts: dict[str, int], others: Sequence[Source], failed: str, solved: list[str]
    ) -> None:
        """Have the trial's attempt and `others` read, and apply the edits, except of an unknown insight."""
        ids = {number: entry.id for number, entry in enumerate(self.held, start=1)}
        insights = [entry.text for entry in self.held]
        answer = self.ask(
            trajectory, counts, known_insights=insights, failed_attempt=failed, successful_attempts=solved
        )
        sources = ((trajectory.variant.key, trajectory.trial), *others)
        edits = (answer.insight_edits or ()) if answer else ()
        for edit in edits:
            operation = edit.operation.lower()
            text = clean_text(edit.text)
            if operation == "add":
                self._add_insight(text, trajectory, sources)
                continue
            target = self._find_entry(ids.get(edit.number))
            if target is None:
                continue
            if operation == "edit" and text:
                self.change_entry(target, text, sources, votes=self.weigh(target) + 1)
                counts["edited"] += 1
            elif operation == "agree":
                self.change_entry(target, votes=self.weigh(target) + 1)
                counts["agreed"] += 1
            elif operation == "remove":
                self.change_entry(target, votes=self.weigh(target) - 1)
                counts["removed"] += self.weigh(target) == 1
        self.held = [entry for entry in self.held if self.weigh(entry) > 0]

    def _add_insight(self, text: str, trajectory: Trajectory, sources: Sequence[Source]) -> None:
        """Add an insight, unless it says nothing or is known."""
        if text and text not in [entry.text for entry in self.held]:
            entry = self.add_entry(text, trajectory, votes=self.FIRST_VOTES)
            self.change_entry(entry, learned=sources)

    def _find_entry(self, name: str | None) -> Entry | None:
        return next((entry for entry in self.held if entry.id == name), None)

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "last": dict(self._last), "solved": list(self._solved)}

    def restore(self, data: dict[str, Any]) -> None:
        super().restore(data)
        self._last = dict(data["last"])
        self._solved = list(data["solved"])
