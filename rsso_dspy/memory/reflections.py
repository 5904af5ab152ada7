"""Verbal reflection: after a failed trial, one plan for the next (Reflexion, Shinn et al. 2023, section 3).

memory = ReflectionMemory(reflect)      # (trajectory, earlier plans) -> plan, or None for a malformed answer
memory.learn(failed)                    # {"written": 1, ...}
memory.preamble().text                  # "Attempt 1: ..."
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rsso_dspy.memory import Embed, Memory, Recall, Services
from rsso_dspy.memory.improvements import (
    MOST_PASSED_ON,
    WIDE,
    LongTerm,
    Neighbours,
    Reflection,
    ReflectionSettings,
    compose_reflection,
    is_similar,
    select_nearest,
    select_same_type,
)
from rsso_dspy.records import Trajectory, Variant

Reflect = Callable[[Trajectory, tuple[str, ...]], str | None]
"""Writes a plan from a failed trial and the plans held, oldest first; None for a malformed answer."""

Distill = Callable[[LongTerm, str, Sequence[str]], tuple[Sequence[str], Sequence[str], str] | None]
"""Distils plans of one task type into the long-term part: (long-term, task type, plans) -> (never, always, strategy of
the type); None for a malformed answer."""

DISTILLER = "reflection_distiller"


class ReflectionMemory(Memory):
    """The last ``size`` plans, written after trials below 100 points and read once per trial.

    ``size`` is 3 in the release of Reflexion and in the paper. A plan keeps the number of the trial
    that it was written after. `settings` turn improvements on, of which three need a callable: novelty and retrieval
    `embed`, hierarchical `distill`. Retrieval asks `neighbours` instead where there is an index.
    """

    region, asks, learns_from_success = "plans_from_past_attempts", ("reflector",), False

    @classmethod
    def make(cls, services: Services) -> "ReflectionMemory":
        """With the improvements of the session, and hierarchical where the method names the module that distils."""
        settings: ReflectionSettings = services.runtime.reflections or ReflectionSettings()
        if DISTILLER in services.modules:
            settings = replace(settings, improvements=settings.improvements | {"hierarchical"})

        def reflect(trajectory: Trajectory, earlier: tuple[str, ...]) -> str | None:
            said = services.ask(
                "reflector",
                task=trajectory.task,
                earlier_plans=list(earlier),
                transcript=services.tell_transcript(trajectory),
                outcome=services.tell_outcome(trajectory),
                **services.list_reflection_fields(settings.improvements, trajectory),
            )
            return said and compose_reflection(said, trajectory)

        def distill(
            known: LongTerm, task_type: str, plans: Sequence[str]
        ) -> tuple[Sequence[str], Sequence[str], str] | None:
            said = services.ask(DISTILLER, **known.describe(task_type, plans))
            return said and (said.never or (), said.always or (), said.strategy or "")

        runtime = services.runtime
        return cls(reflect, settings=settings, embed=runtime.embed, distill=distill, neighbours=runtime.neighbours)

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
        return Recall(items=tuple(text for text in texts if text), ids=tuple(ids))

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
                newest_first = self._others[::-1]
                found += select_nearest(newest_first, self._task, self._variant, settings.retrieved, self._embed)
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

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Reflection]:
        return [Reflection.load(entry) for entry in (*snapshot["plans"], *snapshot.get("carried", ()))]

    @classmethod
    def most_calls(cls, states: Sequence[int], alone: bool) -> dict[str, int]:  # noqa: ARG003
        return {"reflector": 1}
