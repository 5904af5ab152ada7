"""A compiled program as people look at it: what it says in each role, what that came from, how two programs differ.

    describe_program(load("compiled.json")).roles["actor"].instruction
    compare_programs(build_side(load("one.json"), "one"), build_side(None, "zero-shot", "rsso"))     # what compiling
    changed

Records to records; nothing is read, played or printed here.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from importlib.metadata import version
from itertools import zip_longest
from typing import Any, Literal

from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
from rsso_dspy.errors import NotInstalled
from rsso_dspy.experiment.protocols import interface_of
from rsso_dspy.experiment.provenance import hash_prompts
from rsso_dspy.optimize.compiled import Compiled, PredictorState
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.records import ZERO_SHOT

Op = Literal["same", "removed", "added", "changed"]

CHECKS = (
    "no instruction is empty",
    "demonstrations have the fields of their signature",
    "its scores are possible and its own",
    "it fits the versions installed here",
)
"""What a file that `load` accepts has to be besides."""

_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)|(?<=:)\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ALIKE = 0.5
"""Share of common words from which on two sentences are one sentence, changed."""


@dataclass(frozen=True, slots=True)
class RolePrompt:
    """One predictor's words."""

    name: str
    changed: bool
    """Its instruction or the words of its fields differ from the zero-shot program's."""
    instruction: str
    zero_shot: str
    """The instruction of the zero-shot program."""
    fields: tuple[str, ...]
    """Fields whose words differ from the zero-shot program's."""
    demonstrations: tuple[dict[str, str], ...]
    """Field to text."""


@dataclass(frozen=True, slots=True)
class ComparedProgram:
    """A program that was compared."""

    program: str
    metric: float
    mean: float
    zero_shot: bool
    chosen: bool
    per_variant: Mapping[str, float]
    """Calibration variant to metric; empty where the file does not hold it."""
    number: int
    """In the order of trying, the same in the compile's progress."""
    placebo: bool = False
    dropped: bool = False
    """Not played on all of val."""


@dataclass(frozen=True, slots=True)
class Description:
    """What there is to show of a compiled program."""

    compiled: Compiled
    candidates: tuple[ComparedProgram, ...]
    """In the order in which they were first tried."""
    roles: Mapping[str, RolePrompt]

    @property
    def protocol(self) -> str:
        return self.compiled.protocol

    def to_json_data(self) -> dict[str, Any]:
        """JSON data: the file's account of the compile, and candidates and roles in place of DSPy's state."""
        whole = asdict(self.compiled)
        account = {
            key: whole[key] for key in whole if key not in ("kind", "schema", "state", "candidate", "tried", "identity")
        }
        roles = {name: asdict(role) for name, role in self.roles.items()}
        return {**account, "protocol": self.protocol, "candidates": list(map(asdict, self.candidates)), "roles": roles}


@dataclass(frozen=True, slots=True)
class ProgramSide:
    """One of two programs that are compared."""

    name: str
    method: str
    state: Mapping[str, PredictorState]


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """A sentence or a line of two instructions, next to each other."""

    op: Op
    a: str
    b: str
    words: tuple[tuple[Op, str], ...] = ()
    """Of a changed one: its words in order, what was removed before what took its place."""


@dataclass(frozen=True, slots=True)
class RoleDifference:
    """How one predictor differs. A predictor that one side lacks counts as one without words."""

    name: str
    changed: bool
    rows: tuple[AlignedRow, ...]
    respaced: bool
    """The instructions have the same words, with other spaces or line breaks between them."""
    fields: tuple[str, ...]
    """Fields whose words differ."""
    added: tuple[dict[str, str], ...]
    """Demonstrations."""
    removed: tuple[dict[str, str], ...]
    kept: int
    """Demonstrations of both."""


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One thing that a compiled file has to be. It holds when there is no problem; None when nobody could look."""

    what: str
    problem: str | None = ""
    note: str = ""


def describe_program(compiled: Compiled) -> Description:
    """Everything worth showing of one program."""
    zero_shot = Agent(compiled.method)
    state, start = zero_shot.dump_state(), fingerprint_program(zero_shot)
    roles = {name: _describe_role(name, compiled.chosen_state[name], state[name]) for name in state}
    return Description(compiled, tuple(_list_candidates(compiled, start)), roles)


def describe_verdict(compiled: Compiled) -> str:
    """What `confirm` said, in one line."""
    found = compiled.confirmation
    if found is None:
        return "verdict: none; it was made before compiles were confirmed, or elsewhere"
    said = f"verdict: {found.verdict}"
    if found.difference is None or found.p is None:
        return f"{said}: {found.why}"
    seeds = f", {found.seeds} seeds each" if found.seeds > 1 else ""
    inside = (
        f"{1 - 2 * found.level:.0%} interval {100 * found.low:+.1f} to {100 * found.high:+.1f}, "
        if found.low is not None and found.high is not None
        else ""
    )
    return (
        f"{said}: candidate minus start {100 * found.difference:+.1f} points on {found.pairs} confirm variants{seeds}, "
        f"{inside}one-sided p {found.p:.3f}, level {found.level}; {found.why}"
    )


def describe_noise(compiled: Compiled) -> Iterator[str]:
    """What placebos gained, in lines; none where none was played."""
    noise = compiled.noise
    if noise is None or not noise.gains:
        return
    gains = ", ".join(f"{100 * gain:+.1f}" for gain in noise.gains)
    yield f"noise: a rewording that means nothing gained {gains} points on val; so much is luck"
    if noise.won:
        yield (
            "WARNING: that placebo did better on val than every candidate: what val tells here is noise. It is not "
            "chosen and cannot be confirmed."
        )


def build_side(compiled: Compiled | None, name: str, method: str = "") -> ProgramSide:
    """A compiled program, its candidate where that is not confirmed, or the zero-shot program of a method."""
    if compiled is None:
        return ProgramSide(name, method, Agent(method).dump_state())
    return ProgramSide(name, compiled.method, compiled.chosen_state)


def compare_programs(a: ProgramSide, b: ProgramSide) -> tuple[RoleDifference, ...]:
    """What changes from one program to the other, role by role: those of the first in order, then those it lacks."""
    return tuple(_compare_role(name, a.state.get(name), b.state.get(name)) for name in {**a.state, **b.state})


def check_program(compiled: Compiled) -> tuple[ProgramCheck, ...]:
    """The `CHECKS` of a program that was loaded."""
    empty, demonstrations, scores, versions = CHECKS
    return (
        ProgramCheck(empty, _find_empty_instructions(compiled)),
        ProgramCheck(demonstrations, _find_unfit_demonstrations(compiled)),
        ProgramCheck(scores, _find_impossible_scores(compiled), _find_foreign_scores(compiled)),
        ProgramCheck(versions, _find_version_mismatch(compiled), _list_other_versions(compiled)),
    )


def _list_candidates(compiled: Compiled, start: str) -> Iterator[ComparedProgram]:
    for place, tried in enumerate(compiled.tried):
        yield ComparedProgram(
            tried.program,
            tried.scores.metric,
            tried.scores.mean,
            zero_shot=tried.program == start,
            chosen=tried.program == compiled.chosen_program,
            per_variant=tried.per_variant,
            number=place if tried.number is None else tried.number,
            placebo=tried.placebo,
            dropped=tried.dropped,
        )


def _describe_role(name: str, state: PredictorState, zero_shot: PredictorState) -> RolePrompt:
    return RolePrompt(
        name,
        state["signature"] != zero_shot["signature"],
        state["signature"]["instructions"],
        zero_shot["signature"]["instructions"],
        _list_changed_fields(zero_shot, state),
        _list_demonstrations(state),
    )


def _compare_role(name: str, a: PredictorState | None, b: PredictorState | None) -> RoleDifference:
    ours, theirs = (_list_demonstrations(state) for state in (a, b))
    one, other = (state["signature"]["instructions"] if state else "" for state in (a, b))
    rows = tuple(align_sentences(one, other))
    return RoleDifference(
        name,
        changed=a is None or b is None or a["signature"] != b["signature"] or ours != theirs,
        rows=rows,
        respaced=one != other and all(row.op == "same" for row in rows),
        fields=_list_changed_fields(a, b) if a and b else (),
        added=tuple(demo for demo in theirs if demo not in ours),
        removed=tuple(demo for demo in ours if demo not in theirs),
        kept=sum(demo in theirs for demo in ours),
    )


def _list_demonstrations(state: PredictorState | None) -> tuple[dict[str, str], ...]:
    """Without DSPy's own mark of where a demonstration came from."""
    return tuple(
        {key: _format_field_value(value) for key, value in demo.items() if key != "augmented"}
        for demo in (state["demos"] if state else ())
    )


def _format_field_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list_changed_fields(a: PredictorState, b: PredictorState) -> tuple[str, ...]:
    """Fields, by their prefixes in the first program, whose words differ in the second."""
    pairs = zip_longest(a["signature"]["fields"], b["signature"]["fields"])
    return tuple((one or other or {}).get("prefix", "").rstrip(":") for one, other in pairs if one != other)


# Two instructions next to each other


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs and list lines of an instruction, each on one line, however its source was wrapped."""
    return [" ".join(part.split()) for part in _BREAK.split(text) if part.strip()]


def align_sentences(a: str, b: str) -> Iterator[AlignedRow]:
    """Sentences and list lines of two instructions, side by side."""
    ours, theirs = ([unit for part in split_paragraphs(text) for unit in _SENTENCE.split(part)] for text in (a, b))
    for op, a0, a1, b0, b1 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if op == "equal":
            yield from (AlignedRow("same", unit, unit) for unit in ours[a0:a1])
        else:
            yield from _pair_changed_sentences(ours[a0:a1], theirs[b0:b1])


def _pair_changed_sentences(removed: Sequence[str], added: Sequence[str]) -> Iterator[AlignedRow]:
    """Sentences that took the place of others: those that are much alike count as one, changed."""
    left = list(removed)
    for new in added:
        old = next((unit for unit in left if _measure_similarity(unit, new) >= _ALIKE), None)
        if old is None:
            yield AlignedRow("added", "", new)
            continue
        for gone in left[: left.index(old)]:
            yield AlignedRow("removed", gone, "")
        left = left[left.index(old) + 1 :]
        yield AlignedRow("changed", old, new, tuple(_diff_words(old, new)))
    for gone in left:
        yield AlignedRow("removed", gone, "")


def _measure_similarity(a: str, b: str) -> float:
    return SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio()


def _diff_words(a: str, b: str) -> Iterator[tuple[Op, str]]:
    ours, theirs = a.split(), b.split()
    for op, a0, a1, b0, b1 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if op == "equal":
            yield "same", " ".join(ours[a0:a1])
            continue
        if a1 > a0:
            yield "removed", " ".join(ours[a0:a1])
        if b1 > b0:
            yield "added", " ".join(theirs[b0:b1])


# What a file has to be


def _find_empty_instructions(compiled: Compiled) -> str:
    names = [name for name, state in compiled.chosen_state.items() if not state["signature"]["instructions"].strip()]
    return f"{', '.join(names)} has none; write one, or compile again" if names else ""


def _find_unfit_demonstrations(compiled: Compiled) -> str:
    """A demonstration shows an answer, so it has every field of one. Regions that were empty are left out of inputs."""
    wrong = []
    for name, predictor in Agent(compiled.method).named_predictors():
        for number, demo in enumerate(compiled.chosen_state[name]["demos"], start=1):
            lacking = [
                field
                for field in predictor.signature.output_fields
                if not _format_field_value(demo.get(field, "")).strip()
            ]
            if not demo.keys() & predictor.signature.input_fields.keys():
                lacking.append("any input")
            if lacking:
                wrong.append(f"demonstration {number} of {name} lacks {', '.join(lacking)}")
    return f"{'; '.join(wrong)}; take it out, or compile again" if wrong else ""


def _find_impossible_scores(compiled: Compiled) -> str:
    given = [scores for scores in (compiled.before, compiled.after, *(t.scores for t in compiled.tried)) if scores]
    metrics = [*(s.metric for s in given), *(value for t in compiled.tried for value in t.per_variant.values())]
    wrong = []
    if not all(0 <= metric <= 1 for metric in metrics) or not all(0 <= scores.mean <= 100 for scores in given):
        wrong.append("there is a metric outside of 0 to 1 or a Mean outside of 0 to 100")
    if strange := {key for tried in compiled.tried for key in tried.per_variant} - set(compiled.calibration):
        wrong.append(f"there are scores on variants that it was not compiled on: {', '.join(sorted(strange))}")
    own = [tried.scores for tried in compiled.tried if tried.program == compiled.chosen_program]
    if own and compiled.after not in own:
        wrong.append("`after` is not the score of its own program among those compared")
    return f"{'; '.join(wrong)}; restore the file, or compile again" if wrong else ""


def _find_foreign_scores(compiled: Compiled) -> str:
    """Somebody may edit a prompt and want to play that all the same."""
    if compiled.after is None or any(tried.program == compiled.chosen_program for tried in compiled.tried):
        return ""
    return "its program is none of those compared, as after an edit by hand: its scores are another program's"


def _find_version_mismatch(compiled: Compiled) -> str:
    if compiled.environment is None:
        return ""
    name, there = compiled.environment.name, compiled.environment.version
    here = _find_installed_version(name) or "not installed"
    if there == here:
        return ""
    return f"it was compiled in {name} {there}, which here is {here}; install that version, or compile again"


def _find_installed_version(benchmark: str) -> str:
    """Version of a benchmark; empty if it, or the extra that it needs, is not installed."""
    try:
        return get_benchmark(benchmark).version if benchmark in list_benchmarks() else ""
    except NotInstalled:
        return ""


def _list_other_versions(compiled: Compiled) -> str:
    """What is no obstacle, and may still change what comes out."""
    said = []
    if (dspy := compiled.versions.get("dspy")) not in (None, version("dspy")):
        said.append(f"compiled with dspy {dspy}, here is {version('dspy')}")
    if compiled.environment is not None and not _find_installed_version(compiled.environment.name):
        return "; ".join(said)
    protocol = compiled.identity.get("config", {}).get("protocol", {})
    now = hash_prompts(compiled.benchmark, interface_of(protocol))
    if compiled.identity.get("prompts", now) != now:
        said.append(f"the {ZERO_SHOT} prompts have changed since: `before` is not the score of those here")
    return "; ".join(said)
