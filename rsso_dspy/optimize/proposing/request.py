"""Builds a proposer's request: the fields of `ProposeEdits` for one predictor.

It shows only train variants, unsolved ones first; of val variants only the wording of their task type.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import dspy

from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.environments.grammar import list_templates
from rsso_dspy.optimize.acceptance import Rollout, TracedCall
from rsso_dspy.optimize.feedback import build_feedback
from rsso_dspy.optimize.feedback.remarks import ADVICE, PERHAPS
from rsso_dspy.optimize.proposing.digest import digest_rollout
from rsso_dspy.optimize.proposing.edits import number_lines
from rsso_dspy.optimize.proposing.names import list_names
from rsso_dspy.optimize.proposing.shared_lines import SharedLines, find_shared_lines
from rsso_dspy.optimize.proposing.task_types import scope_lines, word_task_types
from rsso_dspy.records import Trajectory

ATTEMPTS = 3
"""Maximum rollouts in one request."""
CALLS = 2
"""Maximum calls per rollout of a role other than the actor."""
_LONGEST = 500
"""Maximum characters of a field of such a call."""
_TOLD_ELSEWHERE = ("action_templates", "transcript", "outcome", "task", "history")
"""Inputs of a call that the digest contains, or that the request contains once."""


@dataclass(frozen=True)
class Evidence:
    """What a compile knows so far, for one program."""

    rollouts: Sequence[Rollout]
    """Rollouts of the program on train variants."""
    tasks: Mapping[str, Sequence[str]]
    """Task type to the tasks of its variants that were played, as the agent read them."""
    turn: int = 0
    """How often the proposer was asked about the program before; each time it is shown other attempts."""


def build_request(
    name: str, predictor: dspy.Predict, instruction: str, evidence: Evidence, tried: str, benchmark: Benchmark
) -> dict[str, str]:
    """The inputs of `ProposeEdits`; empty ones are left out of the prompt."""
    wordings = word_evidence(evidence, benchmark)
    shown = select_attempts(name, evidence)
    request = {
        "role": describe_role(name, predictor),
        "current_instruction": number_lines(instruction),
        "task_types": describe_task_types(evidence, wordings),
        "action_templates": _find_templates(evidence.rollouts) if name == "actor" else "",
        "shared_by_variants": "",
        "tried_before": tried,
        "attempts": "\n\n".join(
            f"Attempt {number}, of {wordings.get(rollout.variant.task, 'other tasks')}\n"
            f"{describe_attempt(name, rollout, benchmark)}"
            for number, rollout in enumerate(shown, start=1)
        ),
    }
    if name == "actor":
        request["shared_by_variants"] = describe_shared_lines(find_shared_lines(evidence.rollouts, benchmark), wordings)
    return request


def word_evidence(evidence: Evidence, benchmark: Benchmark) -> dict[str, str]:
    """Task type to its wording."""
    names = {
        name
        for rollout in evidence.rollouts
        for trial in _list_trials([rollout])
        for state in trial.states
        for name in list_names(state, benchmark.grammar.naming)
    }
    return word_task_types(evidence.tasks, names)


def select_attempts(name: str, evidence: Evidence) -> list[Rollout]:
    """Rollouts to show: those in which the predictor was called, unsolved ones first, of as many task types as
    possible, others from turn to turn. Rollouts solved at the first trial are left out."""
    called = [rollout for rollout in evidence.rollouts if any(call[0] == name for call in rollout.calls)]
    open_ = [rollout for rollout in called if not _is_solved_at_once(rollout)]
    unsolved = [rollout for rollout in open_ if not any(trial.solved for trial in _list_trials([rollout]))]
    others = [rollout for rollout in open_ if rollout not in unsolved]
    ordered = _take_turns(unsolved)
    start = evidence.turn * ATTEMPTS % len(ordered) if len(ordered) > ATTEMPTS else 0
    return [*ordered[start:], *ordered[:start], *_take_turns(others)][:ATTEMPTS]


def describe_role(name: str, predictor: dspy.Predict) -> str:
    """The predictor's name, with the fields that it reads and answers."""
    signature = predictor.signature
    reads, says = (", ".join(fields) for fields in (signature.input_fields, signature.output_fields))
    return f"{name}. Besides the instruction it reads: {reads}. It answers: {says}."


def describe_task_types(evidence: Evidence, wordings: Mapping[str, str]) -> str:
    """A line per type: its wording, mean metric, solved and played variants. Task types without a played train variant
    have only their wording."""
    lines = []
    for kind, wording in wordings.items():
        played = [rollout for rollout in evidence.rollouts if rollout.variant.task == kind]
        if played:
            solved = sum(any(trial.solved for trial in _list_trials([each])) for each in played)
            first = sum(_is_solved_at_once(each) for each in played)
            metric = fmean(each.score for each in played)
            wording += f": metric {metric:.2f}, {solved} of {len(played)} variants solved, {first} at the first trial"
        lines.append(f"- {wording}")
    return "\n".join(lines)


def describe_shared_lines(shared: SharedLines, wordings: Mapping[str, str]) -> str:
    """A line of what several types share, and one for each type."""
    lines = [f"Several task types: {' '.join(shared.general)}"] if shared.general else []
    for kind, each in shared.types.items():
        guesses = [line for line in each.guesses if line not in shared.general]
        general = [each.text for each in each.procedures if not each.topic]
        lines += [scope_lines(found.topic, [found.text]) for found in each.procedures if found.topic]
        said = [*general, *each.shared, *(f"{PERHAPS}{line}" for line in guesses)]
        if said:
            lines.append(scope_lines(wordings.get(kind, ""), said))
    return "\n".join(lines)


def describe_attempt(name: str, rollout: Rollout, benchmark: Benchmark) -> str:
    """The digest of a rollout; for a role other than the actor also its calls, faulty ones first."""
    digest = digest_rollout(rollout, benchmark)
    if name == "actor":
        return digest
    calls = [call for call in rollout.calls if call[0] == name]
    judged = [
        (call, build_feedback(name, call[1], call[2], rollout.trials, rollout.progress, benchmark)) for call in calls
    ]
    judged.sort(key=lambda each: ADVICE not in each[1])
    return "\n".join([digest, *(_describe_call(call, told) for call, told in judged[:CALLS])])


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of this name; the default one for an empty name."""
    return get_benchmark(name) if name else get_benchmark()


def _describe_call(call: TracedCall, feedback: str) -> str:
    _, given, said = call
    fields = {key: str(value) for key, value in dict(given).items() if key not in _TOLD_ELSEWHERE}
    fields |= {f"answered {key}": str(value) for key, value in dict(said).items()}
    told = [f"{key}: {_shorten(value)}" for key, value in fields.items() if value]
    return "\n".join(["A call of this role:", *told, feedback])


def _shorten(text: str) -> str:
    text = re.sub(r"\s*\n\s*", " / ", text.strip())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def _take_turns(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Sort by metric, lowest first, with task types taking turns."""
    ranked = sorted(rollouts, key=lambda rollout: (rollout.score, rollout.variant.key))
    seen: dict[str, int] = {}
    order = []
    for rollout in ranked:
        seen[rollout.variant.task] = seen.get(rollout.variant.task, -1) + 1
        order.append((seen[rollout.variant.task], rollout))
    return [rollout for _, rollout in sorted(order, key=lambda each: each[0])]


def _is_solved_at_once(rollout: Rollout) -> bool:
    trials = _list_trials([rollout])
    return bool(trials) and trials[0].solved


def _list_trials(rollouts: Iterable[Rollout]) -> list[Trajectory]:
    return [r.trajectory for rollout in rollouts for r in rollout.trials if r.trajectory is not None]


def _find_templates(rollouts: Iterable[Rollout]) -> str:
    """The action templates that the actor was given, without the text around them."""
    calls = (given for rollout in rollouts for name, given, _ in rollout.calls if name == "actor")
    shown = (str(given["action_templates"]) for given in calls if given.get("action_templates"))
    return ", ".join(list_templates(next(shown, "")))
