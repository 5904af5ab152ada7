"""What a unit learned in which trial, and which prompts contained it later.

    for item in trace_learnt_items(record):
        print(item.kind, "after trial", item.trial, "read at", item.reads)

The source is the record: the final snapshot of memories, texts in prompts, ids recalled by steps. Items that no trial
of the record produced came from elsewhere and have trial 0.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rsso_dspy.records import Step, TrialResult, TrialsRecord
from rsso_dspy.report.learning_curves import CONSTITUTION, REFLECTIONS
from rsso_dspy.report.memory_entries import trace_entries

_ATTEMPT = re.compile(r"(?:\A|\n\n)Attempt (\d+): ")

LearntKind = Literal["plan", "skill", "rule", "entry"]

StepRange = tuple[int, int, int]
"""Trial, first step and last step. Steps count from 1."""


@dataclass(frozen=True, slots=True)
class LearntItem:
    """A plan, a skill, a rule, or an entry of another memory."""

    kind: LearntKind
    id: str
    name: str
    text: str
    trial: int
    """Trial in or after which it was written; 0 if it existed before the first."""
    step: int = 0
    """Of a rule that was written in a trial: the first step whose prompt held it. 0: after the trial."""
    drawn: tuple[StepRange, ...] = ()
    """Places of its examples in this record."""
    reads: tuple[StepRange, ...] = ()
    """Prompts that contained it."""
    pursued: tuple[StepRange, ...] = ()
    """Of a skill: the steps that named its target as their subgoal."""


def trace_learnt_items(record: TrialsRecord) -> list[LearntItem]:
    """Trace all items, in order of trials, skipping unexpected snapshots."""
    found: list[LearntItem] = []
    for part in (_trace_plans, _trace_skills, _trace_rules, _trace_entries):
        try:
            found += part(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue  # another version's snapshot: the trials themselves can still be read
    return sorted(found, key=lambda item: (item.trial, item.step or 1_000_000))


def _trace_plans(record: TrialsRecord) -> Iterator[LearntItem]:
    """Those still remembered, and those that are forgotten but stood in a prompt."""
    held = record.memories.get("reflections", {}).get("plans", ())
    plans = {entry["trial"]: entry["plan"] for entry in held}
    for result in record.trials:
        for trial, plan in _parse_attempts(result.shown.get(REFLECTIONS, "")):
            plans.setdefault(trial, plan)
    here = {result.trial for result in record.trials if result.learnt.get(REFLECTIONS, {}).get("written")}
    for trial, plan in sorted(plans.items()):
        reads = tuple(
            (result.trial, 1, len(steps))
            for result in record.trials
            if (steps := _get_trial_steps(result)) and f"Attempt {trial}: {plan}" in result.shown.get(REFLECTIONS, "")
        )
        own = trial in here and all(read > trial for read, _, _ in reads)
        yield LearntItem("plan", f"attempt-{trial}", f"Attempt {trial}", plan, trial if own else 0, reads=reads)


def _parse_attempts(text: str) -> Iterator[tuple[int, str]]:
    _, *parts = _ATTEMPT.split(text)
    for trial, plan in zip(parts[::2], parts[1::2], strict=True):
        yield int(trial), plan


def _trace_skills(record: TrialsRecord) -> Iterator[LearntItem]:
    memory = record.memories.get("skills", {})
    played = {result.trial: _get_trial_steps(result) for result in record.trials}
    for skill in memory.get("skills", ()):
        name, target = skill["id"], skill["target"]
        drawn = tuple(_locate_windows(skill["windows"], memory, played))
        reads = tuple(_find_step_ranges(played, lambda step, name=name: name in step.recalled))
        trial = max((stretch[0] for stretch in drawn), default=0)
        if reads:  # windows may move to later trials that say the same
            trial = min(trial, reads[0][0] - 1)
        text = "\n".join(
            [f"Target: {target}", *(f"  {n}. {line}" for n, line in enumerate(skill["instructions"], start=1))]
        )
        yield LearntItem(
            "skill",
            name,
            skill["name"],
            text,
            trial,
            drawn=drawn,
            reads=reads,
            pursued=tuple(
                _find_step_ranges(
                    played, lambda step, name=name, target=target: name in step.recalled and step.subgoal == target
                )
            ),
        )


def _locate_windows(
    windows: Sequence[Sequence[int]], memory: Mapping[str, Any], played: Mapping[int, Sequence[Step]]
) -> Iterator[StepRange]:
    """Windows as steps of their trials. A window whose actions the trial did not take comes from another record."""
    for piece, start, end in windows:
        stored = memory["pieces"][piece]
        actions = [memory["texts"][index] for index in stored["actions"][start + 1 : end]]
        before = stored["offset"] + start
        steps = played.get(stored["trial"], ())[before : before + len(actions)]
        if actions and [step.action for step in steps] == actions:
            yield stored["trial"], before + 1, before + len(actions)


def _trace_rules(record: TrialsRecord) -> Iterator[LearntItem]:
    """Rules that were first said while a variant of this record was played, and those that others told it."""
    read = list(_list_region_reads(record, CONSTITUTION))
    last = max((trial for trial, _, _, _ in read), default=0)
    for rule in record.memories.get("constitution", {}).get("rules", ()):
        line = _format_rule(rule)
        places = [place for place in read if f"- {line}" in place[3].splitlines()]
        if places and (places[0][:2] == read[0][:2] or not _is_own_rule(record, rule)):
            trial = step = 0
        elif places:
            trial, step, *_ = places[0]
            if step == 1:  # it was written after the trial before
                trial, step = trial - 1, 0
        elif _is_own_rule(record, rule):
            trial, step = max(last, max((result.trial for result in record.trials), default=0)), 0
        else:
            trial = step = 0
        reads = tuple((at, first, end) for at, first, end, _ in places)
        yield LearntItem("rule", rule["id"], rule["id"], line, trial, step, reads=_join_ranges(reads))


def _trace_entries(record: TrialsRecord) -> Iterator[LearntItem]:
    """Entries of other memories. One that the trials here did not write is named with the trial that did."""
    steps = {(r.trajectory.variant.key, r.trial): len(_get_trial_steps(r)) for r in record.trials if r.trajectory}
    for entry in trace_entries(record):
        own = [mark for mark in entry.learned if mark in steps]
        trial = own[0][1] if own else 0
        if own and entry.reads:  # worded anew here, and read before
            trial = min(trial, entry.reads[0][0] - 1)
        title = entry.data.get("title") or entry.data.get("target")
        name = f"{entry.id}: {title}" if title else entry.id
        if not own and entry.learned:
            variant, number = entry.learned[0]
            name += f", from {variant} trial {number}"
        drawn = tuple((number, 1, steps[variant, number]) for variant, number in own if steps[variant, number])
        yield LearntItem("entry", entry.id, name, entry.text, trial, drawn=drawn, reads=entry.reads)


def _is_own_rule(record: TrialsRecord, rule: Mapping[str, Any]) -> bool:
    keys = {result.trajectory.variant.key for result in record.trials if result.trajectory}
    return bool(keys & set(str(rule.get("source", "")).split(" + ")))


def _format_rule(rule: Mapping[str, Any]) -> str:
    """As it stands in a prompt; see `trajectory.Lesson.line`."""
    text, solution = str(rule["text"]), str(rule.get("solution", ""))
    if rule.get("category") != "error" or not solution:
        return text
    return f"Mistake: {text.rstrip('.')}. Instead: {solution}"


def _list_region_reads(record: TrialsRecord, region: str) -> Iterator[tuple[int, int, int, str]]:
    """Trial, first and last step, and the text that stood in the region there."""
    for result in record.trials:
        end = len(_get_trial_steps(result))
        if region in result.shown and end:
            yield result.trial, 1, end, result.shown[region]
        marks = [(int(name.rpartition("@")[2]), name) for name in result.shown if name.startswith(f"{region}@")]
        for place, (first, name) in enumerate(marks):
            following = marks[place + 1][0] - 1 if place + 1 < len(marks) else end
            if first <= following:
                yield result.trial, first, following, result.shown[name]


def _find_step_ranges(played: Mapping[int, Sequence[Step]], wanted: Any) -> Iterator[StepRange]:
    """Steps in a row that are wanted."""
    for trial, steps in played.items():
        at = [number for number, step in enumerate(steps, start=1) if wanted(step)]
        yield from _join_ranges([(trial, number, number) for number in at])


def _join_ranges(stretches: Sequence[StepRange]) -> tuple[StepRange, ...]:
    """Stretches that follow on each other as one."""
    joined: list[StepRange] = []
    for trial, first, last in stretches:
        if joined and joined[-1][0] == trial and joined[-1][2] + 1 == first:
            joined[-1] = (trial, joined[-1][1], last)
        else:
            joined.append((trial, first, last))
    return tuple(joined)


def _get_trial_steps(result: TrialResult) -> tuple[Step, ...]:
    return result.trajectory.steps if result.trajectory else ()
