"""The reflection memory: plans written after failed trials, kept first in, first out, read at the start of a trial."""

from collections.abc import Callable, Mapping
from typing import Any

from rsso_dspy.memory import Memory, Recall
from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.reflections.long_term import Distill, LongTerm
from rsso_dspy.memory.reflections.passing import (
    MOST_PASSED_ON,
    Neighbours,
    Reflection,
    find_nearest,
    is_similar,
    select_same_type,
)
from rsso_dspy.memory.reflections.settings import WIDE, ReflectionSettings
from rsso_dspy.records import Trajectory, Variant

Reflect = Callable[[Trajectory, tuple[str, ...]], str | None]
"""Writes a plan from a failed trial and the plans held, oldest first; None for a malformed answer. Errors pass
through."""


class ReflectionMemory(Memory):
    """The last ``size`` plans, written after trials below 100 points and read once per trial.

    ``size`` is 3 in the release of Reflexion and in the paper. A plan keeps the number of the trial
    that it was written after. `settings` turn improvements on, of which three need a callable: novelty and retrieval
    `embed`, hierarchical `distill`. Retrieval asks `neighbours` instead where there is an index.
    """

    region = "plans_from_past_attempts"

    def __init__(
        self,
        reflect: Reflect,
        size: int | None = None,
        settings: ReflectionSettings | None = None,
        embed: Embed | None = None,
        distill: Distill | None = None,
        neighbours: Neighbours | None = None,
    ):
        self.settings = settings or ReflectionSettings(size=3 if size is None else size)
        if self.settings.size < 1:
            raise ValueError(
                f"the size of a reflection memory must be at least 1, not {self.settings.size}; to disable it, remove "
                "the memory"
            )
        self._reflect, self._embed, self._distill, self._neighbours = reflect, embed, distill, neighbours
        self._own: list[Reflection] = []
        self._others: list[Reflection] = []
        self._long_term = LongTerm()
        self._failures = 0
        self._failed_on = ""
        """The variant whose failed trials are counted, where variants are told apart."""
        self._variant, self._task = "", ""

    @property
    def plans(self) -> tuple[tuple[int, str], ...]:
        """(trial, plan) of this unit, as far as they are shown, oldest first."""
        return tuple((each.trial, each.plan) for each in self._list_shown())

    def begin_trial(self, variant: Variant, task: str) -> None:
        """Learn what is about to be played: improvements that look beyond the unit select by it. Plans of another
        variant, in a training, are no longer its own."""
        self._variant, self._task = variant.key, task
        if self.settings.tells_variants_apart:
            if self._failed_on != variant.key:
                self._failures, self._failed_on = 0, variant.key
            self._others += [each for each in self._own if each.variant != variant.key]
            self._others = self._others[-MOST_PASSED_ON:]
            self._own = [each for each in self._own if each.variant == variant.key]

    def preamble(self) -> Recall:
        """Return every plan under the number of its trial, oldest first; absent if there is none. The long-term part
        and plans of other variants come first; in a stream nothing that was distilled from the variant itself."""
        others, own = self._select_others(), self._list_shown()
        of_itself = self.settings.is_passed_on and self._variant in self._long_term.learnt_on
        texts = ["" if of_itself else self._long_term.text]
        texts += [f"Attempt {each.trial}: (at another variant, of {each.task_type}) {each.plan}" for each in others]
        texts += [f"Attempt {each.trial}: {each.plan}" for each in own]
        ids = [f"{each.variant}-attempt-{each.trial}" for each in others] + [f"attempt-{each.trial}" for each in own]
        return Recall(text="\n\n".join(text for text in texts if text), ids=tuple(ids))

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts of this trial: ``calls`` made, plans ``written``, answers ``malformed``; plans ``held`` now. With
        novelty also plans dropped as ``similar``, with hierarchical also plans ``distilled``."""
        counts = {"calls": 0, "written": 0, "malformed": 0}
        counts |= {"similar": 0} if self.settings.has("novelty") else {}
        counts |= {"distilled": 0} if self.settings.has("hierarchical") else {}
        if not trajectory.solved:
            self._write_plan(trajectory, counts)
            self._let_go(trajectory.variant.key, counts)
        return {**counts, "held": len(self._list_shown())}

    def _write_plan(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Ask for a plan, and keep it unless it says what one that is held says."""
        self._failures += 1
        counts["calls"] = 1
        held = tuple(each.plan for each in self._list_shown())
        plan = (self._reflect(trajectory, held) or "").strip()
        if not plan:
            counts["malformed"] = 1
            return
        settings = self.settings
        if settings.has("novelty") and self._embed is not None:
            kept = [each.plan for each in self._own]
            if is_similar(plan, kept, settings.novelty_threshold, self._embed):
                counts["similar"] = 1
                return
        counts["written"] = 1
        origin = (trajectory.variant.key, trajectory.task) if settings.tells_variants_apart else ("", "")
        self._own.append(Reflection(trajectory.trial, plan, *origin))

    def _let_go(self, variant: str, counts: dict[str, int]) -> None:
        """Drop the plans that are too many; a hierarchical memory distils them first. Of plans that a stream passes on,
        those of the task type count as well."""
        most = self.settings.most_kept
        leaving = self._own[:-most]
        self._own = self._own[-most:]
        if not self.settings.has("hierarchical"):
            return
        task_type = variant.partition("::")[0]
        if self.settings.is_passed_on:
            same = [each for each in self._others if each.task_type == task_type]
            gone = same[: max(0, len(same) + len(self._own) - most)]
            leaving = [*gone, *leaving]
            self._others = [each for each in self._others if each not in gone]
        if leaving and self._distill is not None:
            counts["calls"] += 1
            said = self._distill(self._long_term, task_type, [each.plan for each in leaving])
            if said is None:
                counts["malformed"] += 1
            else:
                counts["distilled"] = len(leaving)
                learnt_on = [each.variant or variant for each in leaving]
                self._long_term = self._long_term.replace_lines(task_type, *said, learnt_on)

    def _list_shown(self) -> list[Reflection]:
        """The unit's own plans that a prompt shows: three, of an adaptive memory five after five failures."""
        wide = self.settings.has("adaptive") and self._failures >= WIDE
        return self._own[-(max(self.settings.size, WIDE) if wide else self.settings.size) :]

    def _select_others(self) -> list[Reflection]:
        """Plans of other variants: of the task type, then by similarity of the tasks; each once."""
        settings = self.settings
        if not settings.tells_variants_apart or not self._variant:
            return []
        found: list[Reflection] = []
        if settings.has("across-tasks"):
            found += select_same_type(self._others, self._variant, settings.size)
        if settings.has("retrieval"):
            if self._neighbours is not None:
                near = self._neighbours(self._task, settings.retrieved, self._variant)
                found += [each for each in near if each.variant != self._variant]
            elif self._embed is not None:
                found += find_nearest(self._others, self._task, self._variant, settings.retrieved, self._embed)
        return list(dict.fromkeys(found))

    def snapshot(self) -> dict[str, Any]:
        data: dict[str, Any] = {"plans": [each.dump() for each in self._own]}
        if self._others:
            data["carried"] = [each.dump() for each in self._others]
        if self._long_term.text:
            data["long_term"] = self._long_term.dump()
        if self.settings.has("adaptive"):
            data["failures"] = self._failures
            if self._failed_on:
                data["failed_on"] = self._failed_on
        return data

    def restore(self, data: Mapping[str, Any]) -> None:
        self._own = [Reflection.load(entry) for entry in data["plans"]][-self.settings.most_kept :]
        self._others = [Reflection.load(entry) for entry in data.get("carried", ())]
        self._long_term = LongTerm.load(data["long_term"]) if "long_term" in data else LongTerm()
        self._failures = int(data.get("failures", 0))
        self._failed_on = str(data.get("failed_on", ""))
