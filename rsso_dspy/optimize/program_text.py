"""A compiled program for people to read: its words in each role, where they came from, how they differ from another
program's, and what is wrong with it.

    describe_program(load("compiled.json")).roles["actor"].instruction
    compare_programs(build_side(load("one.json"), "one"), build_side(None, "zero-shot", "rsso"))
    check_program(load("compiled.json"))

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
from rsso_dspy.optimize.program_file import Compiled, PredictorState
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import hash_prompts, interface_of
from rsso_dspy.records import ZERO_SHOT


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
    """Number in the order of trying, the same in the compile's progress."""
    placebo: bool = False
    dropped: bool = False
    """Not played on all of val."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is shown of a compiled program."""

    compiled: Compiled
    candidates: tuple[ComparedProgram, ...]
    """In the order in which they were first tried."""
    roles: Mapping[str, RolePrompt]

    @property
    def protocol(self) -> str:
        return self.compiled.protocol

    def to_json_data(self) -> dict[str, Any]:
        """JSON data: the file's account of the compile, with candidates and roles instead of DSPy's state."""
        whole = asdict(self.compiled)
        account = {
            key: whole[key] for key in whole if key not in ("kind", "schema", "state", "candidate", "tried", "identity")
        }
        roles = {name: asdict(role) for name, role in self.roles.items()}
        return {**account, "protocol": self.protocol, "candidates": list(map(asdict, self.candidates)), "roles": roles}


def describe_program(compiled: Compiled) -> Description:
    """Describe one program."""
    zero_shot = Agent(compiled.method)
    state, start = zero_shot.dump_state(), fingerprint_program(zero_shot)
    roles = {name: _describe_role(name, compiled.chosen_state[name], state[name]) for name in state}
    return Description(compiled, tuple(_list_candidates(compiled, start)), roles)


def describe_noise(compiled: Compiled) -> Iterator[str]:
    """What placebos gained, in lines; no line where none was played."""
    noise = compiled.noise
    if noise is None or not noise.gains:
        return
    gains = ", ".join(f"{100 * gain:+.1f}" for gain in noise.gains)
    told = "the rule-based player heeds none, so this shows no luck" if compiled.rule_based else "so much is luck"
    yield f"noise: a rewording that means nothing gained {gains} points on val; {told}"
    if noise.won:
        yield (
            "WARNING: that placebo did better on val than every candidate: what val tells here is noise. It is not "
            "chosen and cannot be confirmed."
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
        list_changed_fields(zero_shot, state),
        list_demonstrations(state),
    )


Op = Literal["same", "removed", "added", "changed"]

_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)|(?<=:)\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ALIKE = 0.5
"""Share of common words from which on two sentences are one sentence, changed."""


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


def build_side(compiled: Compiled | None, name: str, method: str = "") -> ProgramSide:
    """One side of a comparison: a compiled program, its unconfirmed candidate where there is one, or the zero-shot
    program of a method."""
    if compiled is None:
        return ProgramSide(name, method, Agent(method).dump_state())
    return ProgramSide(name, compiled.method, compiled.chosen_state)


def compare_programs(a: ProgramSide, b: ProgramSide) -> tuple[RoleDifference, ...]:
    """What changes from one program to the other, role by role: those of the first in order, then those it lacks."""
    return tuple(_compare_role(name, a.state.get(name), b.state.get(name)) for name in {**a.state, **b.state})


def _compare_role(name: str, a: PredictorState | None, b: PredictorState | None) -> RoleDifference:
    ours, theirs = (list_demonstrations(state) for state in (a, b))
    one, other = (state["signature"]["instructions"] if state else "" for state in (a, b))
    rows = tuple(align_sentences(one, other))
    return RoleDifference(
        name,
        changed=a is None or b is None or a["signature"] != b["signature"] or ours != theirs,
        rows=rows,
        respaced=one != other and all(row.op == "same" for row in rows),
        fields=list_changed_fields(a, b) if a and b else (),
        added=tuple(demo for demo in theirs if demo not in ours),
    )


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
    """Pair sentences that replaced others: two that are much alike count as one changed sentence."""
    left = list(removed)
    for new in added:
        old = next((unit for unit in left if _measure_similarity(unit, new) >= _ALIKE), None)
        if old is None:
            yield AlignedRow("added", "", new)
            continue
        for gone in left[: left.index(old)]:
            yield AlignedRow("removed", gone, "")
        left = left[left.index(old) + 1 :]
        yield AlignedRow("changed", old, new)
    for gone in left:
        yield AlignedRow("removed", gone, "")


def _measure_similarity(a: str, b: str) -> float:
    return SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio()


CHECKS = (
    "no instruction is empty",
    "demonstrations have the fields of their signature",
    "its scores are possible and its own",
    "it fits the versions installed here",
)
"""Names of the further checks."""


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One check of a compiled file. It passes when there is no problem; a problem of None means that it could not be
    checked."""

    what: str
    problem: str | None = ""
    note: str = ""


def check_program(compiled: Compiled) -> tuple[ProgramCheck, ...]:
    """Run the `CHECKS` on a loaded program."""
    empty, demonstrations, scores, versions = CHECKS
    return (
        ProgramCheck(empty, _find_empty_instructions(compiled)),
        ProgramCheck(demonstrations, _find_unfit_demonstrations(compiled)),
        ProgramCheck(scores, _find_impossible_scores(compiled), _find_foreign_scores(compiled)),
        ProgramCheck(versions, _find_version_mismatch(compiled), _list_other_versions(compiled)),
    )


def _find_empty_instructions(compiled: Compiled) -> str:
    names = [name for name, state in compiled.chosen_state.items() if not state["signature"]["instructions"].strip()]
    return f"{', '.join(names)} has none; write one, or compile again" if names else ""


def _find_unfit_demonstrations(compiled: Compiled) -> str:
    """A demonstration shows an answer, so it needs every output field. Regions that were empty are left out of its
    inputs."""
    wrong = []
    for name, predictor in Agent(compiled.method).named_predictors():
        for number, demo in enumerate(compiled.chosen_state[name]["demos"], start=1):
            lacking = [
                field
                for field in predictor.signature.output_fields
                if not format_field_value(demo.get(field, "")).strip()
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
    """A note, not a problem, when the scores are another program's: somebody may edit a prompt and still want to play
    it."""
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
    """Version of a benchmark; empty if the benchmark, or the extra that it needs, is not installed."""
    try:
        return get_benchmark(benchmark).version if benchmark in list_benchmarks() else ""
    except NotInstalled:
        return ""


def _list_other_versions(compiled: Compiled) -> str:
    """Versions that differ from the file's. They prevent nothing but may change results."""
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


def list_demonstrations(state: PredictorState | None) -> tuple[dict[str, str], ...]:
    """The demonstrations of a predictor, field to text, without DSPy's own mark of where they came from."""
    return tuple(
        {key: format_field_value(value) for key, value in demo.items() if key != "augmented"}
        for demo in (state["demos"] if state else ())
    )


def format_field_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_changed_fields(a: PredictorState, b: PredictorState) -> tuple[str, ...]:
    """Fields whose words differ between the two programs, named by their prefixes in the first."""
    pairs = zip_longest(a["signature"]["fields"], b["signature"]["fields"])
    return tuple((one or other or {}).get("prefix", "").rstrip(":") for one, other in pairs if one != other)
