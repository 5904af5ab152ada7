"""A record for the viewer: one line of the list, and one compressed chunk that is opened on demand.

    entry = build_list_entry(record)         # {"arm": "rsso", "key": "boil::22", "scores": [3, 38], "marks": "ns", ...}
    data = compress_record(record)          # base64 of gzip of JSON

A chunk holds every distinct text once in ``texts`` and refers to it by index. Texts come from models, servers and
files, so characters with an effect in a browser (direction marks, control characters) are replaced by marks.
"""

import base64
import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rsso_dspy.calls import Call, text_of
from rsso_dspy.records import State, Step, TrainingRecord, Trajectory, TrialResult, UnitRecord
from rsso_dspy.redact import redact_json
from rsso_dspy.report.page.lineage import trace_learnt_items
from rsso_dspy.report.terminal import replace_controls


@dataclass(frozen=True, slots=True)
class PageCalls:
    """The calls of a record's models."""

    by_trial: Mapping[int, Sequence[Call]] = field(default_factory=dict)
    why_not: str = ""
    """Why there are none, as the end of a sentence."""
    seconds: Mapping[int, float] = field(default_factory=dict)
    """How long each trial took, as far as the run noted it."""


NONE = PageCalls()

UNDERSTOOD, MALFORMED, ASKED_BACK, NO_EFFECT = 1, 2, 4, 8
"""Bits of a step's flags."""

SSO_METHODS = frozenset(("sso", "rsso", "react-sso", "reflexion-sso"))
"""Shipped methods of the SSO scaffold."""


def build_list_entry(record: UnitRecord | TrainingRecord) -> dict[str, Any]:
    """What the list shows of a record. ``scores`` are accumulators, None where a trial errored; ``marks`` one letter a
    trial: s solved, n not, e errored; ``steps`` how many each trial took, by the trial's number."""
    return {
        "arm": replace_controls(record.arm),
        "key": replace_controls(record.key),
        "seed": record.seed,
        "training": isinstance(record, TrainingRecord),
        "scores": [result.trajectory.accumulator if result.trajectory else None for result in record.trials],
        "marks": "".join(_get_trial_mark(result) for result in record.trials),
        "steps": {result.trial: len(result.trajectory.steps) if result.trajectory else 0 for result in record.trials},
        "has": "".join(letter for letter, has in _MARKS.items() if has(record)),
    }


def compress_record(record: UnitRecord | TrainingRecord, calls: PageCalls = NONE) -> bytes:
    """The whole record, base64 of gzip of JSON; the same record gives the same bytes."""
    data = redact_json(json.dumps(build_record_data(record, calls), separators=(",", ":")))
    return base64.b64encode(gzip.compress(data.encode("ascii"), 6, mtime=0))


def build_record_data(record: UnitRecord | TrainingRecord, calls: PageCalls = NONE) -> dict[str, Any]:
    """The whole record as JSON data, before it is compressed, with the calls of its trials."""
    texts = _TextTable()
    budgets = list(record.budgets) if isinstance(record, TrainingRecord) else [record.budget] * len(record.trials)
    return {
        "about": {
            name: replace_controls(str(getattr(record, name)))
            for name in ("arm", "method", "program", "model", "backend", "protocol", "start")
        },
        "seed": record.seed,
        "sso": _uses_sso_scaffold(record),
        "trials": [
            _build_trial_data(result, texts)
            | _build_calls(calls.by_trial.get(result.trial, ()), texts)
            | ({"seconds": calls.seconds[result.trial]} if result.trial in calls.seconds else {})
            for result in record.trials
        ],
        "budgets": budgets,
        "why_not": replace_controls(calls.why_not),
        "learnt": [
            asdict(item)
            | {"name": replace_controls(item.name), "id": replace_controls(item.id), "text": texts(item.text)}
            for item in trace_learnt_items(record)
        ],
        "texts": list(texts.known.values()),
    }


def _reads_memory(record: UnitRecord | TrainingRecord) -> bool:
    """Whether some prompt held what a memory gave it."""
    regions = {name.partition(":")[0].partition("@")[0] for trial in record.trials for name in trial.shown}
    return bool(regions - {"action_templates"})


_MARKS: dict[str, Callable[[UnitRecord | TrainingRecord], bool]] = {
    "m": lambda record: any(step.malformed for played in record.trajectories for step in played.steps),
    "t": lambda record: bool(record.stalled_trials),
    "r": _reads_memory,
    "l": lambda record: any(any(_clean_counts(c).values()) for trial in record.trials for c in trial.learnt.values()),
}
"""Letter to what it says of a record: malformed answers, a stalled trial, a memory that was read, something learned."""


class _TextTable:
    """Texts by number, in order of first use."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self._numbers))
        if number == len(self.known):
            self.known[text] = replace_controls(text)
        return number


def _uses_sso_scaffold(record: UnitRecord | TrainingRecord) -> bool:
    """Return whether its actor answered in the SSO scaffold.

    Records do not store this. A subgoal proves it; otherwise shipped methods are known, and others count as flat.
    """
    if record.method.partition("+")[0] in SSO_METHODS:
        return True
    return any(step.subgoal is not None for trial in record.trajectories for step in trial.steps)


def _get_trial_mark(result: TrialResult) -> str:
    return "e" if result.trajectory is None else "s" if result.trajectory.solved else "n"


def _build_trial_data(result: TrialResult, texts: _TextTable) -> dict[str, Any]:
    return {
        "trial": result.trial,
        "error": texts(result.error or "no reason is on record") if result.trajectory is None else None,
        "replayed": result.replayed,
        "failures": {replace_controls(name): count for name, count in result.failures.items()},
        "learnt": {replace_controls(region): _clean_counts(counts) for region, counts in result.learnt.items()},
        "usage": {
            replace_controls(role): [usage.calls, usage.input, usage.output] for role, usage in result.usage.items()
        },
        "shown": {replace_controls(name): texts(text) for name, text in result.shown.items()},
        **(_build_trajectory_data(result.trajectory, texts) if result.trajectory else {}),
    }


def _build_calls(calls: Sequence[Call], texts: _TextTable) -> dict[str, Any]:
    """The calls of a trial. Paragraphs stand once, as prompts repeat them."""

    def parts(text: str) -> list[int]:
        return [texts(part) for part in text.split("\n\n")]

    found = [
        {
            "step": each.step,
            "role": replace_controls(each.role),
            "model": replace_controls(each.served),
            "seconds": each.seconds,
            "tokens": [_sum_tokens(each, "prompt_tokens"), _sum_tokens(each, "completion_tokens")],
            "failed": len(each.failed),
            "parameters": texts(json.dumps({"model": each.request["model"], **each.request["parameters"]})),
            "messages": [
                [replace_controls(str(message.get("role"))), parts(text_of(message.get("content")))]
                for message in each.request["messages"]
            ],
            "answer": parts(f"{each.error.get('kind')}: {each.error.get('message')}" if each.error else each.text),
            "error": each.error is not None,
        }
        for each in sorted(calls, key=lambda each: each.role != "actor")
    ]
    return {"exchanges": found} if found else {}


def _sum_tokens(call: Call, name: str) -> int:
    """Sum a count of tokens over the answers of a call, as the provider reported it; 0 where it did not."""
    counts = (usage.get(name) for usage in call.usage)
    return sum(count for count in counts if isinstance(count, int))


def _clean_counts(counts: dict[str, Any]) -> dict[str, Any]:
    return {
        replace_controls(name): count if isinstance(count, int) else replace_controls(str(count))
        for name, count in counts.items()
    }


def _build_trajectory_data(trajectory: Trajectory, texts: _TextTable) -> dict[str, Any]:
    recalled: dict[tuple[str, ...], int] = {}
    steps = [_build_step_data(step, texts, recalled) for step in trajectory.steps]
    return {
        "variant": replace_controls(trajectory.variant.key),
        "outcome": trajectory.outcome,
        "accumulator": trajectory.accumulator,
        "score": trajectory.environment_score,
        "solved": trajectory.solved,
        "at_reset": trajectory.points_at_reset,
        "invalid": trajectory.invalid_actions,
        "asked_back": trajectory.asked_back,
        "no_effect": trajectory.no_effect,
        "task": texts(trajectory.task),
        "start": _index_state(trajectory.start, texts),
        "steps": steps,
        "recalled": [[replace_controls(name) for name in names] for names in recalled],
    }


def _build_step_data(step: Step, texts: _TextTable, recalled: dict[tuple[str, ...], int]) -> list[int]:
    """Proposed, action, state, reward, score, flags, reasoning, subgoal (-1: none), and which skills were shown; then,
    where there are any, what could not be read and the subgoal that was not offered."""
    return [
        texts(step.proposed),
        texts(step.action),
        *_index_state(step.state, texts),
        step.reward,
        step.score,
        UNDERSTOOD * step.understood
        + MALFORMED * step.malformed
        + ASKED_BACK * step.asked_back
        + NO_EFFECT * step.no_effect,
        texts(step.reasoning),
        -1 if step.subgoal is None else texts(step.subgoal),
        recalled.setdefault(step.recalled, len(recalled)),
        *([texts(step.unread), texts(step.rejected)] if step.unread or step.rejected else ()),
    ]


def _index_state(state: State, texts: _TextTable) -> list[int]:
    return [texts(state.observation), texts(state.look), texts(state.inventory)]
